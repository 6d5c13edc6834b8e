"""Who may come in: how many sessions there may be, how many from one address, and how many of those a second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from zope.interface import implementer

from bussrv import events as ev
from bussrv.addresses import host_of
from bussrv.errors import OverLimit
from bussrv.interfaces import IRegistry, IRegistryObserver
from bussrv.journal.record import Stamped
from bussrv.registry.throttle import Throttle
from bussrv.settings import Settings


@implementer(IRegistryObserver)
class Admission:
    """Counts the sessions of this server by the address they come from.

    :param seconds: a clock, in seconds.
    """

    def __init__(self, registry: IRegistry, settings: Settings, seconds: Callable[[], float]) -> None:
        self._settings = settings
        self._homes: dict[str, str] = {}
        self._by_host: Counter[str] = Counter()
        rate = settings.max_connects
        self._connects = Throttle(rate, rate, seconds)
        for session in registry.state.sessions.values():
            self._entered(session.id, session.peer)

    def check(self, peer: str) -> None:
        """Whether one more session may be opened from an address.

        :raises OverLimit: ``too-many-sessions`` or ``too-many-connects``.
        """
        settings, host = self._settings, host_of(peer)
        if len(self._homes) >= settings.max_sessions:
            raise _too_many("too-many-sessions", "sessions", "max-sessions", settings.max_sessions)
        if self._by_host[host] >= settings.max_sessions_per_address:
            most = settings.max_sessions_per_address
            raise _too_many("too-many-sessions", f"sessions from {host}", "max-sessions-per-address", most)
        if self._connects.admit(host) is None:
            most = settings.max_connects
            raise _too_many("too-many-connects", f"connects a second from {host}", "max-connects", most)

    def registry_changed(self, stamped: Stamped) -> None:
        """Count who is there; see :class:`IRegistryObserver`."""
        event = stamped.event
        if isinstance(event, ev.SessionOpened) and event.home is None:
            self._entered(event.session or "", event.peer or "")
        elif isinstance(event, ev.SessionClosed):
            host = self._homes.pop(event.session or "", None)
            if host is not None:
                self._by_host[host] -= 1
                if not self._by_host[host]:
                    del self._by_host[host]

    def _entered(self, session_id: str, peer: str) -> None:
        self._homes[session_id] = host_of(peer)
        self._by_host[host_of(peer)] += 1


def _too_many(reason: str, what: str, limit: str, most: int) -> OverLimit:
    return OverLimit(reason, f"more than {most} {what}", limit, most)
