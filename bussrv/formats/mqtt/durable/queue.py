"""The messages of QoS 1 and 2 of a durable session: each is in the spool until its client has acknowledged it.

An entry of the spool is a message on its way. When the client has received one of QoS 2, its payload is replaced by an
empty one, until the client confirms that. So after a crash the server knows what to send again: messages, and PUBREL.

The packet identifier of a message follows from the number of its entry. So it is the same after a crash. Two messages
with the same identifier are not on their way at the same time.

While a client keeps up, messages go to it when they are durable, without being read again. Otherwise it is *behind*:
the queue is read from the spool, as far as the client acknowledges.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from msgspec import Struct

from bussrv.formats.mqtt.encoding import SECOND, Published
from bussrv.formats.mqtt.link import MqttReceiver
from bussrv.plugin import Bundle, IBus, Page, Receiver, Remove, Replace, Rounds, ToAll
from bussrv.wire.mqtt.packets import PacketType
from bussrv.wire.mqtt.published import LAST_ID, qos_of

KIND = "queue"

MOST_ON_THEIR_WAY = 256
"""The most messages that a client is sent before it acknowledges the first of them, whatever the option allows."""

MOST_BYTES_ON_THEIR_WAY = 256 << 10
"""The same in bytes; a single message may be larger."""


class _Sent(Struct):
    """A message on its way.

    :ivar awaits: what the client has to send next; ``None``: nothing, before something is durable.
    """

    number: int
    size: int
    awaits: PacketType | None


class Queues:
    """All of them. What many sessions are given at once is put into the spool as one."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._turn = -1
        self._bundle: Bundle | None = None
        self._receivers: list[Receiver] = []
        self._direct: list[bytes] = []

    def put(self, queue: Queue, bundle: Bundle) -> list[bytes]:
        """Put messages of QoS 1 and 2 into a queue. :returns: the other packets."""
        if bundle is not self._bundle or self._turn != self._rounds.turn:
            self._begin(bundle)
        self._receivers.append(queue)
        return self._direct

    def _begin(self, bundle: Bundle) -> None:
        """The sessions of a group are given the same bundle, one after the other."""
        self._bundle, self._turn = bundle, self._rounds.turn
        self._receivers, self._direct = [], []
        for frame in bundle.frames:
            if isinstance(frame, Published):
                entry = ToAll(KIND, frame, frame.payload, self._receivers, frame.expires)
                self._rounds.append_to_all(frame.publisher, entry)
            else:
                self._direct.append(frame)


