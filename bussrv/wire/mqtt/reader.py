"""Bytes to packets. Source: section 2."""

from __future__ import annotations

from struct import iter_unpack
from typing import Literal, TypeAlias

from bussrv.errors import RemoteProtocolError
from bussrv.wire.mqtt.bodies import READ, read_connect, read_level
from bussrv.wire.mqtt.fields import Fields, malformed, not_allowed
from bussrv.wire.mqtt.packets import (
    NO_PROPERTIES,
    VERSION_3_1_1,
    VERSION_5,
    VERSIONS,
    Disconnect,
    Packet,
    PacketType,
    Properties,
    Puback,
    Publish,
)
from bussrv.wire.reader import StreamReader

MAX_PACKET = 1 << 20
"""The most bytes of a packet, its header included, unless told otherwise."""

LONGEST_BATCH = 128
"""The most packets that are read ahead."""

Side: TypeAlias = Literal["client", "server"]

_HEADER = 5
"""The most bytes of the type and the length."""

_BOTH = {PacketType.PUBLISH, PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP}
_CLIENTS = {*_BOTH, PacketType.SUBSCRIBE, PacketType.UNSUBSCRIBE, PacketType.PINGREQ, PacketType.DISCONNECT}
_SERVERS = {*_BOTH, PacketType.CONNACK, PacketType.SUBACK, PacketType.UNSUBACK, PacketType.PINGRESP}

_TYPES: dict[tuple[Side, int], frozenset[int]] = {
    ("client", VERSION_3_1_1): frozenset(_CLIENTS),
    ("client", VERSION_5): frozenset({*_CLIENTS, PacketType.AUTH}),
    ("server", VERSION_3_1_1): frozenset(_SERVERS),
    ("server", VERSION_5): frozenset({*_SERVERS, PacketType.DISCONNECT, PacketType.AUTH}),
}
"""The types of packets that a side may send, after CONNECT."""

_FLAGS = {
    PacketType.PUBREL: (2,),
    PacketType.SUBSCRIBE: (2,),
    PacketType.UNSUBSCRIBE: (2,),
    PacketType.PUBLISH: range(16),
}
"""The flags that packets may have, if not just 0. Those of PUBLISH are looked at with its fields."""

_FIRST_BYTES = {
    key: frozenset(kind << 4 | flags for kind in types for flags in _FLAGS.get(PacketType(kind), (0,)))
    for key, types in _TYPES.items()
}
"""The first bytes of the packets that a side may send, after CONNECT."""

_FIRST_OF_ALL = frozenset({PacketType.CONNECT << 4})

_PLAIN_PUBACK = PacketType.PUBACK << 12 | 2
"""The first two bytes of a PUBACK that says nothing but an identifier, in the next two."""

_PUBLISH = {
    PacketType.PUBLISH << 4 | dup << 3 | qos << 1 | retain: (qos, bool(retain), bool(dup))
    for qos in range(3)
    for retain in range(2)
    for dup in range(2 if qos else 1)
}
"""QoS, RETAIN and DUP, by the first byte of a PUBLISH."""


