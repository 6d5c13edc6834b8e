"""Inbus: sending to subscribers. Each gets its own version, and datagrams at a limited rate."""

from __future__ import annotations

import socket
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from twisted.internet.error import InvalidAddressError, MessageLengthError
from zope.interface import implementer

from bussrv import events as ev
from bussrv.addresses import format_address, is_local, plain_ip
from bussrv.bus.copied_limits import CopiedLimits
from bussrv.counts.throttle import Throttle
from bussrv.formats.inbus.drops import FORMAT, Drops
from bussrv.net.transport.icmp import ErrorQueue, Told, watch_errors
from bussrv.net.transport.udp_batches import UdpBatch, udp_batches
from bussrv.plugin import Bundle, Delivery, IBus, IEncoding, ISessionLink, Publication, Traffic, address_key
from bussrv.wire import inbus as wire

MAPPED = "::ffff:"
"""The beginning of an IPv4 address on a port that serves both versions of IP."""

MAX_TARGETS = 100_000
"""For how many addresses it is remembered what they were sent in the last second."""


@implementer(IEncoding)
class InbusPublish:
    """Publications as datagrams of one version of Inbus; what no datagram can carry is dropped, counted and logged."""

    def __init__(self, version: int, bus: IBus, drops: Drops) -> None:
        self._version = version
        self._counters = bus.counters
        self._drops = drops

    def encode(self, delivery: Delivery) -> bytes | None:
        """The datagram of a publication: text in version 1, unless it is none; base64 in version 2."""
        publication = delivery.publication
        if publication is None:
            return None
        try:
            datagram = self._datagram(publication)
        except ValueError as error:
            self._dropped("bad-element", publication, str(error))
            return None
        if len(datagram) <= wire.MAX_DATAGRAM:
            return datagram
        self._dropped("datagram-too-large", publication, f"{len(publication.payload)} bytes are too many")
        return None

    def _dropped(self, reason: str, publication: Publication, why: str) -> None:
        self._counters[reason] += 1
        service = publication.service
        self._drops.warn(
            f"service {service}",
            "inbus: no datagram of version {version} can carry what was published on {service!r}: {why}",
            event="inbus.not-carried",
            version=self._version,
            service=service,
            why=why,
        )

    def _datagram(self, publication: Publication) -> bytes:
        service, app_type, payload = publication.service, publication.app_type, publication.payload
        if self._version == 1:
            try:
                return wire.publish(service, app_type, payload, 1)
            except UnicodeDecodeError:
                payload = b64encode(payload)
        return wire.publish(service, app_type, payload, self._version)


class Target:
    """A stated address.

    :ivar address: host and port.
    :ivar is_foreign: whether only others have stated it, not its own host.
    """

    def __init__(self, address: tuple[str, int], *, is_foreign: bool = False) -> None:
        self.address = address
        self.is_foreign = is_foreign
        self.host = None if is_local(address[0]) else address_key(address[0])


class Rates:
    """How many datagrams a second are sent where. Otherwise a stated address could be flooded by way of this server.

    Three limits hold, and loopback addresses have only the first:

    1. for a stated address, a host and a port: ``--inbus-max-rate``;
    2. for a host, all its ports together: ``--inbus-max-host-rate``. An IPv6 host is a /64 network, for a flood of one
       of its addresses fills the line to all of them;
    3. for a host, all its ports together that somebody else stated: ``--inbus-max-rate``.

    :param seconds: a clock, in seconds.
    """

    def __init__(self, bus: IBus, seconds: Callable[[], float], drops: Drops) -> None:
        self._bus = bus
        self._drops = drops
        most, of_host = bus.settings.inbus_max_rate, bus.settings.inbus_max_host_rate
        self._of_address = Throttle(most, most, seconds, MAX_TARGETS)
        self._of_host = Throttle(of_host, of_host, seconds, MAX_TARGETS)
        self._of_foreign = Throttle(most, most, seconds, MAX_TARGETS)
        self._copy_limits()
        bus.reloadables.append(CopiedLimits(self._copy_limits))

    def _copy_limits(self) -> None:
        self._most = most = self._bus.settings.inbus_max_rate
        self._most_of_host = of_host = self._bus.settings.inbus_max_host_rate
        self._of_address.limit(most, most)
        self._of_foreign.limit(most, most)
        self._of_host.limit(of_host, of_host)

    def admits(self, target: Target, session_id: str, wanted: int) -> int:
        """How many of the datagrams that are ``wanted`` may be sent there now."""
        admitted = wanted
        for throttle, key, reason, limit, most in self._limits(target):
            taken = throttle.take(key, admitted)
            if taken < admitted:
                self._note(target, session_id, reason, limit, most, admitted - taken)
            admitted = taken
        return admitted

    def _limits(self, target: Target) -> Iterator[tuple[Throttle, object, str, str, int]]:
        yield self._of_address, target.address, "inbus-rate", "inbus-max-rate", self._most
        if target.host is None:
            return
        if target.is_foreign:
            yield self._of_foreign, target.host, "inbus-host-rate", "inbus-max-rate", self._most
        yield self._of_host, target.host, "inbus-host-rate", "inbus-max-host-rate", self._most_of_host

    def _note(self, target: Target, session_id: str, reason: str, limit: str, most: int, times: int) -> None:
        peer = format_address(*target.address)
        self._bus.counters[reason] += times
        reached = ev.LimitReached(
            protocol=FORMAT, session=session_id, peer=peer, reason=reason, limit=limit, value=most
        )
        self._bus.registry.note_from_stranger(reached, times)
        where = peer if reason == "inbus-rate" else str(target.host)
        self._drops.warn(
            where,
            "inbus: more than {rate} datagrams a second to {peer}",
            times,
            event="inbus.rate",
            rate=most,
            peer=where,
        )


