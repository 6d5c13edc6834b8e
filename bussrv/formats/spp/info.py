"""Info packets: how SPP clients are given publications, and the states of services."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from twisted.logger import Logger
from zope.interface import implementer

from bussrv.bus.groups.frames import Delivery
from bussrv.bus.interfaces import IEncoding
from bussrv.counts.throttle import Throttle
from bussrv.settings import Settings
from bussrv.wire import spp as wire

HEADER_BYTES = 8
"""msgtype and length, which a packet's length does not count."""

MOST_COPIED = 64 << 10
"""A state of more bytes than this is not copied for each client that asks for it."""

LOG_RATE = 0.1
"""How often one service may cause a line of the log, per second; its first ``LOG_BURST`` at once."""

LOG_BURST = 5

log = Logger()


@implementer(IEncoding)
class SppInfo:
    """Publications as info packets. A message that is too large for a client is dropped and counted.

    Clients take packets as large as they may send themselves. A service of the server itself may say more, up to what
    may wait for a client: whoever subscribes to it has to be ready for that.

    :param is_hosted: whether a service is one of the server itself.
    :param seconds: a clock, in seconds.
    """

    def __init__(
        self,
        settings: Settings,
        is_hosted: Callable[[str], bool],
        counters: Counter[str],
        seconds: Callable[[], float],
    ) -> None:
        self._max_packet = settings.max_packet
        self._max_hosted = settings.max_outbound - HEADER_BYTES
        self._is_hosted = is_hosted
        self._counters = counters
        self._log_throttle = Throttle(LOG_RATE, LOG_BURST, seconds)
        self._latest: tuple[str, bytes, bytes] = ("", b"", b"")

    def encode(self, delivery: Delivery) -> bytes | None:
        """The packet of a publication."""
        publication = delivery.publication
        return None if publication is None else self.packet(publication.service, publication.payload)

    def encode_batch(self, service: str, payloads: Sequence[bytes]) -> list[bytes]:
        """The packets of publications on one service; see :class:`bussrv.bus.services.publishing.BatchEncoding`."""
        packets = wire.infos(service, payloads)
        if max(map(len, packets)) <= HEADER_BYTES + self._max_packet:
            return packets
        checked = (self.packet(service, payload) for payload in payloads)
        return [packet for packet in checked if packet is not None]

    def packet(self, service: str, message: bytes) -> bytes | None:
        """The info packet of a message, unless it is too large."""
        packet = wire.info(service, message)
        most = self._max_hosted if self._is_hosted(service) else self._max_packet
        if len(packet) <= HEADER_BYTES + most:
            return packet
        self._counters["packet-too-large"] += 1
        suppressed = self._log_throttle.admit(service)
        if suppressed is not None:
            log.warn(
                "spp: {size} bytes on {service!r} are too many for a packet ({suppressed} more not logged)",
                event="spp.too-large",
                size=len(message),
                service=service,
                suppressed=suppressed,
            )
        return None

    def snapshot(self, service: str, message: bytes) -> bytes | None:
        """The packet of the present state of a service. Clients that get a large one share its bytes."""
        if len(message) <= MOST_COPIED:
            return self.packet(service, message)
        latest_service, latest_message, packet = self._latest
        if service == latest_service and message is latest_message:
            return packet
        made = self.packet(service, message)
        if made is not None:
            self._latest = (service, message, made)
        return made
