"""Charging sessions for the journal bytes of their changes, so that nobody can fill the journal with allowed changes.

A session pays for each change, and in advance for the end of whatever the change begins. So ends never wait. A change
over the budget waits before it is checked or written, and the later input of its session waits with it. No change is
refused for that reason. A change that a datagram asks for cannot wait: see :meth:`Spending.require`.

These are not charged: renewals of leases, remote sessions (a link has a limit of its own), and the server itself.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from msgspec import Struct
from twisted.internet.defer import Deferred, maybeDeferred, succeed

from bussrv import events as ev
from bussrv.addresses import address_key
from bussrv.errors import Refused
from bussrv.registry.budget import Budget, Limits, Payer
from bussrv.registry.session import Session
from bussrv.registry.state import RegistryState
from bussrv.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")

CLOSING = 150
"""Bytes by which the end of a session is larger than its opening."""

MOST_END = 1024
"""The most bytes that the end of a service or a subscription takes."""

MOST_AT_ONCE = 100
"""How many waiting changes are begun in one reactor turn."""

LOOK = 1.0
"""The most seconds until a waiting address is tried again: the wait changes with what others spend."""

TRIED = 32
"""How many sessions of an address are tried at a time, to find one that has not used up its own budget."""

_PAID_BEFORE: frozenset[type[ev.Event]] = frozenset({ev.ServiceUnregistered, ev.SubscriptionRemoved})

Begin = Callable[[], Deferred[Any]]


class _Waiting(Struct, eq=False):
    """Waiting changes of one session, in order."""

    payer: Payer
    changes: deque[tuple[Begin, Deferred[Any]]]


class _Line(OrderedDict[str, _Waiting]):
    """The waiting sessions of one address, round-robin.

    :ivar look: the number of its next look; looks with other numbers are out of date.
    """

    look = 0


class Spending:
    """Charges sessions for their changes, and lets changes over the budget wait.

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
        self._lines: dict[str, _Line] = {}
        self._address_of: dict[str, str] = {}
        self._due: list[tuple[float, int, str]] = []
        self._looks = 0
        self._call: Any = None

    def pace(self, later: Callable[..., Any], counters: Counter[str]) -> None:
        """Let changes over the budget wait from now on; before, they are only charged.

        :param later: calls a function after some seconds, and returns what cancels that.
        """
        self._later = later
        self._counters = counters

    @property
    def waiting(self) -> int:
        """How many sessions wait."""
        return len(self._address_of)

    # Charging.

    def opened(self, session: Session, size: int) -> None:
        """Charge for the opening of a session, of ``size`` bytes (0: deferred), and for its end, of about as many."""
        if size and session.home is None:
            self._budget.charge(_payer(session), 2 * size + CLOSING)

    def changed(self, session: Session | None, changes: Sequence[ev.Event], size: int) -> None:
        """Charge a session for changes of ``size`` bytes that it asked for."""
        if session is None or session.home is not None or _is_paid_before(session, changes):
            return
        self._budget.charge(_payer(session), size + min(size, MOST_END))

    def closed(self, session_id: str) -> None:
        """Forget a session that is closed. Its waiting changes are begun, and refused because it is closed."""
        self._budget.forget(session_id)
        address = self._address_of.pop(session_id, None)
        if address is None:
            return
        line = self._lines[address]
        waiting = line.pop(session_id)
        if not line:
            del self._lines[address]
        for begin, done in waiting.changes:
            maybeDeferred(begin).chainDeferred(done)

    # Waiting.

    def require(self, session_id: str | None, peer: str) -> None:
        """Check that a change that a datagram from ``peer`` asks for, and that cannot wait, may begin now.

        :param session_id: ``None`` if a session would be opened for it.
        :raises Refused: ``journal-budget``.
        """
        payer = Payer(session_id, address_key(peer))
        if self._later is not None and (payer.address in self._lines or self._budget.wait(payer, can_wait=False)):
            raise Refused("journal-budget", "the address has used up the journal's budget for it, or all have")

    def ready(self, session: Session | None) -> Deferred[None]:
        """:returns: fires when the session may cause journal bytes without a change of the registry."""
        return self.begin(session, lambda: succeed(None), False)

    def begin(self, session: Session | None, change: Callable[[], Deferred[T]], is_paid: bool) -> Deferred[T]:
        """Begin ``change`` when the budget has room for it, and after the earlier changes of its session.

        :param is_paid: whether it was paid for before, so that it waits only for these.
        """
        if session is None or session.home is not None or self._later is None:
            return change()
        payer = _payer(session)
        line = self._lines.get(payer.address)
        waits = line is not None and (session.id in line or not is_paid)
        if not waits and (is_paid or not self._budget.wait(payer)):
            return change()
        return self._wait(payer, session.id, change)

    def _wait(self, payer: Payer, session_id: str, change: Begin) -> Deferred[Any]:
        self._counters["journal-paused"] += 1
        done: Deferred[Any] = Deferred()
        line = self._lines.get(payer.address)
        if line is None:
            line = self._lines[payer.address] = _Line()
            self._look_after(payer.address, line, self._budget.wait(payer))
        line.setdefault(session_id, _Waiting(payer, deque())).changes.append((change, done))
        self._address_of[session_id] = payer.address
        return done

    def _look_after(self, address: str, line: _Line, wait: float) -> None:
        self._looks = line.look = self._looks + 1
        heapq.heappush(self._due, (self._seconds() + min(wait, LOOK), self._looks, address))
        self._schedule()

    def _schedule(self) -> None:
        """Schedule the look at the address that is due first."""
        if self._later is None or not self._due or (self._call is not None and self._call[0] <= self._due[0][0]):
            return
        if self._call is not None:
            self._call[1].cancel()
        due = self._due[0][0]
        self._call = due, self._later(max(0.0, due - self._seconds()), self._look)

    def _look(self) -> None:
        self._call = None
        for _ in range(MOST_AT_ONCE):
            if not self._due or self._due[0][0] > self._seconds():
                break
            _, look, address = heapq.heappop(self._due)
            line = self._lines.get(address)
            if line is None or line.look != look:
                continue
            wait = self._begin_one(line)
            if line:
                self._look_after(address, line, wait)
            elif self._lines.get(address) is line:
                del self._lines[address]
        self._schedule()

    def _begin_one(self, line: _Line) -> float:
        """Begin a change of the first session that may. :returns: seconds until the next look."""
        waits = []
        for _ in range(min(TRIED, len(line))):
            session_id, waiting = next(iter(line.items()))
            wait = self._budget.wait(waiting.payer)
            if wait:
                waits.append(wait)
                line.move_to_end(session_id)
                continue
            begin, done = waiting.changes.popleft()
            if waiting.changes:
                line.move_to_end(session_id)
            else:
                del line[session_id], self._address_of[session_id]
            maybeDeferred(begin).chainDeferred(done)
            return 0.0
        return min(waits, default=0.0)


