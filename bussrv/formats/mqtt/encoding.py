"""Publications as messages of MQTT, the same bytes for all clients with equal subscriptions.

A client gets a message once, however many of its filters match: with the highest QoS of these, and the identifiers of
all of them (MQTT 5.0, 3.3.4). A publication of another wire format counts as one of QoS 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from msgspec import Struct, to_builtins
from msgspec.structs import replace
from zope.interface import implementer

from bussrv.formats.mqtt.attributes import is_text
from bussrv.plugin import OCTET_STREAM, Delivery, IEncoding, PatternMap, Publication
from bussrv.wire.mqtt.packets import NO_PROPERTIES, VERSION_5, PacketType, Properties, Publish
from bussrv.wire.mqtt.topics import is_name
from bussrv.wire.mqtt.writer import listed, template

LONGEST_PACKET = (1 << 28) + 4
"""The bytes of the longest packet that there can be."""

SECOND = 1_000_000
"""The microseconds of a second."""

LONGEST_LIFETIME = 0xFFFFFFFF
"""The longest Message Expiry Interval, in seconds."""

MOST_REMEMBERED = 4096
"""For how many services an encoding remembers what is wanted of them."""


class Sent(Struct, frozen=True, gc=False):
    """The facts of a publication that only MQTT knows.

    :ivar session: the session of its publisher; empty if that is another wire format's, or does not matter.
    :ivar properties: those that are passed on to clients of 5.0.
    :ivar expires: when it is worth nothing any more, UTC microseconds; ``None``: never.
    """

    session: str
    qos: int
    retain: bool = False
    properties: Properties = NO_PROPERTIES
    expires: int | None = None


FOREIGN = Sent("", 1)
"""Those of the publications of other wire formats."""


class Published(bytes):
    """A message of QoS 1 or 2 for the queues of durable sessions, up to its payload: the spool keeps that once for all.

    :ivar payload: what comes after it.
    :ivar publisher: a session; empty if that is another wire format's. Publishers take turns in the spool.
    :ivar expires: see :class:`Sent`.
    """

    payload: bytes
    publisher: str
    expires: int | None


class Wanted(Struct, frozen=True, omit_defaults=True):
    """The options of a subscription, as the registry keeps them.

    :ivar id: the subscription identifier; 0: there is none.
    """

    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    id: int = 0

    @classmethod
    def of(cls, options: dict[str, Any] | None) -> Wanted:
        """Those of a subscription of the registry."""
        return cls(**(options or {}))

    def as_options(self) -> dict[str, Any]:
        """The form that the registry keeps: options that are not as usual."""
        options: dict[str, Any] = to_builtins(self)
        return options


class Client(Struct, frozen=True):
    """The other facts that decide about the bytes that a client gets.

    :ivar max_packet: the most bytes of a packet that it takes.
    :ivar session: its session, if it does not want its own messages; otherwise empty.
    :ivar is_durable: whether its messages go into a queue, and have to know their publishers.
    """

    version: int
    max_packet: int
    session: str = ""
    is_durable: bool = False


FACTS = Client(VERSION_5, LONGEST_PACKET, is_durable=True)
"""Those of durable sessions: the form in which messages are kept."""


class _Joined(NamedTuple):
    """Several subscriptions together: the highest QoS, and the identifiers of all, as properties."""

    qos: int
    retain_as_published: bool
    ids: bytes


@implementer(IEncoding)
class MqttEncoding:
    """Messages for clients with the same subscriptions.

    :param filters: the options of each subscription, by name or pattern.
    :param counters: count messages that are not sent: ``mqtt-unfit-topic`` and ``mqtt-too-large``.
    :param utc: the time, UTC microseconds.
    """

    def __init__(self, client: Client, filters: Mapping[str, Wanted], counters: Counter[str], utc: Any) -> None:
        self._client = client
        self._kind = client.version, client.max_packet, client.is_durable
        self._filters: PatternMap[Wanted] = PatternMap()
        # By service, the subscriptions that match it: all of them, and those that want the client's own messages, too.
        self._matched: dict[str, tuple[_Joined | None, _Joined | None]] = {}
        for name, wanted in filters.items():
            self.refilter(name, wanted)
        self._counters = counters
        self._utc = utc

    def refilter(self, name: str, wanted: Wanted | None) -> None:
        """A subscription came or has other options, or (``None``) went."""
        if wanted is None:
            del self._filters[name]
        else:
            self._filters[name] = wanted
        self._matched = {}

    def encode(self, delivery: Delivery) -> bytes | None:
        """The message of a publication. Its packet identifier is zero, if it needs one.

        Encodings that make the same bytes of it make them once.
        """
        publication = delivery.publication
        if publication is None:
            return None
        sent = publication.own if isinstance(publication.own, Sent) else FOREIGN
        joined = self._match(publication.service)[sent.session == self._client.session]
        if joined is None:
            return None
        retain = joined.retain_as_published and (publication.is_retained or sent.retain)
        key, made = (self._kind, min(joined.qos, sent.qos), retain, joined.ids), delivery.frames
        if key not in made:
            made[key] = self._message(publication, sent, joined, retain=retain, templates=made)
        frame: bytes | None = made[key]
        return frame

    def encode_run(self, publications: Sequence[Publication]) -> list[bytes]:
        """The messages of publications that differ in their payloads only; see :class:`RunEncoding`."""
        frames: list[bytes] = []
        lengths: dict[int, bytes] = {}  # what stands before a payload of so many bytes
        for each in publications:
            before = lengths.get(len(each.payload))
            if before is None:
                frame = self.encode(Delivery(b"", each.payload, each))
                if frame is not None:
                    is_head = isinstance(frame, Published)
                    lengths[len(each.payload)] = frame if is_head else frame[: len(frame) - len(each.payload)]
                    frames.append(frame)
            elif isinstance(before, Published):
                frames.append(_published(before, each.payload, before.publisher, before.expires))
            else:
                frames.append(before + each.payload)
        return frames

    def retained(self, publication: Publication, wanted: Wanted) -> bytes | None:
        """A retained message for a subscription that is new; ``None``: the client cannot be sent it."""
        sent = publication.own if isinstance(publication.own, Sent) else FOREIGN
        return self._message(publication, sent, _joined([wanted]), retain=True, templates={})

    def _message(
        self, publication: Publication, sent: Sent, joined: _Joined, *, retain: bool, templates: dict[object, Any]
    ) -> bytes | None:
        """:param templates: those of the same publication, for messages that differ in their identifiers only."""
        if not is_name(publication.service):
            self._counters["mqtt-unfit-topic"] += 1
            return None
        version, qos, payload = self._client.version, min(joined.qos, sent.qos), publication.payload
        common = templates.get((version, qos, retain))
        if common is None:
            properties = self._properties(publication, sent) if version == VERSION_5 else NO_PROPERTIES
            packet = Publish(publication.service, payload, qos, retain, properties=properties)
            common = templates[version, qos, retain] = template(packet, version)
        head = common.head(joined.ids)
        if qos and self._client.is_durable:
            return _published(head, payload, sent.session, sent.expires)
        if len(head) + len(payload) > self._client.max_packet:
            self._counters["mqtt-too-large"] += 1
            return None
        frame: bytes = head + payload
        return frame

    def _properties(self, publication: Publication, sent: Sent) -> Properties:
        properties = sent.properties
        is_foreign = not sent.session and properties is NO_PROPERTIES
        if is_foreign and publication.content_type != OCTET_STREAM and is_text(publication.content_type):
            properties = Properties(content_type=publication.content_type)
        if sent.expires is not None:
            # The clock may have been set back.
            left = min(max(1, (sent.expires - self._utc()) // SECOND), LONGEST_LIFETIME)
            properties = replace(properties, message_expiry_interval=left)
        return properties

    def _match(self, service: str) -> tuple[_Joined | None, _Joined | None]:
        matched = self._matched.get(service)
        if matched is None:
            found = self._filters.matching(service)
            own = [each for each in found if not each.no_local]
            matched = _joined(found) if found else None, _joined(own) if own else None
            if len(self._matched) >= MOST_REMEMBERED:
                self._matched.clear()
            self._matched[service] = matched
        return matched


class Encodings:
    """The encodings of all clients: one for those that get the same bytes.

    :param counters, utc: see :class:`MqttEncoding`.
    """

    def __init__(self, counters: Counter[str], utc: Any) -> None:
        self._counters = counters
        self._utc = utc
        self._shared: WeakValueDictionary[tuple[Client, frozenset[tuple[str, Wanted]]], MqttEncoding] = (
            WeakValueDictionary()
        )

    def of(self, client: Client, filters: Mapping[str, Wanted]) -> MqttEncoding:
        """The encoding for clients that get the same bytes."""
        key = client, frozenset(filters.items())
        found = self._shared.get(key)
        if found is None:
            found = self._shared[key] = MqttEncoding(client, filters, self._counters, self._utc)
        return found

    def for_filters(
        self, client: Client, session_id: str, filters: Mapping[str, dict[str, Any] | None], *, is_alone: bool
    ) -> MqttEncoding:
        """See :class:`IFilteringLink`.

        :param session_id: the session that is subscribed.
        """
        wanted = {name: Wanted.of(options) for name, options in filters.items()}
        if is_alone or any(each.no_local for each in wanted.values()):
            client = replace(client, session=session_id)
        return MqttEncoding(client, wanted, self._counters, self._utc) if is_alone else self.of(client, wanted)

    def refilter(self, encoding: IEncoding, changed: str, options: dict[str, Any] | None, *, is_there: bool) -> None:
        """See :class:`IFilteringLink`."""
        assert isinstance(encoding, MqttEncoding)
        encoding.refilter(changed, Wanted.of(options) if is_there else None)


def _published(head: bytes, payload: bytes, publisher: str, expires: int | None) -> Published:
    found = Published(head)
    found.payload, found.publisher, found.expires = payload, publisher, expires
    return found


def _joined(wanted: list[Wanted]) -> _Joined:
    return _Joined(
        max(each.qos for each in wanted),
        any(each.retain_as_published for each in wanted),
        listed(Properties(subscription_identifiers=tuple(each.id for each in wanted if each.id)), PacketType.PUBLISH),
    )
