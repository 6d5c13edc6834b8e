"""The parts of a report about journals (servers, boots, seals, findings), each with the query that finds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bussrv.audit.kinds import SEVERITIES
from bussrv.audit.report.charts import Axis, axis_between
from bussrv.audit.report.incidents import located
from bussrv.audit.report.questions import (
    Listing,
    Tables,
    all_rows,
    count_if,
    counted,
    covered,
    cut,
    first,
    listing,
    most_of,
    only_row,
    rows,
    shares,
    total,
)
from bussrv.journal.record import parse_time

if TYPE_CHECKING:
    from bussrv.audit.fold.stripe import Period

MOST_FINDINGS = 200
"""Of each severity."""

MOST_KINDS = 100
MOST_SERVERS = 12
MOST_UNVERIFIED = 50
MOST_KEYS = 12
MOST_SEALS = 24

_PLACE = ("server", "segment", "first_seq", "file", "line", "session", "service", "boot", "message", "last_seq")

_SEALS = f"""
    count(*) AS segments, {", ".join(map(total, ("records", "bytes")))}, {count_if("sealed = 'closed'")} AS closed,
    {count_if("sealed = 'open'")} AS open, {count_if("coalesce(sealed, 'none') = 'none'")} AS unsealed,
    {count_if("vouched")} AS verified"""


@dataclass(frozen=True)
class Scope:
    """The time axis, and the totals of all servers."""

    axis: Axis | None
    servers: int
    records: int
    boots: int
    crashes: int


def scope(tables: Tables, period: Period) -> Scope:
    """The time axis, and the totals of all servers."""
    totals = f"""
        SELECT count(*) AS servers, {", ".join(map(total, ("records", "boots", "crashes")))},
            min(first_moment) AS begin, max(last_moment) AS until
        FROM @servers"""
    numbers = only_row(tables, totals)
    begin, end = numbers.pop("begin"), numbers.pop("end")
    if begin is None or end is None:
        return Scope(None, **numbers)
    begin = begin if period.since is None else max(begin, period.since)
    end = end if period.until is None else min(end, period.until - 1)
    return Scope(axis_between(begin, end) if begin <= end else None, **numbers)


class Server(Struct, frozen=True, kw_only=True):
    """A server, and the share of each step in which it ran."""

    server: str
    records: int
    first_seq: int
    last_seq: int
    first_moment: int
    last_moment: int
    boots: int
    crashes: int
    ran: tuple[float | None, ...] = ()
    crashed_in: dict[int, int] = {}


def servers(tables: Tables, axis: Axis | None) -> Listing[Server]:
    """Each server, and when it ran."""
    known = listing(tables, "SELECT * FROM @servers", Server, first("server"), most=MOST_SERVERS)
    if axis is None:
        return known
    listed = f"SELECT server FROM @servers ORDER BY {first('server')} LIMIT {MOST_SERVERS}"
    runs = f"""
        SELECT {cut("b.server")} AS what, b.first_moment AS begin, b.last_moment AS until, b.crashed
        FROM @boots AS b JOIN ({listed}) AS s ON b.server = s.server"""
    crashed = f"SELECT what, until AS moment FROM ({runs}) AS runs WHERE crashed"
    seen = {each.server: (each.first_moment, each.last_moment) for each in known.rows}
    ran = shares(all_rows(tables, covered(runs, axis)), axis, seen)
    crashes: dict[str, dict[int, int]] = {each.server: {} for each in known.rows}
    for row in sorted(all_rows(tables, counted(crashed, axis)), key=itemgetter("what", "step")):
        crashes[row["what"]][row["step"]] = row["number"]
    found = (replace(each, ran=ran[each.server], crashed_in=crashes[each.server]) for each in known.rows)
    return Listing(tuple(found), known.total)


class Boot(Struct, frozen=True, kw_only=True):
    """A boot of a server."""

    server: str
    boot: str
    first_moment: int
    last_moment: int
    records: int
    crashed: bool
    ended: bool
    down_seconds: float | None = None
    version: str | None = None


def boots(tables: Tables) -> Listing[Boot]:
    """The boots, crashed ones first, then the latest."""
    order = f"{most_of('crashed')}, {most_of('first_moment')}, {first('server', 'boot')}"
    return listing(tables, "SELECT * FROM @boots", Boot, order)


class KindCount(Struct, frozen=True):
    """The number of findings of one kind."""

    severity: str
    kind: str
    number: int


def kinds(tables: Tables) -> tuple[KindCount, ...]:
    """The number of findings of each kind, in no order."""
    counts = "SELECT severity, kind, count(*) AS number FROM @findings GROUP BY severity, kind"
    return rows(tables, counts, KindCount, MOST_KINDS, first("severity", "kind"))


class FindingRow(Struct, frozen=True, kw_only=True):
    """A row of the table of findings, with the client of its session.

    :ivar moment: of a record that it is about; otherwise its segment has records from ``seg_begin`` to ``seg_end``.
    """

    severity: str
    kind: str
    message: str
    server: str | None = None
    boot: str | None = None
    segment: int | None = None
    first_seq: int | None = None
    last_seq: int | None = None
    session: str | None = None
    service: str | None = None
    file: str | None = None
    line: int | None = None
    moment: int | None = None
    journal: str | None = None
    seg_begin: int | None = None
    seg_end: int | None = None
    address: str | None = None
    actor: str | None = None
    claimed: str | None = None

    @property
    def file_name(self) -> str | None:
        """The name of the file, without its directory."""
        return PurePosixPath(self.file).name if self.file else None

    @property
    def directory(self) -> str | None:
        """The journal that it is about."""
        return self.journal or (str(PurePosixPath(self.file).parent) if self.file else None)


def findings(tables: Tables) -> tuple[FindingRow, ...]:
    """The first findings of each severity, with the same share for each kind."""
    severities = ", ".join(f"'{each}'" for each in SEVERITIES)
    chosen = f"""
        SELECT *, segment AS own, coalesce(first_seq, segment) AS seq FROM (
            SELECT *, row_number() OVER (PARTITION BY severity ORDER BY place, kind) AS rank_in_severity
            FROM (
                SELECT *, row_number() OVER (PARTITION BY severity, kind ORDER BY {first(*_PLACE)}) AS place
                FROM @findings WHERE severity IN ({severities})
            ) AS of_kind
            WHERE place <= {MOST_FINDINGS}
        ) AS of_severity
        WHERE rank_in_severity <= {MOST_FINDINGS}"""
    columns = (
        "severity, kind, server, boot, own, seq, first_seq, last_seq, moment, session, service, file, line, message"
    )
    in_segments = f"""
        SELECT f.severity, f.kind, f.server, f.boot, coalesce(f.own, f.segment) AS segment, f.first_seq, f.last_seq,
            f.moment, f.session, f.service, f.file, f.line, f.message, f.journal, f.seg_begin, f.seg_end,
            s.address, s.actor, s.claimed
        FROM ({located(f"SELECT {columns} FROM ({chosen}) AS chosen", "seq", "moment")}) AS f
        LEFT JOIN @sessions AS s ON f.server = s.server AND f.session = s.session"""
    most = MOST_FINDINGS * len(SEVERITIES)
    return rows(tables, in_segments, FindingRow, most, first("severity", "kind", *_PLACE))


class Sealing(Struct, frozen=True, kw_only=True):
    """The segments of one journal, and the state of their seals."""

    journal: str
    server: str | None
    segments: int
    records: int
    bytes: int
    closed: int
    open: int
    unsealed: int
    verified: int

    @property
    def unverified(self) -> int:
        """The number of segments that no seal verifies."""
        return self.segments - self.verified


def sealing(tables: Tables) -> Listing[Sealing]:
    """The segments of each journal, and how many of them a seal verifies."""
    by_journal = f"SELECT journal, server, {_SEALS} FROM @segments GROUP BY journal, server"
    return listing(tables, by_journal, Sealing, f"segments - verified DESC, {first('journal', 'server')}")


def all_seals(tables: Tables) -> Sealing:
    """The same of all journals together."""
    return Sealing(journal="", server=None, **only_row(tables, f"SELECT {_SEALS} FROM @segments"))


class UnverifiedSegment(Struct, frozen=True, kw_only=True):
    """A segment that no seal verifies."""

    segment: int
    file: str
    sealed: str
    server: str | None = None
    first_seq: int | None = None
    last_seq: int | None = None

    @property
    def file_name(self) -> str:
        """The name of the file, without its directory."""
        return PurePosixPath(self.file).name


def unverified(tables: Tables) -> Listing[UnverifiedSegment]:
    """The segments that no seal verifies."""
    found = "SELECT * FROM @segments WHERE NOT coalesce(vouched, false)"
    return listing(tables, found, UnverifiedSegment, first("server", "segment", "file"), most=MOST_UNVERIFIED)


def keys(summary: Mapping[str, Any]) -> tuple[tuple[str, ...] | None, str | None]:
    """The fingerprints of the keys that signed the seals, and of the key that was given to the audit."""
    seals = summary.get("seals", {})
    known = seals.get("keys")
    return None if known is None else tuple(known[:MOST_KEYS]), seals.get("trusted")


class LastSeal(Struct, frozen=True, kw_only=True):
    """The last seal of a journal.

    :ivar time: when it was made.
    :ivar digest: the SHA-256 of the sealed part of the segment.
    :ivar entry: the number of its line in the manifest.
    :ivar hash: of that line. Whoever notes it finds out later whether the journal was cut off before it.
    :ivar key: the fingerprint of the key that it is signed with.
    """

    journal: str
    server: str
    time: int
    segment: int
    closed: bool
    digest: str
    entry: int
    hash: str
    last_seq: int | None = None
    key: str | None = None


def last_seals(summary: Mapping[str, Any]) -> tuple[LastSeal, ...]:
    """The last seal of each journal, of the first ``MOST_SEALS`` that have one."""
    found = summary.get("last_seals", [])[:MOST_SEALS]
    return tuple(msgspec.convert({**each, "time": parse_time(each["time"])}, LastSeal) for each in found)


class CoveredRecords(Struct, frozen=True):
    """Records of a journal that the same witnesses cosigned; ``witnesses``: their names, which may be none."""

    journal: str
    first_seq: int
    last_seq: int
    witnesses: tuple[str, ...]


def witnessed(summary: Mapping[str, Any]) -> tuple[CoveredRecords, ...]:
    """The records of the first ``MOST_SEALS`` such stretches."""
    return tuple(msgspec.convert(each, CoveredRecords) for each in summary.get("witnessed", [])[:MOST_SEALS])
