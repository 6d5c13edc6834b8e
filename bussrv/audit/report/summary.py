"""The last step of every audit: how it was made, its summary for programs and for people, and its report."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from bussrv.audit.kinds import KINDS, SEVERITIES
from bussrv.audit.output import CSV, REPORT, SUMMARY, in_utf8
from bussrv.audit.report import page
from bussrv.audit.report.facts import Evidence, facts
from bussrv.audit.report.incidents import happenings
from bussrv.audit.report.journals import CoveredRecords, LastSeal
from bussrv.audit.report.questions import Tables, all_rows, count_if, only_row
from bussrv.audit.report.verdict import incident_text, standing_out
from bussrv.incidents.judging import Happened, Incident
from bussrv.journal.evidence.witnesses import Covered
from bussrv.journal.manifest import Manifest, Seal
from bussrv.journal.record import format_time
from bussrv.version import VERSION

if TYPE_CHECKING:
    from bussrv.audit.fold.stripe import Period
    from bussrv.audit.reading.snapshot import Journal
    from bussrv.journal.keys import PublicKey

FORMAT = 3
"""The version of the format of ``summary.json``."""

MOST_LISTED = 100
"""The most findings in the summary. The table has all of them."""

MOST_SHOWN = 10
"""The most findings in the text."""

_STATES = ("opened", "closed", "open", "away")

_MOMENTS = ("first_moment", "last_moment")

_SESSIONS = f"""
    SELECT coalesce(protocol, 'unknown') AS protocol, count(opened) AS opened,
        {count_if("state = 'closed'")} AS closed, {count_if("state = 'open'")} AS open,
        {count_if("state = 'away'")} AS away
    FROM @sessions WHERE home IS NULL GROUP BY coalesce(protocol, 'unknown')"""
"""How many sessions of each wire format there are."""

# The worst first, then by kind and place. Every other column comes last, so that one worker and many list the same
# findings in the same order.
_SEVERITY = " ".join(f"WHEN '{each}' THEN {rank}" for rank, each in enumerate(SEVERITIES))
_PLACE = ("kind", "server", "first_seq", "file", "line", "session", "service", "boot", "segment", "last_seq", "message")
_ORDER = f"CASE severity {_SEVERITY} END, " + ", ".join(f"{column} ASC NULLS FIRST" for column in _PLACE)

_SEALS = f"""{count_if("sealed <> 'none'")} AS sealed, {count_if("vouched")} AS vouched"""


def evidence(
    journals: Sequence[Journal],
    trusted: PublicKey | None,
    public_key: Path | None,
    command: str | None,
    out: Path,
    every: int | None = None,
    *,
    covered: Iterable[tuple[str, Covered]] = (),
) -> Evidence:
    """How an audit of these journals was made.

    :param trusted: the key that the seals had to be signed with, or with its successors.
    :param public_key: the file that it was read from.
    :param every: seconds from this audit to the next one; ``None``: there is none.
    :param covered: of which journal which records were cosigned by whom.
    """
    manifests = [(in_utf8(each.location), each.late) for each in journals]
    found = (_last_seal(*each) for each in manifests)
    return Evidence(
        tuple(each for each in found if each is not None),
        tuple(sorted({each.in_force.fingerprint for _, each in manifests if each.in_force is not None})),
        None if trusted is None else trusted.fingerprint,
        None if public_key is None else in_utf8(str(public_key)),
        None if command is None else in_utf8(command),
        in_utf8(str(out)),
        every,
        tuple(CoveredRecords(journal, each.first_seq, each.last_seq, each.witnesses) for journal, each in covered),
    )


def _last_seal(journal: str, manifest: Manifest) -> LastSeal | None:
    for entry in reversed(manifest.entries):
        body = entry.body
        if isinstance(body, Seal):
            return LastSeal(
                journal=journal,
                server=body.server,
                time=body.time,
                segment=body.segment,
                last_seq=body.last_seq,
                closed=body.closed,
                digest=body.digest,
                entry=entry.number,
                hash=entry.hash,
                key=entry.key,
            )
    return None


def finish(tables: Tables, place: Path, period: Period, made: Evidence, *, csv: bool) -> dict[str, Any]:
    """Write the report, and CSV if wanted.

    :param tables: those of the audit, for questions.
    :param place: the directory that holds a directory with the Parquet files of each table, on this machine.
    :param period: what the tables are about.
    :returns: the content of ``summary.json``.
    :raises OSError: if it cannot be written.
    """
    happened = happenings(tables)
    totals = summarize(tables, made, happened)
    page.write(place / REPORT, facts(tables, totals, period, made, happened))
    if csv:
        from bussrv.audit.query import write_csv

        write_csv(place, place / CSV)
    return totals


def summarize(tables: Tables, made: Evidence, happened: Happened) -> dict[str, Any]:
    """The content of ``summary.json``, which the documentation describes.

    :param made: how the audit was made.
    :param happened: the incidents that are about no finding.
    """
    kinds = _number_by(tables, "@findings", "kind", "count(*)")
    servers = sorted(all_rows(tables, "SELECT * FROM @servers"), key=itemgetter("server"))
    segments = only_row(tables, f"SELECT count(*) AS segments, {_SEALS} FROM @segments")
    sessions = sorted(all_rows(tables, _SESSIONS), key=itemgetter("protocol"))
    listed = all_rows(tables, f"SELECT * FROM @findings ORDER BY {_ORDER} LIMIT {MOST_LISTED}")
    severities = {each: sum(kinds.get(kind, 0) for kind in KINDS if KINDS[kind] == each) for each in SEVERITIES}
    is_intact = not (severities["error"] or severities["warning"])
    return {
        "format": FORMAT,
        "version": VERSION,
        "audited": format_time(time.time_ns() // 1000),
        "every": made.every,
        "command": made.command,
        "verdict": "findings" if not is_intact else "incidents" if happened.total else "clean",
        "integrity": "intact" if is_intact else "findings",
        "security": "incidents" if happened.total else "quiet",
        "severities": severities,
        "kinds": {kind: kinds[kind] for kind in KINDS if kind in kinds},
        "seals": {
            "sealed": segments["sealed"],
            "vouched": segments["vouched"],
            "keys": list(made.keys),
            "trusted": made.trusted,
        },
        "last_seals": [{**msgspec.to_builtins(each), "time": format_time(each.time)} for each in made.seals],
        "witnessed": [msgspec.to_builtins(each) for each in made.witnessed],
        "segments": segments["segments"],
        "records": sum(server["records"] for server in servers),
        "boots": sum(server["boots"] for server in servers),
        "servers": [{**each, **{name: format_time(each[name]) for name in _MOMENTS}} for each in servers],
        "sessions": {row.pop("protocol"): row for row in sessions},
        "services": only_row(tables, f"SELECT count(*) AS known, {count_if('provided')} AS provided FROM @services"),
        "events": _number_by(tables, "@events", "event", "CAST(sum(records) AS BIGINT)"),
        "findings": [{**each, "moment": each["moment"] and format_time(each["moment"])} for each in listed],
        "incident_kinds": happened.numbers,
        "incidents": [_incident(each, made.public_key) for each in happened.rows],
    }


def _incident(incident: Incident, key: str | None) -> dict[str, Any]:
    told = incident_text(incident, key)
    return {
        "kind": incident.what,
        "time": incident.begin and format_time(incident.begin),
        "until": incident.end and format_time(incident.end),
        "server": incident.server,
        "address": incident.address,
        "user": incident.actor or incident.claimed,
        "proved": incident.actor is not None,
        "subject": incident.subject,
        "number": incident.number,
        "message": f"{told.title}: {told.what}".replace("\N{NO-BREAK SPACE}", " "),
        "command": next(iter(told.commands), None),
    }


def _number_by(tables: Tables, table: str, column: str, number: str) -> dict[str, int]:
    numbers = f"SELECT {column}, {number} AS number FROM {table} GROUP BY {column}"
    return dict(sorted((row[column], row["number"]) for row in all_rows(tables, numbers)))


def in_words(summary: Mapping[str, Any]) -> str:
    """A summary as text that fits on one screen."""
    return "\n".join(map(_printable, (*_activity_lines(summary), "", *_verdict_lines(summary))))


def _activity_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    yield f"{_many(summary['records'], 'record')} in {_many(summary['segments'], 'segment')}"
    for server in summary["servers"][:MOST_SHOWN]:
        boots = _many(server["boots"], "boot") + (f", {server['crashes']} crashed" if server["crashes"] else "")
        yield (
            f"  server {server['server']}: records {server['first_seq']} to {server['last_seq']}, "
            f"{server['first_moment']} to {server['last_moment']}, {boots}"
        )
    if len(summary["servers"]) > MOST_SHOWN:
        yield f"  and {_many(len(summary['servers']) - MOST_SHOWN, 'more server')}"
    services = summary["services"]
    yield f"{_many(services['known'], 'service')}, {services['provided']} provided at the end"
    if summary["sessions"]:
        yield f"{'sessions':<12}" + "".join(f"{state:>9}" for state in _STATES)
    for protocol, counts in summary["sessions"].items():
        yield f"  {protocol:<10}" + "".join(f"{counts[state]:>9}" for state in _STATES)


def in_one_line(summary: Mapping[str, Any]) -> str:
    """A summary in one line: when it was made, and both verdicts."""
    incidents = sum(summary["incident_kinds"].values())
    words = _many(incidents, "INCIDENT", "S") if incidents else "NO INCIDENTS"
    return f"{summary['audited']}  {_integrity(summary)}; {words}; {_many(summary['records'], 'record')}"


def _integrity(summary: Mapping[str, Any]) -> str:
    counts = [_many(number, severity) for severity, number in summary["severities"].items() if number]
    verdict = "JOURNAL INTACT" if summary["integrity"] == "intact" else "FINDINGS"
    return f"{verdict}: {', '.join(counts) or 'nothing was found'}"


def _verdict_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    yield _integrity(summary)
    for finding in summary["findings"][:MOST_SHOWN]:
        line = "" if finding["line"] is None else f", line {finding['line']}"
        place = f" ({finding['file']}{line})" if finding["file"] else ""
        yield f"  {finding['severity']:<8}{finding['kind']}: {finding['message']}{place}"
    more = sum(summary["severities"].values()) - MOST_SHOWN
    if more > 0:
        yield f"  and {more} more, in {SUMMARY} and the table of findings"
    for each in summary["witnessed"][:MOST_SHOWN]:
        covered = Covered(each["first_seq"], each["last_seq"], (*each["witnesses"],))
        yield f"WITNESSES of {each['journal']}: {covered}"
    yield from _incident_lines(summary)


def _incident_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    number, shown = sum(summary["incident_kinds"].values()), [*standing_out(summary["incidents"], itemgetter("kind"))]
    yield f"{_many(number, 'INCIDENT', 'S')} {'needs' if number == 1 else 'need'} a look" if number else "NO INCIDENTS"
    for each in shown:
        yield f"  {each['time'] or 'at no known time'}  {each['message']}{''.join(_about(each))}"
        if each["command"]:
            yield f"    {each['command']}"
    if number > len(shown):
        yield f"  and {number - len(shown)} more, in {REPORT} and {SUMMARY}"


def _about(incident: Mapping[str, Any]) -> Iterator[str]:
    if incident["subject"] is not None:
        yield f", {incident['subject']}"
    if incident["address"] is not None:
        yield f", from {incident['address']}"
    if incident["user"] is not None:
        yield f", {'as' if incident['proved'] else 'claiming to be'} {incident['user']}"
    if incident["server"] is not None:
        yield f", at server {incident['server']}"


def _many(number: int, what: str, ending: str = "s") -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}{ending}"


def _printable(text: str) -> str:
    """A text without control characters: clients may have written it, and a terminal would obey them."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
