"""Services whose providers want them announced as devices, to programs that find devices by themselves."""

from __future__ import annotations

from collections.abc import Callable

from bussrv.registry.interfaces import IRegistry
from bussrv.registry.outcome import OnDone


class Announcements:
    """Passes on which services are to be announced.

    :ivar observers: each is called with the id of a session, and a service that it provides and wants announced.
    """

    def __init__(self, registry: IRegistry) -> None:
        self.observers: list[Callable[[str, str], None]] = []
        self._registry = registry

    @property
    def is_on(self) -> bool:
        """Whether services are announced at all."""
        return bool(self.observers)

    def ask_to_register(self, session_id: str, service: str, on_done: OnDone) -> None:
        """Register a service of a session as :meth:`IRegistry.ask_to_register` does, and have it announced."""

        def registered(error: Exception | None) -> None:
            if error is None:
                for tell in self.observers:
                    tell(session_id, service)
            on_done(error)

        self._registry.ask_to_register(session_id, service, registered)