class MqttReader(StreamReader[Packet]):
    """Reads the packets of one connection.

    Between calls it holds at most one packet, once :meth:`next_event` has returned ``None``. That raises a reason of
    :data:`bussrv.wire.mqtt.reasons.ANSWERS`, which says how to answer; positions count from the start of the packet.

    :param side: the sender of the packets that are read: ``client`` or ``server``.
    :param version: 4 or 5. Of a client, ``None``: its CONNECT says it, and has to come first.
    :param max_packet: the most bytes of a packet. One that announces more is refused when its header is there.
    :ivar level: the level that the client stated, or the version that was given; 0: it is not known yet.
    :raises ValueError: another version, or none for a server.
    """

    def __init__(self, side: Side, version: int | None = None, max_packet: int = MAX_PACKET) -> None:
        super().__init__()
        if version not in VERSIONS and not (version is None and side == "client"):
            raise ValueError(f"the version of a {side} of MQTT is one of {VERSIONS}, not {version}")
        self.level = version or 0
        self._side = side
        self._version = version
        self._first_bytes = _FIRST_OF_ALL if version is None else _FIRST_BYTES[side, version]
        self._max_packet = max_packet
        self._ahead: list[Publish] = []  # the next one last: a deque takes ten times as much memory while it is empty

    def limit(self, max_packet: int) -> None:
        """From now on packets have at most so many bytes."""
        self._max_packet = max_packet

    def next_event(self) -> Packet | None:
        """The next packet; see :meth:`StreamReader.next_event`."""
        if not self._ahead and self._version is not None and self._error is None and len(self.buffer):
            self._ahead = self._read_ahead(self._version)[::-1]
        return self._ahead.pop() if self._ahead else super().next_event()

    def take_alike(self, first: Publish, most: int) -> list[Publish]:
        """``first``, which :meth:`next_event` returned last, and the packets after it that are alike: they differ in
        their payloads and identifiers only, and say nothing but a topic, a QoS and a payload. They count as returned.

        :param most: the most packets, the first one included.
        """
        ahead, taken = self._ahead, [first]
        if first.retain or first.properties is not NO_PROPERTIES or not first.payload:
            return taken
        while ahead and len(taken) < most:
            packet = ahead[-1]
            is_alike = packet.topic == first.topic and packet.qos == first.qos and bool(packet.payload)
            if not is_alike or packet.retain or packet.properties is not NO_PROPERTIES:
                break
            taken.append(ahead.pop())
        return taken

    def take_confirmed(self, first: Puback) -> list[int]:
        """The identifiers of ``first``, which :meth:`next_event` returned last, and of the PUBACKs after it that say
        nothing else. They count as returned.
        """
        numbers, whole = [first.id], self.buffer.whole()
        if whole is not None and not self._ahead:
            data, begin = whole
            waiting = memoryview(data)[begin : len(data) - (len(data) - begin) % 4]
            for head, number in iter_unpack(">HH", waiting):
                if head != _PLAIN_PUBACK or not number:
                    break
                numbers.append(number)
            self.buffer.skip(4 * (len(numbers) - 1))
        return numbers

    def _read_ahead(self, version: int) -> list[Publish]:
        """The next packets, as long as they are whole and sound PUBLISH. Others are left to :meth:`read_event`."""
        packets: list[Publish] = []
        whole = self.buffer.whole()
        if whole is None:
            return packets
        data, first = whole
        begin, length, is_5, alike, size = first, len(data), version == VERSION_5, b"", 0
        number, qos, retain, dup, topic = 0, 0, False, False, ""
        try:
            while begin < length and len(packets) < LONGEST_BATCH:
                # Most packets begin as the one before: as long, and on the same topic.
                if not (alike and data.startswith(alike, begin)):
                    head = self._read_head(data, begin)
                    if head is None:
                        break
                    alike, size, qos, retain, dup, topic = head
                end, after = begin + size, begin + len(alike)
                if qos:
                    number, after = data[after] << 8 | data[after + 1], after + 2
                if end > length or after + is_5 > end or (qos and not number):
                    break
                if is_5 and data[after]:
                    properties, after = self._read_properties(Fields(data, begin, after, end))
                else:
                    properties, after = NO_PROPERTIES, after + is_5
                packets.append(Publish(topic, data[after:end], qos, retain, number if qos else 0, dup, properties))
                begin = end
        except (IndexError, UnicodeDecodeError, RemoteProtocolError):
            pass  # The packet is read again by read_event, which raises the exact error, or waits for more.
        self.buffer.skip(begin - first)
        return packets

    def _read_head(self, data: bytes, begin: int) -> tuple[bytes, int, int, bool, bool, str] | None:
        """A PUBLISH as far as its topic: the bytes until then, the size of the packet, QoS, RETAIN, DUP and the topic.

        :returns: ``None``: it is no PUBLISH, or not a sound one.
        """
        head, size, start = data[begin], data[begin + 1], begin + 2
        if size >= 0x80:
            more, start = data[start], start + 1
            if not 0 < more < 0x80:
                return None
            size += (more - 1) << 7
        size += start - begin
        if head not in _PUBLISH or size > self._max_packet:
            return None
        after = start + 2 + (data[start] << 8 | data[start + 1])
        topic = data[start + 2 : after].decode()
        is_bad = after > begin + size or not topic or "+" in topic or "#" in topic or "\0" in topic
        return None if is_bad else (data[begin:after], size, *_PUBLISH[head], topic)

    def _read_properties(self, fields: Fields) -> tuple[Properties, int]:
        """The properties of a PUBLISH, and where they end."""
        properties = fields.properties(PacketType.PUBLISH)
        self._check_publish(properties)
        return properties, fields.at

    def clear(self) -> None:
        """Forget what waits; nothing more comes."""
        super().clear()
        self._ahead.clear()

    def read_event(self) -> Packet | None:
        """The next packet; see :meth:`StreamReader.read_event`."""
        header = self.buffer.peek(_HEADER)
        if not header:
            return None
        if header[0] not in self._first_bytes:
            raise self._bad_first(header[0])
        start, length, is_short = _read_length(header)
        if not start:
            return None
        whole = start + length
        if whole > self._max_packet:
            raise RemoteProtocolError(
                "packet-too-large", f"a packet of {whole} bytes, the most is {self._max_packet}", 1
            )
        if len(self.buffer) < whole:
            return None
        fields = Fields(self.buffer.take(whole), 0, start, whole)
        packet = self._read_packet(header[0], fields)
        if not fields.is_over:
            raise malformed(f"the packet has {whole - fields.at} bytes after its last field", fields.position)
        if not is_short and self._version == VERSION_5:
            raise malformed("the length of the packet takes more bytes than it needs", 1)
        return packet

    def _bad_first(self, first: int) -> RemoteProtocolError:
        """The error for a first byte that no packet may have here."""
        kind, flags = first >> 4, first & 0x0F
        if not kind:
            return malformed("there is no packet of type 0", 0)
        name = PacketType(kind).name
        if self._version is None and kind != PacketType.CONNECT:
            return not_allowed(f"the first packet is {name}, not CONNECT", 0)
        if self._version is not None and kind not in _TYPES[self._side, self._version]:
            return not_allowed(f"a {self._side} sent {name}, which it may not send, or not again", 0)
        return malformed(f"the flags of {name} are {flags:04b}", 0)

    def _read_packet(self, first: int, fields: Fields) -> Packet:
        """A whole packet, whose fields begin after its length."""
        if self._version is None:
            self.level = read_level(fields)
            connect = read_connect(fields, self.level)
            self._version = connect.version
            self._first_bytes = _FIRST_BYTES[self._side, connect.version]
            return connect
        packet = READ[first >> 4](fields, first & 0x0F, self._version)
        if isinstance(packet, Publish):
            self._check_publish(packet.properties)
        elif isinstance(packet, Disconnect):
            self._check_disconnect(packet.properties)
        return packet

    def _check_publish(self, properties: Properties) -> None:
        if properties.subscription_identifiers and self._side == "client":
            raise not_allowed("a client sent PUBLISH with a subscription identifier", 0)

    def _check_disconnect(self, properties: Properties) -> None:
        if properties.session_expiry_interval is not None and self._side == "server":
            raise not_allowed("a server sent DISCONNECT with a session expiry interval", 0)


def _read_length(header: bytes) -> tuple[int, int, bool]:
    """The length after the first byte: where it ends, 0 if more of it is needed; itself; and whether it is as short as
    possible.
    """
    length = 0
    for place in range(1, len(header)):
        byte = header[place]
        length |= (byte & 0x7F) << 7 * (place - 1)
        if byte < 0x80:
            return place + 1, length, place == 1 or byte > 0
    if len(header) == _HEADER:
        raise malformed("the length of the packet takes more than four bytes", 1)
    return 0, 0, True
