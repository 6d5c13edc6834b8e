"""The observers of the registry."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

from twisted.logger import Logger

from bussrv.counts.throttle import LOG_BURST, LOG_RATE, Throttle
from bussrv.events import Event
from bussrv.journal.record import Stamped
from bussrv.registry.interfaces import IRegistryObserver

log = Logger()

Kinds = Container[type[Event]]
"""Kinds of events."""


class Observers:
    """Tells observers of changes in order, even if one of them closes a session while it is told.

    :param seconds: a clock, in seconds.
    :ivar changes: how many changes were told.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self.changes = 0
        self._complaints = Throttle(LOG_RATE, LOG_BURST, seconds)
        self._observers: list[tuple[IRegistryObserver, Kinds | None]] = []
        # How to tell the observers of each kind of event; made when one happens.
        self._of_kind: dict[type[Event], list[Callable[[Stamped], None]]] = {}
        self._untold: list[Stamped] = []
        self._telling = False

    def add(self, observer: IRegistryObserver, kinds: Kinds | None = None) -> None:
        """Tell ``observer`` of every change from now on, or of those whose events are of these ``kinds``."""
        self._observers.append((observer, kinds))
        self._of_kind.clear()

    def tell(self, stamped: Sequence[Stamped]) -> None:
        """Tell all observers of changes."""
        self.changes += len(stamped)
        if self._telling:
            self._untold.extend(stamped)
            return
        self._telling = True
        while stamped:
            for each in stamped:
                told = self._of_kind.get(type(each.event))
                if told is None:
                    told = self._of(type(each.event))
                for tell in told:
                    try:
                        tell(each)
                    except Exception:  # noqa: PERF203 - a call for each observer costs more
                        self._complain(tell, each)
            stamped, self._untold = self._untold, []
        self._telling = False

    def _of(self, kind: type[Event]) -> list[Callable[[Stamped], None]]:
        """How to tell those that want to know of a kind of event, in the order in which they were added."""
        told: list[Callable[[Stamped], None]] = [
            observer.registry_changed for observer, kinds in self._observers if kinds is None or kind in kinds
        ]
        self._of_kind[kind] = told
        return told

    def _complain(self, tell: Any, stamped: Stamped) -> None:
        """Log the exception that an observer raised.

        :param tell: its bound method.
        """
        observer: IRegistryObserver = tell.__self__
        suppressed = self._complaints.admit(type(observer))
        if suppressed is not None:
            log.failure(
                "registry: {observer} failed on {change} ({suppressed} more not logged)",
                event="registry.observer-failed",
                observer=observer,
                change=stamped.event,
                suppressed=suppressed,
            )
