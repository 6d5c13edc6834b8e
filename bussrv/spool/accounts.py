"""How much is kept for each owner and address and in all, held against the limits. Pure.

They are counted in memory and follow the file: a change that is not committed is undone here as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from bussrv.addresses import UNIX, address_key, is_exempt, plain_host
from bussrv.errors import OverLimit, Refused
from bussrv.journal.pseudonym_keys import split
from bussrv.settings import Settings
from bussrv.spool.undo import UndoLog

OWNER_BYTES = 200
"""So many bytes an owner counts beside its entries. Owners without entries are limited by that."""

ENTRY_BYTES = 100
"""So many bytes an entry counts beside its payload and its key: about what the file needs for it."""


MOST_REMEMBERED = 10_000
"""Of so many addresses it is remembered whether the limit for an address holds for them."""

Excess = tuple[str, str, int]
"""A limit that would be exceeded: what it limits, its name and its value."""


class Account(Struct, eq=False):
    """An owner. Once it is open, only :class:`Accounts` changes its numbers.

    :ivar id: its row.
    :ivar address_key: the one that its address counts for.
    :ivar bytes: those of its entries and of itself.
    :ivar places: where it is among those who have entries in common; see :mod:`bussrv.spool.common`.
    :ivar has_none: a kind of which it has no entry of its own.
    """

    owner: str
    id: int
    address: str
    address_key: str
    drops_oldest: bool
    dropped: int = 0
    entries: int = 0
    bytes: int = OWNER_BYTES
    places: dict[Any, int] = {}
    has_none: str | None = None


class Accounts:
    """The accounts of all owners.

    :param undo: takes every change of them back.
    :ivar total: the bytes of all owners.
    """

    def __init__(self, settings: Settings, undo: UndoLog) -> None:
        self.total = 0
        self._settings = settings
        self._undo = undo
        self._accounts: dict[str, Account] = {}
        self._by_address: Counter[str] = Counter()
        self._changed: set[str] = set()
        self._trusted: object = None
        self._exempt: dict[str, bool] = {}

    def find(self, owner: str) -> Account | None:
        """The account of an owner; ``None``: it has none."""
        return self._accounts.get(owner)

    def of(self, owner: str) -> Account:
        """The account of an owner. :raises Refused: ``no-such-owner``."""
        account = self._accounts.get(owner)
        if account is None:
            raise Refused("no-such-owner", f"nothing is kept for {owner} any more")
        return account

    def open(self, account: Account) -> None:
        """There is a new owner."""
        self._accounts[account.owner] = account
        self._count(account, account.bytes)
        self._undo.note(self._close, account)

    def close(self, account: Account) -> None:
        """An owner is gone, with everything that it has."""
        self._close(account)
        self._undo.note(self._open_again, account)

    def move(self, account: Account, address: str, *, drops_oldest: bool) -> None:
        """An owner has another address."""
        self._undo.note(self._move, account, account.address, account.drops_oldest)
        self._move(account, address, drops_oldest)

    def add(self, account: Account, entries: int, size: int, dropped: int = 0) -> None:
        """An owner has so many more entries, bytes, and entries that were dropped."""
        self._add(account, entries, size, dropped)
        self._undo.note(self._add, account, -entries, -size, -dropped)

    def add_to_all(self, accounts: Sequence[Account | None], size: int) -> bytearray:
        """Each owner that has room gets one entry more, of so many bytes. ``None``: there is no owner.

        :returns: 1 for each that got it.
        """
        limits, by_address, got = self._settings, self._by_address, bytearray(len(accounts))
        if self.total + size * len(accounts) > limits.max_spool_total:
            return got  # There is no room for all. Who has some is seen one by one.
        most_entries, most, most_of_address = limits.max_spool_entries, limits.max_spool, limits.max_spool_per_address
        for place, account in enumerate(accounts):
            if account is None or account.entries >= most_entries or account.bytes + size > most:
                continue
            key = account.address_key
            if by_address[key] + size > most_of_address and not self._is_exempt(account.address):
                continue
            account.entries += 1
            account.bytes += size
            by_address[key] += size
            got[place] = 1
        self.total += size * sum(got)
        self._changed.update([each.owner for each in accounts if each is not None])
        self._undo.note(self._take_from_all, accounts, bytes(got), size)
        return got

    def _take_from_all(self, accounts: Sequence[Account | None], got: bytes, size: int) -> None:
        for account, has_got in zip(accounts, got, strict=True):
            if account is not None and has_got:
                self._add(account, -1, -size, 0)

    def take_changed(self) -> dict[str, int]:
        """How many entries each owner has that changed since this was called last; 0: it has none, or is gone."""
        changed, self._changed = self._changed, set()
        return {each: found.entries if (found := self._accounts.get(each)) else 0 for each in changed}

    def excess(self, account: Account, entries: int, size: int) -> Excess | None:
        """The limit that an owner would exceed with more; ``None``: there is room, or it would not have more."""
        limits = self._settings
        if entries > 0 and account.entries + entries > limits.max_spool_entries:
            return "entries for one session", "max-spool-entries", limits.max_spool_entries
        if size <= 0:
            return None
        if account.bytes + size > limits.max_spool:
            return "bytes for one session", "max-spool", limits.max_spool
        of_address = self._by_address[account.address_key] + size
        if of_address > limits.max_spool_per_address and not self._is_exempt(account.address):
            return "bytes for one address", "max-spool-per-address", limits.max_spool_per_address
        if self.total + size > limits.max_spool_total:
            return "bytes in all", "max-spool-total", limits.max_spool_total
        return None

    def _is_exempt(self, address: str) -> bool:
        """As :func:`is_exempt`: entries for thousands of owners may have no room at once."""
        trusted = self._settings.trusted_network
        if trusted is not self._trusted or len(self._exempt) > MOST_REMEMBERED:
            self._trusted, self._exempt = trusted, {}
        found = self._exempt.get(address)
        if found is None:
            found = self._exempt[address] = is_exempt(address, trusted)
        return found

    def _open_again(self, account: Account) -> None:
        self._accounts[account.owner] = account
        self._count(account, account.bytes)

    def _close(self, account: Account) -> None:
        del self._accounts[account.owner]
        self._count(account, -account.bytes)

    def _move(self, account: Account, address: str, drops_oldest: bool) -> None:
        self._count(account, -account.bytes)
        account.address, account.address_key, account.drops_oldest = address, address_key(address), drops_oldest
        self._count(account, account.bytes)

    def _add(self, account: Account, entries: int, size: int, dropped: int) -> None:
        account.entries += entries
        account.bytes += size
        account.dropped += dropped
        self._count(account, size)

    def _count(self, account: Account, size: int) -> None:
        self._changed.add(account.owner)
        self.total += size
        self._by_address[account.address_key] += size
        if not self._by_address[account.address_key]:
            del self._by_address[account.address_key]


def over(excess: Excess) -> OverLimit:
    """The refusal that is due to a limit."""
    what, limit, value = excess
    return OverLimit("spool-full", f"the spool may keep {value} {what}", limit, value)


def host_in(address: str) -> str:
    """The host of an address, in the one form that owners have; an address that has none, as it is."""
    if address_key(address) == UNIX:
        return UNIX
    host, _ = split("peer", address)
    return plain_host(host.removeprefix("[").removesuffix("]").partition("%")[0])
