"""Messages of QoS 1 and 2 as the spool has them, and as clients get them. Pure.

They are kept as packets of MQTT 5.0 without an identifier, whatever version the client speaks: it may come back with
another one.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec.structs import replace

from bussrv.formats.mqtt.outgoing import begin_of_fields, numbered, qos_of
from bussrv.wire.mqtt.packets import NO_PROPERTIES, VERSION_5, Publish
from bussrv.wire.mqtt.reader import MqttReader
from bussrv.wire.mqtt.writer import encode, headed

_DUP = 0x08
_ANY_ID = 1


class Format:
    """The form in which a client takes messages.

    :param max_packet: the most bytes of a packet.
    """

    __slots__ = ("max_packet", "version")

    def __init__(self, version: int, max_packet: int) -> None:
        self.version = version
        self.max_packet = max_packet

    def of(
        self, frame: bytes, number: int = 0, *, again: bool = False, seconds_left: int | None = None
    ) -> bytes | None:
        """A message for the client.

        :param number: its packet identifier; 0: its QoS is 0.
        :param again: whether it may have been sent before.
        :param seconds_left: how long it is still worth something; ``None``: for ever.
        :returns: ``None``: it is larger than the client takes.
        """
        at = _end_of_fields(frame)
        if frame[at]:
            found = _with_properties(frame, self.version, number, again=again, seconds_left=seconds_left)
        else:
            found = frame if self.version == VERSION_5 else _without_properties(frame, at)
            if number:
                found = numbered(found, number)
                found = bytes((found[0] | _DUP,)) + found[1:] if again else found
        return found if len(found) <= self.max_packet else None


@lru_cache(maxsize=2)  # The same message goes to many sessions, one after the other.
def lifetime_of(frame: bytes) -> int | None:
    """How many seconds a message is worth something since it was published; ``None``: for ever."""
    return _decoded(frame).properties.message_expiry_interval if frame[_end_of_fields(frame)] else None


def _end_of_fields(frame: bytes) -> int:
    """Where the topic and the identifier end, and the properties begin: with their length."""
    at = begin_of_fields(frame)
    return at + 2 + int.from_bytes(frame[at : at + 2], "big") + (2 if qos_of(frame) else 0)


def _without_properties(frame: bytes, at: int) -> bytes:
    """A message without properties as 3.1.1 has it: without their length, which is at ``at``."""
    return headed(frame[0], frame[begin_of_fields(frame) : at] + frame[at + 1 :])


def _with_properties(frame: bytes, version: int, number: int, *, again: bool, seconds_left: int | None) -> bytes:
    packet = _decoded(frame)
    properties = NO_PROPERTIES
    if version == VERSION_5:
        properties = replace(packet.properties, message_expiry_interval=seconds_left)
    return encode(replace(packet, id=number, dup=again, properties=properties), version)


def _decoded(frame: bytes) -> Publish:
    reader = MqttReader("server", VERSION_5, len(frame))
    reader.feed(numbered(frame, _ANY_ID) if qos_of(frame) else frame)
    packet = reader.next_event()
    assert isinstance(packet, Publish)
    return packet
