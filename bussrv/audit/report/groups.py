"""The verdict, the findings in groups, and the sessions by duration, made from facts."""

from __future__ import annotations

from itertools import pairwise

from msgspec import Struct

from bussrv.audit.report import explain, text
from bussrv.audit.report.incidents import Incident
from bussrv.audit.report.model import BANDS, Facts, Finding, Named


class KindGroup(Struct, frozen=True):
    """The findings of one kind: their number, and those that are shown."""

    name: str
    number: int
    findings: tuple[Finding, ...]


class SeverityGroup(Struct, frozen=True):
    """The findings of one severity, the kind with most of them first."""

    name: str
    number: int
    kinds: tuple[KindGroup, ...]


def counts(facts: Facts) -> dict[str, int]:
    """The number of findings of each severity."""
    return {each: sum(kind.number for kind in facts.kinds if kind.severity == each) for each in explain.SEVERITIES}


def verdict(facts: Facts) -> str:
    """``error``, ``warning``, ``clean`` or ``unjudged``."""
    found = counts(facts)
    worst = next((each for each in ("error", "warning") if found[each]), None)
    return worst or ("clean" if facts.records else "unjudged")


def title(facts: Facts) -> str:
    """The verdict in a word or two."""
    return {"clean": "Clean", "unjudged": "Nothing to judge"}.get(verdict(facts), "Findings")


def severities(facts: Facts) -> list[SeverityGroup]:
    """The severities of which there are findings, the worst first."""
    return [SeverityGroup(each, number, _kinds(facts, each)) for each, number in counts(facts).items() if number]


def _kinds(facts: Facts, severity: str) -> tuple[KindGroup, ...]:
    numbers = {each.kind: each.number for each in facts.kinds if each.severity == severity}
    shown: dict[str, list[Finding]] = {kind: [] for kind in numbers}
    for finding in facts.findings:
        if finding.severity == severity and finding.kind in shown:
            shown[finding.kind].append(finding)
    in_order = sorted(numbers, key=lambda kind: (-numbers[kind], kind))
    return tuple(KindGroup(kind, numbers[kind], tuple(shown[kind])) for kind in in_order)


def place(found: Finding | Incident) -> str:
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