class Queue:
    """The queue of one session. A :class:`bussrv.plugin.Receiver`.

    :param is_known: whether nothing can be in the spool yet.
    :ivar session_id: the session. Set when it is open, as the next one.
    :ivar owner: its owner in the spool.
    """

    session_id: str
    owner: str

    def __init__(self, bus: IBus, rounds: Rounds, *, is_known: bool) -> None:
        self._bus = bus
        self._rounds = rounds
        self._client: MqttReceiver | None = None
        self._on_their_way: dict[int, _Sent] = {}  # by packet identifier
        self._size = 0
        self._after = 0  # the number of the last message that was sent over this connection
        self._is_behind = self._is_reading = False
        # Messages up to this number may have been sent before, over other connections. None: all that are there.
        self._sent_before: int | None = 0 if is_known else None

    def connect(self, client: MqttReceiver) -> None:
        """The client is there: it is sent everything that it has not acknowledged."""
        self.disconnect()
        self._client = client
        self._is_behind = True
        self._read()

    def disconnect(self) -> None:
        """The client has gone. What it has not acknowledged stays."""
        if self._client is not None and not (self._is_behind and self._sent_before is None):
            self._sent_before = max(self._after, self._sent_before or 0)
        self._client = None
        self._on_their_way.clear()
        self._size = self._after = 0

    def lost(self) -> None:
        """Everything in the spool is lost, and its numbers begin anew."""
        client = self._client
        self.disconnect()
        self._sent_before = 0
        if client is not None:
            self.connect(client)

    # Messages for the client.

    def written(self, entry: ToAll, number: int) -> None:
        """A message is durable: send it. Its number is 0 if it was dropped."""
        if self._client is None or self._is_behind or number <= self._after:
            return
        if self._has_room(len(entry.head) + len(entry.payload)) and _id_of(number) not in self._on_their_way:
            self._send(self._client, number, entry.head + entry.payload, entry.expires)
        else:
            self._is_behind = True
            self._bus.counters["mqtt-max-unacknowledged"] += 1

    def _has_room(self, size: int) -> bool:
        """Whether a message of so many bytes may be sent now, unless its identifier is in use."""
        count, client = len(self._on_their_way), self._client
        if client is None or count >= min(client.most, MOST_ON_THEIR_WAY):
            return False
        return not count or self._size + size <= MOST_BYTES_ON_THEIR_WAY

    def _send(self, client: MqttReceiver, number: int, frame: bytes, expires: int | None) -> None:
        """Send a message. One that has expired, or is too large for the client, is removed."""
        self._after = number
        left = None if expires is None else -((self._bus.utc() - expires) // SECOND)
        again = self._sent_before is None or number <= self._sent_before
        if left is not None and left <= 0:
            self._rounds.change(self.session_id, Remove(owner=self.owner, kind=KIND, number=number))
            return
        packet = client.form.of(frame, _id_of(number), again=again, seconds_left=left)
        if packet is None:
            self._bus.counters["mqtt-too-large"] += 1
            self._rounds.change(self.session_id, Remove(owner=self.owner, kind=KIND, number=number))
            return
        awaits = PacketType.PUBACK if qos_of(frame) == 1 else PacketType.PUBREC
        self._begin(number, len(frame), awaits)
        client.send(packet)

    def _begin(self, number: int, size: int, awaits: PacketType) -> None:
        self._on_their_way[_id_of(number)] = _Sent(number, size, awaits)
        self._size += size

    # Messages that are read from the spool again.

    def _read(self) -> None:
        if self._client is None or self._is_reading or not self._is_behind or not self._has_room(0):
            return
        self._is_reading = True
        client = self._client
        most = min(client.most, MOST_ON_THEIR_WAY) - len(self._on_their_way)
        page = self._bus.spool.page(self.owner, KIND, after=self._after, most=most, most_bytes=MOST_BYTES_ON_THEIR_WAY)
        page.addCallbacks(self._page, self._not_read, callbackArgs=(client,))

    def _page(self, page: Page, client: MqttReceiver) -> None:
        self._is_reading = False
        if client is not self._client:
            self._read()
            return
        for entry in page.entries:
            if not self._has_room(len(entry.payload)) or _id_of(entry.number) in self._on_their_way:
                return
            if entry.payload:
                self._send(client, entry.number, entry.payload, entry.expires)
            else:
                self._after = entry.number
                self._begin(entry.number, 0, PacketType.PUBCOMP)
                client.release(_id_of(entry.number))
        if page.is_last:
            # Later messages are told after this page, and sent then.
            self._is_behind = False
            if self._sent_before is None:
                self._sent_before = self._after
        else:
            self._read()

    def _not_read(self, _: object) -> None:
        """The spool has counted it."""
        self._is_reading = False
        self._rounds.later(self._read)

    # Acknowledgements.

    def done(self, packet: PacketType, numbers: Iterable[int]) -> None:
        """Messages are done, if this is the acknowledgement that they await."""
        for number in numbers:
            sent = self._on_their_way.get(number)
            if sent is not None and sent.awaits is packet:
                del self._on_their_way[number]
                self._size -= sent.size
                self._rounds.change(self.session_id, Remove(owner=self.owner, kind=KIND, number=sent.number))
        self._read()

    def received(self, number: int) -> None:
        """The client has a message of QoS 2."""
        sent, client = self._on_their_way.get(number), self._client
        if sent is not None and sent.awaits is PacketType.PUBREC:
            sent.awaits = None
            self._keep_received(number, sent)
        elif client is not None:
            client.release(number, is_known=sent is not None)

    def _keep_received(self, number: int, sent: _Sent) -> None:
        """Keep that the client has a message of QoS 2. It does not say that again, so a failure is tried again."""
        if self._on_their_way.get(number) is sent:
            self._rounds.change(self.session_id, Replace(owner=self.owner, kind=KIND, number=sent.number, payload=b""))
            again = partial(self._rounds.later, partial(self._keep_received, number, sent))
            self._rounds.durable(self.session_id).addCallbacks(
                self._received, lambda _: again(), callbackArgs=(number, sent)
            )

    def _received(self, _: None, number: int, sent: _Sent) -> None:
        """It is durable that the client has a message of QoS 2."""
        if self._client is not None and self._on_their_way.get(number) is sent:
            sent.awaits = PacketType.PUBCOMP
            self._client.release(number)


def _id_of(number: int) -> int:
    """The packet identifier of the message with a number."""
    return (number - 1) % LAST_ID + 1
