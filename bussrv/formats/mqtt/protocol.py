"""Connections of clients of MQTT. Source: MQTT 3.1.1 and 5.0; the packets are in :mod:`bussrv.wire.mqtt`.

A session is as long as its connection: a client that asks for a longer one is told that it gets none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from twisted.internet.defer import Deferred

from bussrv.addresses import address_key
from bussrv.bus.interfaces import IBus, IEncoding
from bussrv.errors import OverLimit, Refused, RemoteProtocolError
from bussrv.events import limit_reached
from bussrv.formats.mqtt import joining
from bussrv.formats.mqtt.encoding import Client, MqttEncoding, Wanted
from bussrv.formats.mqtt.link import MqttLink
from bussrv.formats.mqtt.outgoing import LAST_ID, Outgoing
from bussrv.formats.mqtt.publishing import MOST_ALIASES, MOST_INCOMING, Publishing
from bussrv.formats.mqtt.retaining import DurableRetained
from bussrv.formats.mqtt.subscribing import Subscribing
from bussrv.memory.bundle import Bundle
from bussrv.net.session.backlog import Backlog
from bussrv.net.session.factory import StreamFactory
from bussrv.net.session.input import Reader
from bussrv.net.session.protocol import StreamProtocol
from bussrv.net.transport.patience import Patience
from bussrv.registry.state.session import Claims
from bussrv.values import Publication
from bussrv.wire.mqtt import packets
from bussrv.wire.mqtt.packets import VERSION_5, Packet, PacketType
from bussrv.wire.mqtt.reader import MqttReader
from bussrv.wire.mqtt.reasons import ReasonCode
from bussrv.wire.mqtt.writer import encode, refusal

LONGEST_PACKET = (1 << 28) + 4
"""The bytes of the longest packet that there can be."""

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
"""The reasons for which no will is published, besides a plain DISCONNECT."""


class MqttProtocol(StreamProtocol):
    """One connection.

    :cvar LINK: the class of its link.
    :ivar version: 4 or 5; 0: the client has not said it yet.
    :ivar client_id: empty until the client is let in.
    """

    FORMAT = "mqtt"
    LINK: ClassVar[type[MqttLink]] = MqttLink
    factory: MqttFactory
    link: MqttLink
    version = 0
    client_id = ""
    _will: packets.Will | None = None
    _patience: Patience | None = None
    _silence: Any = None
    _keep_alive = _heard = 0.0
    _says_no_more = False

    def __init__(self, bus: IBus, reactor: Any) -> None:
        super().__init__(bus, reactor)
        self.bus = bus
        self.publishing = Publishing(self)
        self.subscribing = Subscribing(self)
        self._client = Client(packets.VERSION_3_1_1, LONGEST_PACKET)

    def make_reader(self) -> Reader:
        """Reads what clients send."""
        self._packets = MqttReader("client", max_packet=self.settings.mqtt_max_packet)
        return self._packets

    def encoding(self) -> IEncoding:
        """That of a client without subscriptions."""
        return self.factory.plain

    def make_link(self, backlog: Backlog) -> MqttLink:
        """The link to the client."""
        settings, outflow = self.settings, self.bus.streams.outflow
        link = self.LINK(self, self.encoding(), settings.max_outbound, backlog, outflow)
        link.filtering = self
        link.most_waiting, link.too_much_waits = settings.max_outbound, self._too_much_waits
        return link

    def _too_much_waits(self) -> None:
        # Later: messages are being given to others.
        self.reactor.callLater(0, self._acknowledges_too_little)

    def _acknowledges_too_little(self) -> None:
        session, most = self.bus.registry.state.sessions.get(self.session_id), self.settings.max_outbound
        if session is not None and not self.has_ended:
            over = OverLimit("slow-consumer", f"more than {most} bytes wait for acknowledgements", "max-outbound", most)
            self.bus.counters[over.reason] += 1
            self.bus.registry.note_from_stranger(limit_reached(over, **session.about()))
            self.end(over.reason)

    def opened(self) -> None:
        """The client has to send CONNECT soon."""
        seconds = self.settings.subscribe_timeout
        if seconds:
            self._patience = Patience(seconds, self._is_late, self.is_unserved, self.reactor)

    def _is_late(self) -> None:
        self.bus.counters["subscribe-timeout"] += 1
        self.end("subscribe-timeout")

    def dataReceived(self, data: bytes) -> None:
        """The client is there."""
        self.heard()
        super().dataReceived(data)

    def heard(self) -> None:
        """Bytes of a packet came: the client is not silent."""
        self._heard = self.reactor.seconds()

    def received(self, event: Packet) -> None:
        """A packet came. The reader has seen to it that CONNECT comes first, and once."""
        kind = type(event)
        if isinstance(event, packets.Publish):
            self.publishing.receive(event)
        elif isinstance(event, packets.Puback | packets.Pubrec | packets.Pubrel | packets.Pubcomp):
            self._acknowledged(event)
        elif isinstance(event, packets.Subscribe):
            self.busy_with(self.subscribing.subscribe(event))
        elif isinstance(event, packets.Unsubscribe):
            self.busy_with(self.subscribing.unsubscribe(event))
        elif kind is packets.Pingreq:
            self.say(packets.Pingresp())
        elif isinstance(event, packets.Disconnect):
            self._leaves(event)
        elif isinstance(event, packets.Connect):
            self.busy_with(self._join(event))
        else:
            self.fail(ReasonCode.PROTOCOL_ERROR, "protocol-error")  # AUTH, though no login in steps was begun.

    def keep(self, publication: Publication) -> Deferred[Any] | None:
        """Have a retained publication outlive the server, if it is to."""
        retaining, session = self.factory.retaining, self.bus.registry.state.sessions.get(self.session_id)
        return None if retaining is None or session is None else retaining.keep(publication, session)

    def take_alike(self, packet: packets.Publish) -> list[packets.Publish]:
        """A packet, which is served now, and those after it that are alike."""
        run = self._packets.take_alike(packet)
        self.traffic.objects_in += len(run) - 1
        return run

    def say(self, packet: Packet) -> None:
        """Send the client a packet."""
        self.send([encode(packet, self.version)])

    def fail(self, code: ReasonCode, reason: str) -> None:
        """The client did what the protocol forbids: end its session."""
        self.bus.counters[reason] += 1
        self._say_farewell(code)
        self.end(reason)

    # Joining.

    async def _join(self, asked: packets.Connect) -> None:
        if self._patience is not None:
            self._patience.end()
        self.version = asked.version
        try:
            await self._let_in(asked)
        except Refused as refused:
            if not self.has_ended:
                self.bus.counters[refused.reason] += 1
                self.send([encode(joining.refused(refused.reason, asked.version), asked.version)])
                self._says_no_more = True
                self.end(refused.reason)

    async def _let_in(self, asked: packets.Connect) -> None:
        credentials, client_id = joining.credentials_of(asked), joining.client_id_of(asked)
        if self.factory.retaining is not None:
            await self.factory.retaining.loaded()
        if credentials is not None and self.bus.access.asks:
            await self.identification.log_in(credentials)
        self.identification.check_may_join()
        session = self.bus.registry.state.sessions[self.session_id]
        joining.check_will(asked, session, self.bus)
        claimed = asked.username if asked.username != session.actor else None
        await self.bus.registry.introduce(Claims(session_id=self.session_id, name=client_id, claimed=claimed))
        if self.has_ended:
            return
        self.factory.take_over(client_id, self)
        self.client_id = client_id
        self._will = asked.will
        properties = asked.properties
        self._client = Client(asked.version, properties.maximum_packet_size or LONGEST_PACKET)
        self._receive_maximum = properties.receive_maximum or LAST_ID
        if asked.keep_alive:
            self._keep_alive = asked.keep_alive * GRACE
            self._look()
        limits = {"max_packet": self.settings.mqtt_max_packet, "most_aliases": MOST_ALIASES}
        self.say(joining.accepted(asked, client_id, most_incoming=MOST_INCOMING, **limits))

    def _look(self) -> None:
        """Look whether the client has been silent for too long."""
        self._silence = None
        left = self._heard + self._keep_alive - self.reactor.seconds()
        if left <= 0 and not self.is_unserved():
            self.bus.counters["keep-alive-timeout"] += 1
            self.end("keep-alive-timeout")
        else:
            self._silence = self.reactor.callLater(max(left, 0.1), self._look)

    # Messages to the client.

    def encoding_of(self, filters: Mapping[str, dict[str, Any] | None], *, is_alone: bool) -> IEncoding:
        """See :class:`bussrv.bus.interfaces.IFilteringLink`."""
        wanted = {name: Wanted.of(options) for name, options in filters.items()}
        self._needs_numbers(any(each.qos for each in wanted.values()))
        is_selective = is_alone or any(each.no_local for each in wanted.values())
        client = Client(self._client.version, self._client.max_packet, self.session_id if is_selective else "")
        if is_alone:
            return MqttEncoding(client, wanted, self.bus.counters, self.bus.utc)
        return self.factory.encoding_of(client, wanted)

    def refilter(self, encoding: IEncoding, changed: str, options: dict[str, Any] | None, *, is_there: bool) -> None:
        """See :class:`bussrv.bus.interfaces.IFilteringLink`."""
        assert isinstance(encoding, MqttEncoding)
        wanted = Wanted.of(options) if is_there else None
        self._needs_numbers(wanted is not None and wanted.qos > 0)
        encoding.refilter(changed, wanted)

    def _needs_numbers(self, has_qos: bool) -> None:
        """Have messages numbered, if the client has a subscription of QoS 1 or 2."""
        if has_qos and self.link.outgoing is None:
            address = address_key(self.bus.registry.state.sessions[self.session_id].peer)
            held = self.bus.streams.outbound.open(address, self.outbound_is_full)
            self.link.outgoing = Outgoing(self._receive_maximum, held)

    def messages(self) -> MqttEncoding:
        """Makes messages for this client alone."""
        return self.factory.encoding_of(self._client, {})

    def _acknowledged(self, packet: packets.Acknowledgement) -> None:
        """A packet about a message of QoS 1 or 2."""
        kind, number, outgoing = type(packet), packet.id, self.link.outgoing
        if kind is packets.Pubrel:
            is_known = number in self.publishing.unended
            self.publishing.unended.discard(number)
            self.say(packets.Pubcomp(number, self._found(is_known)))
        elif outgoing is None or not outgoing.is_awaited(PacketType[kind.__name__.upper()], number):
            if kind is packets.Pubrec:
                self.say(packets.Pubrel(number, self._found(False)))
        elif kind is packets.Pubrec and packet.code < ReasonCode.UNSPECIFIED_ERROR:
            outgoing.go_on(number)
            self.say(packets.Pubrel(number))
        else:
            following = outgoing.done(number)
            if following is not None:
                self.link.send_numbered(following)

    def _found(self, is_known: bool) -> int:
        return ReasonCode.SUCCESS if is_known or self.version != VERSION_5 else ReasonCode.PACKET_ID_NOT_FOUND

    # The end.

    def _leaves(self, packet: packets.Disconnect) -> None:
        if packet.code == ReasonCode.SUCCESS:
            self._will = None
        self._says_no_more = True
        self.end("client-closed")

    def malformed(self, error: RemoteProtocolError) -> None:
        """Tell the client what was wrong, as far as its version has a packet for that."""
        said = refusal(error.reason, self._packets.level, is_connected=bool(self.client_id))
        self._says_no_more = True
        if said:
            self.send([said])

    def last_words(self, reason: str) -> Bundle | None:
        """Tell a client that reads too slowly."""
        if self.version != VERSION_5 or not self.client_id:
            return None
        self._says_no_more = True
        return Bundle([encode(packets.Disconnect(ENDS[reason]), VERSION_5)])

    def _say_farewell(self, code: ReasonCode | None) -> None:
        if code is not None and self.version == VERSION_5 and self.client_id and not self._says_no_more:
            self.say(packets.Disconnect(code))
        self._says_no_more = True

    def end(self, reason: str, most: float | None = None) -> Deferred[None]:
        """End the session; see :class:`StreamProtocol`. The will of the client is published, if it has one."""
        if not self.has_ended:
            self._say_farewell(ENDS.get(reason))
            self._publish_will(reason)
        return super().end(reason, most)

    def end_services(self, reason: str, then: Callable[[], object]) -> None:
        """End the services of the session in slices, and publish the will of the client, if it has one."""

        def end() -> None:
            self._publish_will(reason)
            then()

        super().end_services(reason, end)

    def _publish_will(self, reason: str) -> None:
        will, self._will = self._will, None
        if will is not None and reason not in WITHOUT_WILL:
            self.publishing.give_will(will)

    def closed(self, reason: str) -> None:
        """The session is closed."""
        if self._patience is not None:
            self._patience.end()
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None
        if self.link.outgoing is not None:
            self.link.outgoing.clear()
        self.factory.left(self)


class MqttFactory(StreamFactory):
    """The connections of one port.

    :ivar plain: the encoding for clients without subscriptions.
    :ivar retaining: keeps retained messages on the disk; ``None``: they end with the server.
    """

    def __init__(self, bus: IBus, reactor: Any) -> None:
        super().__init__(MqttProtocol, bus, reactor)
        self.retaining = DurableRetained(bus) if bus.settings.mqtt_retain == "durable" else None
        self._by_client_id: dict[str, MqttProtocol] = {}
        self._encodings: WeakValueDictionary[tuple[Client, frozenset[tuple[str, Wanted]]], MqttEncoding] = (
            WeakValueDictionary()
        )
        self.plain = self.encoding_of(Client(packets.VERSION_3_1_1, LONGEST_PACKET), {})

    def encoding_of(self, client: Client, filters: Mapping[str, Wanted]) -> MqttEncoding:
        """The encoding for clients that get the same bytes."""
        key = client, frozenset(filters.items())
        found = self._encodings.get(key)
        if found is None:
            found = self._encodings[key] = MqttEncoding(client, filters, self.bus.counters, self.bus.utc)
        return found

    def take_over(self, client_id: str, client: MqttProtocol) -> None:
        """A client has this client id from now on. The session of one that has it ends.

        :raises Refused: ``client-id-taken``: another user has it.
        """
        former = self._by_client_id.get(client_id)
        if former is not None and former is not client:
            sessions = self.bus.registry.state.sessions
            if sessions[former.session_id].actor != sessions[client.session_id].actor:
                raise Refused("client-id-taken", "another user has a session with this client id")
            former.end("session-taken-over")
        self._by_client_id[client_id] = client

    def left(self, client: MqttProtocol) -> None:
        """A session is closed."""
        if self._by_client_id.get(client.client_id) is client:
            del self._by_client_id[client.client_id]
