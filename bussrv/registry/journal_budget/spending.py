"""Spending: sessions pay for the journal bytes of their changes, so that nobody can fill the journal with them.

:mod:`bussrv.registry.journal_budget.budget` says how many bytes each session and address may spend. This module charges
the bytes, and lets changes wait:

1. A session pays for each change when it is written.
2. It also pays in advance for the end of what the change begins: an opening pays for the closing, a registration for
   its end. So ends are *prepaid*, and never wait for the budget.
3. A change over the budget waits before it is checked or written. The later input of its session waits, too. No change
   is refused for that reason.
4. A change that a datagram asks for cannot wait: see :meth:`Spending.require_budget`.
5. Renewals of leases cost nothing, nor do remote sessions: a link has a limit of its own.

The waiting sessions of one address are a *queue*. When the address may spend again, one change is begun. Then the next
session of the queue has its turn.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

from msgspec import Struct
from twisted.internet.defer import Deferred

from bussrv import events as ev
from bussrv.addresses import address_key
from bussrv.errors import Refused
from bussrv.registry.journal_budget.budget import Budget, Limits, Payer
from bussrv.registry.outcome import Change, OnDone, as_deferred
from bussrv.registry.state.session import Session
from bussrv.settings import Settings

CLOSING = 150
"""By how many bytes the record of a session's end is larger than that of its opening."""

MOST_END = 1024
"""The most bytes that the record of the end of a service or subscription takes."""

MOST_AT_ONCE = 100
"""The most waiting changes that are begun in one reactor turn."""

MAX_CHECK_INTERVAL = 1.0
"""The most seconds until an address with waiting sessions is checked again. It may have to wait for a shorter time than
was computed, because that depends on what others spend."""

MOST_CHECKED = 32
"""The most sessions of an address that are checked at a time, to find one that has not used up its own budget."""

_FORGEABLE = "inbus"
"""The wire format whose sources anybody can forge."""

_PREPAID: frozenset[type[ev.Event]] = frozenset({ev.ServiceUnregistered, ev.SubscriptionRemoved})


class _Waiting(Struct, eq=False):
    """Waiting changes of one session, in order, each with the callback for its outcome."""

    payer: Payer
    changes: deque[tuple[Change, OnDone]]


class _Queue(OrderedDict[str, _Waiting]):
    """The waiting sessions of one address, by session id, round-robin.

    :ivar check: the number of its next check. Scheduled checks of the address with other numbers are out of date.
    """

    check = 0


