"""Messages of QoS 1 and 2 on their way to one client: their packet identifiers, and those that wait for one. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from bussrv.plugin import Chunk, HeldMemory
from bussrv.wire.mqtt.packets import PacketType

LAST_ID = 0xFFFF

NO_ID = b"\0\0"
"""The identifier of a message that has none yet."""


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


class Outgoing:
    """The messages of QoS 1 and 2 of one client.

    :param most: how many may be unacknowledged at a time.
    :param held: counts the memory of those that wait.
    :ivar waiting_size: the bytes of those that wait until others are acknowledged.
    """

    def __init__(self, most: int, held: HeldMemory | None = None) -> None:
        self.most = most
        self._held = held
        self.waiting_size = 0
        self._awaited: dict[int, PacketType] = {}  # what the client has to send next, by identifier
        self._waiting: deque[Chunk] = deque()
        self._last = 0

    def __len__(self) -> int:
        """How many are unacknowledged."""
        return len(self._awaited)

    def add(self, frame: bytes) -> bytes | None:
        """Give a message its identifier. :returns: ``None``: it waits."""
        if len(self._awaited) >= self.most:
            chunk = Chunk(frame)
            self._waiting.append(chunk)
            self.waiting_size += len(frame)
            if self._held is not None:
                self._held.hold(chunk)
            return None
        return self._number(frame)

    def _number(self, frame: bytes) -> bytes:
        number = self._last
        while True:
            number = number % LAST_ID + 1
            if number not in self._awaited:
                break
        self._last = number
        self._awaited[number] = PacketType.PUBACK if qos_of(frame) == 1 else PacketType.PUBREC
        return numbered(frame, number)

    def is_awaited(self, packet: PacketType, number: int) -> bool:
        """Whether the client may send this acknowledgement now."""
        return self._awaited.get(number) == packet

    def go_on(self, number: int) -> None:
        """The client has a message of QoS 2, and has to confirm that with PUBCOMP."""
        self._awaited[number] = PacketType.PUBCOMP

    def done(self, number: int) -> bytes | None:
        """A message is done. :returns: the next one that waited, with its identifier."""
        del self._awaited[number]
        if not self._waiting:
            return None
        chunk = self._waiting.popleft()
        self.waiting_size -= len(chunk.data)
        if self._held is not None:
            self._held.release(chunk)
        return self._number(chunk.data)

    def clear(self) -> None:
        """Forget what waits: the session is over."""
        waiting, self._waiting, self.waiting_size = self._waiting, deque(), 0
        if self._held is not None:
            self._held.release_all(_let_go(waiting))


def _let_go(waiting: deque[Chunk]) -> Iterator[None]:
    while waiting:
        waiting.pop()
        yield