class Outlet:
    """The sending side of the port.

    :ivar encodings: the encoding of each version, by its number.
    :ivar rates: how many datagrams may be sent where.
    """

    def __init__(self, bus: IBus, reactor: Any, drops: Drops) -> None:
        self.encodings: Mapping[int, IEncoding] = {
            version: InbusPublish(version, bus, drops) for version in wire.VERSIONS
        }
        self._bus = bus
        self._reactor = reactor
        self.rates = Rates(bus, reactor.seconds, drops)
        self._transport: Any = None
        self._errors: ErrorQueue | None = None
        self._bound: IPv4Address | IPv6Address = IPv4Address(0)
        self._port = 0
        self._cut: tuple[Sequence[bytes], Sequence[UdpBatch]] = ((), ())

    def open(self, transport: Any) -> None:
        """The port is bound."""
        host = transport.getHost()
        self._transport = transport
        self._bound, self._port = ip_address(host.host.partition("%")[0]), host.port

    def watch(self, told: Told) -> None:
        """Learn whom datagrams do not reach, where the system says so; see
        :func:`bussrv.net.transport.icmp.watch_errors`.
        """
        self._errors = watch_errors(self._transport, self._reactor, told)

    def unwatch(self) -> None:
        """The port is about to be closed: nothing is read any more."""
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def close(self) -> None:
        """The port is closed."""
        self._transport = None

    def is_own(self, address: IPv4Address | IPv6Address, port: int) -> bool:
        """Whether what is sent there comes back to this very port, which would publish it again, for ever."""
        if port != self._port:
            return False
        if not self._bound.is_unspecified:
            return address == plain_ip(str(self._bound))
        return _is_of_this_machine(address)

    def send(self, frames: Sequence[bytes], address: tuple[str, int]) -> tuple[int, int]:
        """Send datagrams, in order.

        :returns: how many of them the system took, and of how many bytes; the others are counted.
        """
        if self._bound.version == 6 and ":" not in address[0]:
            address = (MAPPED + address[0], address[1])
        if len(frames) == 1 or self._errors is None or not self._errors.can_segment:
            return self._send_each(frames, address)
        taken = size = 0
        for batch in self._udp_batches_of(frames):
            if len(batch.frames) > 1 and self._errors.send_batch(batch, address):
                taken += len(batch.frames)
                size += len(batch.joined)
            else:
                more, of_size = self._send_each(batch.frames, address)
                taken += more
                size += of_size
        return taken, size

    def _udp_batches_of(self, frames: Sequence[bytes]) -> Sequence[UdpBatch]:
        """Mostly the same frames go to one subscriber after the other, so they are not cut anew each time."""
        if frames is not self._cut[0]:
            self._cut = frames, tuple(udp_batches(frames))
        return self._cut[1]

    def _send_each(self, frames: Sequence[bytes], address: tuple[str, int]) -> tuple[int, int]:
        taken = size = 0
        for frame in frames:
            if self._send_one(frame, address):
                taken += 1
                size += len(frame)
            else:
                self._bus.counters["inbus-send-failed"] += 1
        return taken, size

    def _send_one(self, datagram: bytes, address: tuple[str, int]) -> bool:
        try:
            if self._errors is not None:
                self._errors.send(datagram, address)
                return True
            if self._transport is not None:
                self._transport.write(datagram, address)
                return True
        except (OSError, MessageLengthError, InvalidAddressError):
            pass  # The last: an address that is allowed may be of the other version of IP than the port is.
        return False


def _is_of_this_machine(address: IPv4Address | IPv6Address) -> bool:
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


@implementer(ISessionLink)
class InbusLink:
    """The link to one subscriber.

    :ivar session_id: the session of the subscriber, once it is known.
    :ivar target: the address of the subscriber.
    :ivar send_errors: how many datagrams the system did not take, or lost on their way.
    :ivar over_rate: how many datagrams were dropped because there were too many in a second.
    """

    waiting = 0

    def __init__(self, outlet: Outlet, address: tuple[str, int], *, is_foreign: bool = False) -> None:
        self.traffic = Traffic()
        self.session_id = ""
        self.send_errors = 0
        self.over_rate = 0
        self.target = Target(address, is_foreign=is_foreign)
        self._outlet = outlet

    def encoding_for(self, options: dict[str, Any] | None) -> IEncoding:
        """The version that was subscribed with."""
        return self._outlet.encodings[(options or {}).get("version", 1)]

    def send(self, bundle: Bundle) -> None:
        """Send datagrams. Those over the rate, or not taken by the system at once, are dropped and counted."""
        outlet, target, frames = self._outlet, self.target, bundle.frames
        wanted = len(frames)
        admitted = outlet.rates.admits(target, self.session_id, wanted)
        taken, size = outlet.send(frames if admitted == wanted else frames[:admitted], target.address)
        self.over_rate += wanted - admitted
        self.send_errors += admitted - taken
        self.traffic.objects_out += taken
        self.traffic.bytes_out += size

    def close(self, reason: str) -> None:
        """There is no connection."""


@implementer(ISessionLink)
class SilentLink:
    """The link to a publisher, which has no address to send to."""

    waiting = 0

    def __init__(self, outlet: Outlet) -> None:
        self.traffic = Traffic()
        self._outlet = outlet

    def encoding_for(self, options: dict[str, Any] | None) -> IEncoding:
        """Any will do."""
        return self._outlet.encodings[1]

    def send(self, bundle: Bundle) -> None:
        """Nothing is ever sent."""

    def close(self, reason: str) -> None:
        """There is no connection."""
