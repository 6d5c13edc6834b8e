"""The fields of one packet, read one after the other. Source: section 1.5.

Positions count from the start of the packet. A faulty field raises ``packet-too-short``, ``bad-utf8``,
``malformed-packet``, ``protocol-error``, ``bad-topic-alias`` or ``too-many-parts``.
"""

from __future__ import annotations

from typing import Any

from bussrv.errors import RemoteProtocolError
from bussrv.wire.mqtt import properties as known
from bussrv.wire.mqtt import topics
from bussrv.wire.mqtt.packets import NO_PROPERTIES, PacketType, Properties
from bussrv.wire.mqtt.properties import PropertyRow, ValueType

_SIZES = {ValueType.BYTE: 1, ValueType.TWO_BYTES: 2, ValueType.FOUR_BYTES: 4}


def malformed(message: str, position: int) -> RemoteProtocolError:
    """The error for bytes that are no packet."""
    return RemoteProtocolError("malformed-packet", message, position)


def not_allowed(message: str, position: int) -> RemoteProtocolError:
    """The error for what can be read, but must not be said, or not now."""
    return RemoteProtocolError("protocol-error", message, position)


class Fields:
    """The unread part of a packet.

    :param data: bytes, among them the packet's.
    :param start: where in them the packet starts.
    :param at: where the next field starts.
    :param end: where the last field ends.
    """

    __slots__ = ("at", "data", "end", "start")

    def __init__(self, data: bytes, start: int, at: int, end: int) -> None:
        self.data = data
        self.start = start
        self.at = at
        self.end = end

    @property
    def position(self) -> int:
        """The place of the next field in the packet."""
        return self.at - self.start

    @property
    def is_over(self) -> bool:
        """Whether no field is left."""
        return self.at >= self.end

    def integer(self, size: int, field: str) -> int:
        """An integer of ``size`` bytes."""
        return int.from_bytes(self.take(size, field), "big")

    def take(self, size: int, field: str) -> bytes:
        """So many bytes."""
        begin, end = self.at, self.at + size
        if end > self.end:
            raise RemoteProtocolError("packet-too-short", f"the packet ends before its {field}", self.position)
        self.at = end
        return self.data[begin:end]

    def rest(self) -> bytes:
        """All bytes that are left."""
        return self.take(self.end - self.at, "payload")

    def packet_id(self) -> int:
        """A packet identifier. 0 is none."""
        position = self.position
        number = self.integer(2, "packet identifier")
        if not number:
            raise not_allowed("the packet identifier is 0", position)
        return number

    def length(self, field: str) -> int:
        """A length of up to four bytes, as short as possible."""
        if self.at < self.end and self.data[self.at] < 0x80:
            self.at += 1
            return self.data[self.at - 1]
        position, value = self.position, 0
        for shift in (0, 7, 14, 21):
            byte = self.integer(1, field)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if shift and not byte:
                    raise malformed(f"the {field} takes more bytes than it needs", position)
                return value
        raise malformed(f"the {field} takes more than four bytes", position)

    def binary(self, field: str) -> bytes:
        """Binary data."""
        begin = self.at
        size = self.integer(2, field)
        if begin + 2 + size > self.end:
            left, position = self.end - self.at, begin - self.start
            raise RemoteProtocolError(
                "packet-too-short", f"the {field} has {size} bytes, the packet only {left} more", position
            )
        return self.take(size, field)

    def text(self, field: str) -> str:
        """A text."""
        first = self.position + 2
        raw = self.binary(field)
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            position = first + error.start
            raise RemoteProtocolError(
                "bad-utf8", f"the {field} is not UTF-8: {error.reason} at byte {position}", position
            ) from error
        if "\0" in text:
            raise malformed(f"the {field} holds U+0000", first + raw.index(0))
        return text

    def topic(self, field: str) -> str:
        """The name of a topic."""
        position = self.position
        name = self.text(field)
        if not topics.is_name(name):
            raise malformed(f"the {field} is empty, or holds + or #", position)
        return name

    def filter(self, *, may_be_shared: bool) -> str:
        """A filter. ``may_be_shared``: whether the version knows shared ones."""
        position = self.position
        text = self.text("topic filter")
        is_shared = may_be_shared and topics.is_shared(text)
        if not (topics.split_shared(text) is not None if is_shared else topics.is_filter(text)):
            raise malformed("a topic filter is empty, or has + or # or its share in a wrong place", position)
        return text

    def properties(self, packet: PacketType, most_repeated: int = known.MOST_REPEATED) -> Properties:
        """The properties of a packet.

        :param most_repeated: the most of the kinds that may repeat.
        """
        size = self.length("property length")
        if not size:
            return NO_PROPERTIES
        end = self.at + size
        if end > self.end:
            left, position = self.end - self.at, self.position
            raise RemoteProtocolError(
                "packet-too-short", f"the properties have {size} bytes, the packet only {left} more", position
            )
        inner = Fields(self.data, self.start, self.at, end)
        self.at = end
        return inner._read_properties(packet, most_repeated)

    def _read_properties(self, packet: PacketType, most_repeated: int) -> Properties:
        rows = known.ALLOWED[packet]
        values: dict[str, Any] = {}
        repeated = 0
        while self.at < self.end:
            position = self.position
            identifier = self.data[self.at]
            self.at += 1
            row = rows.get(identifier)
            if row is None:
                raise malformed(f"{packet.name} has no property 0x{identifier:02x}", position)
            value = self._read_value(row, position)
            if row.name in values and packet not in row.repeats:
                raise not_allowed(f"{packet.name} has {row.name} twice", position)
            if not row.repeats:
                values[row.name] = value
                continue
            values.setdefault(row.name, []).append(value)
            repeated += 1
            if repeated > most_repeated:
                message = f"{packet.name} has more than {most_repeated} properties that may repeat"
                raise RemoteProtocolError("too-many-parts", message, position)
        found: dict[str, Any] = {name: tuple(value) if type(value) is list else value for name, value in values.items()}
        return Properties(**found)

    def _read_value(self, row: PropertyRow, position: int) -> Any:
        kind = row.type
        if kind is ValueType.TEXT:
            return self.text(row.name)
        if kind is ValueType.PAIR:
            return self.text(row.name), self.text(row.name)
        if kind is ValueType.BINARY:
            return self.binary(row.name)
        if kind is ValueType.TOPIC:
            return self.topic(row.name)
        value = self.length(row.name) if kind is ValueType.VARIABLE else self.integer(_SIZES[kind], row.name)
        if not row.least <= value <= row.most:
            raise RemoteProtocolError(row.fault, f"{row.name} is {value}, which is not allowed", position)
        return value
