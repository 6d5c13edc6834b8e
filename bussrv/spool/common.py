"""Entries that many owners have in common: one row of the file for all of them, with one payload.

They are appended together, and have numbers one after the other. Each owner has its own entry: it reads and removes it
alone. The row says who still has one; it goes with the last of them. What each entry has before the payload, its head,
goes with the row as well.

The rows are in memory without their payloads and heads. What is changed there is written before a commit.
"""

from __future__ import annotations

import sqlite3
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from heapq import merge
from zlib import crc32

import msgspec
from msgspec import Struct

from bussrv.spool.accounts import Account
from bussrv.spool.entries import AppendToAll
from bussrv.spool.file import SpoolDamaged
from bussrv.spool.undo import UndoLog

_Heads = tuple[list[bytes], list[int]]
"""Heads that differ, and by place which of them the entry has."""

_encode_heads = msgspec.msgpack.Encoder().encode
_decode_heads = msgspec.msgpack.Decoder(_Heads).decode


class Audience(Struct, eq=False):
    """The owners of rows, in their order: each has a *place*. Many rows have the same audience.

    :ivar ids: those of their accounts, as the file has them.
    :ivar accounts: ``None``: there was none.
    :ivar first: by place, the number of a row; the owner has no entry of earlier ones.
    :ivar rows: in the order of their numbers.
    """

    ids: bytes
    accounts: list[Account | None]
    first: list[int]
    rows: list[CommonRow] = []


class CommonRow(Struct, eq=False):
    """A row.

    :ivar number: that of the first entry.
    :ivar size: the bytes that each entry counts.
    :ivar waits: by place, whether the owner still has its entry.
    :ivar left: how many of them do.
    """

    number: int
    kind: str
    expires: int | None
    size: int
    audience: Audience
    waits: bytearray
    left: int


Found = tuple[CommonRow, int]
"""An entry: its row, and the place of its owner."""


