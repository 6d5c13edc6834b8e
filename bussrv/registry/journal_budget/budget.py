"""The budget of the journal: which changes may begin now, and which have to wait. Pure.

Three meters hold for each change: that of its session, that of its address, and one for all sessions that did not
authenticate. A meter may be overdrawn by the change that is begun last, because the size of a change is known only when
it is written. :meth:`Budget.wait` says whether a payer may begin; :meth:`Budget.charge` adds what it has spent.

The meter for all is shared fairly by address. It has a reserve at its bottom that only addresses under their fair share
may use, so these never wait for others. The share of an address grows at the total rate divided by the number of
addresses that have spent lately and not got it back yet (generalised processor sharing, in virtual time). The reserve
lasts for :data:`SHARES` addresses that spend at the same moment; beyond that the meter for all holds for everybody.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

RESERVE = 16
"""The fraction of the total burst (one in ``RESERVE``) that is kept for addresses under their fair share."""

SHARES = 1024
"""How many addresses may use all of their share at once before the reserve is empty."""

LEAST_SHARE = 2048
"""Bytes that an address may always save of its share: a few changes."""

SWEEP = 2
"""How many of the accounts used longest ago are checked for removal when a new one is made."""


class Limits(Struct, frozen=True, kw_only=True):
    """Bytes a second, and bytes after which the rate counts: of one session or address, and of all."""

    rate: int
    burst: int
    total_rate: int
    total_burst: int


class Payer(Struct, frozen=True):
    """The payer of a change.

    :ivar session: the id of the session; ``None``: it is not open yet.
    :ivar address: the key of its address.
    :ivar is_authenticated: whether it proved who it is, so that the meter for all does not hold for it.
    """

    session: str | None
    address: str
    is_authenticated: bool = False


class Meter:
    """A token bucket that may be overdrawn.

    :ivar full_at: when it is full again. Each byte that is taken out makes that later, from now or from then on.
    """

    __slots__ = ("full_at",)

    def __init__(self) -> None:
        self.full_at = float("-inf")

    def wait(self, now: float, rate: float, burst: float) -> float:
        """Seconds until it is not overdrawn."""
        return max(0.0, self.full_at - now - burst / rate)

    def left(self, now: float, rate: float, burst: float) -> float:
        """How many bytes are in it; negative while it is overdrawn."""
        return burst - max(0.0, self.full_at - now) * rate


class _Account(Struct, eq=False):
    """An address: its meter, and when, in virtual time, it gets back all of its share."""

    meter: Meter
    whole_at: float = float("-inf")
    is_counted: bool = False


class Budget:
    """The meters of all sessions and addresses.

    :param seconds: a clock, in seconds; if it goes back, no time has passed.
    """

    def __init__(self, limits: Limits, seconds: Callable[[], float]) -> None:
        self._limits = limits
        self._seconds = seconds
        self._now = seconds()
        self._sessions: dict[str, Meter] = {}
        self._accounts: OrderedDict[str, _Account] = OrderedDict()
        self._total = Meter()
        self._reserve = limits.total_burst / RESERVE
        self._share = max(LEAST_SHARE, self._reserve / SHARES)
        # Seconds: how long the meter of a session or address may take to fill, and that for all while it leaves plenty.
        self._slack = limits.burst / limits.rate
        self._plenty_below = (limits.total_burst - self._reserve) / limits.total_rate
        # Virtual time is in bytes that each address that is counted has got back.
        self._virtual = 0.0
        self._counted: list[tuple[float, str]] = []

    def is_plenty(self, payer: Payer, now: float | None = None) -> bool:
        """Whether all meters leave so much that :meth:`wait` is 0. This costs less, and changes nothing.

        :param now: what the clock shows; by default it is read.
        """
        now = max(self._now, self._seconds() if now is None else now)
        latest = now + self._slack
        account, session = self._accounts.get(payer.address), self._sessions.get(payer.session or "")
        if account is not None and account.meter.full_at > latest:
            return False
        if session is not None and session.full_at > latest:
            return False
        return payer.is_authenticated or self._is_plenty_for_all(now)

    def _is_plenty_for_all(self, now: float) -> bool:
        return self._total.full_at - now < self._plenty_below

    def wait(self, payer: Payer, *, can_wait: bool = True) -> float:
        """How many seconds ``payer`` has to wait before it may begin a change, as things are; 0: it may begin.

        :param can_wait: half of the reserve is for those who can. So those who cannot, of whom there may be any number
            with false addresses, leave something to them.
        """
        self._advance()
        now, limits = self._now, self._limits
        account = self._accounts.get(payer.address)
        own = 0.0 if account is None else account.meter.wait(now, limits.rate, limits.burst)
        session = self._sessions.get(payer.session or "")
        if session is not None:
            own = max(own, session.wait(now, limits.rate, limits.burst))
        return (
            own
            if payer.is_authenticated
            else max(own, self._wait_for_all(account, 0.0 if can_wait else self._reserve / 2))
        )

    def _wait_for_all(self, account: _Account | None, floor: float) -> float:
        rate = self._limits.total_rate
        left = self._total.left(self._now, rate, self._limits.total_burst)
        if left > self._reserve:
            return 0.0
        behind = 0.0 if account is None else max(0.0, account.whole_at - self._virtual - self._share)
        share = behind * max(1, len(self._counted)) / rate
        return max(max(0.0, floor - left) / rate, min(share, (self._reserve - left) / rate))

    def charge(self, payer: Payer, spent: float, now: float | None = None) -> None:
        """``payer`` causes ``spent`` bytes of journal. That is never refused: see :meth:`wait`.

        :param now: as for :meth:`is_plenty`.
        """
        if spent <= 0:
            return
        self._advance(now)
        now, limits = self._now, self._limits
        account, charged = self._account(payer.address), spent / limits.rate
        # Every change comes here: a method of the meters would be felt.
        account.meter.full_at = max(now, account.meter.full_at) + charged
        if payer.session is not None:
            session = self._sessions.get(payer.session)
            if session is None:
                session = self._sessions[payer.session] = Meter()
            session.full_at = max(now, session.full_at) + charged
        if not payer.is_authenticated:
            self._charge_share(payer.address, account, spent)
            self._total.full_at = max(now, self._total.full_at) + spent / limits.total_rate

    def _charge_share(self, address: str, account: _Account, spent: float) -> None:
        is_plenty = self._is_plenty_for_all(self._now)
        whole_at = max(self._virtual, account.whole_at) + spent
        if is_plenty:
            # Bytes that no other address needed are not held against this one later.
            whole_at = min(whole_at, max(account.whole_at, self._virtual + self._share))
        account.whole_at = whole_at
        if not account.is_counted:
            account.is_counted = True
            heapq.heappush(self._counted, (whole_at, address))

    def forget(self, session: str) -> None:
        """A session is closed."""
        self._sessions.pop(session, None)

    def _account(self, address: str) -> _Account:
        account = self._accounts.get(address)
        if account is not None:
            self._accounts.move_to_end(address)
            return account
        for _ in range(min(SWEEP, len(self._accounts))):
            oldest, each = next(iter(self._accounts.items()))
            # One that has got back everything is like one that never spent.
            if each.meter.full_at <= self._now and not each.is_counted:
                del self._accounts[oldest]
            else:
                self._accounts.move_to_end(oldest)
        account = self._accounts[address] = _Account(Meter())
        return account

    def _advance(self, now: float | None = None) -> None:
        """Give back to every address that is counted its part of what was earned since the last time."""
        now = self._seconds() if now is None else now
        passed = now - self._now
        if passed <= 0:
            return
        self._now = now
        while passed > 0 and self._counted:
            said, address = self._counted[0]
            account = self._accounts[address]
            if account.whole_at > said:
                heapq.heapreplace(self._counted, (account.whole_at, address))
                continue
            needed = (said - self._virtual) * len(self._counted) / self._limits.total_rate
            if needed > passed:
                self._virtual += passed * self._limits.total_rate / len(self._counted)
                return
            passed -= needed
            self._virtual = max(self._virtual, said)
            heapq.heappop(self._counted)
            account.is_counted = False
