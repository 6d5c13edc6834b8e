"""The chapter of the findings, and that of the seals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from bussrv.audit.html import explain, tables, text
from bussrv.audit.html.markup import Html, element, html, name, plain
from bussrv.audit.html.model import Facts, Finding, Segment, Vouching
from bussrv.audit.html.tables import Column, listed, table
from bussrv.audit.html.verdict import icon, numbers

_SEALED = {
    "closed": "closed, but not what its seal says",
    "open": "open, and not what its seal says",
    "none": "no seal",
}


def findings(facts: Facts) -> Iterator[Html]:
    """The findings by severity and kind, the worst first."""
    found = numbers(facts)
    if not any(found.values()):
        yield element("p", "Nothing was found. ", _looked_for(), class_="nothing")
        return
    yield element(
        "p",
        "The place of a finding is ",
        element("code", "segment:record"),
        ": the number of the segment, which is in the name of its file, and the number of the record, ",
        element("code", "seq"),
        ".",
        class_="hint",
    )
    by_severity: dict[str, list[Finding]] = {}
    for finding in facts.findings:
        by_severity.setdefault(finding.severity, []).append(finding)
    for severity, number in found.items():
        if number:
            yield _severity(facts, severity, number, by_severity.get(severity, []))


def _looked_for() -> str:
    return (
        "The audit looked for lines that cannot be read, missing and repeated records, broken chains, and sessions and "
        "services whose records contradict each other."
    )


def _severity(facts: Facts, severity: str, number: int, shown: Sequence[Finding]) -> Html:
    title, meaning = explain.SEVERITIES[severity]
    counts = {each.kind: each.number for each in facts.kinds if each.severity == severity}
    in_order = sorted(counts, key=lambda kind: (-counts[kind], kind))
    of_kind: dict[str, list[Finding]] = {}
    for finding in shown:
        of_kind.setdefault(finding.kind, []).append(finding)
    return element(
        "section",
        element("h3", icon(severity), title, element("small", text.number(number))),
        element("p", meaning, class_="hint"),
        *[_kind(kind, counts[kind], of_kind.get(kind, [])) for kind in in_order],
        class_=f"severity {severity}",
        id=f"{severity}s",
    )


def _kind(kind: str, number: int, shown: Sequence[Finding]) -> Html:
    title, meaning = explain.kind(kind)
    more = number - len(shown)
    rest = f"And {more:,} more of this kind, in the table " if shown else f"All {number:,} are in the table "
    heading = element("h4", title, " ", element("code", plain(kind)), element("small", text.number(number)))
    return element(
        "details",
        element("summary", heading),
        element("p", meaning, class_="meaning") if meaning else None,
        table(f"{title}: where", _columns(shown), shown, class_="findings full") if shown else None,
        element("p", rest, element("code", "findings"), ".", class_="more") if more > 0 else None,
        open=True,
        class_="kind",
    )


def _columns(shown: Sequence[Finding]) -> list[Column[Finding]]:
    """Only those that say something."""
    columns: list[Column[Finding]] = [
        Column("Place", place, lambda each: each.first_seq, "place", is_head=True),
        Column("What", lambda each: name(each.message, 255), None, "wide"),
        Column("Service", lambda each: name(each.service, 60), lambda each: plain(each.service), "name"),
        Column("Session", lambda each: name(each.session, 60), lambda each: plain(each.session), "name"),
        Column("Server", lambda each: name(each.server, 40), lambda each: plain(each.server), "name"),
    ]
    fields = {"Service": "service", "Session": "session", "Server": "server"}
    return [
        each
        for each in columns
        if each.title not in fields or any(getattr(row, fields[each.title]) is not None for row in shown)
    ]


def place(finding: Finding) -> Html:
    """Where a finding is: ``segment:seq``, and the line of the file if it is about one."""
    first, last = finding.first_seq, finding.last_seq
    until = f"–{last}" if last is not None and first is not None and last != first else ""
    if first is None:
        where = "–" if finding.segment is None else f"{finding.segment}"
    else:
        where = f"{'?' if finding.segment is None else finding.segment}:{first}{until}"
    # The number of the segment names its file already.
    file = PurePosixPath(finding.file).name if finding.file and finding.segment is None else None
    line = "" if finding.line is None else f"{', ' if file else ''}line {finding.line}"
    below = element("small", name(file, 60) if file else None, line) if file or line else None
    return html(element("code", where, title=plain(finding.file, 255) if finding.file else None), below)


def seals(facts: Facts) -> Iterator[Html]:
    """What vouches for the journals."""
    yield element(
        "p",
        "A seal says what a segment was when it was written: who changes a sealed segment afterwards is found out, "
        "unless they can make a new seal. A signature is what they cannot make without the key.",
        class_="hint",
    )
    most = max((each.segments for each in facts.vouching.rows), default=0)
    columns: list[Column[Vouching]] = [
        Column("Journal", lambda each: name(each.journal, 60), lambda each: plain(each.journal), "name", is_head=True),
        Column("Server", lambda each: name(each.server, 40), lambda each: plain(each.server), "name"),
        tables.number("Segments", lambda each: each.segments),
        tables.number("Vouched for", lambda each: each.vouched),
        tables.bar("", lambda each: each.vouched, most, second=lambda each: each.segments - each.vouched),
        tables.number("Records", lambda each: each.records),
        tables.size("Size", lambda each: each.bytes),
    ]
    yield listed(
        "Journals and their seals. The hatched part of a bar is not vouched for.",
        columns,
        facts.vouching,
        "No segment was read.",
        "segments",
    )
    if facts.vouching.rows:
        yield element("h3", "What no seal vouches for")
        yield listed(
            "Segments that no seal vouches for",
            _unvouched(),
            facts.unvouched,
            "A seal vouches for every segment.",
            "segments",
        )
    if facts.keys:
        yield element("h3", "Keys")
        given = [("given to the audit", facts.trusted)] if facts.trusted is not None else []
        columns_of_keys: list[Column[tuple[str, str]]] = [
            Column("Key", lambda each: element("code", name(each[1], 64)), None, "wide", is_head=True),
            Column("What it is", lambda each: each[0]),
        ]
        yield table(
            "Keys by their fingerprints", columns_of_keys, [*given, *(("signed last", each) for each in facts.keys)]
        )


def _unvouched() -> list[Column[Segment]]:
    return [
        Column("Segment", lambda each: element("code", each.segment), lambda each: each.segment, "", is_head=True),
        Column("Records", _records, lambda each: each.first_seq),
        Column("Why", lambda each: _SEALED.get(each.sealed, plain(each.sealed)), lambda each: each.sealed),
        Column("Server", lambda each: name(each.server, 40), lambda each: plain(each.server), "name"),
        Column("File", lambda each: name(PurePosixPath(each.file).name, 60), None, "wide"),
    ]


def _records(segment: Segment) -> str:
    return "–" if segment.first_seq is None else f"{segment.first_seq}–{segment.last_seq}"
