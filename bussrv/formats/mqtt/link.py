"""The link to one client of MQTT, and the messages of QoS 1 and 2 on their way to it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from zope.interface import implementer

from bussrv.formats.mqtt.encoding import Client, Encodings, Wanted
from bussrv.plugin import Bundle, HeldMemory, IEncoding, IFilteringLink, StreamLink
from bussrv.wire.mqtt.packets import VERSION_5, PacketType, Pubrel
from bussrv.wire.mqtt.published import LAST_ID, Format, numbered, qos_of
from bussrv.wire.mqtt.reasons import ReasonCode
from bussrv.wire.mqtt.writer import encode

_PUBACK, _PUBREC = PacketType.PUBACK, PacketType.PUBREC

_WAITING, _AWAITED = 16, 64
"""The bytes of memory that a message takes besides its own while it waits, and while it is unacknowledged."""


class MqttReceiver(Struct, frozen=True):
    """The client as who is sent messages of QoS 1 and 2.

    :ivar form: how it takes messages.
    :ivar most: how many it takes before it acknowledges the first.
    :ivar send: sends it packets that have their identifiers.
    """

    form: Format
    most: int
    send: Callable[..., object]

    def release(self, number: int, *, is_known: bool = True) -> None:
        """A message of QoS 2 will not be sent again, or (of 5.0) is not known."""
        is_said = not is_known and self.form.version == VERSION_5
        code = ReasonCode.PACKET_ID_NOT_FOUND if is_said else ReasonCode.SUCCESS
        self.send(encode(Pubrel(number, code), self.form.version))


class Outgoing:
    """The messages of QoS 1 and 2 of one client.

    :param held: counts the memory of those that wait.
    :param counters: counts how often some begin to wait.
    :ivar waiting_size: the bytes of those that wait until others are acknowledged.
    """

    def __init__(self, client: MqttReceiver, held: HeldMemory, counters: Counter[str]) -> None:
        self._client = client
        self._held = held
        self._counters = counters
        self.waiting_size = 0
        self._awaited: dict[int, PacketType] = {}  # what the client has to send next, by identifier
        self._waiting: deque[bytes] = deque()
        self._last = 0

    def __len__(self) -> int:
        """How many are unacknowledged."""
        return len(self._awaited)

    def add(self, frames: Sequence[bytes]) -> list[bytes]:
        """Give messages their identifiers; other packets stay as they are. :returns: those that need not wait."""
        ready: list[bytes] = []
        awaited, most, is_waiting = self._awaited, self._client.most, bool(self._waiting)
        for frame in frames:
            qos = qos_of(frame)
            if not qos:
                ready.append(frame)
            elif len(awaited) >= most:
                self._waiting.append(frame)
                self.waiting_size += len(frame)
            else:
                number = self._last % LAST_ID + 1
                while number in awaited:
                    number = number % LAST_ID + 1
                self._last = number
                awaited[number] = _PUBACK if qos == 1 else _PUBREC
                ready.append(numbered(frame, number))
        if self._waiting:
            if not is_waiting:
                self._counters["mqtt-max-unacknowledged"] += 1
            self._hold()
        return ready

    def _hold(self) -> None:
        waiting = len(self._waiting)
        self._held.resize(self.waiting_size + _WAITING * waiting + _AWAITED * len(self._awaited) if waiting else 0)

    def received(self, number: int) -> None:
        """The client has a message of QoS 2, and has to confirm that with PUBCOMP."""
        is_known = self._awaited.get(number) is _PUBREC
        if is_known:
            self._awaited[number] = PacketType.PUBCOMP
        self._client.release(number, is_known=is_known)

    def done(self, packet: PacketType, numbers: Iterable[int]) -> None:
        """Messages are done, if this is the acknowledgement that they await. Others that waited for that follow."""
        awaited, following = self._awaited, []
        for number in numbers:
            if awaited.get(number) is packet:
                del awaited[number]
                if self._waiting:
                    following.append(self._waiting.popleft())
        if following:
            self.waiting_size -= sum(map(len, following))
            self._hold()
            self._client.send(*self.add(following))

    def clear(self) -> None:
        """Forget what waits: the session is over."""
        self._waiting.clear()
        self.waiting_size = 0
        self._hold()


@implementer(IFilteringLink)
class MqttLink(StreamLink):
    """Sends messages. Those of QoS 1 and 2 get their packet identifiers here.

    :ivar outgoing: these messages, once the client has subscribed with such a QoS; ``None``: all bytes are shared.
    :ivar encodings: those of all clients.
    :ivar facts: the client.
    :ivar session_id: its session.
    :ivar make_outgoing: makes :attr:`outgoing`.
    """

    outgoing: Outgoing | None = None
    is_away = False
    encodings: Encodings
    facts: Client
    session_id: str
    make_outgoing: Callable[[], Outgoing]

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
        ready = outgoing.add(bundle.frames)
        if ready:
            self.pass_on(Bundle(ready))
        if outgoing.waiting_size > self._max_outbound and not self.is_closing:
            self.is_closing = True
            self.protocol.overflow(self._max_outbound)

    def send_numbered(self, *frames: bytes) -> None:
        """Send packets that have their identifiers already."""
        self.pass_on(Bundle(frames))

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
