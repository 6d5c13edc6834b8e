"""The links of a replica to its sessions: they note what they are given, and send nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zope.interface import implementer

from bussrv.bus.bus import Bus
from bussrv.bus.groups.fanout import OBJECT_FRAMES
from bussrv.bus.groups.frames import Delivery
from bussrv.bus.interfaces import IEncoding, IFilteringLink, ISessionLink
from bussrv.formats.inbus.drops import Drops
from bussrv.formats.inbus.outlet import InbusPublish
from bussrv.formats.mqtt.encoding import FACTS, Encodings, MqttEncoding, Wanted
from bussrv.formats.spp.protocol import HEADER_BYTES
from bussrv.memory.bundle import Bundle
from bussrv.registry.state.session import Session
from bussrv.service_patterns import is_pattern
from bussrv.settings import Settings
from bussrv.values import Traffic
from bussrv.wire import spp


@implementer(IEncoding)
class AnyPublication:
    """Publications for a wire format that is not known here: it is taken to carry each of them."""

    def encode(self, delivery: Delivery) -> bytes | None:
        """Something, if it is a publication."""
        return None if delivery.publication is None else b"\0"


@implementer(IEncoding)
class FittingPacket:
    """Publications for SPP: whether one fits into a packet."""

    def __init__(self, settings: Settings) -> None:
        self._most = HEADER_BYTES + settings.max_packet

    def encode(self, delivery: Delivery) -> bytes | None:
        """The packet, if it is not too large."""
        publication = delivery.publication
        packet = None if publication is None else spp.info(publication.service, publication.payload)
        return packet if packet is not None and len(packet) <= self._most else None


class _Unsaid(Drops):
    """Says nothing of what no datagram can carry."""

    def warn(self, key: str, text: str, times: int = 1, **fields: Any) -> None:
        """See :class:`Drops`."""


class SessionEncodings:
    """The encodings of all sessions of a replica."""

    def __init__(self, bus: Bus) -> None:
        self.mqtt = Encodings(bus.counters, bus.utc)
        unsaid = _Unsaid(bus, lambda: 0.0)
        self._inbus = {version: InbusPublish(version, bus, unsaid) for version in (1, 2)}
        self._spp = FittingPacket(bus.settings)
        self._any = AnyPublication()

    def of(self, protocol: str, options: dict[str, Any] | None) -> IEncoding:
        """The encoding of a subscription to a service."""
        if protocol == "inbus":
            return self._inbus[(options or {}).get("version", 1)]
        return self._spp if protocol == "spp" else self._any


@implementer(ISessionLink)
class Outlet:
    """The link to a session.

    :ivar given: how many frames it was given.
    """

    def __init__(self, session: Session, encodings: SessionEncodings, *, is_member: bool) -> None:
        self.given = 0
        self.traffic = Traffic()
        self.waiting = 0
        self.is_away = session.is_away
        self._session_id, self._protocol = session.id, session.protocol
        self._encodings = encodings
        self._is_member = is_member

    def encoding_for(self, options: dict[str, Any] | None) -> IEncoding:
        """See :class:`ISessionLink`."""
        return OBJECT_FRAMES if self._is_member else self._encodings.of(self._protocol, options)

    def send(self, bundle: Bundle) -> None:
        """Note that there is something."""
        self.given += bundle.count

    def close(self, reason: str) -> None:
        """There is no connection."""


@implementer(IFilteringLink)
class FilteringOutlet(Outlet):
    """The link to a session whose subscriptions are one set."""

    def encoding_of(self, filters: Mapping[str, dict[str, Any] | None], *, is_alone: bool) -> IEncoding:
        """See :class:`IFilteringLink`."""
        if self._protocol != "mqtt":
            return self._encodings.of(self._protocol, None)
        return self._encodings.mqtt.for_filters(FACTS, self._session_id, filters, is_alone=is_alone)

    def refilter(self, encoding: IEncoding, changed: str, options: dict[str, Any] | None, *, is_there: bool) -> None:
        """See :class:`IFilteringLink`."""
        if isinstance(encoding, MqttEncoding):
            encoding.refilter(changed, Wanted.of(options) if is_there else None)


@implementer(ISessionLink)
class ServerOutlet:
    """The link to another server.

    :ivar frames: the objects that it was given, one after the other.
    """

    def __init__(self) -> None:
        self.frames = b""
        self.traffic = Traffic()
        self.waiting = 0

    def encoding_for(self, options: dict[str, Any] | None) -> IEncoding:
        """See :class:`ISessionLink`."""
        return OBJECT_FRAMES

    def send(self, bundle: Bundle) -> None:
        """Keep them for the replica of the other server."""
        self.frames += bundle.joined

    def close(self, reason: str) -> None:
        """There is no connection."""


def outlet_of(session: Session, encodings: SessionEncodings, *, is_member: bool, wanted: set[str]) -> Outlet:
    """The link to a session.

    :param wanted: the names and patterns that it is subscribed to.
    """
    is_filtering = session.protocol == "mqtt" or (not is_member and any(map(is_pattern, wanted)))
    kind = FilteringOutlet if is_filtering else Outlet
    return kind(session, encodings, is_member=is_member)
