"""Contradictory records, which no server writes, put into the days of a world on purpose.

The journal is written as ever, so lines, headers and seals fit: only what the records say is wrong. Of each fault it is
known where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from bussrv import events as ev
from bussrv.journal.record import Stamped

_TWO_HOURS = 2 * 3600 * 1_000_000

Distort = Callable[[Stamped], Sequence[Stamped]]
"""Returns what is written instead of an event; the event alone: it cannot be distorted so."""


class InjectedFault(Struct, frozen=True, kw_only=True):
    """A fault that was put in.

    :ivar seq: the number of the record that is wrong, or that would have stood where another one stands now.
    """

    kind: str
    seq: int
    session: str | None = None
    service: str | None = None


def _twice(stamped: Stamped) -> Sequence[Stamped]:
    return stamped, stamped


def _never(stamped: Stamped) -> Sequence[Stamped]:
    return ()


def _and_then_a_subscription(stamped: Stamped) -> Sequence[Stamped]:
    event = stamped.event
    late = ev.SubscriptionAdded(
        protocol=event.protocol,
        session=event.session,
        routing_id=event.routing_id,
        actor=event.actor,
        claimed=event.claimed,
        peer=event.peer,
        service="tv/hall",
    )
    return stamped, replace(stamped, event=late)


def _two_hours_ago(stamped: Stamped) -> Sequence[Stamped]:
    return (replace(stamped, time=stamped.time - _TWO_HOURS),)


def _bytes_without_objects(stamped: Stamped) -> Sequence[Stamped]:
    if stamped.event.protocol == "mqtt":
        # Its bytes need not belong to an object.
        return (stamped,)
    return (replace(stamped, event=replace(stamped.event, objects_out=0, bytes_out=4096)),)


KINDS: dict[str, tuple[type[ev.Event], Distort]] = {
    "session-opened-twice": (ev.SessionOpened, _twice),
    "session-closed-unopened": (ev.SessionOpened, _never),
    "session-closed-twice": (ev.SessionClosed, _twice),
    "session-never-closed": (ev.SessionClosed, _never),
    "session-left-twice": (ev.SessionLeft, _twice),
    "session-resumed-unleft": (ev.SessionResumed, _twice),
    "service-not-registered": (ev.ServiceRegistered, _never),
    "service-never-unregistered": (ev.ServiceUnregistered, _never),
    "subscription-of-closed-session": (ev.SessionClosed, _and_then_a_subscription),
    "time-backwards": (ev.SubscriptionAdded, _two_hours_ago),
    "counters-without-objects": (ev.SessionClosed, _bytes_without_objects),
}
"""The kinds of faults, each with the event that is distorted, and how."""


class Distortion:
    """Passes events through, and puts faults among them.

    :param kinds: the kinds of faults; each is put in ``each`` times.
    :param events: about how many events there will be.
    :param write: is given the events.
    :ivar faults: those that were put in.
    """

    def __init__(
        self, kinds: Sequence[str], each: int, events: int, seed: int, write: Callable[[Sequence[Stamped]], None]
    ) -> None:
        self.faults: list[InjectedFault] = []
        self._write = write
        self._seq = 1
        random = Random(f"faults {seed}")
        # Neither in the first days of a journal nor in its last: some show only by what comes before or behind.
        places = [(random.randint(events // 10, events * 8 // 10), kind) for kind in kinds for _ in range(each)]
        self._due = sorted(places, reverse=True)
        self._waiting: list[str] = []

    def write(self, stamped: Sequence[Stamped]) -> None:
        """Hand events on, distorted where a fault is due."""
        found: list[Stamped] = []
        for each in stamped:
            found += self._distorted(each, self._seq + len(found))
        if found:
            self._write(found)
        self._seq += len(found)

    def _distorted(self, stamped: Stamped, seq: int) -> Sequence[Stamped]:
        while self._due and self._due[-1][0] <= seq:
            self._waiting.append(self._due.pop()[1])
        event = stamped.event
        for kind in self._waiting:
            wanted, distort = KINDS[kind]
            if isinstance(event, wanted) and getattr(event, "home", None) is None:
                found = distort(stamped)
                if found == (stamped,):
                    continue
                self._waiting.remove(kind)
                self.faults.append(
                    InjectedFault(
                        kind=kind, seq=seq + max(0, len(found) - 1), session=event.session, service=event.service
                    )
                )
                return found
        return (stamped,)
