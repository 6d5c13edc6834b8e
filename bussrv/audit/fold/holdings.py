"""One service, or one subscription, of one session: when it was held, and which records of it contradict each other.

A stripe may begin in the middle of a session. The records of a holding up to its first end are *deferred* then: what
they mean depends on the stripe before. All later ones do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

REGISTERED, UNREGISTERED, ADDED, REMOVED, RENEWED = range(1, 6)

CODES = {
    "service.registered": REGISTERED,
    "service.unregistered": UNREGISTERED,
    "subscription.added": ADDED,
    "subscription.removed": REMOVED,
    "subscription.renewed": RENEWED,
}
"""The events that change a holding."""

BEGINS, ENDS = (REGISTERED, ADDED), (UNREGISTERED, REMOVED)

RAN_OUT = ("lease-expired", "inbus-unreachable")
"""The reasons: no renewal in time, or a closed port, which shortens the lease."""

LEASED = "inbus"
"""The wire format with leases."""

Place = tuple[int, int, int]
"""The order of records of one server: number, time, monotonic clock; times in microseconds."""


class Step(NamedTuple):
    """A record that changes a holding.

    :ivar given: whether it belongs to the baseline.
    :ivar times: the number of renewals in a row that it stands for, and ``until`` the time of the last one.
    """

    code: int
    place: Place
    protocol: str | None
    routing_id: str | None
    address: str | None
    reason: str | None
    given: bool
    times: int
    until: int


class Span(NamedTuple):
    """From the beginning of a holding to its end; ``None`` if it did not end.

    :ivar reason: of the end.
    """

    begin: Place
    end: Place | None
    protocol: str | None
    routing_id: str | None
    reason: str | None


class ExpiredLease(NamedTuple):
    """A lease that ran out. Times are UTC microseconds."""

    routing_id: str | None
    address: str | None
    added: int | None
    renewed: int | None
    expired: int
    renewals: int
    reason: str | None


class Contradiction(NamedTuple):
    """A record that begins what has begun, or ends or renews what has not.

    :ivar is_loss: whether no client asked for it.
    :ivar is_first: whether the holding has no earlier record.
    """

    kind: str
    place: Place
    is_loss: bool
    is_first: bool


class Holding(Struct, array_like=True):
    """The state of a holding, and what is known of its past.

    :ivar deferred: the records up to the first end, if the session began before this stripe; else ``None``.
    """

    deferred: list[Step] | None
    spans: list[Span] = []
    leases: list[ExpiredLease] = []
    suspicions: list[Contradiction] = []
    _last: tuple[int, Place] | None = None
    _open: Step | None = None
    _bound: tuple[bool, int] | None = None
    _renewals: int = 0
    _renewed: int | None = None

    def take(self, step: Step) -> None:
        """Take in the next record."""
        if self.deferred is None or _is_over(self.deferred):
            self._apply(step)
            return
        if self.deferred and _is_again(self.deferred[-1], step):
            before = self.deferred[-1]
            self.deferred[-1] = before._replace(times=before.times + 1, until=step.until)
            return
        self.deferred.append(step)
        if _is_over(self.deferred):
            # All that later records need to know of it.
            self._last, self._bound = (step.code, step.place), (False, step.place[1])

    def follow(self, later: Holding) -> None:
        """Take in the same holding of the next stripe."""
        if self.deferred is not None and not _is_over(self.deferred):
            self.deferred += later.deferred or ()
        else:
            for step in later.deferred or ():
                self._apply(step)
        if later.deferred is None or _is_over(later.deferred):
            self._last, self._open, self._bound = later._last, later._open, later._bound
            self._renewals, self._renewed = later._renewals, later._renewed
        self.spans += later.spans
        self.leases += later.leases
        self.suspicions += later.suspicions

    def settled(self) -> Holding:
        """The same with nothing before it."""
        if self.deferred is None:
            return self
        found = Holding(None)
        found.follow(self)
        return found

    @property
    def open(self) -> Span | None:
        """The span that has not ended."""
        return None if self._open is None else _span(self._open, None, None)

    @property
    def left(self) -> Place | None:
        """The place of the last record, if that registered a service."""
        return self._last[1] if self._last is not None and self._last[0] == REGISTERED else None

    def _apply(self, step: Step) -> None:
        if not step.given:
            self._suspect(step)
        self._last = step.code, step.place
        if step.code in BEGINS and self._open is None:
            self._open = step
        elif step.code in ENDS and self._open is not None:
            self.spans.append(_span(self._open, step.place, step.reason))
            self._open = None
        if step.protocol == LEASED or step.given:
            self._lease(step)

    def _suspect(self, step: Step) -> None:
        code, is_first = step.code, self._last is None
        ended = self._last is not None and self._last[0] in ENDS
        is_lost = is_loss(step.reason)
        if code in BEGINS:
            if is_first or ended:
                return
            kind = "service-registered-twice" if code == REGISTERED else "subscription-added-twice"
        else:
            # A loss may be written while the end that the client asked for is on its way to the disk.
            if not (is_first or (ended and not (code in ENDS and is_lost))):
                return
            kind = "service-not-registered" if code == UNREGISTERED else "subscription-not-added"
        self.suspicions.append(Contradiction(kind, step.place, is_lost, is_first))

    def _lease(self, step: Step) -> None:
        if step.code == RENEWED:
            self._renewals += step.times
            self._renewed = step.until
            return
        if step.code in ENDS and step.reason in RAN_OUT and not step.given:
            added = self._bound[1] if self._bound is not None and self._bound[0] else None
            renewed = self._renewed if self._renewals else None
            self.leases.append(
                ExpiredLease(step.routing_id, step.address, added, renewed, step.place[1], self._renewals, step.reason)
            )
        self._bound, self._renewals = (step.code in BEGINS, step.place[1]), 0


def is_loss(reason: str | None) -> bool:
    """Whether a holding ends for a reason that no client asked for."""
    return reason is not None and reason != "replaced"


def _span(begin: Step, end: Place | None, reason: str | None) -> Span:
    return Span(begin.place, end, begin.protocol, begin.routing_id, reason)


def _is_over(deferred: Sequence[Step]) -> bool:
    """Whether later records mean the same whatever came before these."""
    if not deferred or deferred[-1].code not in ENDS:
        return False
    # A lease goes on after the end of a subscription of another wire format.
    return deferred[-1].protocol == LEASED or not any(each.protocol == LEASED or each.given for each in deferred)


def _is_again(before: Step, step: Step) -> bool:
    """Whether a renewal follows a renewal."""
    return before.code == step.code == RENEWED and before.protocol == step.protocol