def _payer(session: Session) -> Payer:
    return Payer(session.id, address_key(session.peer), is_authenticated=session.actor is not None)


def _is_paid_before(session: Session, changes: Sequence[ev.Event]) -> bool:
    kinds = set(map(type, changes))
    return kinds <= _PAID_BEFORE or (session.persistent and kinds == {ev.SubscriptionRenewed})


class _Spends(Protocol):
    """The part of a registry that charging needs."""

    spending: Spending
    state: RegistryState


S = TypeVar("S", bound=_Spends)


def within_budget(
    is_paid: Callable[..., bool] = lambda *_, **__: False,
) -> Callable[
    [Callable[Concatenate[S, Any, P], Deferred[T]]],
    Callable[Concatenate[S, Any, P], Deferred[T]],
]:
    """Make a method of the registry a change that the session named by its first argument pays for.

    :param is_paid: says, given the arguments, whether the change was paid for before.
    """

    def decorate(
        change: Callable[Concatenate[S, Any, P], Deferred[T]],
    ) -> Callable[Concatenate[S, Any, P], Deferred[T]]:
        @wraps(change)
        def begin(self: S, who: Any, /, *args: P.args, **kwargs: P.kwargs) -> Deferred[T]:
            session = self.state.sessions.get(who if isinstance(who, str) else who.session_id)
            return self.spending.begin(
                session, lambda: change(self, who, *args, **kwargs), is_paid(self, who, *args, **kwargs)
            )

        return begin

    return decorate
