"""The rest of each type of packet, read. Source: section 3."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from bussrv.errors import RemoteProtocolError
from bussrv.wire.mqtt import packets, topics
from bussrv.wire.mqtt.fields import Fields, malformed, not_allowed
from bussrv.wire.mqtt.packets import NO_PROPERTIES, VERSION_3_1_1, VERSION_5, VERSIONS, PacketType, Properties
from bussrv.wire.mqtt.reasons import CODES, NOT_AUTHORIZED, SUBACK_CODES

MOST_FILTERS = 1024
"""The most filters of a SUBSCRIBE or UNSUBSCRIBE. The standards have no limit."""

_NAME = b"MQTT"
_NAME_OF_3_1 = b"MQIsdp"

# Of CONNECT.
_RESERVED, _CLEAN, _WILL, _RETAIN, _PASSWORD, _USERNAME = 0x01, 0x02, 0x04, 0x20, 0x40, 0x80
_WILL_QOS, _WILL_OPTIONS = 3, 0x38

# Of a filter.
_QOS, _NO_LOCAL, _AS_PUBLISHED, _HANDLING = 0x03, 0x04, 0x08, 4

Read: TypeAlias = Callable[[Fields, int, int], packets.Packet]
"""Reads the fields of a packet with these flags, of this version."""


def read_level(fields: Fields) -> int:
    """The name and the level of the protocol, with which CONNECT begins.

    :returns: the level; the name was that of 3.1.1 and 5.0.
    :raises RemoteProtocolError: ``unsupported-version`` if the name is another one.
    """
    position = fields.position
    name = fields.binary("protocol name")
    if name == _NAME_OF_3_1:
        message = "the client speaks MQTT 3.1, which is not supported: use 3.1.1 or 5.0"
        raise RemoteProtocolError("unsupported-version", message, position)
    if name != _NAME:
        raise RemoteProtocolError("unsupported-version", "the protocol name is not MQTT", position)
    return fields.integer(1, "protocol level")


def read_connect(fields: Fields, level: int) -> packets.Connect:
    """CONNECT after its level."""
    if level not in VERSIONS:
        message = f"the client speaks level {level} of MQTT; supported are 4 (3.1.1) and 5 (5.0)"
        raise RemoteProtocolError("unsupported-version", message, fields.position - 1)
    position = fields.position
    flags = fields.integer(1, "connect flags")
    _check_connect_flags(flags, level, position)
    keep_alive = fields.integer(2, "keep alive")
    properties = _properties(fields, PacketType.CONNECT, level)
    if properties.authentication_data is not None and properties.authentication_method is None:
        raise not_allowed("CONNECT has authentication data without a method", position)
    client_id = fields.text("client identifier")
    will = _read_will(fields, flags, level) if flags & _WILL else None
    username = fields.text("user name") if flags & _USERNAME else None
    password = fields.binary("password") if flags & _PASSWORD else None
    clean = bool(flags & _CLEAN)
    return packets.Connect(client_id, level, clean, keep_alive, will, username, password, properties)


def _check_connect_flags(flags: int, level: int, position: int) -> None:
    if flags & _RESERVED:
        raise malformed("the reserved flag of CONNECT is set", position)
    if flags & _WILL_OPTIONS and not flags & _WILL:
        raise malformed("CONNECT has options of a will, but no will", position)
    if flags >> _WILL_QOS & _QOS == _QOS:
        raise malformed("the QoS of the will is 3", position)
    if level == VERSION_3_1_1 and flags & _PASSWORD and not flags & _USERNAME:
        raise malformed("CONNECT has a password, but no user name", position)


def _read_will(fields: Fields, flags: int, level: int) -> packets.Will:
    properties = _properties(fields, PacketType.WILL, level)
    topic = fields.topic("will topic")
    payload = fields.binary("will payload")
    return packets.Will(topic, payload, flags >> _WILL_QOS & _QOS, bool(flags & _RETAIN), properties)


def _read_connack(fields: Fields, _: int, version: int) -> packets.Connack:
    position = fields.position
    present = fields.integer(1, "acknowledge flags")
    if present > 1:
        raise malformed("a reserved flag of CONNACK is set", position)
    code = fields.integer(1, "code")
    is_known = code <= NOT_AUTHORIZED if version == VERSION_3_1_1 else code in CODES[PacketType.CONNACK]
    if not is_known or (present and code):
        raise not_allowed(f"CONNACK has the code {code}, which is not allowed there", position + 1)
    return packets.Connack(code, bool(present), _properties(fields, PacketType.CONNACK, version))


def _read_publish(fields: Fields, flags: int, version: int) -> packets.Publish:
    qos, dup = flags >> 1 & _QOS, bool(flags & 8)
    if qos == _QOS:
        raise malformed("the QoS of PUBLISH is 3", 0)
    if dup and not qos:
        raise malformed("PUBLISH of QoS 0 is marked as sent before", 0)
    position = fields.position
    topic = fields.text("topic")
    number = fields.packet_id() if qos else 0
    properties = _properties(fields, PacketType.PUBLISH, version)
    if topic:
        if not topics.is_name(topic):
            raise malformed("the topic holds + or #", position)
    elif version == VERSION_3_1_1:
        raise malformed("the topic is empty", position)
    elif properties.topic_alias is None:
        raise not_allowed("the topic is empty, and there is no topic alias", position)
    return packets.Publish(topic, fields.rest(), qos, bool(flags & 1), number, dup, properties)


def _read_acknowledgement(fields: Fields, packet: PacketType, version: int) -> tuple[int, int, Properties]:
    number = fields.packet_id()
    if version == VERSION_3_1_1:
        return number, 0, NO_PROPERTIES
    return number, *_read_result(fields, packet)


def _read_result(fields: Fields, packet: PacketType) -> tuple[int, Properties]:
    """The code, and the properties after it. Either may be left out."""
    if fields.is_over:
        return 0, NO_PROPERTIES
    code = _read_code(fields, packet)
    return code, NO_PROPERTIES if fields.is_over else fields.properties(packet)


def _read_code(fields: Fields, packet: PacketType) -> int:
    position = fields.position
    code = fields.integer(1, "reason code")
    if code not in CODES[packet]:
        raise not_allowed(f"{packet.name} has the code {code}, which is not allowed there", position)
    return code


def _reads(packet: PacketType, kind: type[packets.Acknowledgement]) -> Read:
    return lambda fields, _, version: kind(*_read_acknowledgement(fields, packet, version))


def _read_subscribe(fields: Fields, _: int, version: int) -> packets.Subscribe:
    number = fields.packet_id()
    properties = _properties(fields, PacketType.SUBSCRIBE, version)
    wanted: list[packets.WantedFilter] = []
    while not fields.is_over:
        _check_number(len(wanted), fields)
        text = fields.filter(may_be_shared=version == VERSION_5)
        wanted.append(_read_options(fields, text, version))
    if not wanted:
        raise not_allowed("SUBSCRIBE has no topic filter", fields.position)
    return packets.Subscribe(number, tuple(wanted), properties)


def _read_options(fields: Fields, text: str, version: int) -> packets.WantedFilter:
    position = fields.position
    options = fields.integer(1, "subscription options")
    qos = options & _QOS
    if version == VERSION_3_1_1:
        if options > 2:
            raise malformed("the QoS of a topic filter is none of 0, 1 and 2", position)
        return packets.WantedFilter(text, qos)
    handling = options >> _HANDLING
    if handling > 3:
        raise malformed("a reserved option of a topic filter is set", position)
    if qos == 3 or handling == 3:
        raise not_allowed("the QoS or the retain handling of a topic filter is 3", position)
    if options & _NO_LOCAL and topics.is_shared(text):
        raise not_allowed("a shared topic filter has the option No Local", position)
    return packets.WantedFilter(text, qos, bool(options & _NO_LOCAL), bool(options & _AS_PUBLISHED), handling)


def _check_number(number: int, fields: Fields) -> None:
    if number == MOST_FILTERS:
        message = f"the packet has more than {MOST_FILTERS} topic filters"
        raise RemoteProtocolError("too-many-parts", message, fields.position)


def _read_suback(fields: Fields, _: int, version: int) -> packets.Suback:
    number = fields.packet_id()
    properties = _properties(fields, PacketType.SUBACK, version)
    allowed = SUBACK_CODES if version == VERSION_3_1_1 else CODES[PacketType.SUBACK]
    return packets.Suback(number, _read_codes(fields, PacketType.SUBACK, allowed), properties)


def _read_codes(fields: Fields, packet: PacketType, allowed: frozenset[int]) -> tuple[int, ...]:
    position = fields.position
    codes = tuple(fields.rest())
    if not (codes and allowed.issuperset(codes)):
        raise not_allowed(f"{packet.name} has no code, or one that is not allowed there", position)
    return codes


def _read_unsubscribe(fields: Fields, _: int, version: int) -> packets.Unsubscribe:
    number = fields.packet_id()
    properties = _properties(fields, PacketType.UNSUBSCRIBE, version)
    filters: list[str] = []
    while not fields.is_over:
        _check_number(len(filters), fields)
        filters.append(fields.filter(may_be_shared=version == VERSION_5))
    if not filters:
        raise not_allowed("UNSUBSCRIBE has no topic filter", fields.position)
    return packets.Unsubscribe(number, tuple(filters), properties)


def _read_unsuback(fields: Fields, _: int, version: int) -> packets.Unsuback:
    number = fields.packet_id()
    if version == VERSION_3_1_1:
        return packets.Unsuback(number)
    properties = fields.properties(PacketType.UNSUBACK)
    return packets.Unsuback(number, _read_codes(fields, PacketType.UNSUBACK, CODES[PacketType.UNSUBACK]), properties)


def _read_disconnect(fields: Fields, _: int, version: int) -> packets.Disconnect:
    if version == VERSION_3_1_1:
        return packets.Disconnect()
    return packets.Disconnect(*_read_result(fields, PacketType.DISCONNECT))


def _read_auth(fields: Fields, _: int, version: int) -> packets.Auth:
    # Nothing at all is allowed by section 3.15.2.1, although 3.15.2.2.2 requires a method.
    is_empty = fields.is_over
    position = fields.position
    code, properties = _read_result(fields, PacketType.AUTH)
    if properties.authentication_method is None and not is_empty:
        raise not_allowed("AUTH has no authentication method", position)
    return packets.Auth(code, properties)


def _properties(fields: Fields, packet: PacketType, version: int) -> Properties:
    return fields.properties(packet) if version == VERSION_5 else NO_PROPERTIES


READ: dict[int, Read] = {
    PacketType.CONNACK: _read_connack,
    PacketType.PUBLISH: _read_publish,
    PacketType.PUBACK: _reads(PacketType.PUBACK, packets.Puback),
    PacketType.PUBREC: _reads(PacketType.PUBREC, packets.Pubrec),
    PacketType.PUBREL: _reads(PacketType.PUBREL, packets.Pubrel),
    PacketType.PUBCOMP: _reads(PacketType.PUBCOMP, packets.Pubcomp),
    PacketType.SUBSCRIBE: _read_subscribe,
    PacketType.SUBACK: _read_suback,
    PacketType.UNSUBSCRIBE: _read_unsubscribe,
    PacketType.UNSUBACK: _read_unsuback,
    PacketType.PINGREQ: lambda *_: packets.Pingreq(),
    PacketType.PINGRESP: lambda *_: packets.Pingresp(),
    PacketType.DISCONNECT: _read_disconnect,
    PacketType.AUTH: _read_auth,
}
"""How each packet is read, except CONNECT."""
