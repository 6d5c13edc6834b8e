"""The chapters of the servers, of who was there, and of who talked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

from bussrv.audit.html import charts, explain, tables, text
from bussrv.audit.html.axis import Axis
from bussrv.audit.html.markup import Html, element, html, name, plain
from bussrv.audit.html.model import BANDS, Boot, Facts, Named, Protocol, Server, Talker
from bussrv.audit.html.tables import Column, listed, table

T = TypeVar("T")

_Taken = Callable[[Sequence[int]], int]

MOST_ROWS = 24
"""Rows of the tables that stand behind charts."""


def servers(facts: Facts) -> Iterator[Html]:
    """When the servers ran."""
    if facts.axis is None or not facts.servers.rows:
        yield element("p", "No server wrote a record.", class_="nothing")
        return
    axis = facts.axis
    columns: list[Column[Server]] = [
        Column("Server", lambda each: name(each.server, 60), lambda each: plain(each.server), "name", is_head=True),
        Column("Time", lambda each: _ran(axis, each), None, "lanes"),
        Column("Records", lambda each: f"{each.first_seq}–{each.last_seq}", lambda each: each.first_seq, "number"),
        tables.number("Runs", lambda each: each.boots),
        tables.number("Crashes", lambda each: each.crashes),
    ]
    caption = "When the servers ran. Hatched: not running. A cross: a run that ended in a crash."
    yield lanes(axis, caption, columns, facts.servers.rows)
    more = facts.servers.total - len(facts.servers.rows)
    if more > 0:
        yield element("p", f"And {more:,} more, in the table ", element("code", "servers"), ".", class_="more")
    if facts.crashes == 0:
        yield element("p", "No server crashed.", class_="nothing")
    runs: list[Column[Boot]] = [
        Column("Run", lambda each: name(each.boot, 40), lambda each: plain(each.boot), "name", is_head=True),
        Column("Server", lambda each: name(each.server, 40), lambda each: plain(each.server), "name"),
        tables.when("From", lambda each: each.first_moment),
        tables.when("To", lambda each: each.last_moment),
        Column("End", _end, _end),
        tables.length("Down before", lambda each: each.down_seconds),
        tables.number("Records", lambda each: each.records),
        Column("Version", lambda each: name(each.version, 20), lambda each: plain(each.version)),
    ]
    yield element("h3", "Runs")
    yield listed(
        "Runs of the servers, those that crashed first. Times are UTC.", runs, facts.boots, "There was no run.", "boots"
    )


def _ran(axis: Axis, server: Server) -> Html:
    crashes = text.many(server.crashes, "crash", "crashes")
    label = (
        f"{plain(server.server, 60)} ran from {text.moment(server.first_moment)} to {text.moment(server.last_moment)}"
    )
    return charts.lane(axis, server.ran, f"{label} UTC, {crashes}", charts.marks(axis, server.crashed_in, "✕"))


def _end(boot: Boot) -> str:
    if boot.crashed:
        return "✕ crashed"
    return "stopped" if boot.ended else "still running"


def lanes(axis: Axis, caption: str, columns: Sequence[Column[T]], rows: Sequence[T]) -> Html:
    """A table with a column of lanes, and the times below them."""
    foot = element(
        "tr",
        *[element("td", charts.times(axis) if each.kind == "lanes" else None, class_=each.kind) for each in columns],
    )
    body = table(caption, columns, rows, class_="with-lanes")
    return Html(body.replace("</tbody>", f"</tbody>{element('tfoot', foot, aria_hidden='true')}"))


def clients(facts: Facts) -> Iterator[Html]:
    """Sessions."""
    if not facts.protocols.rows:
        yield element("p", "Nobody connected.", class_="nothing")
        return
    columns: list[Column[Protocol]] = [
        Column("Wire format", lambda each: name(each.protocol, 40), lambda each: each.protocol, "name", is_head=True),
        tables.number("Sessions", lambda each: each.sessions),
        tables.number("Ended", lambda each: each.closed),
        tables.number("Still open", lambda each: each.open),
        tables.number("At most at once", lambda each: max(each.most, default=0)),
        tables.size("Received", lambda each: each.bytes_in),
        tables.size("Sent", lambda each: each.bytes_out),
    ]
    yield listed(
        "Sessions by wire format. What open sessions received and sent is not in the journal yet.",
        columns,
        facts.protocols,
        "",
        "sessions",
    )
    if facts.far_sessions:
        far = text.many(facts.far_sessions, "session")
        yield element(
            "p", f"{far} of linked servers are left out here: their own journals tell of them.", class_="more"
        )
    if facts.axis:
        yield from _concurrency(facts.axis, facts)
        yield from _churn(facts.axis, facts)
    yield element("div", html(_durations(facts), _closings(facts)), class_="two")


def _concurrency(axis: Axis, facts: Facts) -> Iterator[Html]:
    drawn = [each for each in facts.protocols.rows if any(each.most)]
    if not drawn:
        return
    yield element("h3", "Open at the same time")
    yield element(
        "p",
        f"The line is the most at any moment of each {text.width(axis.width)}, the area how many were open at its end. "
        "Nothing is sampled. Each wire format has a scale of its own.",
        class_="hint",
    )
    for each in drawn:
        most = max(each.most)
        at = each.most.index(most)
        peak = f"at most {most:,}, first at about {text.moment(axis.starts(at))[:-3]}"
        label = f"Open sessions of {plain(each.protocol, 40)}: {peak} UTC"
        yield element(
            "figure",
            element("figcaption", element("b", name(each.protocol, 40)), " ", element("span", peak)),
            charts.curves(axis, each.most, each.last, label, is_last=each is drawn[-1]),
            class_="small",
        )
    names = [plain(each.protocol, 40) for each in facts.protocols.rows]
    yield _behind(axis, "Most open sessions", names, [each.most for each in facts.protocols.rows], max)


def _churn(axis: Axis, facts: Facts) -> Iterator[Html]:
    opened, closed = sum(facts.churn.opened), sum(facts.churn.closed)
    yield element("h3", "Coming and going")
    if not opened and not closed:
        yield element("p", "No session began or ended.", class_="nothing")
        return
    what = f"{text.many(opened, 'session')} opened (bars upwards), {closed:,} closed (downwards)"
    yield element(
        "figure",
        element("figcaption", what, element("span", f" in each {text.width(axis.width)}")),
        charts.mirrored(axis, facts.churn.opened, facts.churn.closed, what, ("opened", "closed")),
    )
    yield _behind(
        axis, "Sessions opened and closed", ["opened", "closed"], [facts.churn.opened, facts.churn.closed], sum
    )


def _behind(axis: Axis, title: str, names: Sequence[str], series: Sequence[Sequence[int]], taken: _Taken) -> Html:
    """The numbers of a chart as a table, several steps in a row."""
    at_once = -(-axis.steps // MOST_ROWS)
    begins = range(0, axis.steps, at_once)
    columns: list[Column[int]] = [
        Column("From", lambda step: tables.moment(axis.starts(step)), None, "when", is_head=True),
        *[_taken(names[at], series[at], at_once, taken) for at in range(len(names))],
    ]
    caption = f"{title}, in each {text.width(axis.width * at_once)}. Times are UTC."
    return element(
        "details", element("summary", "The numbers as a table"), table(caption, columns, list(begins)), class_="behind"
    )


def _taken(title: str, values: Sequence[int], at_once: int, taken: _Taken) -> Column[int]:
    return tables.number(title, lambda step: taken(values[step : step + at_once]))


def _durations(facts: Facts) -> Html:
    edges = [text.length(band) for band in BANDS]
    names = [
        f"under {edges[0]}",
        *[f"{low} to {high}" for low, high in pairwise(edges)],
        f"{edges[-1]} or more",
    ]
    rows = [Named(each, number) for each, number in zip(names, facts.durations, strict=False)]
    heading = element("h3", "How long sessions lasted")
    if not sum(facts.durations):
        return element("div", heading, element("p", "No session ended.", class_="nothing"))
    return element("div", heading, table("Sessions that ended, by how long they lasted", _bars("Lasted", rows), rows))


def _closings(facts: Facts) -> Html:
    heading = element("h3", "Why sessions ended")
    rows = facts.closings.rows
    columns = _bars("Reason", rows, explained=True)
    return element(
        "div",
        heading,
        listed("Sessions that ended, by reason", columns, facts.closings, "No session ended.", "sessions"),
    )


def _bars(title: str, rows: Sequence[Named], *, explained: bool = False) -> list[Column[Named]]:
    most = max((each.number for each in rows), default=0)
    return [
        Column(title, lambda each: because(each.name) if explained else each.name, None, "", is_head=True),
        tables.number("Sessions", lambda each: each.number),
        tables.bar("", lambda each: each.number, most),
    ]


def because(reason: str | None) -> Html:
    """A reason: its code, and what it means."""
    if reason is None:
        return element("span", "not said", class_="none")
    meaning = explain.reason(reason)
    return html(element("code", name(reason, 60)), element("small", meaning) if meaning else None)


def traffic(facts: Facts) -> Iterator[Html]:
    """Who talked most."""
    most = max((each.bytes_in + each.bytes_out for each in facts.talkers.rows), default=0)
    columns: list[Column[Talker]] = [
        Column("Who", who, lambda each: plain(each.routing_id or each.actor or each.address), "name", is_head=True),
        Column("Wire format", lambda each: name(each.protocol, 20), lambda each: plain(each.protocol)),
        tables.size("Received", lambda each: each.bytes_in),
        tables.size("Sent", lambda each: each.bytes_out),
        tables.bar("", lambda each: each.bytes_in, most, second=lambda each: each.bytes_out),
        Column(
            "Share", lambda each: text.share(_share(each, facts)), lambda each: each.bytes_in + each.bytes_out, "number"
        ),
        tables.number("Messages", lambda each: each.objects_in + each.objects_out),
        tables.number("Sessions", lambda each: each.sessions),
        tables.length("Connected", lambda each: each.connected_seconds),
    ]
    caption = "Who the servers received most from (solid) and sent most to (hatched), by bytes"
    yield listed(caption, columns, facts.talkers, "Nobody sent or received anything.", "talkers")


def who(talker: Talker) -> Html:
    """What is known of somebody, the most telling first."""
    known = [each for each in (talker.routing_id, talker.actor, talker.address) if each is not None]
    rest = html(html(", " if at else "", name(each, 40)) for at, each in enumerate(known[1:]))
    return html(name(known[0] if known else None, 40), element("small", rest) if rest else None)


def _share(talker: Talker, facts: Facts) -> float | None:
    return (talker.bytes_in + talker.bytes_out) / facts.talked_bytes if facts.talked_bytes else None
