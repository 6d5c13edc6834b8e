"""Sessions that may go on in another stripe. The facts are the same however journals are divided.

Each stripe keeps two files::

    border.arrow    what it knows of the sessions that may go on in another stripe, by the hash of their id
    whole.npy       the hashes of the ids of all other sessions, in order

The borders of all stripes are joined in parts. Each part has the sessions with certain hashes, so no process needs all
of them at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bussrv.audit.fold.facts import FactTables, as_tables, finish, no_rows
from bussrv.audit.fold.holdings import Place
from bussrv.audit.fold.session_fold import SessionFold
from bussrv.audit.fold.stripe import Folded

BORDER, WHOLE = "border.arrow", "whole.npy"

_SCHEMA = pa.schema(
    [("hash", pa.uint64()), ("session", pa.string()), ("server", pa.string()), ("seq", pa.int64()),
     ("moment", pa.int64()), ("mono", pa.int64()), ("fold", pa.binary())]
)  # fmt: skip

_HASHES = 1 << 64
_NONE = np.empty(0, dtype=np.uint64)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SessionFold).decode


class _Piece(NamedTuple):
    """The facts of a session that one stripe has.

    :ivar place: where the records of the server begin in the stripe.
    """

    place: Place
    server: str
    stripe: int
    fold: SessionFold


def close(folded: Folded) -> FactTables:
    """The facts of the sessions at the borders of a stripe, if there is no other one."""
    rows = no_rows()
    found: dict[Any, list[_Piece]] = {}
    for (server, session), fold in folded.border.items():
        same = (server,) if session is None else session
        found.setdefault(same, []).append(_Piece(_begin(folded, server), server, 0, fold))
    for pieces in found.values():
        finish(_folds(pieces), rows)
    return as_tables(rows)


def write(folded: Folded, place: Path) -> int:
    """Keep the sessions of a stripe for :func:`join`.

    :returns: how many bytes it has to read of them.
    """
    whole = np.sort(np.array([_hash_of("", session) for session in folded.whole], dtype=np.uint64))
    np.save(place / WHOLE, whole)
    rows = [
        (_hash_of(server, session), session, server, *_begin(folded, server), _encode(fold))
        for (server, session), fold in folded.border.items()
    ]
    rows.sort(key=lambda row: row[0])
    columns = zip(*rows, strict=True) if rows else [()] * len(_SCHEMA)
    arrays = [pa.array(column, each.type) for column, each in zip(columns, _SCHEMA, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)
    with pa.OSFile(os.fsencode(place / BORDER), "wb") as file, pa.ipc.new_file(file, _SCHEMA) as writer:
        writer.write_batch(batch)
    return int(batch.nbytes + whole.nbytes)


def join(stripes: Sequence[Path], part: int, parts: int) -> tuple[FactTables, list[set[int]]]:
    """The facts of a part of the sessions, and the stripes that have to be folded as one.

    :param stripes: their directories.
    """
    first, last = part * _HASHES // parts, (part + 1) * _HASHES // parts - 1
    whole = [_within(np.load(each / WHOLE, mmap_mode="r"), first, last) for each in stripes]
    border = [_border(each / BORDER, first, last) for each in stripes]
    torn = [*_torn(whole, [each.column("hash").to_numpy() for each in border])]
    rows = no_rows()
    for session, pieces in _by_session(border):
        if session is not None and _is_torn(pieces):
            torn.append({each.stripe for each in pieces})
        elif not torn:
            finish(_folds(pieces), rows)
    return (as_tables(no_rows()) if torn else as_tables(rows)), torn


def _hash_of(server: str, session: str | None) -> int:
    text = f"\0{server}" if session is None else session
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _begin(folded: Folded, server: str) -> Place:
    """The place of the first record of a server; a stripe may have its baseline only."""
    extent = folded.extents.get(server)
    return (0, 0, 0) if extent is None else extent[0]


def _within(hashes: NDArray[np.uint64], first: int, last: int) -> NDArray[np.uint64]:
    begin = np.searchsorted(hashes, np.uint64(first), "left")
    return np.asarray(hashes[begin : np.searchsorted(hashes, np.uint64(last), "right")])


def _border(path: Path, first: int, last: int) -> pa.Table:
    with pa.memory_map(os.fsencode(path)) as file:
        table = pa.ipc.open_file(file).read_all()
    hashes = table.column("hash").to_numpy()
    begin = int(np.searchsorted(hashes, np.uint64(first), "left"))
    return table.slice(begin, int(np.searchsorted(hashes, np.uint64(last), "right")) - begin)


def _torn(whole: Sequence[NDArray[np.uint64]], border: Sequence[NDArray[np.uint64]]) -> Iterator[set[int]]:
    """Stripes that name one session, which is whole in one of them."""
    hashes = np.concatenate([_NONE, *whole, *border])
    owners = np.concatenate([np.full(each.size, index) for some in (whole, border) for index, each in enumerate(some)])
    is_whole = np.arange(hashes.size) < sum(each.size for each in whole)
    if not hashes.size:
        return
    order = np.argsort(hashes, kind="stable")
    owners, is_whole = owners[order], is_whole[order]
    begins = np.flatnonzero(np.diff(hashes[order], prepend=hashes[order][:1] + np.uint64(1)))
    is_shared = np.minimum.reduceat(owners, begins) != np.maximum.reduceat(owners, begins)
    ends = np.append(begins[1:], hashes.size)
    for each in np.flatnonzero(is_shared & np.logical_or.reduceat(is_whole, begins)).tolist():
        yield {*owners[begins[each] : ends[each]].tolist()}


def _by_session(border: Sequence[pa.Table]) -> Iterator[tuple[str | None, list[_Piece]]]:
    """The pieces of each session from all stripes; those of records without a session by server."""
    found: dict[Any, list[tuple[Any, ...]]] = {}
    for stripe, table in enumerate(border):
        columns = (table.column(name).to_pylist() for name in _SCHEMA.names[1:])
        for session, server, seq, moment, mono, fold in zip(*columns, strict=True):
            same = (server,) if session is None else session
            found.setdefault(same, []).append(((seq, moment, mono), server, stripe, fold))
    for some in found.values():
        pieces = [_Piece(place, server, stripe, _decode(fold)) for place, server, stripe, fold in some]
        yield pieces[0].fold.session, pieces


def _is_torn(pieces: Iterable[_Piece]) -> bool:
    """Whether the pieces of a session cannot be put together: not only the first one of a server has its opening."""
    by_server = groupby(sorted(pieces, key=lambda each: (each.server, each.place)), key=lambda each: each.server)
    return any(each.fold.openings for _, some in by_server for each in [*some][1:])


def _folds(pieces: Iterable[_Piece]) -> list[SessionFold]:
    """The pieces of a session put together, those of several servers side by side."""
    found: dict[str, SessionFold] = {}
    for each in sorted(pieces, key=lambda each: (each.place, each.server)):
        first = found.setdefault(each.server, each.fold)
        if first is not each.fold:
            first.follow(each.fold)
    return [*found.values()]
