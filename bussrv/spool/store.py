"""A spool as transactions: what is changed in one, what is read, what expires, and the file tidied up. For one thread.

Changes are made between :meth:`SpoolStore.begin` and :meth:`SpoolStore.commit`, those of several callers together.
Readings in between have what was changed before them.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from operator import attrgetter
from zlib import crc32

from bussrv.settings import Settings
from bussrv.spool.accounts import OWNER_BYTES, Account, Accounts
from bussrv.spool.entries import (
    Change,
    Drop,
    Entry,
    Owner,
    Page,
    Written,
)
from bussrv.spool.file import SpoolDamaged
from bussrv.spool.tables import WHERE, Tables, opened
from bussrv.spool.undo import UndoLog

MOST_EXPIRED = 1000
"""So many entries that expired are removed in one commit."""

MOST_VACUUMED = 1000
"""So many free pages are given back to the disk at a time."""


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
        self._undo = UndoLog()
        self._tables = self._new_tables()
        self._is_recounted = True

    @property
    def is_counted(self) -> bool:
        """Whether all owners are known: not before the first :meth:`begin` that succeeded."""
        return self._version != -1

    @property
    def kept(self) -> int:
        """The bytes of all owners, as they count against the limits."""
        return self._tables.accounts.total

    def take_changed(self) -> tuple[bool, dict[str, int]]:
        """How many entries owners have whose entries were changed by commits since this was called last.

        :returns: whether the others have none, because all were counted anew; and the owners that changed.
        """
        is_new, self._is_recounted = self._is_recounted, False
        return is_new, self._tables.accounts.take_changed()

    def begin(self) -> None:
        """Begin a transaction. No other process changes the spool during it; what one changed before is known."""
        self._execute("BEGIN IMMEDIATE")
        (version,) = self._execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._load()
            self._version = version

    def commit(self) -> None:
        """Return when all changes since :meth:`begin` are on the disk."""
        self._tables.common.write()
        counts = [(each.dropped, each.id) for each in self._tables.dropped]
        self._connection.executemany("UPDATE owner SET dropped = ? WHERE id = ?", counts)
        self._execute("COMMIT")
        self._tables.common.committed()
        self._tables.dropped.clear()
        self._undo.keep()

    def rollback(self) -> None:
        """Take them back."""
        self._undo.back_to(0)
        self._tables.common.rolled_back()
        self._tables.dropped.clear()
        if self._connection.in_transaction:
            self._execute("ROLLBACK")

    def apply(self, changes: Sequence[Change]) -> Written:
        """Make all of some changes, or none if one of them fails.

        :raises bussrv.errors.Refused: ``spool-full`` or ``no-such-owner``.
        """
        numbers: list[int] = []
        dropped, mark = 0, self._undo.mark()
        self._execute("SAVEPOINT changes")
        try:
            for change in changes:
                dropped += self._tables.change(change, numbers)
        except BaseException:
            self._undo.back_to(mark)
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
        for entry in self._entries(owner, kind, after):
            size += len(entry.payload)
            if len(found) >= most or (found and size > most_bytes):
                return Page(tuple(found), False)
            found.append(entry)
        return Page(tuple(found), True)

    def _entries(self, owner: str, kind: str, after: int) -> Iterator[Entry]:
        """The entries after a number that have not expired, in their order."""
        account, now = self._tables.accounts.find(owner), self._utc()
        if account is None:
            return iter(())
        return merge(
            self._own_entries(account, kind, after, now),
            self._common_entries(account, kind, after, now),
            key=attrgetter("number"),
        )

    def _own_entries(self, account: Account, kind: str, after: int, now: int) -> Iterator[Entry]:
        rows = self._execute(
            f"SELECT number, key, payload, expires, digest {WHERE} AND number > ? AND (expires IS NULL OR expires > ?)"
            " ORDER BY number",
            (account.id, kind, after, now),
        )
        try:
            for number, key, payload, expires, digest in rows:
                if crc32(payload) != digest:
                    raise SpoolDamaged(f"entry {number} is not what was written")
                yield Entry(number, key, payload, expires)
        finally:
            rows.close()

    def _common_entries(self, account: Account, kind: str, after: int, now: int) -> Iterator[Entry]:
        for row, place in self._tables.common.of(account, kind, after):
            if row.expires is None or row.expires > now:
                yield Entry(row.number + place, None, self._tables.common.read(row, place), row.expires)

    def owners(self, after: str, most: int) -> tuple[str, ...]:
        """Owners in the order of their keys, see :meth:`bussrv.spool.interfaces.ISpool.owners`."""
        rows = self._execute("SELECT owner FROM owner WHERE owner > ? ORDER BY owner LIMIT ?", (after, most))
        return tuple(owner for (owner,) in rows.fetchall())

    def owner(self, owner: str) -> Owner | None:
        """An owner; ``None``: nothing is kept for it."""
        account = self._tables.accounts.find(owner)
        if account is None:
            return None
        (actor,) = self._execute("SELECT actor FROM owner WHERE id = ?", (account.id,)).fetchone()
        rows = self._execute("SELECT kind, count(*) FROM entry WHERE owner = ? GROUP BY kind", (account.id,))
        kinds = Counter(dict(rows.fetchall()))
        kinds.update(row.kind for row, _ in self._tables.common.of(account))
        return Owner(
            owner=owner,
            address=account.address,
            actor=actor,
            drops_oldest=account.drops_oldest,
            bytes=account.bytes,
            kinds=dict(kinds),
            dropped=account.dropped,
        )

    def expire(self) -> int:
        """Remove entries that have expired. :returns: how many; if ``MOST_EXPIRED`` or more, there may be more."""
        now = self._utc()
        rows = self._execute(
            "SELECT e.number, e.size, o.owner FROM entry e JOIN owner o ON o.id = e.owner"
            " WHERE e.expires <= ? ORDER BY e.expires LIMIT ?",
            (now, MOST_EXPIRED),
        ).fetchall()
        for number, size, owner in rows:
            self._tables.remove(self._tables.accounts.of(owner), number, size)
        count = len(rows)
        for row in self._tables.common.expired(now):
            if count >= MOST_EXPIRED:
                break
            for place, account in self._tables.common.having(row):
                self._tables.remove_common(account, row, place)
                count += 1
        return count

    def next_expiry(self) -> int | None:
        """When the next entry expires, in UTC microseconds; ``None``: none does."""
        (own,) = self._execute("SELECT min(expires) FROM entry WHERE expires IS NOT NULL").fetchone()
        return min((each for each in (own, self._tables.common.next_expiry()) if each is not None), default=None)

    def remove_owners(self, *, actor: str | None, address: str | None, owner: str | None) -> tuple[int, int]:
        """Remove the owners with an actor, or an address, or a key. :returns: how many, and how many entries."""
        rows = self._execute(
            "SELECT owner FROM owner WHERE actor = ? OR address = ? OR owner = ?", (actor, address, owner)
        ).fetchall()
        entries = 0
        for (each,) in rows:
            entries += self._tables.accounts.of(each).entries
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

    def _new_tables(self) -> Tables:
        return Tables(self._execute, Accounts(self._settings, self._undo), self._undo, self._removed)

    def _removed(self) -> None:
        self.has_removed = self.is_frayed = True

    def _load(self) -> None:
        """Count what is in the tables: at the beginning, and when another process removed something."""
        self.has_removed = self.is_frayed = True
        self._version = -1
        self._is_recounted = True
        self._tables = self._new_tables()
        rows = self._execute(
            "SELECT o.owner, o.id, o.address, o.drops_oldest, o.dropped, count(e.number), coalesce(sum(e.size), 0)"
            " FROM owner o LEFT JOIN entry e INDEXED BY entry_order ON e.owner = o.id GROUP BY o.id"
        )
        accounts: dict[int, Account] = {}
        for owner, id_, address, drops_oldest, dropped, entries, size in rows:
            found = opened(owner, id_, address, drops_oldest=bool(drops_oldest))
            found.dropped, found.entries, found.bytes = dropped, entries, OWNER_BYTES + size
            accounts[id_] = found
        for row, account in self._tables.common.load(accounts):
            account.entries += 1
            account.bytes += row.size
        for each in accounts.values():
            self._tables.accounts.open(each)
        self._undo.keep()
