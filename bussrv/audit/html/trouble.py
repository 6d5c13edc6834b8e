"""The chapter of what was refused and who came back too often, that of all records, and the words of the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bussrv.audit.html import explain, tables, text
from bussrv.audit.html.markup import Html, element, html, name, plain
from bussrv.audit.html.model import Facts, Identity, Recorded, Refusal, Refused, Storm
from bussrv.audit.html.presence import because
from bussrv.audit.html.tables import Column, listed

_WORDS = (
    ("Journal", "the directory in which a server writes down every change, one record after the other."),
    ("Record", "one such change. Records of a server are numbered from 1 without gaps: that number is its seq."),
    ("Segment", "a file of the journal. Its name is the number of its first record."),
    ("Chain", "each line holds a hash of the line before it, so a line that is changed does not fit any more."),
    ("Seal", "what a segment was when it was written: how long, and its digest. Seals stand in the manifest."),
    ("Run", "what a server did between its start and its end, also called a boot."),
    ("Session", "a client from when it comes until it goes."),
    ("Service", "what a client provides under a name, and others want by that name."),
    ("Outage", "a time when nobody provided a service that had been provided before."),
    ("Lease", "how long a client without a connection is taken to be there without being heard of."),
)


def refusals(facts: Facts) -> Iterator[Html]:
    """What was refused, who came back too often, and who used the name of another."""
    most = max((each.number + each.suppressed for each in facts.refusals.rows), default=0)
    reasons: list[Column[Refusal]] = [
        Column("What", _what, lambda each: plain(each.event), "", is_head=True),
        Column("Why", _why, lambda each: plain(each.reason or each.limit)),
        tables.number("Records", lambda each: each.number),
        tables.number("Left out", lambda each: each.suppressed),
        tables.bar("", lambda each: each.number, most, second=lambda each: each.suppressed),
        tables.when("First", lambda each: each.first_moment),
        tables.when("Last", lambda each: each.last_moment),
    ]
    yield listed(
        "What was refused or failed. Hatched: left out of the journal, one address caused too many. Times are UTC.",
        reasons,
        facts.refusals,
        "Nothing was refused, nobody failed to prove who they are, and no limit was hit.",
        "refusals",
    )
    if facts.refusals.rows:
        yield element("h3", "Who was refused")
        yield listed(
            "Refusals and failures by address. Times are UTC.",
            _refused(facts.refused.rows),
            facts.refused,
            "Nobody.",
            "refusals",
        )
    yield element("h3", "Reconnect storms")
    yield listed(
        "Addresses that opened ten sessions a minute or more. Times are UTC.",
        _storms(),
        facts.storms,
        "No address connected again and again.",
        "storms",
    )
    yield element("h3", "Names in use twice")
    yield listed(
        "Routing ids that several sessions held at the same time. Times are UTC.",
        _identities(),
        facts.identities,
        "No two clients used the same routing id at the same time.",
        "identities",
    )


def _what(refusal: Refusal) -> Html:
    meaning = explain.event(refusal.event)
    return html(element("code", name(refusal.event, 60)), element("small", meaning) if meaning else None)


def _why(refusal: Refusal) -> Html:
    if refusal.reason is None and refusal.limit is not None:
        return html(element("code", name(refusal.limit, 60)), element("small", "the option that sets the limit"))
    return html(because(refusal.reason), element("small", "limit ", name(refusal.limit, 60)) if refusal.limit else None)


def _refused(rows: Sequence[Refused]) -> list[Column[Refused]]:
    most = max((each.number + each.suppressed for each in rows), default=0)
    return [
        Column("Address", lambda each: name(each.address, 60), lambda each: plain(each.address), "name", is_head=True),
        tables.number("Records", lambda each: each.number),
        tables.number("Left out", lambda each: each.suppressed),
        tables.bar("", lambda each: each.number, most, second=lambda each: each.suppressed),
        tables.number("Users", lambda each: each.actors),
        tables.when("First", lambda each: each.first_moment),
        tables.when("Last", lambda each: each.last_moment),
    ]


def _storms() -> list[Column[Storm]]:
    return [
        Column("Address", lambda each: name(each.address, 60), lambda each: plain(each.address), "name", is_head=True),
        Column("Server", lambda each: name(each.server, 40), lambda each: plain(each.server), "name"),
        Column("Wire format", lambda each: name(each.protocol, 20), lambda each: plain(each.protocol)),
        tables.when("From", lambda each: each.begin),
        tables.when("To", lambda each: each.end),
        tables.number("Sessions", lambda each: each.openings),
        tables.number("Most in a minute", lambda each: each.peak),
    ]


def _identities() -> list[Column[Identity]]:
    return [
        Column(
            "Routing id",
            lambda each: name(each.routing_id, 60),
            lambda each: plain(each.routing_id),
            "name",
            is_head=True,
        ),
        Column("Server", lambda each: name(each.server, 40), lambda each: plain(each.server), "name"),
        tables.number("Sessions", lambda each: each.sessions),
        tables.number("Overlaps", lambda each: each.overlaps),
        Column("Addresses", lambda each: _several(each.addresses), None, "wide"),
        Column("Users", lambda each: _several(each.actors), None, "wide"),
        tables.when("First", lambda each: each.first_moment),
        tables.when("Last", lambda each: each.last_moment),
    ]


def _several(names: Sequence[str]) -> Html:
    return html(html(", " if at else "", name(each, 40)) for at, each in enumerate(names)) if names else name(None)


def events(facts: Facts) -> Iterator[Html]:
    """How much there is of everything."""
    most = max((each.records for each in facts.events.rows), default=0)
    columns: list[Column[Recorded]] = [
        Column("Event", _event, lambda each: plain(each.event), "", is_head=True),
        Column("Outcome", lambda each: name(each.outcome, 20), lambda each: plain(each.outcome)),
        tables.number("Records", lambda each: each.records),
        tables.bar("", lambda each: each.records, most),
        tables.number("Left out", lambda each: each.suppressed),
    ]
    yield listed("Records of each event", columns, facts.events, "There is no record.", "events")


def _event(recorded: Recorded) -> Html:
    meaning = explain.event(recorded.event)
    return html(element("code", name(recorded.event, 60)), element("small", meaning) if meaning else None)


def words() -> Iterator[Html]:
    """What the words of the report mean."""
    yield element(
        "dl",
        *[element("div", element("dt", word), element("dd", text.sentence(meaning))) for word, meaning in _WORDS],
        class_="words",
    )
