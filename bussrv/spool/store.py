"""Owners and entries as tables: each change, each reading. For one thread.

Changes are made between :meth:`SpoolStore.begin` and :meth:`SpoolStore.commit`, those of several callers together.
Readings in between have what was changed before them.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from operator import attrgetter
from typing import Any
from zlib import crc32

from bussrv.addresses import address_key
from bussrv.settings import Settings
from bussrv.spool.accounts import ENTRY_BYTES, OWNER_BYTES, Account, Accounts, Excess, host_in, over
from bussrv.spool.common import CommonRow, CommonRows, number_of
from bussrv.spool.entries import (
    Append,
    AppendToAll,
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
from bussrv.spool.undo import UndoLog

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
        self._undo = UndoLog()
        self._accounts = Accounts(settings, self._undo)
        self._common = CommonRows(connection.execute, self._undo)
        self._is_recounted = True
        self._dropped: dict[Account, None] = {}  # their counts of dropped entries are not written yet
        self._do: dict[type[Change], Callable[[Any, list[int]], int]] = {
            Claim: self._claim,
            Append: self._append,
            AppendToAll: self._append_to_all,
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
        self._common.write()
        counts = [(each.dropped, each.id) for each in self._dropped]
        self._connection.executemany("UPDATE owner SET dropped = ? WHERE id = ?", counts)
        self._execute("COMMIT")
        self._common.committed()
        self._dropped.clear()
        self._undo.keep()

    def rollback(self) -> None:
        """Take them back."""
        self._undo.back_to(0)
        self._common.rolled_back()
        self._dropped.clear()
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
                dropped += self._do[type(change)](change, numbers)
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
        account, now = self._accounts.find(owner), self._utc()
        if account is None:
            return iter(())
        return merge(
            self._own_entries(account, kind, after, now),
            self._common_entries(account, kind, after, now),
            key=attrgetter("number"),
        )

    def _own_entries(self, account: Account, kind: str, after: int, now: int) -> Iterator[Entry]:
        rows = self._execute(
            f"SELECT number, key, payload, expires, digest {_WHERE} AND number > ? AND (expires IS NULL OR expires > ?)"
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
        for row, place in self._common.of(account, kind, after):
            if row.expires is None or row.expires > now:
                yield Entry(row.number + place, None, self._common.read(row, place), row.expires)

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
        rows = self._execute("SELECT kind, count(*) FROM entry WHERE owner = ? GROUP BY kind", (account.id,))
        kinds = Counter(dict(rows.fetchall()))
        kinds.update(row.kind for row, _ in self._common.of(account))
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
            self._delete(self._accounts.of(owner), number, size)
        count = len(rows)
        for row in self._common.expired(now):
            if count >= MOST_EXPIRED:
                break
            for place, account in self._common.having(row):
                self._remove_common(account, row, place)
                count += 1
        return count

    def next_expiry(self) -> int | None:
        """When the next entry expires, in UTC microseconds; ``None``: none does."""
        (own,) = self._execute("SELECT min(expires) FROM entry WHERE expires IS NOT NULL").fetchone()
        return min((each for each in (own, self._common.next_expiry()) if each is not None), default=None)

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
        self._accounts = Accounts(self._settings, self._undo)
        self._common = CommonRows(self._execute, self._undo)
        rows = self._execute(
            "SELECT o.owner, o.id, o.address, o.drops_oldest, o.dropped, count(e.number), coalesce(sum(e.size), 0)"
            " FROM owner o LEFT JOIN entry e INDEXED BY entry_order ON e.owner = o.id GROUP BY o.id"
        )
        accounts: dict[int, Account] = {}
        for owner, id_, address, drops_oldest, dropped, entries, size in rows:
            found = _account(owner, id_, address, drops_oldest=bool(drops_oldest))
            found.dropped, found.entries, found.bytes = dropped, entries, OWNER_BYTES + size
            accounts[id_] = found
        for row, account in self._common.load(accounts):
            account.entries += 1
            account.bytes += row.size
        for each in accounts.values():
            self._accounts.open(each)
        self._undo.keep()

    def _claim(self, change: Claim, numbers: list[int]) -> int:
        address = host_in(change.address)
        before = self._accounts.find(change.owner)
        row = (address, change.actor, change.drops_oldest, change.owner)
        if before is None:
            account = _account(change.owner, 0, address, drops_oldest=change.drops_oldest)
            self._check_room(account, OWNER_BYTES)
            found = self._execute(
                "INSERT INTO owner (address, actor, drops_oldest, owner, dropped) VALUES (?, ?, ?, ?, 0)", row
            )
            account.id = found.lastrowid or 0
            self._accounts.open(account)
        else:
            self._execute("UPDATE owner SET address = ?, actor = ?, drops_oldest = ? WHERE owner = ?", row)
            self._accounts.move(before, address, drops_oldest=change.drops_oldest)
        return 0

    def _append(self, change: Append, numbers: list[int]) -> int:
        size = ENTRY_BYTES + len(change.payload)
        account = self._accounts.find(change.owner) if change.or_drop else self._accounts.of(change.owner)
        if account is None:
            numbers.append(0)
            return 1
        dropped, excess = self._make_room(account, change.kind, size)
        if excess is None:
            numbers.append(self._insert(account, change, size))
        elif change.or_drop:
            numbers.append(0)
            dropped += 1
        else:
            raise over(excess)
        self._count_dropped(account, dropped)
        return dropped

    def _append_to_all(self, change: AppendToAll, numbers: list[int]) -> int:
        accounts = [*map(self._accounts.find, change.owners)]
        size = ENTRY_BYTES + max(map(len, change.heads)) + len(change.payload)
        waits, all_dropped = self._accounts.add_to_all(accounts, size), 0
        for place in [each for each, has_got in enumerate(waits) if not has_got]:
            account = accounts[place]
            if account is None:
                all_dropped += 1
                continue
            dropped, excess = self._make_room(account, change.kind, size)
            if excess is None:
                waits[place] = 1
                self._accounts.add(account, 1, size)
            else:
                dropped += 1
            self._count_dropped(account, dropped)
            all_dropped += dropped
        numbers.append(self._common.add(change, accounts, waits, size))
        return all_dropped

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
        else:
            self._replace_common(change, account)
        return 0

    def _replace_common(self, change: Replace, account: Account) -> None:
        """An entry that has another payload is one of the owner alone from then on."""
        found = self._common.find(account, change.kind, change.number)
        if found is not None:
            row, place = found
            size = ENTRY_BYTES + len(change.payload)
            self._check_room(account, size - row.size)
            self._remove_common(account, row, place)
            alone = Append(owner=change.owner, kind=change.kind, payload=change.payload, expires=row.expires)
            self._insert(account, alone, size, number=change.number)

    def _rewrite(self, change: Replace | Put, account: Account, number: int, before: int, size: int) -> None:
        """Give an entry that has ``before`` bytes another payload."""
        self._check_room(account, size - before)
        self._execute(
            "UPDATE entry SET size = ?, digest = ?, payload = ? WHERE number = ?",
            (size, crc32(change.payload), change.payload, number),
        )
        self.has_removed = self.is_frayed = True
        self._accounts.add(account, 0, size - before)

    def _insert(self, account: Account, change: Append | Put, size: int, number: int | None = None) -> int:
        """:param number: ``None``: the next one."""
        found = self._execute(
            "INSERT INTO entry (number, owner, kind, key, expires, size, digest, payload)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                number,
                account.id,
                change.kind,
                change.key if isinstance(change, Put) else None,
                change.expires,
                size,
                crc32(change.payload),
                change.payload,
            ),
        )
        self._accounts.add(account, 1, size)
        if account.has_none == change.kind:
            account.has_none = None
        return found.lastrowid or 0

    def _make_room(self, account: Account, kind: str, size: int) -> tuple[int, Excess | None]:
        """Drop the oldest entries of an owner until there is room for one, if it wants that.

        :returns: how many; and the limit that leaves no room all the same.
        """
        dropped, excess = 0, self._accounts.excess(account, 1, size)
        if excess is None:
            return 0, None
        # Nothing is dropped for what has no room even alone.
        alone = self._accounts.excess(account, 1 - account.entries, size - (account.bytes - OWNER_BYTES))
        if alone is not None:
            return 0, alone
        while excess is not None and account.drops_oldest and self._drop_oldest(account, kind):
            dropped += 1
            excess = self._accounts.excess(account, 1, size)
        return dropped, excess

    def _drop_oldest(self, account: Account, kind: str) -> bool:
        """:returns: whether there was one."""
        own, common = self._oldest(account, kind), self._common.oldest(account, kind)
        if common is not None and (own is None or number_of(common) < own[0]):
            self._remove_common(account, *common)
        elif own is not None:
            self._delete(account, *own)
        return common is not None or own is not None

    def _oldest(self, account: Account, kind: str) -> tuple[int, int] | None:
        """The number and the size of the oldest entry that an owner has alone."""
        if account.has_none == kind:
            return None
        oldest = self._execute(f"SELECT number, size {_WHERE} ORDER BY number LIMIT 1", (account.id, kind))
        found: tuple[int, int] | None = oldest.fetchone()
        if found is None:
            account.has_none = kind
            self._undo.note(setattr, account, "has_none", None)
        return found

    def _put(self, change: Put, numbers: list[int]) -> int:
        account = self._accounts.find(change.owner) if change.or_drop else self._accounts.of(change.owner)
        if account is None:
            numbers.append(0)
            return 1
        size = ENTRY_BYTES + len(change.key.encode()) + len(change.payload)
        row = self._find_key(account, change)
        if row is None:
            self._check_room(account, size, 1)
            numbers.append(self._insert(account, change, size))
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
            raise over(excess)

    def _remove(self, change: Remove, numbers: list[int]) -> int:
        account = self._accounts.find(change.owner)
        found = None if account is None else self._common.find(account, change.kind, change.number)
        if account is not None and found is not None:
            self._remove_common(account, *found)
        elif account is not None:
            self._delete_where("number = ?", account, change)
        return 0

    def _remove_key(self, change: RemoveKey, numbers: list[int]) -> int:
        account = self._accounts.find(change.owner)
        row = None if account is None else self._find_key(account, change)
        if account is not None and row is not None:
            self._delete(account, *row)
        return 0

    def _remove_up_to(self, change: RemoveUpTo, numbers: list[int]) -> int:
        account = self._accounts.find(change.owner)
        if account is not None:
            self._delete_where("number <= ?", account, change)
            for row, place in self._common.of(account, change.kind):
                if row.number + place > change.number:
                    break
                self._remove_common(account, row, place)
        return 0

    def _delete_where(self, which: str, account: Account, change: Remove | RemoveUpTo) -> None:
        parameters = (account.id, change.kind, change.number)
        found = self._execute(f"SELECT count(*), coalesce(sum(size), 0) {_WHERE} AND {which}", parameters)
        count, size = found.fetchone()
        if count:
            self._execute(f"DELETE {_WHERE} AND {which}", parameters)
            self._accounts.add(account, -count, -size)
            self.has_removed = self.is_frayed = True

    def _drops_told(self, change: DropsTold, numbers: list[int]) -> int:
        account = self._accounts.find(change.owner)
        if account is not None:
            self._count_dropped(account, -min(account.dropped, change.count))
        return 0

    def _count_dropped(self, account: Account, count: int) -> None:
        if count:
            self._accounts.add(account, 0, 0, count)
            self._dropped[account] = None

    def _drop(self, change: Drop, numbers: list[int]) -> int:
        account = self._accounts.find(change.owner)
        if account is not None:
            self._execute("DELETE FROM entry WHERE owner = ?", (account.id,))
            self._execute("DELETE FROM owner WHERE id = ?", (account.id,))
            self._common.remove_all(account)
            self._accounts.close(account)
            self.has_removed = self.is_frayed = True
        return 0

    def _delete(self, account: Account, number: int, size: int) -> None:
        self._execute("DELETE FROM entry WHERE number = ?", (number,))
        self._accounts.add(account, -1, -size)
        self.has_removed = self.is_frayed = True

    def _remove_common(self, account: Account, row: CommonRow, place: int) -> None:
        self._common.remove(row, place)
        self._accounts.add(account, -1, -row.size)
        self.has_removed = self.is_frayed = True


def _account(owner: str, id_: int, address: str, *, drops_oldest: bool) -> Account:
    return Account(owner, id_, address, address_key(address), drops_oldest)
