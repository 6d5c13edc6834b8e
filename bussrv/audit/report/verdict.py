"""The verdict, what stands out in words, the findings in groups, and the sessions by duration, made from facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from operator import attrgetter
from typing import TypeVar

from msgspec import Struct

from bussrv.audit.kinds import DAMAGE, KINDS, SEVERITIES, meaning
from bussrv.audit.report import commands, text
from bussrv.audit.report.activity import BANDS, Named
from bussrv.audit.report.facts import Facts
from bussrv.audit.report.incidents import Happened, Incident
from bussrv.audit.report.journals import FindingRow

MOST_FOUND = 2
"""The most incidents on the first screen that are about findings."""

MOST_KINDS = 4
"""The most kinds of findings that an incident names."""

MOST_OF_EACH = {"guessing": 1, "address": 2, "crash": 1, "identity": 1, "takeover": 1, "outage": 1}
"""The most of each other kind."""

_CHAPTERS = {
    "guessing": "refusals",
    "address": "refusals",
    "crash": "servers",
    "identity": "refusals",
    "takeover": "sessions",
}

_NEXT = {
    "damage": "Keep these files as they are. Compare them, and the last seals, with copies that were kept elsewhere.",
    "session": "Look at the records of the session. If others around them fit, the server has a bug: report it.",
    "guessing": "Find out whether one of these addresses logged in later, and have the user choose another secret.",
    "logins": "Find out whether a login from there succeeded, and which program tries.",
    "address": "Find out which program runs there, and why it comes back that often.",
    "crash": "Look for the reason in the log of the server, before that time.",
    "identity": "Find out which of these clients should have the id.",
    "takeover": "A server gives a session back to its own user only. Find out who could change its records.",
    "outage": "The history says which client left, and why.",
}
_LOGIN = "auth.failed"

T = TypeVar("T")


class IncidentText(Struct, frozen=True):
    """An incident in words.

    :ivar chapter: the part of the page that has more about it.
    :ivar commands: the first one shows its surroundings.
    """

    incident: Incident
    title: str
    what: str
    next: str
    chapter: str
    commands: tuple[str, ...]


def first_screen(facts: Facts) -> list[IncidentText]:
    """The incidents that stand out most."""
    return [incident_text(each, facts.public_key) for each in _chosen(facts)]


def left_out(facts: Facts) -> int:
    """How many incidents are not on the first screen."""
    return facts.incidents.total + facts.happenings.total - len([*_chosen(facts)])


def _chosen(facts: Facts) -> Iterator[Incident]:
    yield from facts.incidents.rows[:MOST_FOUND]
    yield from standing_out(facts.happenings.rows, attrgetter("what"))


def standing_out(happened: Sequence[T], what: Callable[[T], str]) -> Iterator[T]:
    """The first incidents of each kind, at most :data:`MOST_OF_EACH`, so that no kind hides another.

    :param happened: incidents that are about no finding, the worst of each kind first.
    :param what: tells the kind of one.
    """
    for kind, most in MOST_OF_EACH.items():
        yield from islice((each for each in happened if what(each) == kind), most)


def incident_text(incident: Incident, key: str | None = None) -> IncidentText:
    """An incident in words.

    :param key: the file of the key that was given to the audit.
    """
    what = "logins" if incident.what == "address" and _LOGIN in incident.kinds else incident.what
    return IncidentText(
        incident,
        title(incident),
        _what(incident),
        _NEXT[what],
        _CHAPTERS.get(what, "services" if what == "outage" else "refusals" if what == "logins" else "findings"),
        tuple(each for each in _commands(incident, key) if each is not None),
    )


def title(incident: Incident) -> str:
    """The heading of an incident. It holds no name."""
    if incident.what in {"damage", "session"}:
        worst = min(incident.kinds, key=_rank, default="")
        return meaning(worst)[0]
    if incident.what == "address":
        if _LOGIN in incident.kinds:
            return "An address failed to log in again and again"
        return "An address was refused again and again" if incident.kinds else "An address reconnected again and again"
    return {
        "guessing": "Several addresses failed to log in as one user",
        "crash": "The server crashed",
        "identity": "Several sessions had one routing id at the same time",
        "takeover": "Another user took over a session",
        "outage": f"A service was down for {text.length(incident.seconds)}",
    }.get(incident.what, incident.what)


def _rank(kind: str) -> tuple[int, str]:
    """Damage first, as the table of kinds has it."""
    return ([*KINDS].index(kind) if kind in KINDS else len(KINDS), kind)


def _what(incident: Incident) -> str:
    """The numbers."""
    number, others = incident.number, incident.others
    storm = f"{text.many(others, 'session')} in a reconnect storm" if others else ""
    of_sessions = f", about {text.many(others, 'session')}" if others > 1 else ""
    return {
        "damage": text.many(number, "finding") + of_sessions + _kinds_of(incident),
        "session": text.many(number, "finding") + _kinds_of(incident),
        "guessing": f"{text.many(number, 'failed login')} from {text.many(others, 'address', 'addresses')}",
        "address": ", ".join(filter(None, (_refusals(incident) if number else "", storm))),
        "crash": f"{text.many(number, 'crash', 'crashes')}; down for {text.length(incident.seconds)} at most",
        "identity": f"{text.many(others, 'session')}, {text.many(number, 'overlap')}",
        "takeover": f"{text.many(number, 'return')} of another user",
        "outage": ("the only outage" if number == 1 else f"the longest of {text.many(number, 'outage')}")
        + " after a lost provider"
        + ("; still down at the last record" if incident.lasts else ""),
    }.get(incident.what, "")


def _kinds_of(incident: Incident) -> str:
    """The kinds of findings, if there are several."""
    if len(incident.kinds) < 2:
        return ""
    more = len(incident.kinds) - MOST_KINDS
    others = f" and {text.many(more, 'more kind')}" if more > 0 else ""
    return f" ({', '.join(incident.kinds[:MOST_KINDS])}{others})"


def _refusals(incident: Incident) -> str:
    if incident.kinds == (_LOGIN,):
        return text.many(incident.number, "failed login")
    return f"{text.many(incident.number, 'refusal')} ({', '.join(incident.kinds)})"


def _commands(incident: Incident, key: str | None) -> Iterator[str | None]:
    journal, begin, end = incident.journal, incident.begin, incident.end
    if incident.what == "damage":
        yield _around(incident, journal, incident.kinds, key)
        return
    yield commands.around(journal, incident.first_seq) or commands.at(journal, begin)
    if incident.what == "session":
        yield commands.history(journal, incident.session, None, None)
    elif incident.what != "crash":
        name = {"guessing": incident.claimed, "address": incident.address}.get(incident.what, incident.subject)
        yield commands.history(journal, name, begin, end)


_OF_THE_WHOLE = frozenset({"bad-manifest", "segment-missing", "unreadable-segment"})


def of_finding(finding: FindingRow, key: str | None) -> str | None:
    """The command that shows the surroundings of a finding.

    :param key: the file of the key that was given to the audit.
    """
    return _around(finding, finding.directory, (finding.kind,), key)


def _around(found: FindingRow | Incident, journal: str | None, kinds: Sequence[str], key: str | None) -> str | None:
    verify = commands.verify(journal, key)
    if _OF_THE_WHOLE.issuperset(kinds):
        return verify
    return commands.line_of(journal, found.file, found.line) or commands.around(journal, found.first_seq) or verify


class KindGroup(Struct, frozen=True):
    """The findings of one kind: their number, and those that are shown."""

    name: str
    number: int
    findings: tuple[FindingRow, ...]


class SeverityGroup(Struct, frozen=True):
    """The findings of one severity, damage first, then the kind with most of them."""

    name: str
    number: int
    kinds: tuple[KindGroup, ...]


def counts(facts: Facts) -> dict[str, int]:
    """The number of findings of each severity."""
    return {each: sum(kind.number for kind in facts.kinds if kind.severity == each) for each in SEVERITIES}


def integrity(facts: Facts) -> str:
    """The verdict on the journals: ``error``, ``warning``, ``clean`` or ``unjudged``."""
    found = counts(facts)
    worst = next((each for each in ("error", "warning") if found[each]), None)
    return worst or ("clean" if facts.records else "unjudged")


def gravity(facts: Facts) -> str:
    """The worse of both verdicts: incidents make a clean one a warning."""
    found = integrity(facts)
    return "warning" if found == "clean" and facts.happenings.total else found


_NAMES = {
    "guessing": ("user whose secret was guessed at", "users whose secrets were guessed at"),
    "address": ("address that was refused or reconnected", "addresses that were refused or reconnected"),
    "crash": ("server that crashed", "servers that crashed"),
    "identity": ("contested routing id", "contested routing ids"),
    "takeover": ("session that another user took over", "sessions that other users took over"),
    "outage": ("service that was down", "services that were down"),
}


def of_kinds(happened: Happened) -> str:
    """How many incidents there are of each kind."""
    return ", ".join(text.many(number, *_NAMES[what]) for what, number in happened.numbers.items())


def headline(facts: Facts) -> str:
    """Both verdicts in a few words."""
    found = {"clean": "Journal intact", "unjudged": "Nothing to judge"}.get(integrity(facts), "Findings")
    number = facts.happenings.total
    return f"{found}, {text.many(number, 'incident')}" if number else found


def severities(facts: Facts) -> list[SeverityGroup]:
    """The severities of which there are findings, the worst first."""
    return [SeverityGroup(each, number, _kinds(facts, each)) for each, number in counts(facts).items() if number]


def _kinds(facts: Facts, severity: str) -> tuple[KindGroup, ...]:
    numbers = {each.kind: each.number for each in facts.kinds if each.severity == severity}
    shown: dict[str, list[FindingRow]] = {kind: [] for kind in numbers}
    for finding in facts.findings:
        if finding.severity == severity and finding.kind in shown:
            shown[finding.kind].append(finding)
    in_order = sorted(numbers, key=lambda kind: (kind not in DAMAGE, -numbers[kind], kind))
    return tuple(KindGroup(kind, numbers[kind], tuple(shown[kind])) for kind in in_order)


def place(found: FindingRow | Incident) -> str:
    """``segment:seq``, or as much of it as is known."""
    first, last, segment = found.first_seq, found.last_seq, found.segment
    if first is None:
        return "–" if segment is None else f"{segment}"
    until = f"–{last}" if last not in {None, first} else ""
    return f"{'?' if segment is None else segment}:{first}{until}"


def bands(facts: Facts) -> list[Named]:
    """The number of sessions by duration, the shortest first."""
    edges = [text.length(band) for band in BANDS]
    names = [f"under {edges[0]}", *(f"{low} to {high}" for low, high in pairwise(edges)), f"{edges[-1]} or more"]
    return [Named(each, number) for each, number in zip(names, facts.durations, strict=False)]
