"""The short way of the most frequent changes: a client registers a service, or unregisters it.

It is taken if nothing about the change is unusual. Then it does what :class:`bussrv.registry.changes.registry.Registry`
does for all changes, in fewer steps. Everything else is left to the registry. So it alone refuses changes, lets them
wait for the budget, and writes deferred openings.
"""

from __future__ import annotations

from functools import lru_cache

from bussrv import events as ev
from bussrv.errors import Refused
from bussrv.registry.changes.rules import ReservedNames
from bussrv.registry.changes.write_ahead import WriteAhead
from bussrv.registry.journal_budget.spending import Spending
from bussrv.registry.outcome import OnDone
from bussrv.registry.state.state import RegistryState
from bussrv.settings import Settings
from bussrv.turns.clock import Clock
from bussrv.values import check_service_name

SHORT = 256
"""The longest name, in characters, that is registered in the short way. The verdicts on names are remembered, and long
ones would take memory for it."""


class ServiceChanges:
    """Begins changes of services that need no more than a look.

    :param state: the registry as others see it.
    :param ahead: writes the changes.
    """

    def __init__(
        self,
        state: RegistryState,
        ahead: WriteAhead,
        clock: Clock,
        *,
        spending: Spending,
        settings: Settings,
        reserved: ReservedNames,
    ) -> None:
        self._state = state
        self._ahead = ahead
        self._planned = ahead.planned
        self._spending = spending
        self._settings = settings
        self._reserved = reserved
        self._mono = clock.mono

    def register(self, session_id: str, service: object, on_done: OnDone) -> bool:
        """Begin to register a service. :returns: whether that was begun; if not, nothing has happened."""
        session = self._state.sessions.get(session_id)
        if session is None or session.home is not None or not self._ahead.is_simple(session_id):
            return False
        if type(service) is not str or len(service) > SHORT or not is_fit(service):
            return False
        provided, settings, mono = self._state.provided_by(session_id), self._settings, self._mono()
        if (
            service in provided
            or service in self._reserved
            or len(provided) >= settings.max_services
            or self._planned.own_services >= settings.max_services_total
            or not self._spending.is_free(session, mono / 1_000_000)
        ):
            return False
        self._ahead.change_service(session, ev.ServiceRegistered, service, len(provided) + 1, mono, on_done)
        return True

    def unregister(self, session_id: str, service: object, on_done: OnDone) -> bool:
        """Begin to unregister a service, which is paid for already. :returns: as :meth:`register` does."""
        session, provided = self._state.sessions.get(session_id), self._state.provided_by(session_id)
        if (
            session is None
            or session.home is not None
            or type(service) is not str
            or service not in provided
            or not self._ahead.is_simple(session_id)
            or self._spending.is_waited_for
        ):
            return False
        count, mono = len(provided) - 1, self._mono()
        self._ahead.change_service(session, ev.ServiceUnregistered, service, count, mono, on_done)
        return True


@lru_cache(1024)
def is_fit(name: str) -> bool:
    """Whether that can be the name of a new service. Names are asked about again and again."""
    try:
        check_service_name(name)
    except Refused:
        return False
    return True
