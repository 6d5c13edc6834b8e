"""The observers of the registry."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from twisted.logger import Logger

from bussrv.journal.record import Stamped
from bussrv.registry.interfaces import IRegistryObserver
from bussrv.registry.throttle import LOG_BURST, LOG_RATE, Throttle

log = Logger()


class Observers:
    """Tells observers of changes in order, even if one of them closes a session while it is told.

    :param seconds: a clock, in seconds.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._complaints = Throttle(LOG_RATE, LOG_BURST, seconds)
        self._observers: list[IRegistryObserver] = []
        self._untold: deque[Stamped] = deque()
        self._telling = False

    def add(self, observer: IRegistryObserver) -> None:
        """Tell ``observer`` of every change from now on."""
        self._observers.append(observer)

    def tell(self, stamped: Sequence[Stamped]) -> None:
        """Tell all observers of changes."""
        self._untold.extend(stamped)
        if self._telling:
            return
        self._telling = True
        while self._untold:
            each = self._untold.popleft()
            for observer in self._observers:
                self._tell_one(observer, each)
        self._telling = False

    def _tell_one(self, observer: IRegistryObserver, stamped: Stamped) -> None:
        try:
            observer.registry_changed(stamped)
        except Exception:
            suppressed = self._complaints.admit(type(observer))
            if suppressed is not None:
                log.failure(
                    "registry: {observer} failed on {change} ({suppressed} more not logged)",
                    event="registry.observer-failed",
                    observer=observer,
                    change=stamped.event,
                    suppressed=suppressed,
                )
