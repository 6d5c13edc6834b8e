"""Connections of clients of MQTT. Source: MQTT 3.1.1 and 5.0; the packets are in :mod:`bussrv.wire.mqtt`.

A session is as long as its connection, or durable, as the client asks for: see :mod:`bussrv.formats.mqtt.durable`. The
connection of a client with a durable session has another one until the client is let in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

from twisted.internet.defer import Deferred, gatherResults

from bussrv.formats.mqtt import joining
from bussrv.formats.mqtt.clients import Clients
from bussrv.formats.mqtt.durable.queue import Queue
from bussrv.formats.mqtt.durable.sessions import MqttSession
from bussrv.formats.mqtt.encoding import FACTS, LONGEST_PACKET, SECOND, Client, MqttEncoding
from bussrv.formats.mqtt.link import MqttLink, MqttReceiver, Outgoing
from bussrv.plugin import (
    Backlog,
    Bundle,
    Claims,
    IBus,
    IEncoding,
    Reader,
    Refused,
    RemoteProtocolError,
    StreamFactory,
    StreamProtocol,
)
from bussrv.wire.mqtt import packets
from bussrv.wire.mqtt.packets import VERSION_5, Packet, PacketType
from bussrv.wire.mqtt.published import LAST_ID, Format
from bussrv.wire.mqtt.reader import MqttReader
from bussrv.wire.mqtt.reasons import ReasonCode
from bussrv.wire.mqtt.writer import encode, refusal

GRACE = 1.5
"""A client may be silent for so many times its keep-alive. Source: MQTT 5.0, 3.1.2.10."""

ENDS = {
    "server-stopped": ReasonCode.SERVER_SHUTTING_DOWN,
    "session-taken-over": ReasonCode.SESSION_TAKEN_OVER,
    "keep-alive-timeout": ReasonCode.KEEP_ALIVE_TIMEOUT,
    "permission-withdrawn": ReasonCode.NOT_AUTHORIZED,
    "user-withdrawn": ReasonCode.NOT_AUTHORIZED,
    "closed-by-operator": ReasonCode.ADMINISTRATIVE_ACTION,
    "slow-consumer": ReasonCode.QUOTA_EXCEEDED,
}
"""The reason codes by which clients of 5.0 are told why their sessions end."""

WITHOUT_WILL = ("server-stopped",)
"""The reasons for which no will is published, besides a plain DISCONNECT. It is after the restart, if there is one."""

FOR_GOOD = frozenset({"closed-by-operator", "permission-withdrawn"})
"""The reasons for which a durable session ends with its connection."""


class Parts(Protocol):
    """The parts that serve the client besides its connection; see :class:`bussrv.formats.mqtt.port.MqttParts`."""

    def serve(self, packet: Packet) -> bool:
        """Serve a packet, if it is one for them. :returns: whether it is."""

    def end(self) -> object:
        """The session is closed."""


class MqttProtocol(StreamProtocol):
    """One connection.

    :cvar LINK: the class of its link.
    :ivar version: 4 or 5; 0: the client has not said it yet.
    :ivar client_id: empty until the client has said it, and may have it.
    :ivar parts: see :class:`Parts`; ``None``: its session is not open yet.
    :ivar durable: its durable session, if it has one and is let in.
    :ivar begun: the identifiers of messages of QoS 2 that the client has begun and not ended.
    """

    FORMAT = "mqtt"
    LINK: ClassVar[type[MqttLink]] = MqttLink
    factory: MqttFactory
    link: MqttLink
    parts: Parts | None = None
    version = 0
    client_id = ""
    durable: MqttSession | None = None
    _found: MqttSession | None = None
    _is_joined = False
    _will: packets.Will | None = None
    _says_no_more = False

    def __init__(self, bus: IBus, reactor: Any) -> None:
        super().__init__(bus, reactor)
        self.bus = bus
        self.begun: set[int] = set()
        self._is_settled: Deferred[None] = Deferred()  # fires when the client is let in, or is not

    @property
    def clients(self) -> Clients:
        """What it has in common with others."""
        return self.factory.clients

    def make_reader(self) -> Reader:
        """Reads what clients send."""
        self._packets = MqttReader("client", max_packet=self.settings.mqtt_max_packet)
        return self._packets

    def encoding(self) -> IEncoding:
        """That of a client without subscriptions."""
        return self.factory.plain

    def make_link(self, backlog: Backlog) -> MqttLink:
        """The link to the client."""
        link = self.LINK(self, self.encoding(), self.settings.max_outbound, backlog, self.bus.streams.outflow)
        link.encodings = self.clients.encodings
        link.make_outgoing = self._make_outgoing
        return link

    def _receiver(self) -> MqttReceiver:
        """The client as who is sent messages of QoS 1 and 2: most want none."""
        form = Format(self.version, self.link.facts.max_packet)
        most = min(self._receive_maximum, self.settings.mqtt_max_unacknowledged)
        return MqttReceiver(form, most, self.link.send_numbered)

    def _make_outgoing(self) -> Outgoing:
        return Outgoing(self._receiver(), self.held_memory(self.link.discard), self.bus.counters)

    def opened(self) -> None:
        """The client has to send CONNECT soon."""
        self.parts = self.factory.parts(self)
        self.expect_input(self.settings.subscribe_timeout, "subscribe-timeout")

    def received(self, event: Packet) -> None:
        """A packet came. The reader has seen to it that CONNECT comes first, and once."""
        if self.parts is not None and self.parts.serve(event):
            return
        if isinstance(event, packets.Puback):
            numbers = self._packets.take_confirmed(event)
            self.traffic.objects_in += len(numbers) - 1
            self._done(PacketType.PUBACK, numbers)
        elif isinstance(event, packets.Pubrec):
            self._has(event)
        elif isinstance(event, packets.Pubcomp):
            self._done(PacketType.PUBCOMP, (event.id,))
        elif isinstance(event, packets.Pingreq):
            self.say(packets.Pingresp())
        elif isinstance(event, packets.Disconnect):
            self._leaves(event)
        elif isinstance(event, packets.Connect):
            self.busy_with(self._join(event))
        else:
            self.fail(ReasonCode.PROTOCOL_ERROR, "protocol-error")  # AUTH, though no login in steps was begun.

    def take_alike(self, packet: packets.Publish, most: int) -> list[packets.Publish]:
        """A packet, which is served now, and those after it that are alike; ``most`` together."""
        run = self._packets.take_alike(packet, most)
        self.traffic.objects_in += len(run) - 1
        return run

    def say(self, packet: Packet) -> None:
        """Send the client a packet."""
        self.send([encode(packet, self.version)])

    def fail(self, code: ReasonCode | None, reason: str) -> None:
        """The client did what the protocol forbids, or is late: end its session, and tell it the code."""
        self.bus.counters[reason] += 1
        self._say_farewell(code)
        self.end(reason)

    # Joining.

    async def _join(self, asked: packets.Connect) -> None:
        self.expect_input(0, "")
        self.version = asked.version
        try:
            await self._let_in(asked)
        except Refused as refused:
            if not self.has_ended:
                self.bus.counters[refused.reason] += 1
                self.send([encode(joining.refused(refused.reason, asked.version), asked.version)])
                self._says_no_more = True
                self.end(refused.reason)
        finally:
            # Later: thousands may wait for the same client id, each for the one before it.
            self.reactor.callLater(0, self._is_settled.callback, None)

    async def _let_in(self, asked: packets.Connect) -> None:
        client_id = joining.client_id_of(asked)
        await self._check(asked)
        await self.clients.durable.connected.claim(client_id, self)
        self.client_id = client_id
        try:
            self._check_there()
            self.clients.wills.cancel(client_id)
            await self._find_session(asked)
            await self._make_known(asked)
        except Refused as refusal:
            self._abandon("connection-lost" if self.has_ended else refusal.reason)
            if self.has_ended:  # Perhaps it was not known by its client id then.
                self.clients.durable.connected.left(client_id, self)
            raise
        self._begin(asked, self._found)

    def _check_there(self) -> None:
        """:raises Refused: ``session-closed``: the client has gone meanwhile, or its durable session has ended."""
        found = self._found
        if self.has_ended or (found is not None and self.clients.durable.of(self.client_id) is not found):
            raise Refused("session-closed", "the session has ended")

    async def _check(self, asked: packets.Connect) -> None:
        credentials = joining.credentials_of(asked)
        if self.clients.retaining is not None:
            await self.clients.retaining.loaded()
        if credentials is not None and self.bus.access.asks:
            await self.identification.log_in(credentials)
        self.identification.check_may_join()
        joining.check_will(asked, self.session_id, self.bus)

    async def _find_session(self, asked: packets.Connect) -> None:
        own, expiry = self.bus.registry.state.sessions[self.session_id], self._granted(asked) * SECOND
        self._found = await self.clients.durable.take_up(
            self.client_id, own, expiry, self._check_there, anew=asked.clean_start
        )
        self._check_there()

    def _granted(self, asked: packets.Connect) -> int:
        """How many seconds the session of the client outlives its connection."""
        return joining.expiry_of(asked, self.settings.mqtt_session_expiry)

    async def _make_known(self, asked: packets.Connect) -> None:
        own = self.bus.registry.state.sessions[self.session_id]
        session_id = own.id if self._found is None else self._found.id
        claimed = asked.username if asked.username != own.actor else None
        await self.bus.registry.introduce(Claims(session_id=session_id, name=self.client_id, claimed=claimed))
        self._check_there()
        if asked.will is None:
            self.clients.wills.forget_former(self.client_id)
        else:
            await self.clients.wills.keep(self.client_id, asked.will, own)
            self._check_there()

    def _abandon(self, reason: str) -> None:
        """The client is not let in: its durable session goes on without it, or has never been."""
        self.clients.wills.forget_former(self.client_id)
        found, self._found = self._found, None
        if found is not None:
            self.clients.durable.abandon(found, reason)

    def _begin(self, asked: packets.Connect, durable: MqttSession | None) -> None:
        self._will, self._is_joined, properties = asked.will, True, asked.properties
        max_packet = properties.maximum_packet_size or LONGEST_PACKET
        self.link.facts, self.link.session_id = Client(asked.version, max_packet), self.session_id
        self._receive_maximum = properties.receive_maximum or LAST_ID
        self.expect_input(asked.keep_alive * GRACE, "keep-alive-timeout", renewed=True)
        most, dropped = self.settings.mqtt_max_packet, 0 if durable is None else durable.dropped
        expiry, is_present = self._granted(asked), durable is not None and not durable.is_new
        answer = joining.accepted(asked, self.client_id, expiry, most, is_present=is_present, dropped=dropped)
        if durable is None:
            self.say(answer)
        else:
            self._go_on_as(durable, answer)

    def _go_on_as(self, durable: MqttSession, answer: packets.Connack) -> None:
        """Serve the durable session of the client from now on."""
        link, version, receiver = durable.link, self.version, self._receiver()
        self.durable, self.link.facts = durable, FACTS
        if durable.begun is not None:  # An empty one is false.
            self.begun = durable.begun
        self.continue_as(durable.id, link.traffic, "joined-session")
        self.link.send(Bundle([encode(answer, version)]))
        link.connect(self.link, receiver)
        if version == VERSION_5:
            self.clients.durable.told_of_drops(durable)
        link.queue.connect(receiver)

    def has_left(self) -> Deferred[None]:
        """:returns: fires when the connection has no session any more, and wants none."""
        settled: Deferred[None] = Deferred()
        self._is_settled.addCallback(lambda _: settled.callback(None))
        both: Deferred[None] = gatherResults([settled, self.session_gone()]).addCallback(lambda _: None)
        return both

    # Messages to the client.

    def messages(self) -> MqttEncoding:
        """Makes messages for this client alone."""
        return self.clients.encodings.of(self.link.facts, {})

    def _on_their_way(self) -> Outgoing | Queue | None:
        """The messages of QoS 1 and 2 that the client has not acknowledged; ``None``: it wants none."""
        return self.link.outgoing if self.durable is None else self.durable.link.queue

    def _done(self, kind: PacketType, numbers: Sequence[int]) -> None:
        messages = self._on_their_way()
        if messages is not None:
            messages.done(kind, numbers)

    def _has(self, packet: packets.Pubrec) -> None:
        """The client has a message of QoS 2, or does not take it."""
        messages = self._on_their_way()
        if packet.code >= ReasonCode.UNSPECIFIED_ERROR:
            self._done(PacketType.PUBREC, (packet.id,))
        elif messages is None:
            self._receiver().release(packet.id, is_known=False)
        else:
            messages.received(packet.id)

    # The end.

    def _leaves(self, packet: packets.Disconnect) -> None:
        expiry = packet.properties.session_expiry_interval
        if expiry is not None and not self._may_outlive(expiry):
            self.fail(ReasonCode.PROTOCOL_ERROR, "protocol-error")
            return
        if packet.code == ReasonCode.SUCCESS and self._will is not None:
            self._will = None
            self.clients.wills.forget(self.client_id)
        self._says_no_more = True
        self.end("client-closed")

    def _may_outlive(self, seconds: int) -> bool:
        """The client says in the end how long its session outlives its connection. :returns: whether it may."""
        durable = self.durable
        if durable is None or not durable.expiry:
            return not seconds
        durable.expiry = min(seconds, int(self.settings.mqtt_session_expiry)) * SECOND
        return True

    def malformed(self, error: RemoteProtocolError) -> None:
        """Tell the client what was wrong, as far as its version has a packet for that."""
        said = refusal(error.reason, self._packets.level, is_connected=self._is_joined)
        self._says_no_more = True
        if said:
            self.send([said])

    def last_words(self, reason: str) -> Bundle | None:
        """Tell a client that reads too slowly."""
        if self.version != VERSION_5 or not self._is_joined:
            return None
        self._says_no_more = True
        return Bundle([encode(packets.Disconnect(ENDS[reason]), VERSION_5)])

    def _say_farewell(self, code: ReasonCode | None) -> None:
        if code is not None and self.version == VERSION_5 and self._is_joined and not self._says_no_more:
            self.say(packets.Disconnect(code))
        self._says_no_more = True

    def farewell(self, reason: str) -> None:
        """Tell a client of 5.0 why its session ends."""
        self._say_farewell(ENDS.get(reason))

    def _publish_will(self, reason: str) -> None:
        will, self._will = self._will, None
        if will is None or reason in WITHOUT_WILL:
            return
        delay = will.properties.will_delay_interval or 0
        if self.durable is not None and self.durable.expiry and delay and reason not in FOR_GOOD:
            self.clients.wills.publish_after(self.client_id, will, delay)
        else:
            self.clients.wills.publish(self.client_id, self.session_id, will)

    def close_session(self, reason: str) -> None:
        """Publish the will of the client, if it has one. Then close its session, or leave it if it is durable."""
        self._publish_will(reason)
        if self.durable is None:
            super().close_session(reason)
            if not self._is_joined:
                self._abandon(reason)
        elif reason in FOR_GOOD:
            self.clients.durable.end(self.durable, reason)
        else:
            self.clients.durable.leave(self.durable, reason)

    def closed(self, reason: str) -> None:
        """The session is closed."""
        if self.link.outgoing is not None:
            self.link.outgoing.clear()
        if self.parts is not None:
            self.parts.end()
        self.clients.durable.connected.left(self.client_id, self)


class MqttFactory(StreamFactory):
    """The connections of one port.

    :param parts: makes the parts of a connection.
    :ivar clients: what they have in common with those of other ports.
    :ivar plain: the encoding for clients without subscriptions.
    """

    def __init__(self, bus: IBus, reactor: Any, parts: Callable[[MqttProtocol], Parts]) -> None:
        super().__init__(MqttProtocol, bus, reactor)
        self.parts = parts
        self.clients = Clients(bus, reactor)
        self.plain = self.clients.encodings.of(Client(packets.VERSION_3_1_1, LONGEST_PACKET), {})
