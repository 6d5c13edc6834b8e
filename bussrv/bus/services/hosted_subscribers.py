"""Hosted services: those that the server itself provides, and to whom of their subscribers they show what.

Most show the same to everybody who may watch them. A *filtered* one shows each session what it may know of, by its
permissions. A session with ``admin = "read"`` is shown everything.

To members, updates are objects. A member asks for the present state with ``services/request``; the reply has its place
among the updates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

from twisted.internet.defer import Deferred

from bussrv.bus.groups.fanout import Fanout, Group
from bussrv.bus.groups.frames import Delivery
from bussrv.bus.groups.receivers import Receivers
from bussrv.bus.services.bridge import as_metadata
from bussrv.bus.services.hosted import Hosted
from bussrv.bus.shared import Shared
from bussrv.errors import Refused
from bussrv.policy.permissions.permissions import EVERYTHING, Permissions
from bussrv.values import Publication, check_publication


class HostedSubscribers:
    """The hosted services, and the updates that their subscribers are given.

    :param wake: has collected frames sent at the end of the reactor turn.
    """

    def __init__(self, shared: Shared, receivers: Receivers, fanout: Fanout, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._registry = shared.registry
        self._access = shared.access
        self._new_id = shared.new_id
        self._route = [shared.server_id]
        self._receivers = receivers
        self._fanout = fanout
        self._services: dict[str, Hosted] = {}
        self._awaiting: set[tuple[str, str]] = set()

    def declare(self, service: str, hosted: Hosted) -> None:
        """The server provides a service."""
        self._services[service] = hosted

    def get(self, service: object) -> Hosted | None:
        """A service of the server; ``None`` for every other name."""
        return self._services.get(service) if isinstance(service, str) else None

    def content_type(self, service: object) -> str | None:
        """The content type of a service of the server; ``None`` for every other name."""
        hosted = self.get(service)
        return None if hosted is None else hosted.content_type

    def ready(self, service: object, permissions: Permissions) -> Deferred[None] | None:
        """See :meth:`bussrv.bus.interfaces.IHosting.ready`."""
        hosted = self.get(service)
        return None if hosted is None else hosted.ready(seen_with(permissions))

    def is_awaited(self, service: str) -> bool:
        """Whether a subscriber with other permissions waits for the state."""
        return any(awaited == service for _, awaited in self._awaiting)

    def update(self, service: str, payloads: Callable[[Permissions], Iterable[bytes]]) -> None:
        """Give an update to the subscribers of a service.

        :param payloads: those that sessions with some permissions are given.
        """
        hosted, members = self._services[service], self._receivers.members_on(service)
        made: dict[Permissions, list[Delivery]] = {}
        for group in chain(self._receivers.subscribed_to(service), members):
            shown = seen_with(group.permissions) if hosted.is_filtered else EVERYTHING
            deliveries = made.get(shown)
            if deliveries is None:
                publications = [Publication(service, hosted.content_type, payload) for payload in payloads(shown)]
                for each in publications:
                    check_publication(each)
                deliveries = made[shown] = [self._delivery(each, as_object=bool(members)) for each in publications]
            for delivery in deliveries:
                self._fanout.add(group, delivery)

    def _delivery(self, publication: Publication, *, as_object: bool) -> Delivery:
        """:param as_object: whether members are given it, too."""
        metadata = as_metadata(publication, self._new_id(), self._route, with_app_type=False) if as_object else b""
        return Delivery(metadata, publication.payload, publication)

    def subscribe(self, session_id: str, service: str, options: dict[str, Any] | None) -> None:
        """A session gets the publications on a service, hosted or not, from now on."""
        shown = self.shown(session_id, service)
        if session_id in self._receivers.filtering:
            shown = self._access.of(self._registry.state.sessions.get(session_id))
        self._receivers.subscribe(session_id, service, options, shown)

    def shown(self, session_id: str, service: str) -> Permissions:
        """The permissions by which a service shows a subscriber what it may know of."""
        hosted = self._services.get(service)
        if hosted is None or not hosted.is_filtered:
            return EVERYTHING
        return seen_with(self._access.of(self._registry.state.sessions.get(session_id)))

    def permissions_changed(self, session_id: str) -> None:
        """A session has other permissions from now on: give it the present state of services that it sees otherwise.

        A member has to ask for that. A session with filters is given the next update.
        """
        if self._receivers.group_of(session_id) is not None or session_id in self._receivers.filtering:
            return
        held = self._registry.state.subscriptions.get(session_id, {})
        for service, hosted in self._services.items():
            subscription = held.get(service) if hosted.is_filtered else None
            shown = self.shown(session_id, service)
            if subscription is None or self._group(session_id, service, shown) is not None:
                continue
            self._receivers.unsubscribe(session_id, service)
            ready = hosted.ready(shown)
            if ready is None:
                self._show_anew(session_id, service)
            else:
                self._awaiting.add((session_id, service))
                ready.addCallback(partial(self._show_anew, session_id, service))

    def _show_anew(self, session_id: str, service: str, _: object = None) -> None:
        """Give a subscriber with other permissions the present state, and updates from now on."""
        self._awaiting.discard((session_id, service))
        hosted, shown = self._services[service], self.shown(session_id, service)
        subscription = self._registry.state.subscription(session_id, service)
        if subscription is None or self._group(session_id, service, shown) is not None:
            return
        self._receivers.subscribe(session_id, service, subscription.options, shown)
        group = self._group(session_id, service, shown)
        if group is not None:
            with suppress(Refused):  # It is shown the next update.
                state = hosted.snapshot(shown)
                delivery = Delivery(b"", state, Publication(service, hosted.content_type, state))
                self._fanout.add_for_one(group, session_id, delivery)
                self._wake()

    def _group(self, session_id: str, service: str, shown: Permissions) -> Group | None:
        """The group of a subscriber, if it is one of those who are shown that."""
        groups = self._receivers.subscribed_to(service)
        return next((each for each in groups if each.permissions is shown and session_id in each.links), None)


def seen_with(permissions: Permissions) -> Permissions:
    """The permissions that filtered services ask: whoever may see what the server does sees everything."""
    return EVERYTHING if permissions.may("admin", "read") else permissions
