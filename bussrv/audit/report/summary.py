"""The summary of an audit: ``summary.json`` for programs, and a screenful of text for people."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.output import SUMMARY
from bussrv.audit.report.questions import Question, all_rows, ask, only_row
from bussrv.audit.tables.findings import in_order
from bussrv.audit.tables.kinds import KINDS, SEVERITIES
from bussrv.journal.keys import PublicKey
from bussrv.journal.record import format_time
from bussrv.version import VERSION

FORMAT = 2
"""The version of the format of ``summary.json``."""

MOST_LISTED = 100
"""The most findings in the summary. The table has all of them."""

MOST_SHOWN = 10
"""The most findings in the text."""

_MOMENTS = ("first_moment", "last_moment")


def summarize(
    tables: Mapping[str, DataFrame], keys: Sequence[PublicKey | None], trusted: PublicKey | None
) -> dict[str, Any]:
    """The content of ``summary.json``, which the documentation describes.

    :param keys: the key in force of each journal.
    :param trusted: the key that the seals had to be signed with, or with its successors.
    """
    found = ask(_questions(tables))
    kinds, servers, segments = found["kinds"], found["servers"], found["segments"]
    severities = {each: sum(kinds.get(kind, 0) for kind in KINDS if KINDS[kind] == each) for each in SEVERITIES}
    return {
        "format": FORMAT,
        "version": VERSION,
        "audited": format_time(time.time_ns() // 1000),
        "verdict": "findings" if severities["error"] or severities["warning"] else "clean",
        "severities": severities,
        "kinds": {kind: kinds[kind] for kind in KINDS if kind in kinds},
        "seals": _seals(segments, keys, trusted),
        "segments": segments["segments"],
        "records": sum(server["records"] for server in servers),
        "boots": sum(server["boots"] for server in servers),
        "servers": servers,
        "sessions": {row.pop("protocol"): row for row in sorted(found["sessions"], key=itemgetter("protocol"))},
        "services": found["services"],
        "events": found["events"],
        "findings": found["findings"],
    }


def _questions(tables: Mapping[str, DataFrame]) -> dict[str, Question[Any]]:
    segments, services = tables["segments"], tables["services"]
    return {
        "kinds": _number_by(tables["findings"], "kind", F.count("*")),
        "servers": all_rows(_in_micros(tables["servers"])).then(
            lambda rows: [_told(row) for row in sorted(rows, key=itemgetter("server"))]
        ),
        "segments": only_row(
            segments.agg(
                F.count("*").alias("segments"),
                F.count_if(F.col("sealed") != "none").alias("sealed"),
                F.count_if("vouched").alias("vouched"),
            )
        ),
        "sessions": all_rows(_sessions(tables["sessions"])),
        "services": only_row(
            services.agg(F.count("*").alias("known"), F.count_if("provided").alias("provided")),
        ),
        "events": _number_by(tables["events"], "event", F.sum("records")),
        "findings": all_rows(in_order(tables["findings"]).limit(MOST_LISTED)),
    }


def _in_micros(servers: DataFrame) -> DataFrame:
    """The table of servers, its moments as numbers."""
    moments = {name: F.unix_micros(name) for name in _MOMENTS}
    return servers.select(*[moments.get(name, F.col(name)).alias(name) for name in servers.columns])


def _told(server: Mapping[str, Any]) -> dict[str, Any]:
    """A row of that table, its moments as records have them."""
    return {**server, **{name: format_time(server[name]) for name in _MOMENTS}}


def _seals(segments: Mapping[str, int], keys: Sequence[PublicKey | None], trusted: PublicKey | None) -> dict[str, Any]:
    return {
        "sealed": segments["sealed"],
        "vouched": segments["vouched"],
        "keys": sorted({key.fingerprint for key in keys if key is not None}),
        "trusted": None if trusted is None else trusted.fingerprint,
    }


def _number_by(table: DataFrame, column: str, number: Column) -> Question[dict[str, int]]:
    numbers = table.groupBy(column).agg(number.alias("number"))
    return all_rows(numbers).then(lambda rows: dict(sorted((row[column], row["number"]) for row in rows)))


def _sessions(sessions: DataFrame) -> DataFrame:
    """How many sessions of each wire format there are."""
    return (
        sessions.where("home IS NULL")
        .groupBy(F.coalesce("protocol", F.lit("unknown")).alias("protocol"))
        .agg(
            F.count("opened").alias("opened"),
            F.count_if(F.col("state") == "closed").alias("closed"),
            F.count_if(F.col("state") == "open").alias("open"),
        )
    )


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
