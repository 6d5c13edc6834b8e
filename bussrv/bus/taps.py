"""Taps: an operator sees objects that pass, each once, with the number of sessions that received it.

1. Without an open tap, objects cost nothing more: the bus looks once per batch whether a tap is open.
2. After an object was routed, each tap decides whether to show it. The filter, the permission ``observe`` or ``watch``,
   sampling and the rate decide before anything is copied.
3. Objects wait for the reader of a tap within a number of bytes. Without room, an object is counted as skipped. So a
   slow reader delays no client.

Taps do not see objects for the server itself, such as a subscription with a secret: these are not routed. Nor do they
see objects of the server: updates of its own services, and announcements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any

from zope.interface import implementer

from bussrv.bus.bridge import as_publication
from bussrv.bus.event_names import PARTED, REQUEST
from bussrv.bus.interest import Kind, kind_of
from bussrv.bus.interfaces import ITaps
from bussrv.bus.links import Links
from bussrv.bus.receivers import Receivers
from bussrv.bus.recipients import Origin
from bussrv.bus.tap import Sender, Tap, TapFilter, Tapped
from bussrv.policy.access import Access
from bussrv.policy.permissions import EVERYTHING, Permissions
from bussrv.registry.registry import Registry
from bussrv.values import Publication
from bussrv.wire.objects import BusObject, Head, encode_metadata

MOST_PAYLOAD = 64 << 10
"""The most bytes of a payload that a tap shows. The rest is cut off."""


@implementer(ITaps)
class Taps:
    """All taps.

    :param service_of: returns the service that permissions to receive a publication depend on.
    :param utc: returns the present time, UTC microseconds.
    :ivar is_on: whether a tap is open.
    """

    def __init__(
        self,
        registry: Registry,
        access: Access,
        receivers: Receivers,
        links: Links,
        service_of: Callable[[Publication | None], str | None],
        utc: Callable[[], int],
        reactor: Any,
    ) -> None:
        self.is_on = False
        self._registry = registry
        self._access = access
        self._receivers = receivers
        self._links = links
        self._service_of = service_of
        self._utc = utc
        self._reactor = reactor
        self._open: dict[Tap, tuple[str | None, str, str]] = {}

    def open(self, wanted: TapFilter, *, actor: str | None, peer: str, protocol: str, most: int) -> Tap:
        """Open a tap for a user; see :class:`ITaps`."""
        tap = Tap(wanted, self._permissions(actor, peer, protocol), most, self._reactor)
        self._open[tap] = (actor, peer, protocol)
        self.is_on = True
        return tap

    def close(self, tap: Tap) -> None:
        """End a tap."""
        self._open.pop(tap, None)
        self.is_on = bool(self._open)
        tap.end()

    def policy_changed(self) -> None:
        """Apply a changed policy. End the taps of users who have lost ``admin = "read"``."""
        for tap, user in tuple(self._open.items()):
            permissions = self._permissions(*user)
            if permissions.may("admin", "read"):
                tap.permit(permissions)
            else:
                self.close(tap)

    def _permissions(self, actor: str | None, peer: str, protocol: str) -> Permissions:
        return self._access.of_user(actor, peer, protocol) if self._access.judges else EVERYTHING

    # Objects that pass.

    def saw_batch(self, origin: Origin, provided: Set[str], objs: Sequence[BusObject]) -> None:
        """Show a batch of objects for everybody, after it was routed.

        :param provided: the services that their sender provides.
        """
        sender = self._sender(origin)
        for tap in tuple(self._open):
            if tap.is_for(sender):
                self._show_batch(tap, sender, origin, provided, objs)

    def _show_batch(
        self, tap: Tap, sender: Sender, origin: Origin, provided: Set[str], objs: Iterable[BusObject]
    ) -> None:
        for obj in objs:
            publication = as_publication(obj, provided) if provided else None
            service = None if publication is None else publication.service
            if tap.takes(obj.head.event, obj.head.type, service):
                kind = kind_of(obj, self._service_of(publication))
                self._show(tap, sender, origin, obj, service, self._others(origin, kind, service))

    def saw(self, origin: Origin, obj: BusObject, publication: Publication | None, kind: Kind, others: int) -> None:
        """Show an object that was routed by itself.

        :param others: how many other sessions received it, if it is not for everybody.
        """
        sender, service = self._sender(origin), None if publication is None else publication.service
        if kind.event == REQUEST:
            name = obj.fields().get("name", obj.fields().get("service"))
            service = name if isinstance(name, str) else None
        for tap in tuple(self._open):
            if tap.is_for(sender, obj.head.to) and tap.takes(obj.head.event, obj.head.type, service):
                if obj.head.to is None and kind.event not in PARTED:
                    others = self._others(origin, kind, service)
                self._show(tap, sender, origin, obj, service, others)

    def saw_publication(self, origin: Origin, publication: Publication, kind: Kind) -> None:
        """Show a publication that is not an object, after it was delivered."""
        sender, service = self._sender(origin), publication.service
        for tap in tuple(self._open):
            if tap.is_for(sender) and tap.takes(None, publication.content_type, service):
                obj = BusObject(_metadata(publication), Head(type=publication.content_type), publication.payload)
                self._show(tap, sender, origin, obj, service, self._others(origin, kind, service))

    def _show(self, tap: Tap, sender: Sender, origin: Origin, obj: BusObject, service: str | None, others: int) -> None:
        head = obj.head
        payload = obj.payload[:MOST_PAYLOAD] if tap.filter.payload else None
        size = len(obj.payload)
        tap.put(
            Tapped(
                self._utc(), sender, origin.route, others, head.event, head.type, service, size, obj.metadata, payload
            )
        )

    def _others(self, origin: Origin, kind: Kind, service: str | None) -> int:
        """How many other sessions receive an object that is for everybody."""
        groups = self._receivers.wanting(kind)
        others = sum(len(group.links) - (origin.sender in group.links) for group in groups)
        if service is not None:
            others += sum(len(group.links) for group in self._receivers.subscribed_to(service))
        return others + (len(self._links.taking(kind, origin.route)) if self._links else 0)

    def _sender(self, origin: Origin) -> Sender:
        state = self._registry.state
        routing_id = origin.route[0]
        session_id = origin.sender or state.owner(routing_id)
        session = state.sessions.get(session_id or "")
        return Sender(routing_id, session_id if session else None, session.protocol if session else None)


def _metadata(publication: Publication) -> bytes:
    about = {"type": publication.content_type, "sender": publication.service, "app-type": publication.app_type}
    return encode_metadata(about, publication.payload)
