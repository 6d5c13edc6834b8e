"""Publications on services, received over any wire format."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from bussrv.cli.connection import ConnectionOptions

if TYPE_CHECKING:
    from bussrv.cli.traffic.members import Member
    from bussrv.client.inbus import Datagram, InbusSubscriber
    from bussrv.client.spp import SppClient

FORMATS = ("objects", "business", "inbus", "spp")

RENEW = 600.0
"""Seconds between two subscriptions over Inbus. A lease is an hour, unless the server says otherwise."""


@dataclass(frozen=True)
class ReceivedPublication:
    """A payload on a service, with the attributes that its wire format has.

    :ivar sender: the routing id of the client that published it.
    """

    service: str
    payload: bytes
    type: str | None = None
    app_type: int | None = None
    sender: str | None = None
    id: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The object of JSON for programs."""
        from bussrv.cli.show.output import payload_fields

        shown: dict[str, Any] = {"service": self.service, "type": self.type, "app_type": self.app_type}
        shown |= {"from": self.sender, "id": self.id}
        return {**{name: value for name, value in shown.items() if value is not None}, **payload_fields(self.payload)}


class WatchedService(Protocol):
    """A subscription."""

    def receive(self, timeout: float) -> ReceivedPublication:
        """The next publication.

        :raises TimeoutError: none came in so many seconds.
        """


def has_wildcard(name: str) -> bool:
    """Whether a name may match several services."""
    return "*" in name or "?" in name


def matches(service: object, names: Sequence[str]) -> bool:
    """Whether the name of a service matches one of some names. They may have ``*`` and ``?``."""
    from fnmatch import fnmatchcase

    # Brackets have no meaning in names of services.
    return isinstance(service, str) and any(fnmatchcase(service, name.replace("[", "[[]")) for name in names)


@contextmanager
def receiving(connection: ConnectionOptions, wire_format: str, names: Sequence[str]) -> Iterator[WatchedService]:
    """Subscribe to services.

    :param wire_format: one of :data:`FORMATS`.
    :raises ValueError: the wire format has no such subscription.
    """
    if wire_format == "spp":
        from bussrv.client.spp import SppClient

        place = connection.place("spp")
        with SppClient(place.address.host, place.address.port, place.timeout, tls=place.tls) as client:
            who = place.credentials
            if who.secret is not None or who.token is not None:
                client.authenticate(who.user or "", who.secret or "", token=who.token)
            yield _Spp(client, names)
    elif wire_format == "inbus":
        from bussrv.client.inbus import InbusSubscriber

        if len(names) != 1 or has_wildcard(names[0]):
            raise ValueError("a subscription over Inbus is to one service, by its whole name")
        address = connection.place("inbus").address
        server = (address.host, address.port)
        with InbusSubscriber(names[0], server, host=_own_address(server)) as subscriber:
            yield _Inbus(subscriber)
    else:
        from bussrv.cli.traffic.members import PUBLICATIONS, joined

        with joined(connection, wire_format, PUBLICATIONS) as member:
            yield _Objects(member, names)


class _Objects:
    def __init__(self, member: Member, names: Sequence[str]) -> None:
        self._member, self._names = member, names

    def receive(self, timeout: float) -> ReceivedPublication:
        from bussrv.cli.traffic.members import EventTimeout

        patience = EventTimeout(timeout)
        # Drop unwanted objects: if the client kept them, it would look at each again for every publication.
        while not self._is_wanted((found := self._member.client.receive(patience.left())).metadata):
            patience.check()
        fields = found.metadata
        route, app_type = fields.get("route"), fields.get("app-type")
        return ReceivedPublication(
            fields["sender"],
            found.payload,
            _text(fields.get("type")),
            app_type if isinstance(app_type, int) else None,
            _text(route[0]) if isinstance(route, list) and route else None,
            _text(fields.get("id")),
        )

    def _is_wanted(self, fields: dict[str, Any]) -> bool:
        event = fields.get("event")
        if event == "error":
            from bussrv.client.objects import BusError

            raise BusError(str(fields.get("reason", "unknown")), str(fields.get("message", "")))
        special = isinstance(event, str) and event.startswith(("services/", "routing/"))
        return not special and matches(fields.get("sender"), self._names)


class _Spp:
    def __init__(self, client: SppClient, names: Sequence[str]) -> None:
        self._client, self._names = client, names

    def receive(self, timeout: float) -> ReceivedPublication:
        from bussrv.cli.traffic.members import EventTimeout
        from bussrv.wire.spp import Info, Offer

        patience = EventTimeout(timeout)
        while True:
            patience.check()
            event = self._client.next_event(patience.left())
            if isinstance(event, Offer) and matches(event.service, self._names):
                self._client.subscribe(event.service)
            elif isinstance(event, Info):
                return ReceivedPublication(event.service, event.message)


class _Inbus:
    def __init__(self, subscriber: InbusSubscriber) -> None:
        self._subscriber = subscriber

    def receive(self, timeout: float) -> ReceivedPublication:
        from bussrv.cli.traffic.members import EventTimeout

        patience = EventTimeout(timeout)
        while (found := self._receive(patience.left(RENEW))) is None:
            patience.check()
            self._subscriber.renew()
        return ReceivedPublication(found.app_key, found.payload, app_type=found.app_type)

    def _receive(self, timeout: float) -> Datagram | None:
        try:
            return self._subscriber.receive(timeout)
        except TimeoutError:
            return None


def _own_address(server: tuple[str, int]) -> str:
    """The address of this machine that the server sees."""
    family, _, _, _, address = socket.getaddrinfo(*server, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(address)
        own: str = probe.getsockname()[0]
        return own


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
