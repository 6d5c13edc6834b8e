"""Each change of a spool, made in its tables and in the accounts of its owners."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any
from zlib import crc32

from bussrv.addresses import address_key
from bussrv.spool.accounts import ENTRY_BYTES, OWNER_BYTES, Account, Accounts, Excess, host_in, over
from bussrv.spool.common import CommonRow, CommonRows, number_of
from bussrv.spool.entries import (
    Append,
    AppendToAll,
    Change,
    Claim,
    Drop,
    DropsTold,
    Put,
    Remove,
    RemoveKey,
    RemoveUpTo,
    Replace,
)
from bussrv.spool.undo import UndoLog

WHERE = "FROM entry WHERE owner = ? AND kind = ?"


class Tables:
    """The owners, and the entries that each has alone or in common with others.

    :param execute: that of SQLite. :param undo: takes changes in memory back.
    :param removed: is called when bytes of a removed entry may be in the file.
    :ivar accounts: of the owners.
    :ivar common: the entries in common.
    :ivar dropped: the accounts whose counts of dropped entries are not written yet.
    """

    def __init__(
        self,
        execute: Callable[..., sqlite3.Cursor],
        accounts: Accounts,
        undo: UndoLog,
        removed: Callable[[], object],
    ) -> None:
        self.accounts = accounts
        self.common = CommonRows(execute, undo)
        self.dropped: dict[Account, None] = {}
        self._execute = execute
        self._undo = undo
        self._removed = removed
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

    def change(self, change: Change, numbers: list[int]) -> int:
        """Make a change. :returns: how many entries were dropped for it.

        :param numbers: those of the entries that it adds go there.
        :raises bussrv.errors.Refused: ``spool-full`` or ``no-such-owner``.
        """
        return self._do[type(change)](change, numbers)

    def _claim(self, change: Claim, numbers: list[int]) -> int:
        address = host_in(change.address)
        before = self.accounts.find(change.owner)
        row = (address, change.actor, change.drops_oldest, change.owner)
        if before is None:
            account = opened(change.owner, 0, address, drops_oldest=change.drops_oldest)
            self._check_room(account, OWNER_BYTES)
            found = self._execute(
                "INSERT INTO owner (address, actor, drops_oldest, owner, dropped) VALUES (?, ?, ?, ?, 0)", row
            )
            account.id = found.lastrowid or 0
            self.accounts.open(account)
        else:
            self._execute("UPDATE owner SET address = ?, actor = ?, drops_oldest = ? WHERE owner = ?", row)
            self.accounts.move(before, address, drops_oldest=change.drops_oldest)
        return 0

    def _append(self, change: Append, numbers: list[int]) -> int:
        size = ENTRY_BYTES + len(change.payload)
        account = self.accounts.find(change.owner) if change.or_drop else self.accounts.of(change.owner)
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
        accounts = [*map(self.accounts.find, change.owners)]
        size = ENTRY_BYTES + max(map(len, change.heads)) + len(change.payload)
        waits, all_dropped = self.accounts.add_to_all(accounts, size), 0
        for place in [each for each, has_got in enumerate(waits) if not has_got]:
            account = accounts[place]
            if account is None:
                all_dropped += 1
                continue
            dropped, excess = self._make_room(account, change.kind, size)
            if excess is None:
                waits[place] = 1
                self.accounts.add(account, 1, size)
            else:
                dropped += 1
            self._count_dropped(account, dropped)
            all_dropped += dropped
        numbers.append(self.common.add(change, accounts, waits, size))
        return all_dropped

    def _replace(self, change: Replace, numbers: list[int]) -> int:
        account = self.accounts.find(change.owner)
        if account is None:
            return 0
        found = self._execute(
            f"SELECT size, length(payload) {WHERE} AND number = ?", (account.id, change.kind, change.number)
        ).fetchone()
        if found is not None:
            size, length = found
            self._rewrite(change, account, change.number, size, size - length + len(change.payload))
        else:
            self._replace_common(change, account)
        return 0

    def _replace_common(self, change: Replace, account: Account) -> None:
        """An entry that has another payload is one of the owner alone from then on."""
        found = self.common.find(account, change.kind, change.number)
        if found is not None:
            row, place = found
            size = ENTRY_BYTES + len(change.payload)
            self._check_room(account, size - row.size)
            self.remove_common(account, row, place)
            alone = Append(owner=change.owner, kind=change.kind, payload=change.payload, expires=row.expires)
            self._insert(account, alone, size, number=change.number)

    def _rewrite(self, change: Replace | Put, account: Account, number: int, before: int, size: int) -> None:
        """Give an entry that has ``before`` bytes another payload."""
        self._check_room(account, size - before)
        self._execute(
            "UPDATE entry SET size = ?, digest = ?, payload = ? WHERE number = ?",
            (size, crc32(change.payload), change.payload, number),
        )
        self._removed()
        self.accounts.add(account, 0, size - before)

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
        self.accounts.add(account, 1, size)
        if account.has_none == change.kind:
            account.has_none = None
        return found.lastrowid or 0

    def _make_room(self, account: Account, kind: str, size: int) -> tuple[int, Excess | None]:
        """Drop the oldest entries of an owner until there is room for one, if it wants that.

        :returns: how many; and the limit that leaves no room all the same.
        """
        dropped, excess = 0, self.accounts.excess(account, 1, size)
        if excess is None:
            return 0, None
        # Nothing is dropped for what has no room even alone.
        alone = self.accounts.excess(account, 1 - account.entries, size - (account.bytes - OWNER_BYTES))
        if alone is not None:
            return 0, alone
        while excess is not None and account.drops_oldest and self._drop_oldest(account, kind):
            dropped += 1
            excess = self.accounts.excess(account, 1, size)
        return dropped, excess

    def _drop_oldest(self, account: Account, kind: str) -> bool:
        """:returns: whether there was one."""
        own, common = self._oldest(account, kind), self.common.oldest(account, kind)
        if common is not None and (own is None or number_of(common) < own[0]):
            self.remove_common(account, *common)
        elif own is not None:
            self.remove(account, *own)
        return common is not None or own is not None

    def _oldest(self, account: Account, kind: str) -> tuple[int, int] | None:
        """The number and the size of the oldest entry that an owner has alone."""
        if account.has_none == kind:
            return None
        oldest = self._execute(f"SELECT number, size {WHERE} ORDER BY number LIMIT 1", (account.id, kind))
        found: tuple[int, int] | None = oldest.fetchone()
        if found is None:
            account.has_none = kind
            self._undo.note(setattr, account, "has_none", None)
        return found

    def _put(self, change: Put, numbers: list[int]) -> int:
        account = self.accounts.find(change.owner) if change.or_drop else self.accounts.of(change.owner)
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
            f"SELECT number, size {WHERE} AND key = ?", (account.id, change.kind, change.key)
        ).fetchone()
        return found

    def _check_room(self, account: Account, size: int, entries: int = 0) -> None:
        excess = self.accounts.excess(account, entries, size)
        if excess is not None:
            raise over(excess)

    def _remove(self, change: Remove, numbers: list[int]) -> int:
        account = self.accounts.find(change.owner)
        found = None if account is None else self.common.find(account, change.kind, change.number)
        if account is not None and found is not None:
            self.remove_common(account, *found)
        elif account is not None:
            self._delete_where("number = ?", account, change)
        return 0

    def _remove_key(self, change: RemoveKey, numbers: list[int]) -> int:
        account = self.accounts.find(change.owner)
        row = None if account is None else self._find_key(account, change)
        if account is not None and row is not None:
            self.remove(account, *row)
        return 0

    def _remove_up_to(self, change: RemoveUpTo, numbers: list[int]) -> int:
        account = self.accounts.find(change.owner)
        if account is not None:
            self._delete_where("number <= ?", account, change)
            for row, place in self.common.of(account, change.kind):
                if row.number + place > change.number:
                    break
                self.remove_common(account, row, place)
        return 0

    def _delete_where(self, which: str, account: Account, change: Remove | RemoveUpTo) -> None:
        parameters = (account.id, change.kind, change.number)
        found = self._execute(f"SELECT count(*), coalesce(sum(size), 0) {WHERE} AND {which}", parameters)
        count, size = found.fetchone()
        if count:
            self._execute(f"DELETE {WHERE} AND {which}", parameters)
            self.accounts.add(account, -count, -size)
            self._removed()

    def _drops_told(self, change: DropsTold, numbers: list[int]) -> int:
        account = self.accounts.find(change.owner)
        if account is not None:
            self._count_dropped(account, -min(account.dropped, change.count))
        return 0

    def _count_dropped(self, account: Account, count: int) -> None:
        if count:
            self.accounts.add(account, 0, 0, count)
            self.dropped[account] = None

    def _drop(self, change: Drop, numbers: list[int]) -> int:
        account = self.accounts.find(change.owner)
        if account is not None:
            self._execute("DELETE FROM entry WHERE owner = ?", (account.id,))
            self._execute("DELETE FROM owner WHERE id = ?", (account.id,))
            self.common.remove_all(account)
            self.accounts.close(account)
            self._removed()
        return 0

    def remove(self, account: Account, number: int, size: int) -> None:
        """Remove an entry that an owner has alone."""
        self._execute("DELETE FROM entry WHERE number = ?", (number,))
        self.accounts.add(account, -1, -size)
        self._removed()

    def remove_common(self, account: Account, row: CommonRow, place: int) -> None:
        """Remove an entry that an owner has in common with others."""
        self.common.remove(row, place)
        self.accounts.add(account, -1, -row.size)
        self.has_removed = self.is_frayed = True


def opened(owner: str, id_: int, address: str, *, drops_oldest: bool) -> Account:
    """The account of an owner that has nothing yet."""
    return Account(owner, id_, address, address_key(address), drops_oldest)
