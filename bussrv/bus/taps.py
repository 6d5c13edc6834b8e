"""Taps: an operator sees some of the objects that pass, once each, with the number of sessions that they went to.

1. While no tap is open, an object costs nothing: a batch is asked once whether there is a tap.
2. A tap is asked about an object after it was routed. Filters, the permission ``observe`` or ``watch``, sampling and
   the rate decide before anything is copied.
3. Objects wait for a tap within a number of bytes. One that finds no room is counted as skipped, so a tap that is not
   read delays nobody.

What clients say to the server itself, such as a subscription with a secret, is not routed, and no tap sees it. Nor does
one see what the server says: updates of its own services, and announcements.
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
"""The most bytes of a payload that a tap shows: the first ones."""


@implementer(ITaps)
class Taps:
    """All taps.

    :param service_of: the service that permissions to receive a publication depend on.
    :param utc: the present time, UTC microseconds.
    :ivar is_on: whether there is one.
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
        """The policy is another one. Taps of users who may not see what the server does any more end."""
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
        """Objects for everybody were routed.

        :param provided: the services of their sender.
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
        """An object was routed by itself.

        :param others: how many others were given it, if it is not for everybody.
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
        """A publication that is no object was delivered."""
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
        """How many others are given an object that is for everybody."""
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
