"""Owners and entries as tables: each change, each reading. For one thread.

Changes are made between :meth:`SpoolStore.begin` and :meth:`SpoolStore.commit`, those of several callers together.
Readings in between have what was changed before them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

from msgspec.structs import replace

from bussrv.errors import OverLimit
from bussrv.settings import Settings
from bussrv.spool.accounts import ENTRY_BYTES, OWNER_BYTES, Account, Accounts, host_in
from bussrv.spool.entries import (
    Append,
    Change,
    Claim,
    Drop,
    DropsTold,
    Entry,
    Owner,
    Page,
    Put,
    Remove,
    RemoveKey,
    RemoveUpTo,
    Replace,
    Written,
)
from bussrv.spool.file import SpoolDamaged

MOST_EXPIRED = 1000
"""So many entries that expired are removed in one commit."""

MOST_VACUUMED = 1000
"""So many free pages are given back to the disk at a time."""

_WHERE = "FROM entry WHERE owner = ? AND kind = ?"


class SpoolStore:
    """The tables of a spool, and the accounts of them.

    Every method raises :class:`sqlite3.Error` as SQLite does.

    :param utc: the present time, UTC microseconds.
    :ivar has_removed: whether bytes of removed entries may be in the file until :meth:`tidy`.
    :ivar is_frayed: whether copies of short ones may be there until :meth:`rewrite`.
    """

    def __init__(self, connection: sqlite3.Connection, settings: Settings, utc: Callable[[], int]) -> None:
        self.has_removed = self.is_frayed = True
        self._connection = connection
        self._execute = connection.execute
        self._settings = settings
        self._utc = utc
        self._version = -1
        self._accounts = Accounts(settings)
        self._is_recounted = True
        self._do: dict[type[Change], Callable[[Any, list[int]], int]] = {
            Claim: self._claim,
            Append: self._append,
            Replace: self._replace,
            Put: self._put,
            Remove: self._remove,
            RemoveKey: self._remove_key,
            RemoveUpTo: self._remove_up_to,
            DropsTold: self._drops_told,
            Drop: self._drop,
        }

    @property
    def is_counted(self) -> bool:
        """Whether all owners are known: not before the first :meth:`begin` that succeeded."""
        return self._version != -1

    @property
    def kept(self) -> int:
        """The bytes of all owners, as they count against the limits."""
        return self._accounts.total

    def take_changed(self) -> tuple[bool, dict[str, int]]:
        """How many entries owners have whose entries were changed by commits since this was called last.

        :returns: whether the others have none, because all were counted anew; and the owners that changed.
        """
        is_new, self._is_recounted = self._is_recounted, False
        return is_new, self._accounts.take_changed()

    def begin(self) -> None:
        """Begin a transaction. No other process changes the spool during it; what one changed before is known."""
        self._execute("BEGIN IMMEDIATE")
        (version,) = self._execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._load()
            self._version = version

    def commit(self) -> None:
        """Return when all changes since :meth:`begin` are on the disk."""
        self._execute("COMMIT")
        self._accounts.keep()

    def rollback(self) -> None:
        """Take them back."""
        self._accounts.undo()
        if self._connection.in_transaction:
            self._execute("ROLLBACK")

    def apply(self, changes: Sequence[Change]) -> Written:
        """Make all of some changes, or none if one of them fails.

        :raises bussrv.errors.Refused: ``spool-full`` or ``no-such-owner``.
        """
        numbers: list[int] = []
        dropped, mark = 0, self._accounts.mark()
        self._execute("SAVEPOINT changes")
        try:
            for change in changes:
                dropped += self._do[type(change)](change, numbers)
        except BaseException:
            self._accounts.undo(mark)
            # Some errors have ended the transaction already.
            if self._connection.in_transaction:
                self._execute("ROLLBACK TO changes")
            raise
        finally:
            if self._connection.in_transaction:
                self._execute("RELEASE changes")
        return Written(tuple(numbers), dropped)

    def page(self, owner: str, kind: str, after: int, most: int, most_bytes: int) -> Page:
        """Entries that have not expired, see :meth:`bussrv.spool.interfaces.ISpool.page`.

        :raises SpoolDamaged: the payload of one of them is not what was written.
        """
        found: list[Entry] = []
        size = 0
        rows = self._execute(
            f"SELECT number, key, payload, expires, digest {_WHERE} AND number > ? AND (expires IS NULL OR expires > ?)"
            " ORDER BY number",
            (self._id(owner), kind, after, self._utc()),
        )
        try:
            for number, key, payload, expires, digest in rows:
                size += len(payload)
                if len(found) >= most or (found and size > most_bytes):
                    return Page(tuple(found), False)
                if crc32(payload) != digest:
                    raise SpoolDamaged(f"entry {number} is not what was written")
                found.append(Entry(number, key, payload, expires))
        finally:
            rows.close()
        return Page(tuple(found), True)

    def owners(self, after: str, most: int) -> tuple[str, ...]:
        """Owners in the order of their keys, see :meth:`bussrv.spool.interfaces.ISpool.owners`."""
        rows = self._execute("SELECT owner FROM owner WHERE owner > ? ORDER BY owner LIMIT ?", (after, most))
        return tuple(owner for (owner,) in rows.fetchall())

    def owner(self, owner: str) -> Owner | None:
        """An owner; ``None``: nothing is kept for it."""
        account = self._accounts.find(owner)
        if account is None:
            return None
        (actor,) = self._execute("SELECT actor FROM owner WHERE id = ?", (account.id,)).fetchone()
        kinds = self._execute("SELECT kind, count(*) FROM entry WHERE owner = ? GROUP BY kind", (account.id,))
        return Owner(
            owner=owner,
            address=account.address,
            actor=actor,
            drops_oldest=account.drops_oldest,
            bytes=account.bytes,
            kinds=dict(kinds.fetchall()),
            dropped=account.dropped,
        )

    def expire(self) -> int:
        """Remove entries that have expired. :returns: how many; if ``MOST_EXPIRED``, there may be more."""
        rows = self._execute(
            "SELECT e.number, e.size, o.owner FROM entry e JOIN owner o ON o.id = e.owner"
            " WHERE e.expires <= ? ORDER BY e.expires LIMIT ?",
            (self._utc(), MOST_EXPIRED),
        ).fetchall()
        for number, size, owner in rows:
            self._delete(owner, number, size)
        return len(rows)

    def next_expiry(self) -> int | None:
        """When the next entry expires, in UTC microseconds; ``None``: none does."""
        expires: int | None = self._execute("SELECT min(expires) FROM entry WHERE expires IS NOT NULL").fetchone()[0]
        return expires

    def remove_owners(self, *, actor: str | None, address: str | None, owner: str | None) -> tuple[int, int]:
        """Remove the owners with an actor, or an address, or a key. :returns: how many, and how many entries."""
        rows = self._execute(
            "SELECT owner FROM owner WHERE actor = ? OR address = ? OR owner = ?", (actor, address, owner)
        ).fetchall()
        entries = 0
        for (each,) in rows:
            entries += self._accounts.of(each).entries
            self.apply([Drop(owner=each)])
        return len(rows), entries

    def tidy(self) -> bool:
        """Give free pages back to the disk, and remove the bytes of removed entries from the files.

        :returns: whether that is done; otherwise another process was reading, or there is more to give back.
        """
        # Each step is a page, and `execute` would make one of them.
        self._connection.executescript(f"PRAGMA incremental_vacuum({MOST_VACUUMED})")
        (busy, _, _) = self._execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        (free,) = self._execute("PRAGMA freelist_count").fetchone()
        self.has_removed = bool(busy or free)
        return not self.has_removed

    def rewrite(self) -> None:
        """Write the whole file anew: as small as it can be, with nothing of removed entries.

        An entry that is removed is overwritten with zeros. But SQLite may have moved a short one between pages before,
        and leaves copies behind. It takes as much memory as the file has bytes.
        """
        self._execute("VACUUM")
        self.tidy()
        self.is_frayed = False

    def size(self) -> int:
        """How many bytes the file has."""
        (pages,) = self._execute("PRAGMA page_count").fetchone()
        (size,) = self._execute("PRAGMA page_size").fetchone()
        return int(pages * size)

    def probe(self) -> None:
        """Write something that changes nothing, to see whether that is possible."""
        (version,) = self._execute("PRAGMA user_version").fetchone()
        self._execute(f"PRAGMA user_version = {version}")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _load(self) -> None:
        """Count what is in the tables: at the beginning, and when another process removed something."""
        self.has_removed = self.is_frayed = True
        self._version = -1
        self._is_recounted = True
        self._accounts = Accounts(self._settings)
        rows = self._execute(
            "SELECT o.owner, o.id, o.address, o.drops_oldest, o.dropped, count(e.number), coalesce(sum(e.size), 0)"
            " FROM owner o LEFT JOIN entry e INDEXED BY entry_order ON e.owner = o.id GROUP BY o.id"
        )
        for owner, id_, address, drops_oldest, dropped, entries, size in rows:
            account = Account(id_, address, bool(drops_oldest), dropped, entries, OWNER_BYTES + size)
            self._accounts.set(owner, account)
        self._accounts.keep()

    def _id(self, owner: str) -> int:
        account = self._accounts.find(owner)
        return 0 if account is None else account.id

    def _claim(self, change: Claim, numbers: list[int]) -> int:
        address = host_in(change.address)
        before = self._accounts.find(change.owner)
        row = (address, change.actor, change.drops_oldest, change.owner)
        if before is None:
            self._check_room(Account(0, address, change.drops_oldest, 0, 0, 0), OWNER_BYTES)
            found = self._execute(
                "INSERT INTO owner (address, actor, drops_oldest, owner, dropped) VALUES (?, ?, ?, ?, 0)", row
            )
            self._accounts.set(change.owner, Account(found.lastrowid or 0, address, change.drops_oldest, 0))
        else:
            self._execute("UPDATE owner SET address = ?, actor = ?, drops_oldest = ? WHERE owner = ?", row)
            self._accounts.set(change.owner, replace(before, address=address, drops_oldest=change.drops_oldest))
        return 0

    def _append(self, change: Append, numbers: list[int]) -> int:
        size = ENTRY_BYTES + len(change.payload)
        if change.or_drop and self._accounts.find(change.owner) is None:
            numbers.append(0)
            return 1
        dropped, excess = self._make_room(change, size)
        if excess is None:
            numbers.append(self._insert(change, None, size))
        elif change.or_drop:
            numbers.append(0)
            dropped += 1
        else:
            raise excess
        if dropped:
            self._set_dropped(change.owner, self._accounts.of(change.owner).dropped + dropped)
        return dropped

    def _replace(self, change: Replace, numbers: list[int]) -> int:
        account = self._accounts.find(change.owner)
        if account is None:
            return 0
        found = self._execute(
            f"SELECT size, length(payload) {_WHERE} AND number = ?", (account.id, change.kind, change.number)
        ).fetchone()
        if found is not None:
            size, length = found
            self._rewrite(change, account, change.number, size, size - length + len(change.payload))
        return 0

    def _rewrite(self, change: Replace | Put, account: Account, number: int, before: int, size: int) -> None:
        """Give an entry that has ``before`` bytes another payload."""
        self._check_room(account, size - before)
        self._execute(
            "UPDATE entry SET size = ?, digest = ?, payload = ? WHERE number = ?",
            (size, crc32(change.payload), change.payload, number),
        )
        self.has_removed = self.is_frayed = True
        self._add(change.owner, 0, size - before)

    def _insert(self, change: Append | Put, key: str | None, size: int) -> int:
        account = self._accounts.of(change.owner)
        found = self._execute(
            "INSERT INTO entry (owner, kind, key, expires, size, digest, payload) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (account.id, change.kind, key, change.expires, size, crc32(change.payload), change.payload),
        )
        self._add(change.owner, 1, size)
        return found.lastrowid or 0

    def _make_room(self, change: Append, size: int) -> tuple[int, OverLimit | None]:
        """Drop the oldest entries of an owner until there is room for one, if it wants that.

        :returns: how many; and the limit that leaves no room all the same.
        """
        dropped = 0
        account = self._accounts.of(change.owner)
        # Nothing is dropped for what has no room even alone.
        others = account.bytes - OWNER_BYTES
        excess = self._accounts.excess(account, 1 - account.entries, size - others)
        if excess is not None:
            return 0, excess
        while (excess := self._accounts.excess(account, 1, size)) is not None:
            row = self._oldest(account, change.kind) if account.drops_oldest else None
            if row is None:
                return dropped, excess
            self._delete(change.owner, *row)
            account = self._accounts.of(change.owner)
            dropped += 1
        return dropped, None

    def _oldest(self, account: Account, kind: str) -> tuple[int, int] | None:
        oldest = self._execute(f"SELECT number, size {_WHERE} ORDER BY number LIMIT 1", (account.id, kind))
        found: tuple[int, int] | None = oldest.fetchone()
        return found

    def _put(self, change: Put, numbers: list[int]) -> int:
        if change.or_drop and self._accounts.find(change.owner) is None:
            numbers.append(0)
            return 1
        account = self._accounts.of(change.owner)
        size = ENTRY_BYTES + len(change.key.encode()) + len(change.payload)
        row = self._find_key(account, change)
        if row is None:
            self._check_room(account, size, 1)
            numbers.append(self._insert(change, change.key, size))
            return 0
        number, before = row
        self._rewrite(change, account, number, before, size)
        self._execute("UPDATE entry SET expires = ? WHERE number = ?", (change.expires, number))
        numbers.append(number)
        return 0

    def _find_key(self, account: Account, change: Put | RemoveKey) -> tuple[int, int] | None:
        found: tuple[int, int] | None = self._execute(
            f"SELECT number, size {_WHERE} AND key = ?", (account.id, change.kind, change.key)
        ).fetchone()
        return found

    def _check_room(self, account: Account, size: int, entries: int = 0) -> None:
        excess = self._accounts.excess(account, entries, size)
        if excess is not None:
            raise excess

    def _remove(self, change: Remove, numbers: list[int]) -> int:
        return self._delete_where("number = ?", change)

    def _remove_key(self, change: RemoveKey, numbers: list[int]) -> int:
        account = self._accounts.find(change.owner)
        row = None if account is None else self._find_key(account, change)
        if row is not None:
            self._delete(change.owner, *row)
        return 0

    def _remove_up_to(self, change: RemoveUpTo, numbers: list[int]) -> int:
        return self._delete_where("number <= ?", change)

    def _delete_where(self, which: str, change: Remove | RemoveUpTo) -> int:
        parameters = (self._id(change.owner), change.kind, change.number)
        found = self._execute(f"SELECT count(*), coalesce(sum(size), 0) {_WHERE} AND {which}", parameters)
        count, size = found.fetchone()
        if count:
            self._execute(f"DELETE {_WHERE} AND {which}", parameters)
            self._add(change.owner, -count, -size)
            self.has_removed = self.is_frayed = True
        return 0

    def _drops_told(self, change: DropsTold, numbers: list[int]) -> int:
        account = self._accounts.find(change.owner)
        if account is not None:
            self._set_dropped(change.owner, max(0, account.dropped - change.count))
        return 0

    def _set_dropped(self, owner: str, dropped: int) -> None:
        account = self._accounts.of(owner)
        self._execute("UPDATE owner SET dropped = ? WHERE id = ?", (dropped, account.id))
        self._accounts.set(owner, replace(account, dropped=dropped))

    def _drop(self, change: Drop, numbers: list[int]) -> int:
        account = self._accounts.find(change.owner)
        if account is not None:
            self._execute("DELETE FROM entry WHERE owner = ?", (account.id,))
            self._execute("DELETE FROM owner WHERE id = ?", (account.id,))
            self._accounts.set(change.owner, None)
            self.has_removed = self.is_frayed = True
        return 0

    def _delete(self, owner: str, number: int, size: int) -> None:
        self._execute("DELETE FROM entry WHERE number = ?", (number,))
        self._add(owner, -1, -size)
        self.has_removed = self.is_frayed = True

    def _add(self, owner: str, entries: int, size: int) -> None:
        account = self._accounts.of(owner)
        self._accounts.set(owner, replace(account, entries=account.entries + entries, bytes=account.bytes + size))
