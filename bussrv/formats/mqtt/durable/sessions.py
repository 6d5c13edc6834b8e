"""The durable sessions of MQTT: what is kept of each besides its messages, and the link to it.

Messages for a session go to its client, or into its queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from struct import iter_unpack, pack
from typing import Any

from zope.interface import implementer

from bussrv.formats.mqtt.durable.queue import Queue, Queues
from bussrv.formats.mqtt.encoding import FACTS, Encodings
from bussrv.formats.mqtt.link import MqttLink, MqttReceiver
from bussrv.plugin import (
    Bundle,
    DropsTold,
    DurableSession,
    DurableSessions,
    IBus,
    IEncoding,
    IFilteringLink,
    Put,
    Rounds,
    Session,
    Traffic,
)
from bussrv.wire.mqtt.packets import VERSION_5, PacketType

MOST_INCOMING = 64
"""The messages of QoS 2 that a client may have begun and not ended."""

TAKEN = "taken"
"""The kind of the entry with their identifiers. It always has the same size, so that it never lacks room."""


class KeptBegun(set[int]):
    """The identifiers of messages of QoS 2 that a client has begun and not ended, kept in the spool.

    One is put there in one round with the queues that its message is put into.
    """

    def __init__(self, session: MqttSession, rounds: Rounds, numbers: Iterable[int] = ()) -> None:
        super().__init__(numbers)
        self._session = session
        self._rounds = rounds

    @property
    def entry(self) -> Put:
        """The entry of the spool."""
        return entry_of(self._session.owner, self)

    def add(self, number: int) -> None:
        """The client has begun a message."""
        super().add(number)
        self._rounds.change_with_all(self._session.id, self.entry)

    def discard(self, number: object) -> None:
        """The client has ended it, or it was refused."""
        if number in self:
            super().discard(number)
            self._rounds.change(self._session.id, self.entry)


def entry_of(owner: str, numbers: Iterable[int] = ()) -> Put:
    """The entry of the spool with these identifiers."""
    some = [*numbers]
    payload = pack(f">{MOST_INCOMING}H", *some, *(0,) * (MOST_INCOMING - len(some)))
    return Put(owner=owner, kind=TAKEN, key=TAKEN, payload=payload, or_drop=True)


@implementer(IFilteringLink)
class DurableLink:
    """Is the session's link for as long as it is there. Its encoding is that of MQTT 5.0, whoever is connected.

    :param queues: puts messages into the queue.
    :param ended: is told the reason when somebody else than the client ends the session for good.
    :ivar queue: what it must not lose.
    :ivar connection: the link to the client, while it is connected.
    :ivar traffic: the counts of the session over all its connections.
    """

    __slots__ = ("_client", "_ended", "_queues", "connection", "encodings", "queue", "session_id", "traffic")

    session_id: str

    def __init__(self, encodings: Encodings, queues: Queues, queue: Queue, ended: Callable[[str], object]) -> None:
        self.queue = queue
        self._queues = queues
        self.traffic = Traffic()
        self.connection: MqttLink | None = None
        self._client: MqttReceiver | None = None
        self.encodings = encodings
        self._ended = ended

    def opened(self, session_id: str, owner: str) -> None:
        """The session is open.

        :param owner: its owner in the spool.
        """
        self.session_id = self.queue.session_id = session_id
        self.queue.owner = owner

    def connect(self, connection: MqttLink, client: MqttReceiver) -> None:
        """The client is there."""
        self.connection, self._client = connection, client
        connection.traffic = self.traffic

    def disconnect(self) -> None:
        """The client has gone."""
        self.connection = self._client = None
        self.queue.disconnect()

    @property
    def is_away(self) -> bool:
        """Whether the client is not connected."""
        return self.connection is None

    @property
    def waiting(self) -> int:
        """How many bytes wait for the client, without its queue."""
        return 0 if self.connection is None else self.connection.waiting

    def encoding_for(self, options: dict[str, Any] | None) -> IEncoding:
        """See :class:`ISessionLink`."""
        return self.encodings.of(FACTS, {})

    def encoding_of(self, filters: Mapping[str, dict[str, Any] | None], *, is_alone: bool) -> IEncoding:
        """See :class:`IFilteringLink`."""
        return self.encodings.for_filters(FACTS, self.session_id, filters, is_alone=is_alone)

    def refilter(self, encoding: IEncoding, changed: str, options: dict[str, Any] | None, *, is_there: bool) -> None:
        """See :class:`IFilteringLink`."""
        self.encodings.refilter(encoding, changed, options, is_there=is_there)

    def send(self, bundle: Bundle) -> None:
        """Send packets. Messages of QoS 1 and 2 are kept first. Others are lost if the client is not connected."""
        direct = self._queues.put(self.queue, bundle)
        connection, client = self.connection, self._client
        if connection is None or client is None or not direct:
            return
        if client.form.version != VERSION_5 or client.form.max_packet < bundle.size:
            direct = [each for frame in direct if (each := _fitted(frame, client)) is not None]
        if direct:
            connection.send(Bundle(direct))

    def close(self, reason: str) -> None:
        """The server ends the session for ``reason``."""
        if self.connection is None:
            self._ended(reason)
        else:
            self.connection.close(reason)


def _fitted(frame: bytes, client: MqttReceiver) -> bytes | None:
    """A packet as the client takes it. Those that are no messages were made for it."""
    return client.form.of(frame) if frame[0] >> 4 == PacketType.PUBLISH else frame


class MqttSession(DurableSession[DurableLink]):
    """One session; its name is the client id.

    :ivar begun: messages of QoS 2 that its client has begun; ``None``: the spool has to be asked.
    :ivar dropped: how many messages were dropped since the client was last told.
    """

    __slots__ = ("begun", "dropped")
    begun: KeptBegun | None
    dropped: int


class MqttSessions(DurableSessions[MqttSession]):
    """The durable sessions of one server."""

    FORMAT = "mqtt"
    OWNER = "mqtt "
    LIMITS = "mqtt-max-durable", "mqtt-max-durable-per-address"

    def __init__(self, bus: IBus, reactor: Any, encodings: Encodings) -> None:
        super().__init__(bus, reactor)
        self._encodings = encodings
        self._queues = Queues(self.rounds)

    def make(self, session: Session, name: str, link: DurableLink, expiry: int) -> MqttSession:
        """See :class:`DurableSessions`, as for the others."""
        made = MqttSession(session, self.OWNER + session.id, name, link, expiry)
        made.begun, made.dropped = None, 0
        return made

    def make_link(self, name: str, *, is_new: bool) -> DurableLink:
        """A link with a queue."""
        queue = Queue(self.bus, self.rounds, is_known=is_new)
        return DurableLink(self._encodings, self._queues, queue, partial(self.end_named, name))

    def kept(self, session: MqttSession) -> tuple[Put]:
        """The messages that its client has begun."""
        return (entry_of(session.owner) if session.begun is None else session.begun.entry,)

    async def begin(self, name: str, peer: str, actor: str | None, expiry: int) -> MqttSession:
        """The client has begun no message."""
        session = await super().begin(name, peer, actor, expiry)
        session.begun = KeptBegun(session, self.rounds)
        return session

    async def read(self, session: MqttSession) -> None:
        """The messages that its client has begun, and how many were dropped."""
        spool = self.bus.spool
        if session.begun is None:
            entries = (await spool.page(session.owner, TAKEN)).entries
            numbers = iter_unpack(">H", entries[0].payload) if entries else ()
            session.begun = KeptBegun(session, self.rounds, [number for (number,) in numbers if number])
        kept = await spool.owner(session.owner)
        session.dropped = 0 if kept is None else kept.dropped

    def lost(self, session: MqttSession) -> None:
        """Its queue is empty."""
        session.link.queue.lost()

    def told_of_drops(self, session: MqttSession) -> None:
        """The client was told how many messages were dropped."""
        if session.dropped:
            self.rounds.change(session.id, DropsTold(owner=session.owner, count=session.dropped))
            session.dropped = 0