class CommonRows:
    """The rows of one spool.

    :param undo: takes every change of them back.
    """

    def __init__(self, execute: Callable[..., sqlite3.Cursor], undo: UndoLog) -> None:
        self._execute = execute
        self._undo = undo
        self._audiences: dict[bytes, Audience] = {}
        self._rows: dict[int, CommonRow] = {}
        self._changed: dict[int, CommonRow] = {}
        self._finished: list[CommonRow] = []

    def load(self, accounts: dict[int, Account]) -> Iterator[tuple[CommonRow, Account]]:
        """Read all rows.

        :returns: them, each with those who have an entry of it.
        """
        rows = self._execute(
            "SELECT number, kind, expires, size, owners, waits FROM common JOIN waiting USING (number) ORDER BY number"
        )
        for number, kind, expires, size, ids, waits in rows.fetchall():
            audience = self._audience(ids, [accounts.get(each) for each in array("q", ids)])
            row = CommonRow(number, kind, expires, size, audience, bytearray(waits), 0)
            self._rows[number] = row
            audience.rows.append(row)
            for _, account in self.having(row):
                row.left += 1
                yield row, account

    def add(self, change: AppendToAll, accounts: list[Account | None], waits: bytearray, size: int) -> int:
        """Add a row for owners. :returns: its number."""
        ids = array("q", [0 if each is None else each.id for each in accounts]).tobytes()
        self._execute("UPDATE sqlite_sequence SET seq = seq + ? WHERE name = 'entry'", (len(accounts),))
        (last,) = self._execute("SELECT seq FROM sqlite_sequence WHERE name = 'entry'").fetchone()
        number: int = last - len(accounts) + 1
        heads = _packed_heads(change.heads)
        digest = crc32(change.payload, crc32(heads))
        self._execute(
            "INSERT INTO common (number, kind, expires, size, owners, heads, digest, payload)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (number, change.kind, change.expires, size, ids, heads, digest, change.payload),
        )
        self._execute("INSERT INTO waiting (number, waits) VALUES (?, ?)", (number, waits))
        audience = self._audience(ids, accounts)
        row = CommonRow(number, change.kind, change.expires, size, audience, waits, sum(waits))
        self._rows[number] = row
        audience.rows.append(row)
        self._undo.note(self._take_back, row)
        if not row.left:
            self._changed[number] = row
        return number

    def read(self, row: CommonRow, place: int) -> bytes:
        """The payload of an entry, with its head. :raises SpoolDamaged: it is not what was written."""
        heads, digest, payload = self._execute(
            "SELECT heads, digest, payload FROM common WHERE number = ?", (row.number,)
        ).fetchone()
        if crc32(payload, crc32(heads)) != digest:
            raise SpoolDamaged(f"entry {row.number + place} is not what was written")
        different, which = _decode_heads(heads)
        head = different[which[place] if which else 0]
        entry: bytes = head + payload
        return entry

    def find(self, account: Account, kind: str, number: int) -> Found | None:
        """The entry of an owner with a number."""
        for audience, place in account.places.items():
            row = self._rows.get(number - place)
            if row is not None and row.audience is audience and row.kind == kind and row.waits[place]:
                return row, place
        return None

    def of(self, account: Account, kind: str | None = None, after: int = 0) -> Iterator[Found]:
        """The entries of an owner after a number, in their order. Removing those that came does no harm.

        :param kind: ``None``: of every kind.
        """
        each = [self._in(audience, place, kind, after) for audience, place in account.places.items()]
        return each[0] if len(each) == 1 else merge(*each, key=number_of)

    def oldest(self, account: Account, kind: str) -> Found | None:
        """The first entry of an owner."""
        found: Found | None = None
        for audience, place in account.places.items():
            rows, at = audience.rows, _begin(audience, place)
            while at < len(rows) and not (rows[at].waits[place] and rows[at].kind == kind):
                at += 1
            if at < len(rows) and (found is None or rows[at].number + place < number_of(found)):
                found = rows[at], place
        return found

    def having(self, row: CommonRow) -> Iterator[tuple[int, Account]]:
        """The owners that have an entry of a row, each with its place."""
        for place, account in enumerate(row.audience.accounts):
            if account is not None and row.waits[place]:
                yield place, account

    def expired(self, now: int) -> Iterator[CommonRow]:
        """The rows that have expired, the first ones first."""
        rows = self._execute("SELECT number FROM common WHERE expires <= ? ORDER BY expires", (now,)).fetchall()
        return (self._rows[number] for (number,) in rows)

    def next_expiry(self) -> int | None:
        """When the next row expires, in UTC microseconds; ``None``: none does."""
        self.write()
        expires: int | None
        (expires,) = self._execute("SELECT min(expires) FROM common WHERE expires IS NOT NULL").fetchone()
        return expires

    def remove(self, row: CommonRow, place: int) -> None:
        """An owner does not have its entry any more."""
        row.waits[place] = 0
        row.left -= 1
        self._changed[row.number] = row
        self._undo.note(self._restore, row, place)

    def remove_all(self, account: Account) -> None:
        """An owner has no entries any more."""
        for audience, place in account.places.items():
            for row in audience.rows:
                if row.waits[place]:
                    self.remove(row, place)

    def write(self) -> None:
        """Write what was changed. Rows that nobody has any more are removed."""
        for row in self._changed.values():
            if row.left:
                self._execute("UPDATE waiting SET waits = ? WHERE number = ?", (row.waits, row.number))
            else:
                self._execute("DELETE FROM common WHERE number = ?", (row.number,))
                self._execute("DELETE FROM waiting WHERE number = ?", (row.number,))
                self._finished.append(row)
        self._changed.clear()

    def committed(self) -> None:
        """What was written is on the disk."""
        for row in self._finished:
            self._forget(row)
        self._finished.clear()

    def rolled_back(self) -> None:
        """What was written is not in the file, and was taken back here."""
        self._changed.clear()
        self._finished.clear()

    def _in(self, audience: Audience, place: int, kind: str | None, after: int) -> Iterator[Found]:
        rows = audience.rows
        at = max(_begin(audience, place), bisect_right(rows, after - place, key=_number))
        while at < len(rows):
            row = rows[at]
            if row.waits[place] and kind in (row.kind, None):
                yield row, place
            at += 1

    def _audience(self, ids: bytes, accounts: list[Account | None]) -> Audience:
        found = self._audiences.get(ids)
        if found is None:
            found = self._audiences[ids] = Audience(ids, accounts, [0] * len(accounts))
            for place, account in enumerate(accounts):
                if account is not None:
                    account.places[found] = place
        return found

    def _forget(self, row: CommonRow) -> None:
        audience = row.audience
        del self._rows[row.number]
        del audience.rows[bisect_left(audience.rows, row.number, key=_number)]
        if not audience.rows:
            del self._audiences[audience.ids]
            for account in audience.accounts:
                if account is not None:
                    del account.places[audience]

    def _take_back(self, row: CommonRow) -> None:
        """It is not added. Its number may be given to the next one."""
        self._forget(row)
        self._changed.pop(row.number, None)
        row.audience.first = [min(each, row.number) for each in row.audience.first]

    def _restore(self, row: CommonRow, place: int) -> None:
        row.waits[place] = 1
        row.left += 1
        row.audience.first[place] = min(row.audience.first[place], row.number)


def _begin(audience: Audience, place: int) -> int:
    """Where the first row is of which an owner has its entry."""
    rows = audience.rows
    if rows and rows[0].waits[place]:
        return 0
    at = bisect_left(rows, audience.first[place], key=_number)
    while at < len(rows) and not rows[at].waits[place]:
        at += 1
    if rows:
        audience.first[place] = rows[at].number if at < len(rows) else rows[-1].number + 1
    return at


def number_of(found: Found) -> int:
    """The number of an entry."""
    row, place = found
    return row.number + place


def _number(row: CommonRow) -> int:
    return row.number


def _packed_heads(heads: tuple[bytes, ...]) -> bytes:
    different = {head: at for at, head in enumerate(dict.fromkeys(heads))}
    return _encode_heads(([*map(bytes, different)], [different[head] for head in heads] if len(different) > 1 else []))
