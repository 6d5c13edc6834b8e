"""Records as the tables of an audit, without a journal around them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from pyarrow.parquet import write_table

from bussrv.audit.fold import border_join
from bussrv.audit.fold.facts import write_tables
from bussrv.audit.fold.lines import FoldLine, decode_line
from bussrv.audit.fold.record_columns import columns_of, in_order_of_places
from bussrv.audit.fold.stripe import Folding, Period
from bussrv.audit.fold.tasks import Done
from bussrv.audit.reading.judged import FINDINGS, SEGMENTS
from bussrv.audit.reading.stripes import write_here
from bussrv.audit.sql.activity import NAMES
from bussrv.audit.sql.database import Database
from bussrv.audit.sql.tables import define
from bussrv.journal import record
from bussrv.journal.record import Record

Rows = list[dict[str, Any]]

EPOCH = date(1970, 1, 1)


@dataclass
class Answers:
    """The answers of the audit and of a plain program about everything, of each period."""

    found: dict[Any, Rows]
    expected: dict[Any, Rows]


def line_of(each: Record) -> FoldLine:
    """A record as the fold reads it."""
    found = decode_line(record.encode(replace(each, seq=max(1, each.seq))))
    found.seq = each.seq
    return found


def facts(
    place: Path,
    records: Iterable[Record],
    given: Iterable[Record] = (),
    period: Period | None = None,
    segments: Sequence[int] | None = None,
) -> Path:
    """The facts of records.

    :param place: a directory, which is made.
    :param given: what the registry was before the first of ``records``.
    :param segments: the number of the segment that each of ``records`` is in.
    """
    period = period or Period()
    folding = Folding(period)
    by_server: dict[str, list[tuple[Record, int]]] = {}
    before: dict[str, list[tuple[FoldLine, int]]] = {}
    for place_of, each in enumerate(records):
        if not period.is_over(each.time):
            number = segments[place_of] if segments else 1
            by_server.setdefault(each.server, []).append((each, number))
    for each in given:
        before.setdefault(each.server, []).append((line_of(each), each.time))
    for server, some in before.items():
        folding.take_baseline(server, sorted(some, key=lambda one: (one[1], one[0].mono)))
    for server, mine in by_server.items():
        lines = [line_of(each) for each, _ in mine]
        moments = np.array([each.time for each, _ in mine], dtype=np.int64)
        columns = columns_of(lines, moments, np.array([each.seq for each in lines], dtype=np.int64), 1)
        columns.segments = np.array([number for _, number in mine], dtype=np.int64)
        folding.take(server, in_order_of_places([columns]))
    folded = folding.end()
    (place / "1").mkdir(parents=True)
    closed = border_join.close(folded)
    write_tables({name: pa.concat_tables([table, closed[name]]) for name, table in folded.tables.items()}, place / "1")
    judgements = {"findings": FINDINGS.empty_table(), "segments": SEGMENTS.empty_table()}
    write_here(place, [Done(number=1, extents=folded.extents, ends=folded.ends)], judgements)
    return place


def tables(
    names: Collection[str],
    place: Path,
    records: Iterable[Record],
    given: Iterable[Record] = (),
    since: int | None = None,
    until: int | None = None,
    segments: Sequence[int] | None = None,
) -> dict[str, Rows]:
    """Some tables of an audit of records, by name. The other parameters are those of :func:`facts`."""
    made = facts(place, records, given, Period(since, until), segments)
    with closing(Database(place)) as database:
        assert {*define(database, made, Period(since, until))} >= {*names}
        return {name: rows(database, name) for name in names}


def add_table(database: Database, name: str, table: pa.Table, place: Path) -> None:
    """Make a table known to a database.

    :param place: a directory for its file.
    """
    path = place / f"{name}.parquet"
    write_table(table, path)
    database.add_files(name, [path])


def rows(database: Database, name: str) -> Rows:
    """The rows of a table; times as UTC microseconds, dates as text."""
    found = database.ask(f"SELECT * FROM @{name}")
    return [{NAMES.get(name, name): _plain(name, value) for name, value in row.items()} for row in found]


def _plain(name: str, value: Any) -> Any:
    return str(EPOCH + timedelta(days=value)) if name == "date" and value is not None else value


def in_order(some: Iterable[dict[str, Any]]) -> Rows:
    """Rows in an order that depends on nothing but what is in them."""
    return sorted(some, key=lambda row: [(row[name] is not None, str(row[name])) for name in sorted(row)])
