"""Facts: the columns of what the fold finds in stripes. Times are UTC microseconds since 1970."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bussrv.audit.fold.absences import Absence, absences
from bussrv.audit.fold.lines import Numbers
from bussrv.audit.fold.session_fold import COUNTERS, SessionFold
from bussrv.audit.fold.suspicions import suspicions
from bussrv.incidents.vocabulary import LEFT, address_of
from bussrv.journal.pseudonyms import is_pseudonym

Rows = dict[str, list[tuple[Any, ...]]]
"""Rows of facts, by the name of the table."""

FactTables = dict[str, pa.Table]

Column: TypeAlias = "pa.Array | NDArray[Any] | Sequence[Any]"

_KINDS = {"text": pa.string(), "number": pa.int64(), "flag": pa.bool_(), "names": pa.list_(pa.string())}


def _schema(text: str) -> pa.Schema:
    return pa.schema(
        [(name, _KINDS[kind or "text"]) for name, _, kind in (each.partition(":") for each in text.split())]
    )


SESSIONS = _schema(
    "session server protocol routing_id actor claimed name role peer address state opened:number closed:number "
    "duration:number reason objects_in:number objects_out:number bytes_in:number bytes_out:number persistent:flag home "
    "provided:names wanted:names objects_wanted:flag first_moment:number away_since:number kept_until:number "
    "away_micros:number"
)

FACTS: dict[str, pa.Schema] = {
    "sessions": SESSIONS,
    "formats": _schema("server protocol"),
    "spans": _schema(
        "server session service is_provided:flag protocol routing_id begin_at:number end_at:number lost:flag"
    ),
    "covers": _schema("server service is_provided:flag begin_at:number end_at:number"),
    "leases": _schema(
        "server session kind routing_id address service added:number renewed:number expired:number renewals:number "
        "reason"
    ),
    "absences": _schema(
        "server session protocol routing_id actor claimed address begin_at:number end_at:number kept_until:number "
        "reason outcome back_address back_actor taken_over:flag home opening:number closed:number"
    ),
    "suspicions": _schema(
        "server session boot kind service first_seq:number last_seq:number moment:number what if_known:flag seq:number "
        "mono:number is_loss:flag"
    ),
    "boots": _schema(
        "server boot version records:number first_seq:number last_seq:number first_moment:number last_moment:number "
        "started:flag stopped:flag settled:number last_settled:number first_start:number last_start:number "
        "first_stop:number last_stop:number last_of_server:number recovered:number sessions_closed:number "
        "torn_bytes:number closed:number salvaged:flag"
    ),
    "events": _schema("server event outcome protocol day:number records:number suppressed:number"),
    "refusals": _schema(
        "server event reason limit_name actor claimed address protocol day:number records:number suppressed:number "
        "first_seq:number first_moment:number last_moment:number"
    ),
    "openings": _schema(
        "server protocol address minute:number openings:number first_seq:number first_moment:number last_moment:number"
    ),
    "mentions": _schema(
        "server service registrations:number first_registered:number last_registered:number subscriptions:number "
        "first_moment:number"
    ),
    "links": _schema("server neighbour seq:number moment:number mono:number boot reason is_up:flag given:flag"),
    "forgotten_links": _schema("server neighbour seq:number moment:number mono:number"),
    "link_clocks": _schema("server neighbour seq:number moment:number mono:number ahead:number said"),
    "cosignings": _schema("server witness seq:number moment:number size:number refused:flag message"),
    "disk": _schema("server event seq:number moment:number mono:number"),
    "clocks": _schema("kind server boot seq:number moment:number what"),
}
"""The tables of facts, and their columns."""

_REPEATED = frozenset(
    {"server", "protocol", "kind", "reason", "service", "event", "state", "home", "role", "name", "boot", "limit_name",
     "version", "outcome"}
)  # fmt: skip
"""The columns with few different values, for which dictionaries are worth their time."""


_COVERED = ("server", "service", "is_provided")


def no_rows() -> Rows:
    """No rows of any table."""
    return {name: [] for name in FACTS}


def as_tables(rows: Rows) -> FactTables:
    """Rows as columns."""
    return {name: as_table(name, _columns(rows[name], schema)) for name, schema in FACTS.items()}


def _columns(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> dict[str, Sequence[Any]]:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return dict(zip(schema.names, columns, strict=True))


def as_table(name: str, columns: Mapping[str, Column]) -> pa.Table:
    """A table of facts.

    :param columns: all of them, by name.
    """
    schema = FACTS[name]
    return pa.Table.from_arrays([_array(columns[each.name], each.type) for each in schema], schema=schema)


def _array(column: Column, kind: pa.DataType) -> pa.Array:
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return column.cast(kind)
    if isinstance(column, np.ndarray):
        return pa.array(column, kind)
    # Servers and wire formats are the same in whole columns, and many columns are empty.
    if column and column[0] == column[-1] and column.count(column[0]) == len(column):
        return pa.repeat(pa.scalar(column[0], kind), len(column))
    return pa.array(column, kind)


def finish(folds: Sequence[SessionFold], rows: Rows) -> None:
    """Add the rows of one session.

    :param folds: of each server that names it: nearly always one.
    """
    for fold in folds:
        server, session = fold.server, fold.session
        if session is not None:
            away = [*absences(fold.moves, None if fold.closing is None else fold.closing[0][1])]
            rows["sessions"].append(_session(fold, away))
            rows["absences"] += _absences(fold, rows["sessions"][-1], away)
        for is_provided, service, span in fold.spans():
            end = None if span.end is None else span.end[1]
            about = server, session, service, is_provided, span.protocol, span.routing_id
            rows["spans"].append((*about, span.begin[1], end, span.reason not in LEFT))
        rows["leases"] += _leases(fold)
    if folds[0].session is not None:
        rows["suspicions"] += _suspicions(folds)


def _session(fold: SessionFold, away: Sequence[Absence]) -> tuple[Any, ...]:
    opened, closed, told = (_record(each) for each in (fold.opening, fold.closing, fold.identified))
    peer = _first(opened and opened.peer, closed and closed.peer, fold.peer)
    counters = [None if closed is None else getattr(closed, name) or 0 for name in COUNTERS]
    acting, claiming = _record(fold.acting), _record(fold.claiming)
    last = away[-1] if away and away[-1].end is None else None
    return (
        fold.session,
        fold.server,
        _first(opened and opened.protocol, closed and closed.protocol, fold.protocol),
        _first(closed and closed.routing_id, told and told.routing_id, opened and opened.routing_id, fold.routing_id),
        _first(closed and closed.actor, acting and acting.actor, opened and opened.actor),
        _first(closed and closed.claimed, claiming and claiming.claimed, opened and opened.claimed),
        told and told.name,
        told and told.role,
        peer,
        address_of(peer),
        "closed" if closed is not None else "open" if last is None else "away",
        None if fold.opening is None else fold.opening[0][1],
        None if fold.closing is None else fold.closing[0][1],
        closed and closed.duration,
        closed and closed.reason,
        *counters,
        None if opened is None else bool(opened.persistent),
        opened and opened.home,
        sorted(fold.provided),
        sorted(fold.wanted),
        fold.objects_wanted,
        fold.first_moment,
        last and last.begin,
        last and last.gone.until,
        sum(each.end - each.begin for each in away if each.end is not None),
    )


def _absences(fold: SessionFold, session: tuple[Any, ...], away: Sequence[Absence]) -> Iterator[tuple[Any, ...]]:
    """The absences of a session.

    :param session: its row.
    """
    row = dict(zip(SESSIONS.names, session, strict=True))
    opened, acting = _record(fold.opening), _record(fold.acting)
    # Its closing may have the user that took it over. The baseline has the user in another record than the opening.
    owner = _first(opened and opened.actor, acting and acting.actor)
    known = row["opened"]
    if known is None and row["closed"] is not None and row["duration"] is not None:
        known = row["closed"] - row["duration"]
    for each in away:
        back = each.back
        yield (
            *(row[name] for name in ("server", "session", "protocol", "routing_id", "actor", "claimed", "address")),
            each.begin,
            each.end,
            each.gone.until,
            each.gone.reason,
            "resumed" if back is not None else "away" if each.end is None else "closed",
            back and back.address,
            back and back.actor,
            back is not None and opened is not None and _is_other(owner, back.actor),
            row["home"],
            known,
            row["closed"],
        )


def _is_other(actor: str | None, back: str | None) -> bool:
    """Whether another user came back to a session than its own. A user may have several pseudonyms."""
    if actor is not None and back is not None and is_pseudonym(actor) and is_pseudonym(back):
        return False
    return actor != back


def _record(place: tuple[Any, Any] | None) -> Any:
    return None if place is None else place[1]


def _first(*values: str | None) -> str | None:
    return next((each for each in values if each is not None), None)


def _leases(fold: SessionFold) -> Iterator[tuple[Any, ...]]:
    for (is_subscription, service), holding in fold.holdings.items():
        kind = "subscription" if is_subscription else "service"
        for lease in holding.settled().leases:
            yield (
                fold.server, fold.session, kind, lease.routing_id, lease.address, service, lease.added, lease.renewed,
                lease.expired, lease.renewals, lease.reason,
            )  # fmt: skip


def _suspicions(folds: Sequence[SessionFold]) -> Iterator[tuple[Any, ...]]:
    fold = folds[0] if len(folds) == 1 else _together(folds)
    session = fold.session or ""
    boot = session.rpartition(".")[0] or None
    for each in suspicions(fold):
        yield (
            fold.server, session, boot, each.kind, each.service, each.first_seq, each.last_seq, each.at, each.what,
            each.if_known, each.seq, each.mono, each.is_loss,
        )  # fmt: skip


def _together(folds: Sequence[SessionFold]) -> SessionFold:
    """One session that several servers name."""
    found = SessionFold(folds[0].server, folds[0].session)
    for fold in folds:
        found.follow(fold)
    return found


def write_tables(tables: FactTables, place: Path) -> None:
    """Write tables as Parquet, those with rows. Spans and sessions are also written as ``covers`` and ``formats``."""
    formats = tables["sessions"].group_by(["server", "protocol"], use_threads=False).aggregate([])
    for name, table in {**tables, "covers": covers(tables["spans"]), "formats": formats}.items():
        if table.num_rows:
            repeated = [column for column in table.column_names if column in _REPEATED]
            path = place / f"{name}.parquet"
            # Readers take whole columns, so statistics would be of no use.
            write_parquet(table, path, compression="lz4", use_dictionary=repeated, write_statistics=False)


def write_parquet(table: pa.Table, path: Path, **options: Any) -> None:
    """Write a table to a file with any name: Arrow takes a path for a URL, and only in UTF-8."""
    with path.open("wb") as file:
        pq.write_table(table, file, **options)


def covers(spans: pa.Table) -> pa.Table:
    """The longest intervals without a gap in which a service was provided, or wanted, by anybody.

    A stripe has thousands of spans of a service, and few of these. Those of several stripes may overlap.

    :param spans: with the columns of ``covers``. ``end_at`` is null for a span that has not ended. One that ends before
        it begins is empty.
    :returns: the same columns.
    """
    begins = _numbers(spans, "begin_at")
    is_open = spans.column("end_at").is_null().to_numpy()
    ends = np.maximum(begins, _numbers(spans, "end_at"))
    groups = _groups(spans)
    order = np.lexsort((begins, groups))
    begins, groups, is_open = begins[order], groups[order], is_open[order]
    # To take the maximum of each group in one go, ends are replaced by their ranks. Later groups have higher ones.
    values, ranks = np.unique(np.where(is_open, np.iinfo(np.int64).max, ends[order]), return_inverse=True)
    latest = np.maximum.accumulate(groups * len(values) + ranks) - groups * len(values)
    is_first = np.diff(groups, prepend=-1) > 0
    is_first[1:] |= begins[1:] > values[latest[:-1]]
    firsts = np.flatnonzero(is_first)
    lasts = np.append(firsts[1:], order.size)[: firsts.size] - 1
    own = spans.select(_COVERED).take(pa.array(order[firsts]))
    ends_at = values[latest[lasts]]
    return own.append_column("begin_at", pa.array(begins[firsts], pa.int64())).append_column(
        "end_at", pa.array(ends_at, pa.int64(), mask=ends_at == np.iinfo(np.int64).max)
    )


def _numbers(spans: pa.Table, name: str) -> Numbers:
    found: Numbers = pc.fill_null(spans.column(name), 0).to_numpy()
    return found


def _groups(spans: pa.Table) -> Numbers:
    """A number for each group, the same for all its spans."""
    found = np.zeros(len(spans), dtype=np.int64)
    for name in _COVERED:
        codes = spans.column(name).combine_chunks().dictionary_encode()
        found = found * max(len(codes.dictionary), 1) + codes.indices.to_numpy(zero_copy_only=False)
    return found
