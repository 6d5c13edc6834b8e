"""PUBLISH packets that were made before, altered for the client that gets them: its version, identifier and properties.

A message that waits for a client is kept as a packet of 5.0 without an identifier, whatever version the client speaks:
it may come back with another one.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec.structs import replace

from bussrv.wire.mqtt.fields import Fields
from bussrv.wire.mqtt.packets import NO_PROPERTIES, VERSION_5, PacketType, Properties, Publish
from bussrv.wire.mqtt.writer import encode, headed

LAST_ID = 0xFFFF

NO_ID = b"\0\0"
"""The identifier of a message that has none yet."""

_DUP = 0x08
_RETAIN = 0x01


def qos_of(frame: bytes) -> int:
    """The QoS of a packet; 0 if it is no PUBLISH."""
    return frame[0] >> 1 & 3 if frame[0] >> 4 == PacketType.PUBLISH else 0


def begin_of_fields(frame: bytes) -> int:
    """Where the first field of a packet begins, after its length."""
    at = 2
    while frame[at - 1] & 0x80:
        at += 1
    return at


def numbered(frame: bytes, number: int) -> bytes:
    """A PUBLISH of QoS 1 or 2 with this packet identifier."""
    at = begin_of_fields(frame)
    at += 2 + int.from_bytes(frame[at : at + 2], "big")
    return b"%b%b%b" % (frame[:at], number.to_bytes(2, "big"), frame[at + 2 :])


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
        :param seconds_left: how long it is still worth something; ``None``: it has no lifetime.
        :returns: ``None``: it is larger than the client takes.
        """
        at = _end_of_fields(frame)
        if frame[at] and (self.version != VERSION_5 or seconds_left is not None):
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
    return _read_properties(frame)[0].message_expiry_interval if frame[_end_of_fields(frame)] else None


def _end_of_fields(frame: bytes) -> int:
    """Where the topic and the identifier end, and the properties begin: with their length."""
    at = begin_of_fields(frame)
    return at + 2 + int.from_bytes(frame[at : at + 2], "big") + (2 if qos_of(frame) else 0)


def _without_properties(frame: bytes, at: int) -> bytes:
    """A message without properties as 3.1.1 has it: without their length, which is at ``at``."""
    return headed(frame[0], frame[begin_of_fields(frame) : at] + frame[at + 1 :])


def _with_properties(frame: bytes, version: int, number: int, *, again: bool, seconds_left: int | None) -> bytes:
    kept, after = _read_properties(frame)
    properties = NO_PROPERTIES
    if version == VERSION_5:
        lifetime = kept.message_expiry_interval
        if seconds_left is not None and lifetime is not None:
            seconds_left = min(seconds_left, lifetime)  # The clock may have been set back.
        properties = replace(kept, message_expiry_interval=seconds_left)
    qos, retain = qos_of(frame), bool(frame[0] & _RETAIN)
    return encode(Publish(_topic_of(frame), frame[after:], qos, retain, number, again, properties), version)


def _topic_of(frame: bytes) -> str:
    at = begin_of_fields(frame)
    return frame[at + 2 : at + 2 + int.from_bytes(frame[at : at + 2], "big")].decode()


def _read_properties(frame: bytes) -> tuple[Properties, int]:
    """The properties of a message, and where they end.

    The server made it: there may be as many subscription identifiers as its client has subscriptions.
    """
    fields = Fields(frame, 0, _end_of_fields(frame), len(frame))
    return fields.properties(PacketType.PUBLISH, most_repeated=len(frame)), fields.at
