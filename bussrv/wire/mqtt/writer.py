"""Packets to bytes. Source: section 3.

A packet that cannot be written raises ``ValueError``: it is our own mistake. In 3.1.1 there are no properties and no
codes of acknowledgements: they are left out, and so are the options of filters besides QoS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct as Layout
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import asdict

from bussrv.wire.mqtt import packets, topics
from bussrv.wire.mqtt.packets import NO_PROPERTIES, VERSION_3_1_1, VERSION_5, VERSIONS, PacketType, Properties
from bussrv.wire.mqtt.properties import ALLOWED, PropertyRow, ValueType
from bussrv.wire.mqtt.reasons import ANSWERS, BAD_VERSION, CODES, NOT_AUTHORIZED, SUBACK_FAILED, ReasonCode

Write: TypeAlias = Callable[[Any, int], bytes]
"""Writes a packet in a version."""

_MOST = (1 << 28) - 1
_PUBACK = Layout(">BBH").pack
_DUP = 0x08
_SIZES = {ValueType.BYTE: 1, ValueType.TWO_BYTES: 2, ValueType.FOUR_BYTES: 4}


class NumberedPublish(Struct, frozen=True):
    """A PUBLISH of QoS 1 or 2, apart from its identifier: subscribers share all other bytes.

    :ivar before: the bytes before the identifier.
    :ivar after: the bytes between it and the payload.
    """

    before: bytes
    after: bytes
    payload: bytes

    def pieces(self, number: int) -> tuple[bytes, bytes, bytes, bytes]:
        """The packet for one subscriber, with this identifier."""
        return self.before, _id(number), self.after, self.payload


def encode(packet: packets.Packet, version: int) -> bytes:
    """The bytes of a packet.

    :param version: 4 or 5. CONNECT has its own.
    """
    if version not in VERSIONS:
        raise ValueError(f"the version of MQTT is one of {VERSIONS}, not {version}")
    return _WRITE[type(packet)](packet, version)


def confirmations(numbers: Iterable[int]) -> list[bytes]:
    """PUBACKs that say nothing but an identifier, in any version."""
    return [_PUBACK(PacketType.PUBACK << 4, 2, number) for number in numbers]


class Template(Struct, frozen=True, gc=False):
    """A PUBLISH without its payload. Its identifier is zero, if it has one.

    :ivar topic: its topic and identifier.
    :ivar properties: without their length; ``None``: in 3.1.1 there are none.
    :ivar size: that of its payload.
    """

    first: int
    topic: bytes
    properties: bytes | None
    size: int

    def head(self, further: bytes = b"") -> bytes:
        """The bytes before the payload, for a client that is sent further properties."""
        if self.properties is None:
            return _header(self.first, len(self.topic) + self.size) + self.topic
        after = self.properties + further
        length = _length(len(after))
        size = len(self.topic) + len(length) + len(after) + self.size
        return b"%b%b%b%b" % (_header(self.first, size), self.topic, length, after)


def template(packet: packets.Publish, version: int) -> Template:
    """All of a PUBLISH that subscribers share, except its payload."""
    topic = _topic(packet.topic, packet.properties, version)
    properties = None if version == VERSION_3_1_1 else listed(packet.properties, PacketType.PUBLISH)
    first = PacketType.PUBLISH << 4 | packet.dup << 3 | packet.qos << 1 | packet.retain
    return Template(first, topic + b"\0\0" if packet.qos else topic, properties, len(packet.payload))


def publish(
    topic: str, payload: bytes, version: int, *, retain: bool = False, properties: Properties = NO_PROPERTIES
) -> bytes:
    """A PUBLISH of QoS 0, which subscribers can share."""
    return template(packets.Publish(topic, payload, retain=retain, properties=properties), version).head() + payload


def numbered_publish(packet: packets.Publish, version: int) -> NumberedPublish:
    """A PUBLISH of QoS 1 or 2, without its identifier, which each subscriber has of its own."""
    if packet.qos not in (1, 2):
        raise ValueError(f"QoS {packet.qos} has no packet identifier")
    made = template(packet, version)
    head = made.head()
    at = len(head) if made.properties is None else len(head) - len(_length(len(made.properties))) - len(made.properties)
    return NumberedPublish(head[: at - 2], head[at:], packet.payload)


def headed(first: int, body: bytes) -> bytes:
    """A packet of its first byte, and of what stands after its length."""
    return _header(first, len(body)) + body


def refusal(reason: str, level: int, *, is_connected: bool) -> bytes:
    """The packet with which the server tells a client of a fault before it closes the connection.

    :param reason: of a ``RemoteProtocolError`` of the reader.
    :param level: the reader's.
    :param is_connected: whether CONNACK was sent before.
    :returns: empty if there is none: the version is not known, or is 3.1.1, which only knows one for a bad version.
    """
    code = ANSWERS[reason]
    if level < VERSION_5:
        is_told = code is ReasonCode.UNSUPPORTED_VERSION and not is_connected
        return _BAD_VERSION if is_told else b""
    packet = PacketType.DISCONNECT if is_connected else PacketType.CONNACK
    told = code if code in CODES[packet] else ReasonCode.PROTOCOL_ERROR
    return encode(packets.Disconnect(told) if is_connected else packets.Connack(told), VERSION_5)


def _header(first: int, size: int) -> bytes:
    return bytes((first, size)) if size < 0x80 else bytes((first,)) + _length(size)


def _length(size: int) -> bytes:
    if not 0 <= size <= _MOST:
        raise ValueError(f"a length is from 0 to {_MOST}, not {size}")
    out = bytearray()
    while size >= 0x80:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    out.append(size)
    return bytes(out)


def _id(number: int) -> bytes:
    if not 0 < number <= 0xFFFF:
        raise ValueError(f"a packet identifier is from 1 to 65535, not {number}")
    return number.to_bytes(2, "big")


def _integer(value: int, size: int, most: int = 0xFFFFFFFF) -> bytes:
    if not 0 <= value <= min(most, (1 << 8 * size) - 1):
        raise ValueError(f"{value} does not fit there")
    return value.to_bytes(size, "big")


def _binary(data: bytes) -> bytes:
    return _integer(len(data), 2) + data


def _text(text: str) -> bytes:
    if "\0" in text:
        raise ValueError("a text holds no U+0000")
    return _binary(text.encode())


def _name(text: str) -> bytes:
    if not topics.is_name(text):
        raise ValueError(f"{text!r} is not the name of a topic")
    return _text(text)


def _topic(topic: str, properties: Properties, version: int) -> bytes:
    """The topic of a PUBLISH."""
    is_alias = version == VERSION_5 and not topic and properties.topic_alias is not None
    return _text("") if is_alias else _name(topic)


def _filter(text: str, version: int) -> bytes:
    if version == VERSION_5 and topics.is_shared(text):
        is_sound = topics.split_shared(text) is not None
    else:
        is_sound = topics.is_filter(text)
    if not is_sound:
        raise ValueError(f"{text!r} is no topic filter")
    return _text(text)


def _properties(properties: Properties, packet: PacketType, version: int) -> bytes:
    if version == VERSION_3_1_1:
        return b""
    written = listed(properties, packet)
    return _length(len(written)) + written


def listed(properties: Properties, packet: PacketType) -> bytes:
    """The properties of a packet of 5.0, without their length."""
    if properties is NO_PROPERTIES or properties == NO_PROPERTIES:
        return b""
    left = {name: value for name, value in asdict(properties).items() if value is not None and value != ()}
    out = bytearray()
    for row in ALLOWED[packet].values():
        if row.name not in left:
            continue
        value = left.pop(row.name)
        values = value if row.repeats else (value,)
        if len(values) > 1 and packet not in row.repeats:
            raise ValueError(f"{packet.name} has one {row.name} at most")
        for each in values:
            out += bytes((row.identifier,)) + _value(row, each)
    if left:
        raise ValueError(f"{packet.name} has no {', '.join(left)}")
    return bytes(out)


def _value(row: PropertyRow, value: Any) -> bytes:
    if row.type is ValueType.TEXT:
        return _text(value)
    if row.type is ValueType.PAIR:
        return _text(value[0]) + _text(value[1])
    if row.type is ValueType.BINARY:
        return _binary(value)
    if row.type is ValueType.TOPIC:
        return _name(value)
    if not row.least <= value <= row.most:
        raise ValueError(f"{row.name} cannot be {value}")
    return _length(value) if row.type is ValueType.VARIABLE else _integer(value, _SIZES[row.type])


def _packet(packet: PacketType, body: bytes, flags: int = 0) -> bytes:
    return _header(packet << 4 | flags, len(body)) + body


def _code(code: int, packet: PacketType) -> bytes:
    if code not in CODES[packet]:
        raise ValueError(f"{packet.name} cannot have the code {code}")
    return bytes((code,))


def _write_connect(packet: packets.Connect, _: int) -> bytes:
    version, will = packet.version, packet.will
    if version not in VERSIONS:
        raise ValueError(f"the version of MQTT is one of {VERSIONS}, not {version}")
    if packet.properties.authentication_data is not None and packet.properties.authentication_method is None:
        raise ValueError("authentication data needs a method")
    if version == VERSION_3_1_1 and packet.username is None and packet.password is not None:
        raise ValueError("a password needs a user name in 3.1.1")
    flags = packet.clean_start << 1 | (packet.password is not None) << 6 | (packet.username is not None) << 7
    body = _integer(packet.keep_alive, 2) + _properties(packet.properties, PacketType.CONNECT, version)
    body += _text(packet.client_id)
    if will is not None:
        flags |= 0x04 | _qos(will.qos) << 3 | will.retain << 5
        body += _properties(will.properties, PacketType.WILL, version) + _name(will.topic) + _binary(will.payload)
    if packet.username is not None:
        body += _text(packet.username)
    if packet.password is not None:
        body += _binary(packet.password)
    return _packet(PacketType.CONNECT, b"\0\4MQTT" + bytes((version, flags)) + body)


def _qos(qos: int) -> int:
    if qos not in (0, 1, 2):
        raise ValueError(f"there is no QoS {qos}")
    return qos


def _write_connack(packet: packets.Connack, version: int) -> bytes:
    if packet.session_present and packet.code:
        raise ValueError("a failed CONNACK has no session")
    is_5 = version == VERSION_5
    code = _code(packet.code, PacketType.CONNACK) if is_5 else _integer(packet.code, 1, NOT_AUTHORIZED)
    properties = _properties(packet.properties, PacketType.CONNACK, version)
    return _packet(PacketType.CONNACK, bytes((packet.session_present,)) + code + properties)


def _write_publish(packet: packets.Publish, version: int) -> bytes:
    if packet.qos:
        return b"".join(numbered_publish(packet, version).pieces(packet.id))
    if packet.id or packet.dup:
        raise ValueError("a message of QoS 0 has no packet identifier, and is sent once")
    return publish(packet.topic, packet.payload, version, retain=packet.retain, properties=packet.properties)


def _result(packet: PacketType, code: int, properties: Properties, version: int) -> bytes:
    """A code, and properties after it; as little of it as possible."""
    written = _code(code, packet)
    if version == VERSION_3_1_1:
        return b""
    if properties != NO_PROPERTIES:
        return written + _properties(properties, packet, version)
    return written if code else b""


def _writes(packet: PacketType, flags: int = 0) -> Write:
    def write(ack: packets.Acknowledgement, version: int) -> bytes:
        return _packet(packet, _id(ack.id) + _result(packet, ack.code, ack.properties, version), flags)

    return write


def _write_subscribe(packet: packets.Subscribe, version: int) -> bytes:
    body = bytearray(_id(packet.id) + _properties(packet.properties, PacketType.SUBSCRIBE, version))
    for each in packet.filters:
        options = _qos(each.qos)
        if version == VERSION_5:
            if each.no_local and topics.is_shared(each.filter):
                raise ValueError("a shared filter cannot have No Local")
            options |= each.no_local << 2 | each.retain_as_published << 3 | _qos(each.retain_handling) << 4
        body += _filter(each.filter, version) + bytes((options,))
    return _list(PacketType.SUBSCRIBE, packet.filters, bytes(body), 2)


def _list(packet: PacketType, items: tuple[object, ...], body: bytes, flags: int = 0) -> bytes:
    if not items:
        raise ValueError(f"{packet.name} is empty")
    return _packet(packet, body, flags)


def _write_suback(packet: packets.Suback, version: int) -> bytes:
    body = _id(packet.id) + _properties(packet.properties, PacketType.SUBACK, version)
    codes = b"".join(_code(code, PacketType.SUBACK) for code in packet.codes)
    if version == VERSION_3_1_1:
        codes = bytes(min(code, SUBACK_FAILED) for code in codes)
    return _list(PacketType.SUBACK, packet.codes, body + codes)


def _write_unsubscribe(packet: packets.Unsubscribe, version: int) -> bytes:
    body = _id(packet.id) + _properties(packet.properties, PacketType.UNSUBSCRIBE, version)
    return _list(
        PacketType.UNSUBSCRIBE, packet.filters, body + b"".join(_filter(each, version) for each in packet.filters), 2
    )


def _write_unsuback(packet: packets.Unsuback, version: int) -> bytes:
    if version == VERSION_3_1_1:
        return _packet(PacketType.UNSUBACK, _id(packet.id))
    body = _id(packet.id) + _properties(packet.properties, PacketType.UNSUBACK, version)
    codes = b"".join(_code(code, PacketType.UNSUBACK) for code in packet.codes)
    return _list(PacketType.UNSUBACK, packet.codes, body + codes)


def _write_disconnect(packet: packets.Disconnect, version: int) -> bytes:
    return _packet(PacketType.DISCONNECT, _result(PacketType.DISCONNECT, packet.code, packet.properties, version))


def _write_auth(packet: packets.Auth, version: int) -> bytes:
    if version == VERSION_3_1_1:
        raise ValueError("3.1.1 has no AUTH")
    if packet.properties.authentication_method is None and packet != packets.Auth():
        raise ValueError("AUTH needs an authentication method")
    return _packet(PacketType.AUTH, _result(PacketType.AUTH, packet.code, packet.properties, version))


_WRITE: dict[type[packets.Packet], Write] = {
    packets.Connect: _write_connect,
    packets.Connack: _write_connack,
    packets.Publish: _write_publish,
    packets.Puback: _writes(PacketType.PUBACK),
    packets.Pubrec: _writes(PacketType.PUBREC),
    packets.Pubrel: _writes(PacketType.PUBREL, 2),
    packets.Pubcomp: _writes(PacketType.PUBCOMP),
    packets.Subscribe: _write_subscribe,
    packets.Suback: _write_suback,
    packets.Unsubscribe: _write_unsubscribe,
    packets.Unsuback: _write_unsuback,
    packets.Pingreq: lambda *_: _packet(PacketType.PINGREQ, b""),
    packets.Pingresp: lambda *_: _packet(PacketType.PINGRESP, b""),
    packets.Disconnect: _write_disconnect,
    packets.Auth: _write_auth,
}

_BAD_VERSION = encode(packets.Connack(BAD_VERSION), VERSION_3_1_1)