class Spending:
    """Charges sessions for their changes, and lets changes over the budget wait.

    Sizes are bytes of journal.

    :param seconds: a monotonic clock, in seconds.
    """

    def __init__(self, settings: Settings, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._budget = Budget(
            Limits(
                rate=settings.journal_session_rate,
                burst=settings.journal_session_burst,
                total_rate=settings.journal_total_rate,
                total_burst=settings.journal_total_burst,
            ),
            seconds,
        )
        self._later: Callable[..., Any] | None = None
        self._counters: Counter[str] = Counter()
        self._queues: dict[str, _Queue] = {}
        self._address_of: dict[str, str] = {}
        # A heap of scheduled checks: the time in seconds, the number of the check, the address.
        self._checks: list[tuple[float, int, str]] = []
        self._last_check = 0
        # The time of the scheduled call, in seconds, and the call.
        self._call: Any = None

    def enforce(self, later: Callable[..., Any], counters: Counter[str]) -> None:
        """Let changes over the budget wait from now on. Before this call, changes are charged but never wait.

        :param later: calls a function after some seconds, as ``reactor.callLater`` does.
        :param counters: counts waiting changes as ``journal-paused``.
        """
        self._later = later
        self._counters = counters

    @property
    def waiting(self) -> int:
        """How many sessions have changes that wait."""
        return len(self._address_of)

    # Charging.

    def opened(self, session: Session, size: int) -> None:
        """Charge for the opening of a session, and in advance for its end.

        :param size: bytes of the record; 0 if the opening is deferred: it is charged when it is written.
        """
        if size and session.home is None:
            self._budget.charge(_payer(session), 2 * size + CLOSING)

    def changed(self, session: Session | None, changes: Sequence[ev.Event], size: int) -> None:
        """Charge a session for changes that it asked for, and in advance for the end of what they begin.

        :param size: bytes of the records.
        """
        if session is None or session.home is not None or _is_prepaid(session, changes):
            return
        self.charge(session, size)

    def charge(self, session: Session, size: int, now: float | None = None) -> None:
        """Charge a session of this server for what it begins by a change, and in advance for the end of that.

        :param size: bytes of the record.
        :param now: what the clock shows, in seconds; by default it is read.
        """
        self._budget.charge(_payer(session), size + min(size, MOST_END), now)

    def closed(self, session_id: str) -> None:
        """Forget a session that is closed. Its waiting changes are begun, and refused because it is closed."""
        self._budget.forget(session_id)
        address = self._address_of.pop(session_id, None)
        if address is None:
            return
        queue = self._queues[address]
        waiting = queue.pop(session_id)
        if not queue:
            del self._queues[address]
        for change, on_done in waiting.changes:
            _begin(change, on_done)

    # Waiting.

    def require_budget(self, session_id: str | None, peer: str) -> None:
        """Check that a change may begin now. For changes that datagrams ask for: they cannot wait.

        :param session_id: ``None`` if a session would be opened for it.
        :param peer: the address of the session.
        :raises Refused: ``journal-budget``: it may not.
        """
        payer = Payer(session_id, address_key(peer))
        if self._later is not None and (payer.address in self._queues or self._budget.wait(payer, can_wait=False)):
            raise Refused("journal-budget", "the address has used up the journal's budget for it, or all have")

    def ready(self, session: Session | None) -> Deferred[None]:
        """Wait before the server journals a login of a session.

        :returns: fires when the session may spend.
        """
        return as_deferred(partial(self.begin, session, lambda on_done: on_done(None)))

    @property
    def is_waited_for(self) -> bool:
        """Whether some change waits, so that others of its address may have to wait, too."""
        return bool(self._queues)

    def is_free(self, session: Session, now: float) -> bool:
        """Whether :meth:`begin` would begin a change of a session at once; if not, it may do so all the same.

        :param session: belongs to this server.
        :param now: what the clock shows, in seconds.
        """
        return self._later is None or not (self._queues or not self._budget.is_plenty(_payer(session), now))

    def begin(self, session: Session | None, change: Change, on_done: OnDone, *, is_prepaid: bool = False) -> None:
        """Begin ``change`` when its session may spend, and after the earlier changes of the session.

        :param session: ``None``: the change has no open session, and begins at once.
        :param is_prepaid: whether it is paid for already, so that it waits only for the earlier changes.
        """
        if session is None or session.home is not None or self._later is None or (is_prepaid and not self._queues):
            change(on_done)
            return
        payer = _payer(session)
        queue = self._queues.get(payer.address)
        waits = queue is not None and (session.id in queue or not is_prepaid)
        if waits or (not is_prepaid and self._budget.wait(payer)):
            self._wait(payer, session.id, change, on_done)
        else:
            change(on_done)

    def _wait(self, payer: Payer, session_id: str, change: Change, on_done: OnDone) -> None:
        self._counters["journal-paused"] += 1
        queue = self._queues.get(payer.address)
        if queue is None:
            queue = self._queues[payer.address] = _Queue()
            self._check_later(payer.address, queue, self._budget.wait(payer))
        queue.setdefault(session_id, _Waiting(payer, deque())).changes.append((change, on_done))
        self._address_of[session_id] = payer.address

    def _check_later(self, address: str, queue: _Queue, wait: float) -> None:
        """Schedule the next check of an address, ``wait`` seconds from now or sooner."""
        self._last_check = queue.check = self._last_check + 1
        heapq.heappush(self._checks, (self._seconds() + min(wait, MAX_CHECK_INTERVAL), self._last_check, address))
        self._schedule()

    def _schedule(self) -> None:
        """Schedule a call at the time of the earliest check."""
        if self._later is None or not self._checks or (self._call is not None and self._call[0] <= self._checks[0][0]):
            return
        if self._call is not None:
            self._call[1].cancel()
        due = self._checks[0][0]
        self._call = due, self._later(max(0.0, due - self._seconds()), self._check)

    def _check(self) -> None:
        """Begin changes of the addresses whose check is due."""
        self._call = None
        for _ in range(MOST_AT_ONCE):
            if not self._checks or self._checks[0][0] > self._seconds():
                break
            _, number, address = heapq.heappop(self._checks)
            queue = self._queues.get(address)
            if queue is None or queue.check != number:
                continue
            wait = self._begin_one(queue)
            if queue:
                self._check_later(address, queue, wait)
            elif self._queues.get(address) is queue:
                del self._queues[address]
        self._schedule()

    def _begin_one(self, queue: _Queue) -> float:
        """Begin a change of the first session that may spend. :returns: seconds until the next check of the address."""
        waits = []
        for _ in range(min(MOST_CHECKED, len(queue))):
            session_id, waiting = next(iter(queue.items()))
            wait = self._budget.wait(waiting.payer)
            if wait:
                waits.append(wait)
                queue.move_to_end(session_id)
                continue
            change, on_done = waiting.changes.popleft()
            if waiting.changes:
                queue.move_to_end(session_id)
            else:
                del queue[session_id], self._address_of[session_id]
            _begin(change, on_done)
            return 0.0
        return min(waits, default=0.0)


def _begin(change: Change, on_done: OnDone) -> None:
    """Begin a change that waited. Its exceptions are for whoever asked for it."""
    try:
        change(on_done)
    except Exception as error:
        on_done(error)


def _payer(session: Session) -> Payer:
    # A network proves who a sender of datagrams is, but whoever forges sources is in every network.
    return _payer_of(session.id, session.peer, session.actor is not None and session.protocol != _FORGEABLE)


@lru_cache(1024)
def _payer_of(session_id: str, peer: str, is_authenticated: bool) -> Payer:
    return Payer(session_id, address_key(peer), is_authenticated=is_authenticated)


def _is_prepaid(session: Session, changes: Sequence[ev.Event]) -> bool:
    kinds = set(map(type, changes))
    return kinds <= _PREPAID or (session.has_leases and kinds == {ev.SubscriptionRenewed})
