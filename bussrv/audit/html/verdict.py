"""The top of a report: the verdict, and what it is about."""

from __future__ import annotations

from bussrv.audit.html import explain, text
from bussrv.audit.html.markup import Content, Html, element, html, name
from bussrv.audit.html.model import Facts

_SHAPES = {
    "error": ("M8.5 2h7L22 8.5v7L15.5 22h-7L2 15.5v-7z", "M8 8l8 8M16 8l-8 8"),
    "warning": ("M12 2.5L22.5 21h-21z", "M12 9v6M12 17.6v.9"),
    "notice": ("M12 2a10 10 0 100 20 10 10 0 000-20z", "M12 10.5v7M12 6.6v.9"),
    "clean": ("M12 2a10 10 0 100 20 10 10 0 000-20z", "M7 12.5l3.5 3.5L17 9"),
    "unjudged": ("M12 2a10 10 0 100 20 10 10 0 000-20z", "M7 12h10"),
}

_MOST_KEYS = 2


def icon(kind: str) -> Html:
    """A shape that tells severities apart without colour."""
    outline, sign = _SHAPES[kind]
    paths = (element("path", class_="outline", d=outline), element("path", class_="sign", d=sign))
    return element("svg", *paths, class_="icon", viewBox="0 0 24 24", aria_hidden="true")


def numbers(facts: Facts) -> dict[str, int]:
    """How many findings of each severity."""
    return {each: sum(kind.number for kind in facts.kinds if kind.severity == each) for each in explain.SEVERITIES}


def verdict(facts: Facts) -> str:
    """``error``, ``warning``, ``clean`` or ``unjudged``."""
    found = numbers(facts)
    worst = next((each for each in ("error", "warning") if found[each]), None)
    return worst or ("clean" if facts.records else "unjudged")


def title(facts: Facts) -> str:
    """The verdict in a word."""
    return {"clean": "Clean", "unjudged": "Nothing to judge"}.get(verdict(facts), "Findings")


def banner(facts: Facts) -> Html:
    """The verdict, why, and how many findings of each severity."""
    kind, found, trust = verdict(facts), numbers(facts), _trust(facts)
    tiles = [
        element(
            "a",
            icon(severity),
            element("b", text.number(number)),
            element("span", severity if number == 1 else severity + "s"),
            href=f"#{severity}s" if number else "#findings",
            class_=f"tile {severity if number else 'zero'}",
        )
        for severity, number in found.items()
    ]
    return element(
        "section",
        element("h1", icon(kind), element("span", title(facts)), id="verdict"),
        element("p", _reason(kind, found), class_="lead"),
        element("p", trust, class_="trust") if trust else None,
        element("div", *tiles, class_="tiles"),
        class_=f"verdict {kind}",
        aria_labelledby="verdict",
    )


def _reason(kind: str, found: dict[str, int]) -> str:
    if kind == "error":
        return (
            f"{text.many(found['error'], 'thing')} in these journals {'is' if found['error'] == 1 else 'are'} damaged, "
            "missing or contradictory. What depends on them cannot be relied on."
        )
    if kind == "warning":
        one = found["warning"] == 1
        return (
            f"The journals are complete and in order, but {text.many(found['warning'], 'thing')} in them "
            f"{'needs' if one else 'need'} a look."
        )
    if kind == "clean":
        return "Nothing is missing from these journals, everything in them is in order, and nothing contradicts itself."
    return "There is no record in the time that was asked for, so there is nothing to say about it."


def _trust(facts: Facts) -> str:
    seals = facts.vouched
    if seals is None or not seals.segments:
        return ""
    if seals.vouched == seals.segments:
        start = (
            "Every segment is what its seal says it was."
            if seals.segments > 1
            else "The segment is what its seal says."
        )
    elif seals.unsealed == seals.segments:
        return (
            "Nothing is sealed: whoever could write to these files could have rewritten them from beginning to end "
            "without a trace."
        )
    else:
        start = f"Seals vouch for {seals.vouched:,} of {text.many(seals.segments, 'segment')}."
    if facts.keys is None:
        return start
    if not facts.keys:
        return f"{start} The seals are not signed, so who could write to the files could have made new ones."
    if facts.trusted is not None:
        return f"{start} The seals are signed, and were held against the key that was given to the audit."
    return f"{start} The seals are signed with a key that the journal itself names: compare it with the one you noted."


def audited(facts: Facts) -> Html:
    """What was looked at."""
    entries: list[tuple[str, Content, Content]] = [_time(facts), _servers(facts)]
    seals = facts.vouched
    if seals is not None:
        volume = f"{text.many(seals.segments, 'segment')}, {text.size(seals.bytes)}"
        entries.append(("Records", text.number(facts.records), f"in {volume}"))
        last = f", {seals.open:,} still open" if seals.open else ""
        unsealed = f", {seals.unsealed:,} without a seal" if seals.unsealed else ""
        entries.append(
            ("Sealed", f"{seals.vouched:,} of {seals.segments:,}", f"{seals.closed:,} closed{last}{unsealed}")
        )
    else:
        entries.append(("Records", text.number(facts.records), None))
    entries.append(_signed(facts))
    return element(
        "dl",
        *[
            element(
                "div", element("dt", term), element("dd", element("b", value), element("span", more) if more else None)
            )
            for term, value, more in entries
        ],
        class_="audited",
    )


def _time(facts: Facts) -> tuple[str, Content, Content]:
    if facts.axis is None:
        return "Time", "none", "no record in it"
    begin, end = facts.axis.begin, facts.axis.end
    asked = "all that is there" if facts.since is None and facts.until is None else "as was asked for"
    span = html(text.moment(begin), element("br"), "to ", text.moment(end), " UTC, ", asked)
    return "Time", text.length((end - begin) / text.SECOND), span


def _servers(facts: Facts) -> tuple[str, Content, Content]:
    crashes = "no crash" if not facts.crashes else text.many(facts.crashes, "crash", "crashes")
    ran = f"{text.many(facts.boot_count, 'run')}, {crashes}"
    if facts.servers.total == 1 and facts.servers.rows:
        return "Server", name(facts.servers.rows[0].server, 40), ran
    return "Servers", text.number(facts.servers.total), ran


def _signed(facts: Facts) -> tuple[str, Content, Content]:
    if facts.keys is None:
        return "Signed", "not looked at", None
    if not facts.keys:
        return "Signed", "no", "no seal has a signature"
    known = "held against the key that was given" if facts.trusted is not None else "as the journal itself says"
    shown = [element("code", name(key, 64)) for key in facts.keys[:_MOST_KEYS]]
    return "Signed", "yes", html([html(each, element("br")) for each in shown], known)
