"""The verdict, what stands out in words, the findings in groups, and the sessions by duration, made from facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from operator import attrgetter
from typing import TypeVar

from msgspec import Struct

from bussrv.audit.kinds import DAMAGE, KINDS, SEVERITIES, meaning
from bussrv.audit.report import commands
from bussrv.audit.report.activity import BANDS, Named
from bussrv.audit.report.facts import Facts
from bussrv.audit.report.journals import FindingRow
from bussrv.incidents import words
from bussrv.incidents.amounts import length, many
from bussrv.incidents.judging import Happened, Incident

MOST_FOUND = 2
"""The most incidents on the first screen that are about findings."""

MOST_KINDS = 4
"""The most kinds of findings that an incident names."""

MOST_OF_EACH = {
    "guessing": 1,
    "address": 2,
    "crash": 1,
    "identity": 1,
    "takeover": 1,
    "outage": 1,
    "witness": 1,
    "link": 1,
    "clock": 1,
}
"""The most of each other kind."""

_CHAPTERS = {
    "guessing": "refusals",
    "address": "refusals",
    "crash": "servers",
    "identity": "refusals",
    "takeover": "sessions",
    "outage": "services",
    "logins": "refusals",
    "witness": "integrity",
    "link": "links",
    "clock": "links",
}

_NEXT = {
    "damage": "Keep these files as they are. Compare them, and the last seals, with copies that were kept elsewhere.",
    "session": "Look at the records of the session. If others around them fit, the server has a bug: report it.",
}

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
    return IncidentText(
        incident,
        title(incident),
        _what(incident),
        _NEXT.get(incident.what) or words.what_to_do(incident),
        _CHAPTERS.get(words.kind_of(incident), "findings"),
        tuple(each for each in _commands(incident, key) if each is not None),
    )


def title(incident: Incident) -> str:
    """The heading of an incident. It holds no name."""
    if incident.what in _NEXT:
        worst = min(incident.kinds, key=_rank, default="")
        return meaning(worst)[0]
    return words.title(incident)


def _rank(kind: str) -> tuple[int, str]:
    """Damage first, as the table of kinds has it."""
    return ([*KINDS].index(kind) if kind in KINDS else len(KINDS), kind)


def _what(incident: Incident) -> str:
    """The numbers."""
    if incident.what not in _NEXT:
        return words.what_happened(incident)
    is_of_several = incident.what == "damage" and incident.others > 1
    of_sessions = f", about {many(incident.others, 'session')}" if is_of_several else ""
    return many(incident.number, "finding") + of_sessions + _kinds_of(incident)


def _kinds_of(incident: Incident) -> str:
    """The kinds of findings, if there are several."""
    if len(incident.kinds) < 2:
        return ""
    more = len(incident.kinds) - MOST_KINDS
    others = f" and {many(more, 'more kind')}" if more > 0 else ""
    return f" ({', '.join(incident.kinds[:MOST_KINDS])}{others})"


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


def of_kinds(happened: Happened) -> str:
    """How many incidents there are of each kind."""
    return words.of_kinds(happened.numbers)


def headline(facts: Facts) -> str:
    """Both verdicts in a few words."""
    found = {"clean": "Journal intact", "unjudged": "Nothing to judge"}.get(integrity(facts), "Findings")
    number = facts.happenings.total
    return f"{found}, {many(number, 'incident')}" if number else found


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
    edges = [length(band) for band in BANDS]
    names = [f"under {edges[0]}", *(f"{low} to {high}" for low, high in pairwise(edges)), f"{edges[-1]} or more"]
    return [Named(each, number) for each, number in zip(names, facts.durations, strict=False)]
