"""The summary of an audit: ``summary.json`` for programs, and a screenful of text for people."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any

import msgspec

from bussrv.audit.output import SUMMARY
from bussrv.audit.report.evidence import Evidence
from bussrv.audit.report.questions import Question, Tables, all_rows, ask, count_if, only_row
from bussrv.audit.tables.kinds import KINDS, SEVERITIES
from bussrv.journal.record import format_time
from bussrv.version import VERSION

FORMAT = 2
"""The version of the format of ``summary.json``."""

MOST_LISTED = 100
"""The most findings in the summary. The table has all of them."""

MOST_SHOWN = 10
"""The most findings in the text."""

_MOMENTS = ("first_moment", "last_moment")

_SESSIONS = f"""
    SELECT coalesce(protocol, 'unknown') AS protocol, count(opened) AS opened,
        {count_if("state = 'closed'")} AS closed, {count_if("state = 'open'")} AS open
    FROM @sessions WHERE home IS NULL GROUP BY coalesce(protocol, 'unknown')"""
"""How many sessions of each wire format there are."""

# The worst first, then by kind and place. Every other column comes last, so that one worker and many list the same
# findings in the same order.
_SEVERITY = " ".join(f"WHEN '{each}' THEN {rank}" for rank, each in enumerate(SEVERITIES))
_PLACE = ("kind", "server", "first_seq", "file", "line", "session", "service", "boot", "segment", "last_seq", "message")
_ORDER = f"CASE severity {_SEVERITY} END, " + ", ".join(f"{column} ASC NULLS FIRST" for column in _PLACE)

_SEALS = f"""{count_if("sealed <> 'none'")} AS sealed, {count_if("vouched")} AS vouched"""


def summarize(tables: Tables, made: Evidence) -> dict[str, Any]:
    """The content of ``summary.json``, which the documentation describes.

    :param made: how the audit was made.
    """
    found = ask(tables, _questions())
    kinds, servers, segments = found["kinds"], found["servers"], found["segments"]
    severities = {each: sum(kinds.get(kind, 0) for kind in KINDS if KINDS[kind] == each) for each in SEVERITIES}
    return {
        "format": FORMAT,
        "version": VERSION,
        "audited": format_time(time.time_ns() // 1000),
        "command": made.command,
        "verdict": "findings" if severities["error"] or severities["warning"] else "clean",
        "severities": severities,
        "kinds": {kind: kinds[kind] for kind in KINDS if kind in kinds},
        "seals": _seals(segments, made),
        "last_seals": [{**msgspec.to_builtins(each), "time": format_time(each.time)} for each in made.seals],
        "segments": segments["segments"],
        "records": sum(server["records"] for server in servers),
        "boots": sum(server["boots"] for server in servers),
        "servers": servers,
        "sessions": {row.pop("protocol"): row for row in sorted(found["sessions"], key=itemgetter("protocol"))},
        "services": found["services"],
        "events": found["events"],
        "findings": found["findings"],
    }


def _questions() -> dict[str, Question[Any]]:
    return {
        "kinds": _number_by("@findings", "kind", "count(*)"),
        "servers": all_rows("SELECT * FROM @servers").then(
            lambda rows: [_told(row) for row in sorted(rows, key=itemgetter("server"))]
        ),
        "segments": only_row(f"SELECT count(*) AS segments, {_SEALS} FROM @segments"),
        "sessions": all_rows(_SESSIONS),
        "services": only_row(f"SELECT count(*) AS known, {count_if('provided')} AS provided FROM @services"),
        "events": _number_by("@events", "event", "CAST(sum(records) AS BIGINT)"),
        "findings": all_rows(f"SELECT * FROM @findings ORDER BY {_ORDER} LIMIT {MOST_LISTED}").then(_with_times),
    }


def _with_times(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**each, "moment": each["moment"] and format_time(each["moment"])} for each in findings]


def _told(server: Mapping[str, Any]) -> dict[str, Any]:
    """A row of that table, its moments as records have them."""
    return {**server, **{name: format_time(server[name]) for name in _MOMENTS}}


def _seals(segments: Mapping[str, int], made: Evidence) -> dict[str, Any]:
    return {
        "sealed": segments["sealed"],
        "vouched": segments["vouched"],
        "keys": list(made.keys),
        "trusted": made.trusted,
    }


def _number_by(table: str, column: str, number: str) -> Question[dict[str, int]]:
    numbers = f"SELECT {column}, {number} AS number FROM {table} GROUP BY {column}"
    return all_rows(numbers).then(lambda rows: dict(sorted((row[column], row["number"]) for row in rows)))


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
        yield "sessions      opened   closed     open"
    for protocol, counts in summary["sessions"].items():
        yield f"  {protocol:<10}" + "".join(f"{counts[state]:>9}" for state in ("opened", "closed", "open")).rstrip()


def _verdict_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    counts = [_many(number, severity) for severity, number in summary["severities"].items() if number]
    yield f"{summary['verdict'].upper()}: {', '.join(counts) or 'nothing was found'}"
    for finding in summary["findings"][:MOST_SHOWN]:
        place = f" ({finding['file']}, line {finding['line']})" if finding["file"] else ""
        yield f"  {finding['severity']:<8}{finding['kind']}: {finding['message']}{place}"
    more = sum(summary["severities"].values()) - MOST_SHOWN
    if more > 0:
        yield f"  and {more} more, in {SUMMARY} and the table of findings"


def _many(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _printable(text: str) -> str:
    """A text without control characters: clients may have written it, and a terminal would obey them."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
