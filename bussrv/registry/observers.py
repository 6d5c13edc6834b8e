"""Those who are told of every change of the registry."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from twisted.logger import Logger

from bussrv.interfaces import IRegistryObserver
from bussrv.journal.record import Stamped

log = Logger()


class Observers:
    """Told in order, even when what one of them is told makes it close a session."""

    def __init__(self) -> None:
        self._observers: list[IRegistryObserver] = []
        self._untold: deque[Stamped] = deque()
        self._telling = False

    def add(self, observer: IRegistryObserver) -> None:
        """Tell one more from now on."""
        self._observers.append(observer)

    def tell(self, stamped: Sequence[Stamped]) -> None:
        """Tell every one of them of changes."""
        self._untold.extend(stamped)
        if self._telling:
            return
        self._telling = True
        while self._untold:
            each = self._untold.popleft()
            for observer in self._observers:
                _tell_one(observer, each)
        self._telling = False


def _tell_one(observer: IRegistryObserver, stamped: Stamped) -> None:
    try:
        observer.registry_changed(stamped)
    except Exception:
        log.failure("registry: {observer} failed on {event}", observer=observer, event=stamped.event)
