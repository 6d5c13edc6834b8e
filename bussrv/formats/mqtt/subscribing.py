"""The subscriptions of a client. A filter is a name or a pattern, and one subscription of the registry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from bussrv.formats.mqtt.codes import code_of
from bussrv.formats.mqtt.encoding import Sent, Wanted
from bussrv.formats.mqtt.protocol import MqttProtocol
from bussrv.formats.mqtt.requests import Requests, wants_to_answer
from bussrv.plugin import Publication, Refused, is_pattern, matches
from bussrv.wire.mqtt.packets import VERSION_5, PacketType, Suback, Subscribe, Unsuback, Unsubscribe, WantedFilter
from bussrv.wire.mqtt.reasons import SUBACK_FAILED, ReasonCode
from bussrv.wire.mqtt.topics import is_shared, split_shared

NEW_ONLY, NEVER = 1, 2
"""Retain handling: for subscriptions that are new, or never. 0: always."""


class Subscribing:
    """The subscriptions of one client. The registry has them.

    :param requests: it answers some for its subscriptions.
    """

    __slots__ = ("_bus", "_connection", "_requests")

    def __init__(self, connection: MqttProtocol, requests: Requests) -> None:
        self._requests = requests
        self._connection = connection
        self._bus = connection.bus

    def subscribe(self, packet: Subscribe) -> None:
        """A client subscribes: it is answered, and then given what is retained."""
        self._connection.busy_with(self._subscribe_all(packet))

    async def _subscribe_all(self, packet: Subscribe) -> None:
        codes: list[int] = []
        begun: list[tuple[str, Wanted]] = []
        number = (packet.properties.subscription_identifiers or (0,))[0]
        for each in packet.filters:
            wanted = Wanted(each.qos, each.no_local, each.retain_as_published, number)
            is_new = self._bus.registry.state.subscription(self._connection.session_id, each.filter) is None
            code = await self._subscribe(each, wanted, answers=wants_to_answer(packet.properties))
            if self._connection.has_ended:
                return
            codes.append(code)
            asks_now = each.retain_handling != NEVER and (is_new or each.retain_handling != NEW_ONLY)
            if code < ReasonCode.UNSPECIFIED_ERROR and asks_now and not is_shared(each.filter):
                begun.append((each.filter, wanted))
        if self._connection.version != VERSION_5:
            codes = [code if code < ReasonCode.UNSPECIFIED_ERROR else SUBACK_FAILED for code in codes]
        self._connection.say(Suback(packet.id, tuple(codes)))
        if begun:
            await self._connection.send_in_slices(self._retained(begun))

    async def _subscribe(self, asked: WantedFilter, wanted: Wanted, *, answers: bool) -> int:
        """:returns: the reason code."""
        session_id, registry = self._connection.session_id, self._bus.registry
        if is_shared(asked.filter) and split_shared(asked.filter) is None:
            return ReasonCode.FILTER_INVALID
        is_new = registry.state.subscription(session_id, asked.filter) is None
        try:
            if answers:
                self._requests.check_may_answer(asked.filter)
            await self._connection.subscribe(asked.filter, wanted.as_options(), or_pattern=True)
            await (self._requests.begin_to_answer if answers else self._requests.stop_answering)(asked.filter)
        except Refused as refusal:
            if is_new and registry.state.subscription(session_id, asked.filter) is not None:
                registry.lose_subscription(session_id, asked.filter, refusal.reason)
            return code_of(refusal.reason, PacketType.SUBACK)
        self._say_hosted(asked.filter, wanted)
        return asked.qos

    def _say_hosted(self, service: str, wanted: Wanted) -> None:
        """Give a new subscriber of a service of the server itself its present state, before every update."""
        content_type = self._bus.hosted_type(service)
        if content_type is None:
            return
        with suppress(Refused):  # The service failed. The client is sent its next update.
            publication = Publication(service, content_type, self._connection.state_of(service))
            frame = self._connection.messages().retained(publication, wanted)
            if frame is not None:
                self._connection.send([frame])

    def _retained(self, begun: list[tuple[str, Wanted]]) -> Iterator[bytes]:
        """The retained messages for subscriptions, as they are when the client is ready for them."""
        bus, permissions = self._bus, self._connection.permissions()
        messages = self._connection.messages()
        for filter_, wanted in begun:
            for service in bus.retained.services_or_last() if is_pattern(filter_) else (filter_,):
                publication = bus.retained.or_last(service)
                if publication is None or not (service == filter_ or matches(filter_, service)):
                    yield b""
                elif self._is_over(publication):
                    bus.retained.remove(service)
                elif permissions.may("watch", service):
                    yield messages.retained(publication, wanted) or b""
            for own in bus.own_topics.retained(filter_, permissions):
                yield (messages.retained(own, wanted) if own is not None else None) or b""

    def _is_over(self, publication: Publication) -> bool:
        sent = publication.own
        return isinstance(sent, Sent) and sent.expires is not None and sent.expires <= self._bus.utc()

    def unsubscribe(self, packet: Unsubscribe) -> None:
        """A client subscribes no longer to some filters."""
        self._connection.busy_with(self._unsubscribe_all(packet))

    async def _unsubscribe_all(self, packet: Unsubscribe) -> None:
        codes = [await self._unsubscribe(each) for each in packet.filters]
        if not self._connection.has_ended:
            self._connection.say(Unsuback(packet.id, tuple(codes) if self._connection.version == VERSION_5 else ()))

    async def _unsubscribe(self, filter_: str) -> int:
        """:returns: the reason code."""
        try:
            await self._connection.unsubscribe(filter_)
        except Refused as refusal:
            return code_of(refusal.reason, PacketType.UNSUBACK)
        return ReasonCode.SUCCESS
