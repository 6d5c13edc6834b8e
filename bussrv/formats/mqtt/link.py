"""The link to one client of MQTT, and the messages of QoS 1 and 2 on their way to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from zope.interface import implementer

from bussrv.formats.mqtt.encoding import Client, Encodings, Wanted
from bussrv.plugin import Bundle, Chunk, HeldMemory, IEncoding, IFilteringLink, StreamLink
from bussrv.wire.mqtt.packets import PacketType
from bussrv.wire.mqtt.published import LAST_ID, numbered, qos_of


class Outgoing:
    """The messages of QoS 1 and 2 of one client.

    :param most: how many may be unacknowledged at a time.
    :param held: counts the memory of those that wait.
    :ivar waiting_size: the bytes of those that wait until others are acknowledged.
    """

    def __init__(self, most: int, held: HeldMemory) -> None:
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
        self._held.release(chunk)
        return self._number(chunk.data)

    def clear(self) -> None:
        """Forget what waits: the session is over."""
        waiting, self._waiting, self.waiting_size = self._waiting, deque(), 0
        self._held.release_all(_let_go(waiting))


def _let_go(waiting: deque[Chunk]) -> Iterator[None]:
    while waiting:
        waiting.pop()
        yield


@implementer(IFilteringLink)
class MqttLink(StreamLink):
    """Sends messages. Those of QoS 1 and 2 get their packet identifiers here.

    :ivar outgoing: these messages, once the client has subscribed with such a QoS; ``None``: all bytes are shared.
    :ivar encodings: those of all clients.
    :ivar facts: the client.
    :ivar session_id: its session.
    :ivar make_outgoing: makes :attr:`outgoing`.
    :ivar too_much_waits: is called when too many bytes wait for acknowledgements.
    """

    outgoing: Outgoing | None = None
    is_away = False
    _is_over = False
    encodings: Encodings
    facts: Client
    session_id: str
    make_outgoing: Callable[[], Outgoing]
    too_much_waits: Callable[[], object]

    def encoding_of(self, filters: Mapping[str, dict[str, Any] | None], *, is_alone: bool) -> IEncoding:
        """See :class:`IFilteringLink`."""
        for options in filters.values():
            self._number(options)
        return self.encodings.for_filters(self.facts, self.session_id, filters, is_alone=is_alone)

    def refilter(self, encoding: IEncoding, changed: str, options: dict[str, Any] | None, *, is_there: bool) -> None:
        """See :class:`IFilteringLink`."""
        self._number(options)
        self.encodings.refilter(encoding, changed, options, is_there=is_there)

    def _number(self, options: dict[str, Any] | None) -> None:
        if self.outgoing is None and Wanted.of(options).qos:
            self.outgoing = self.make_outgoing()

    def send(self, bundle: Bundle) -> None:
        """Send packets, after everything sent before."""
        outgoing = self.outgoing
        if outgoing is None:
            self.pass_on(bundle)
            return
        frames = [frame if not qos_of(frame) else outgoing.add(frame) for frame in bundle.frames]
        ready = [frame for frame in frames if frame is not None]
        if ready:
            self.pass_on(Bundle(ready))
        if outgoing.waiting_size > self._max_outbound and not self._is_over:
            self._is_over = True
            self.too_much_waits()

    def send_numbered(self, frame: bytes) -> None:
        """Send a message that has its packet identifier already."""
        self.pass_on(Bundle([frame]))

    def pass_on(self, bundle: Bundle) -> None:
        """Send packets that have their identifiers."""
        super().send(bundle)

    def discard(self) -> None:
        """Forget what is queued, and send nothing more."""
        super().discard()
        if self.outgoing is not None:
            self.outgoing.clear()

    @property
    def waiting(self) -> int:
        """How many bytes wait for the client."""
        return super().waiting + (0 if self.outgoing is None else self.outgoing.waiting_size)
