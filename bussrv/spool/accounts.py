"""How much is kept for each owner and address and in all, held against the limits. Pure.

They are counted in memory and follow the file: a change that is not committed is undone here as well.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from bussrv.addresses import UNIX, address_key, is_exempt, plain_host
from bussrv.errors import OverLimit, Refused
from bussrv.journal.pseudonym_keys import split
from bussrv.settings import Settings

OWNER_BYTES = 200
"""So many bytes an owner counts beside its entries. Owners without entries are limited by that."""

ENTRY_BYTES = 100
"""So many bytes an entry counts beside its payload and its key: about what the file needs for it."""


class Account(Struct, frozen=True):
    """An owner. ``id`` is its row, ``bytes`` are those of its entries and of itself."""

    id: int
    address: str
    drops_oldest: bool
    dropped: int
    entries: int = 0
    bytes: int = OWNER_BYTES


class Accounts:
    """The accounts of all owners. Every change of them can be undone until :meth:`keep`.

    :ivar total: the bytes of all owners.
    """

    def __init__(self, settings: Settings) -> None:
        self.total = 0
        self._settings = settings
        self._accounts: dict[str, Account] = {}
        self._by_address: Counter[str] = Counter()
        self._undo: list[tuple[str, Account | None]] = []
        self._changed: set[str] = set()

    def find(self, owner: str) -> Account | None:
        """The account of an owner; ``None``: it has none."""
        return self._accounts.get(owner)

    def of(self, owner: str) -> Account:
        """The account of an owner. :raises Refused: ``no-such-owner``."""
        account = self._accounts.get(owner)
        if account is None:
            raise Refused("no-such-owner", f"nothing is kept for {owner} any more")
        return account

    def set(self, owner: str, account: Account | None) -> None:
        """An owner has another account from now on; ``None``: it has none."""
        self._undo.append((owner, self._accounts.get(owner)))
        self._replace(owner, account)

    def mark(self) -> int:
        """The present state, for :meth:`undo`."""
        return len(self._undo)

    def undo(self, mark: int = 0) -> None:
        """Take back what was set since."""
        while len(self._undo) > mark:
            self._replace(*self._undo.pop())

    def keep(self) -> None:
        """Let changes stand that could be undone until now."""
        self._changed.update(owner for owner, _ in self._undo)
        self._undo.clear()

    def take_changed(self) -> dict[str, int]:
        """How many entries each owner has that changed since this was called last; 0: it has none, or is gone."""
        changed, self._changed = self._changed, set()
        return {each: found.entries if (found := self._accounts.get(each)) else 0 for each in changed}

    def excess(self, account: Account, entries: int, size: int) -> OverLimit | None:
        """The limit that an owner would exceed with more; ``None``: there is room, or it would not have more."""
        limits = self._settings
        if entries > 0 and account.entries + entries > limits.max_spool_entries:
            return _over("entries for one session", "max-spool-entries", limits.max_spool_entries)
        if size <= 0:
            return None
        if account.bytes + size > limits.max_spool:
            return _over("bytes for one session", "max-spool", limits.max_spool)
        of_address = self._by_address[address_key(account.address)] + size
        if of_address > limits.max_spool_per_address and not is_exempt(account.address, limits.trusted_network):
            return _over("bytes for one address", "max-spool-per-address", limits.max_spool_per_address)
        if self.total + size > limits.max_spool_total:
            return _over("bytes in all", "max-spool-total", limits.max_spool_total)
        return None

    def _replace(self, owner: str, account: Account | None) -> None:
        before = self._accounts.pop(owner, None)
        if before is not None:
            self._count(before.address, -before.bytes)
        if account is not None:
            self._accounts[owner] = account
            self._count(account.address, account.bytes)

    def _count(self, address: str, size: int) -> None:
        key = address_key(address)
        self.total += size
        self._by_address[key] += size
        if not self._by_address[key]:
            del self._by_address[key]


def _over(what: str, limit: str, value: int) -> OverLimit:
    return OverLimit("spool-full", f"the spool may keep {value} {what}", limit, value)


def host_in(address: str) -> str:
    """The host of an address, in the one form that owners have; an address that has none, as it is."""
    if address_key(address) == UNIX:
        return UNIX
    host, _ = split("peer", address)
    return plain_host(host.removeprefix("[").removesuffix("]").partition("%")[0])
