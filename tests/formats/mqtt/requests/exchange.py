"""Clients of every wire format that has requests, as askers and as providers of the service ``tv``."""

from __future__ import annotations

from itertools import count
from typing import Any, NamedTuple

from bussrv.wire.mqtt import packets
from bussrv.wire.mqtt.packets import Properties, Publish, WantedFilter
from tests.formats.mqtt.peer import MqttPeer
from tests.formats.network import Member, Network
from tests.formats.websocket.browser import SocketConnection

SERVICE = "tv"
ANSWERS = "answers/ann"
PROVIDE = Properties(user_properties=(("provide", "1"),))


class Answer(NamedTuple):
    """An answer as its asker is given it. ``about``: what it was asked with, to know it by."""

    about: Any
    payload: bytes = b""
    type: str | None = None
    error: str | None = None


class Given(NamedTuple):
    """A request as a provider is given it. ``handle``: what it answers with."""

    handle: Any
    payload: bytes
    type: str | None


class MemberEnd:
    """A member of the object network."""

    def __init__(self, network: Network, name: str) -> None:
        if name == "business":
            self.member = network.business(receive="no_echo", subscribe="none")
        elif name == "websocket":
            self.member = Member(SocketConnection(network.factory("websocket").buildProtocol(None)))
            self.member.send({"event": "routing/subscribe", "types": "none", "receive_mode": "no_echo"})
            self.member.received()
        else:
            # It names services, so it registers all that it answers for.
            self.member = network.member(receive_mode="no_echo", types="none", services=[])

    def provide(self) -> None:
        self.member.send({"event": "services/register", "name": SERVICE})
        self.member.received()

    def withdraw(self) -> None:
        self.member.send({"event": "services/unregister", "name": SERVICE})

    def ask(self, about: str, payload: bytes = b"", content_type: str | None = None) -> None:
        more = {} if content_type is None else {"type": content_type}
        self.member.send({"event": "services/request", "name": SERVICE, "id": about, **more}, payload)

    def answers(self) -> list[Answer]:
        return [
            Answer(fields["in-reply-to"], payload, fields.get("type"), fields.get("reason"))
            for fields, payload in self.member.received()
            if fields.get("event") in ("services/reply", "error")
        ]

    def requests(self) -> list[Given]:
        return [
            Given(fields["id"], payload, fields.get("type"))
            for fields, payload in self.member.received()
            if fields.get("event") == "services/request"
        ]

    def reply(self, request: Given, payload: bytes, content_type: str | None = None) -> None:
        more = {} if content_type is None else {"type": content_type}
        self.member.send({"event": "services/reply", "in-reply-to": request.handle, **more}, payload)

    def reject(self, request: Given, reason: str) -> None:
        self.member.send({"event": "error", "in-reply-to": request.handle, "reason": reason})

    def leave(self) -> None:
        self.member.connection.close()


class MqttEnd:
    """A client of MQTT 5.0, subscribed to its response topic.

    :ivar told: the acknowledgements of its messages.
    """

    _numbers = count()

    def __init__(self, network: Network, qos: int = 0) -> None:
        self.peer = MqttPeer(network, f"end-{next(self._numbers)}")
        self.qos = qos
        self.told: list[packets.Packet] = []
        self._come: list[Publish] = []
        self.peer.subscribe(WantedFilter(ANSWERS, qos))

    def provide(self) -> None:
        self.peer.send(packets.Subscribe(2, (WantedFilter(SERVICE, self.qos),), PROVIDE))
        assert [each for each in self.peer.received() if isinstance(each, packets.Suback)] == [
            packets.Suback(2, (self.qos,))
        ]

    def withdraw(self) -> None:
        self.peer.send(packets.Unsubscribe(3, (SERVICE,)))

    def ask(self, about: str, payload: bytes = b"", content_type: str | None = None, **more: Any) -> None:
        properties = Properties(
            response_topic=ANSWERS, correlation_data=about.encode(), content_type=content_type, **more
        )
        self._read(self.peer.publish(SERVICE, payload, self.qos, properties=properties))

    def _read(self, came: list[packets.Packet]) -> None:
        for each in came:
            if not isinstance(each, Publish):
                self.told.append(each)
                continue
            self._come.append(each)
            if each.qos:
                self.peer.send(packets.Puback(each.id))

    def messages(self, topic: str) -> list[Publish]:
        """Everything that came since the last time: it is all on this topic."""
        self._read(self.peer.received())
        found, self._come = self._come, []
        assert {each.topic for each in found} <= {topic}
        return found

    def answers(self) -> list[Answer]:
        found = []
        for each in self.messages(ANSWERS):
            about, pairs = each.properties, dict(each.properties.user_properties)
            assert about.correlation_data is not None
            error = pairs.get("error")
            payload, kind = (b"", None) if error else (each.payload, about.content_type)
            found.append(Answer(about.correlation_data.decode(), payload, kind, error))
        return found

    def requests(self) -> list[Given]:
        return [Given(each.properties, each.payload, each.properties.content_type) for each in self.messages(SERVICE)]

    def reply(self, request: Given, payload: bytes, content_type: str | None = None, **more: Any) -> list[Any]:
        asked = request.handle
        properties = Properties(correlation_data=asked.correlation_data, content_type=content_type, **more)
        return self.peer.publish(asked.response_topic, payload, 1, properties=properties)

    def reject(self, request: Given, reason: str) -> None:
        self.reply(request, b"not today", user_properties=(("error", reason),))

    def leave(self) -> None:
        self.peer.connection.close()


End = MemberEnd | MqttEnd

FORMATS = ("objects", "business", "websocket", "mqtt")


def end(network: Network, name: str) -> End:
    """A client of that format."""
    return MqttEnd(network) if name == "mqtt" else MemberEnd(network, name)
