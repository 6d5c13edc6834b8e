"""Taps: an operator sees objects that pass, each once, with the number of sessions that received it.

1. Without an open tap, objects cost nothing more: the bus looks once per batch whether a tap is open.
2. After an object was routed, each tap decides whether to show it. The filter, the permission ``observe`` or ``watch``,
   sampling and the rate decide before anything is copied.
3. All taps together show a limited number of objects a second, and each has an equal share of it.
4. Objects wait for the reader of a tap within a number of bytes. Without room, an object is counted as skipped. So a
   slow reader delays no client.

Taps do not see objects for the server itself, such as a subscription with a secret: these are not routed. Nor do they
see objects of the server: updates of its own services, and announcements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set

from msgspec.structs import replace
from zope.interface import implementer

from bussrv.bus.interest.vocabulary import REQUEST
from bussrv.bus.interfaces import ITaps
from bussrv.bus.origins import Origin
from bussrv.bus.services.bridge import as_publication
from bussrv.bus.shared import Shared
from bussrv.bus.taps.tap import Tap, TapFilter, Tapped, TappedSender
from bussrv.policy.permissions.permissions import EVERYTHING, Permissions
from bussrv.values import Publication
from bussrv.wire.objects import BusObject, Head, encode_metadata

MOST_PAYLOAD = 64 << 10
"""The most bytes of a payload that a tap shows. The rest is cut off."""

OthersOf = Callable[[Origin, BusObject, Set[str]], int]
"""Says how many sessions other than its sender got an object, given the services that the sender provides."""


@implementer(ITaps)
class Taps:
    """All taps.

    :param utc: returns the present time, UTC microseconds.
    :param settings: limit the objects a second of all taps together.
    :ivar is_on: whether a tap is open.
    """

    def __init__(self, shared: Shared) -> None:
        self.is_on = False
        self._settings = shared.settings
        self._counters = shared.counters
        self._registry = shared.registry
        self._access = shared.access
        self._utc = shared.clock.utc
        self._reactor = shared.reactor
        self._open: dict[Tap, tuple[str | None, str, str]] = {}

    def open(self, wanted: TapFilter, *, actor: str | None, peer: str, protocol: str, most: int) -> Tap:
        """Open a tap for a user; see :class:`ITaps`."""
        tap = Tap(wanted, self._permissions(actor, peer, protocol), most, self._is_within_share, self._reactor)
        self._open[tap] = (actor, peer, protocol)
        self.is_on = True
        return tap

    def _is_within_share(self, in_second: int) -> bool:
        """Whether each of the taps may show so many objects a second."""
        is_within = in_second <= max(1, self._settings.admin_max_tap_rate // len(self._open))
        if not is_within:
            self._counters["admin-max-tap-rate"] += 1
        return is_within

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
                tap.permissions_changed(permissions)
            else:
                self.close(tap)

    def _permissions(self, actor: str | None, peer: str, protocol: str) -> Permissions:
        return self._access.of_user(actor, peer, protocol) if self._access.judges else EVERYTHING

    # Objects that pass.

    def saw_batch(self, origin: Origin, provided: Set[str], objs: Sequence[BusObject], others_of: OthersOf) -> None:
        """Show a batch of objects for everybody, after it was routed.

        :param provided: the services that their sender provides.
        :param others_of: says how many other sessions received one of them.
        """
        sender = self._sender(origin)
        taps = [tap for tap in self._open if tap.is_for(sender)]
        for obj in objs if taps else ():
            publication = as_publication(obj, provided) if provided else None
            service = None if publication is None else publication.service
            takers = [tap for tap in taps if tap.takes(obj.head.event, obj.head.type, service)]
            if takers:
                self._show(takers, sender, origin, obj, service, others_of(origin, obj, provided))

    def saw(
        self, origin: Origin, obj: BusObject, event: str | None, publication: Publication | None, others: int
    ) -> None:
        """Show an object that was routed by itself.

        :param event: its event, in lower case.
        :param others: how many other sessions received it.
        """
        sender, service = self._sender(origin), None if publication is None else publication.service
        if event == REQUEST:
            name = obj.fields().get("name", obj.fields().get("service"))
            service = name if isinstance(name, str) else None
        head = obj.head
        taps = [tap for tap in self._open if tap.is_for(sender, head.to) and tap.takes(head.event, head.type, service)]
        if taps:
            self._show(taps, sender, origin, obj, service, others)

    def saw_publication(self, origin: Origin, publication: Publication, others: int) -> None:
        """Show a publication that is not an object, after it was delivered."""
        sender, service = self._sender(origin), publication.service
        content_type = publication.content_type
        taps = [tap for tap in self._open if tap.is_for(sender) and tap.takes(None, content_type, service)]
        if taps:
            obj = BusObject(_metadata(publication), Head(type=content_type), publication.payload)
            self._show(taps, sender, origin, obj, service, others)

    def _show(
        self,
        taps: Iterable[Tap],
        sender: TappedSender,
        origin: Origin,
        obj: BusObject,
        service: str | None,
        others: int,
    ) -> None:
        """Queue an object for taps, which share it."""
        head, size, metadata = obj.head, len(obj.payload), obj.metadata
        plain = Tapped(self._utc(), sender, origin.route, others, head.event, head.type, service, size, metadata, None)
        whole: Tapped | None = None
        for tap in tuple(taps):
            if tap.filter.payload:
                whole = whole or replace(plain, payload=obj.payload[:MOST_PAYLOAD])
                tap.put(whole)
            else:
                tap.put(plain)

    def _sender(self, origin: Origin) -> TappedSender:
        state = self._registry.state
        routing_id = origin.route[0]
        session_id = origin.sender or state.owner(routing_id)
        session = state.sessions.get(session_id or "")
        return TappedSender(routing_id, session_id if session else None, session.protocol if session else None)


def _metadata(publication: Publication) -> bytes:
    about = {"type": publication.content_type, "sender": publication.service, "app-type": publication.app_type}
    return encode_metadata(about, publication.payload)
