"""Following: everything that the bus keeps about sessions and services stays in step with the registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from zope.interface import implementer

from bussrv import events as ev
from bussrv.bus.groups.receivers import Receivers
from bussrv.bus.origins import Origins
from bussrv.bus.routing.forward import Forwarder
from bussrv.bus.routing.single import SingleRouter
from bussrv.bus.services.hosted_subscribers import HostedSubscribers
from bussrv.bus.services.last_values import LastValues
from bussrv.journal.record import Stamped
from bussrv.policy.permissions.access import Access
from bussrv.registry.changes.observers import Kinds
from bussrv.registry.changes.registry import Registry
from bussrv.registry.interfaces import IRegistryObserver


@implementer(IRegistryObserver)
class Follower:
    """Observes the registry.

    :param permissions_changed: called with the id of a session that has proved who it is.
    """

    KINDS: ClassVar[Kinds] = frozenset(
        {
            ev.SubscriptionAdded,
            ev.SubscriptionRenewed,
            ev.SubscriptionRemoved,
            ev.SessionIdentified,
            ev.AuthSucceeded,
            ev.ServiceUnregistered,
            ev.SessionClosed,
        }
    )

    def __init__(
        self,
        *,
        registry: Registry,
        access: Access,
        receivers: Receivers,
        hosted: HostedSubscribers,
        origins: Origins,
        last_values: LastValues,
        router: SingleRouter,
        forwarder: Forwarder,
        permissions_changed: Callable[[str], None],
    ) -> None:
        self._registry = registry
        self._access = access
        self._receivers = receivers
        self._hosted = hosted
        self._origins = origins
        self._last_values = last_values
        self._router = router
        self._forwarder = forwarder
        self._permissions_changed = permissions_changed

    def registry_changed(self, stamped: Stamped) -> None:
        """Keep in step; see :class:`IRegistryObserver`."""
        event = stamped.event
        session_id = event.session
        if session_id is None:
            return
        if isinstance(event, ev.ServiceUnregistered):
            self._unregistered(session_id, event.service)
        elif isinstance(event, ev.SubscriptionAdded):
            self._subscribed(session_id, event)
        elif isinstance(event, ev.SubscriptionRenewed):
            self._renewed(session_id, event)
        elif isinstance(event, ev.SubscriptionRemoved):
            if event.service is not None:
                self._receivers.unsubscribe(session_id, event.service)
        elif isinstance(event, ev.SessionIdentified):
            self._origins.forget(session_id)
        elif isinstance(event, ev.AuthSucceeded):
            self._permissions_changed(session_id)
        elif isinstance(event, ev.SessionClosed):
            self._receivers.remove(session_id)
            self._forwarder.forget(session_id)
            self._router.session_closed(session_id)
            self._origins.forget(session_id)

    def _subscribed(self, session_id: str, event: ev.SubscriptionAdded) -> None:
        if event.service is not None:
            self._hosted.subscribe(session_id, event.service, event.options)
        elif event.interest is not None:
            # It may be closed by now: observers are told in order, even when one of them closes a session.
            session = self._registry.state.sessions.get(session_id)
            if session is not None and not session.is_link:
                self._receivers.join(session_id, event.interest, session.vocabulary, self._access.of(session))

    def _renewed(self, session_id: str, event: ev.SubscriptionRenewed) -> None:
        if event.service is not None and event.options is not None:
            self._receivers.unsubscribe(session_id, event.service)
            self._hosted.subscribe(session_id, event.service, event.options)

    def _unregistered(self, session_id: str, service: str | None) -> None:
        if service is None:
            return
        self._router.unregistered(session_id, service)
        if service not in self._registry.state.services:
            self._last_values.forget(service)
