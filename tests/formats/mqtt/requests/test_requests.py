"""Requests between MQTT and the object network, both ways."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.logger import capturedLogs

from bussrv.formats.mqtt.port import MqttParts
from bussrv.formats.mqtt.protocol import MqttProtocol
from bussrv.formats.mqtt.requests import MOST_KEPT, REPLIES, Requests
from bussrv.policy.permissions.file import parse_policy
from bussrv.wire.mqtt import packets
from bussrv.wire.mqtt.packets import VERSION_3_1_1, Properties, Publish, WantedFilter
from bussrv.wire.mqtt.reasons import ReasonCode
from tests.bus.links.fabric import Fabric
from tests.formats.mqtt.peer import MqttPeer
from tests.formats.mqtt.requests.exchange import (
    ANSWERS,
    FORMATS,
    PROVIDE,
    SERVICE,
    Answer,
    End,
    MemberEnd,
    MqttEnd,
    end,
)
from tests.formats.network import Member, Network, limits
from tests.journal.support import fold
from tests.services.scene import Hosting
from tests.tables import each_row

CROSSINGS = [(asker, provider) for asker in FORMATS for provider in FORMATS if "mqtt" in (asker, provider)]


class Pair:
    """An asker, and a provider of the service."""

    def __init__(self, asker: str = "mqtt", provider: str = "mqtt", **settings: Any) -> None:
        self.network = Network(**settings)
        self.provider = end(self.network, provider)
        self.provider.provide()
        self.asker = end(self.network, asker)

    @property
    def open_requests(self) -> int:
        return len(self.network.bus._requests)


def requests_of(asker: End) -> Requests:
    assert isinstance(asker, MqttEnd)
    protocol = asker.peer.connection.protocol
    assert isinstance(protocol, MqttProtocol)
    assert isinstance(protocol.parts, MqttParts)
    return protocol.parts.requests


def timer_of(asker: End) -> Any:
    return requests_of(asker)._timer


# Every format asks, and every format answers.


@each_row(("asker", "provider"), CROSSINGS)
@each_row(
    ("payload", "content_type"),
    [(b"on?", "text/plain; charset=UTF-8"), (b"\0\xff\0{}", "image/png"), (b"", None), (b"{}", "application/json")],
)
def test_a_request_crosses_and_its_reply_comes_back(
    asker: str, provider: str, payload: bytes, content_type: str | None
) -> None:
    pair = Pair(asker, provider)
    pair.asker.ask("q1", payload, content_type)
    pair.asker.ask("q2", b"2", "text/plain")
    first, second = pair.provider.requests()
    assert (first.payload, first.type, second.payload) == (payload, content_type, b"2")
    pair.provider.reply(second, b"two", "text/html")
    pair.provider.reply(first, payload, content_type)
    assert pair.asker.answers() == [Answer("q2", b"two", "text/html"), Answer("q1", payload, content_type)]
    assert pair.network.registry.state == fold(pair.network.journal.records)


@each_row(("asker", "provider"), CROSSINGS)
@each_row(
    ("happens", "reason"),
    [
        (lambda pair, request: pair.provider.reject(request, "busy"), "busy"),
        (lambda pair, _: pair.provider.leave(), "provider-gone"),
        (lambda pair, _: pair.provider.withdraw(), "provider-gone"),
    ],
)
def test_the_asker_is_told_if_there_is_no_reply(
    asker: str, provider: str, happens: Callable[[Pair, Any], None], reason: str
) -> None:
    pair = Pair(asker, provider)
    pair.asker.ask("q")
    (request,) = pair.provider.requests()
    happens(pair, request)
    assert [(each.about, each.error) for each in pair.asker.answers()] == [("q", reason)]


@each_row("graph", [("ab",), ("ab", "bc"), ("ab", "bc", "ca")])
@each_row(("asker", "provider"), CROSSINGS)
def test_requests_cross_links(graph: tuple[str, ...], asker: str, provider: str) -> None:
    fabric = Fabric(*sorted(set("".join(graph))))
    fabric.links(*graph)
    asking, providing = end(fabric["a"], asker), end(fabric[graph[-1][0] if len(graph) > 2 else graph[-1][1]], provider)
    providing.provide()
    fabric.settle()
    asking.ask("q", b"on?", "text/plain")
    fabric.settle()
    (request,) = providing.requests()
    providing.reply(request, b"on", "text/plain")
    fabric.settle()
    assert asking.answers() == [Answer("q", b"on", "text/plain")]
    asking.ask("late")
    fabric.settle()
    providing.leave()
    fabric.settle()
    assert [each.error for each in asking.answers()] == ["provider-gone"]


def test_a_client_that_only_publishes_is_asked_nothing() -> None:
    """Not by clients of a linked server either."""
    fabric = Fabric("a", "b")
    fabric.links("ab")
    publisher, responder = MqttPeer(fabric["b"], "publisher"), MqttPeer(fabric["a"], "responder")
    publisher.publish(SERVICE, b"x")
    responder.subscribe(SERVICE)
    fabric.settle()
    responder.received()
    member, asker = MemberEnd(fabric["a"], "objects"), MqttEnd(fabric["a"])
    member.ask("q")
    fabric.settle()
    assert [each.error for each in member.answers()] == ["no-such-service"]
    asker.ask("q", b"on?")
    assert [each.properties.response_topic for each in responder.received() if isinstance(each, Publish)] == [ANSWERS]


# Providers take turns.


def test_providers_of_all_formats_take_turns() -> None:
    network = Network()
    providers = [end(network, name) for name in FORMATS]
    for each in providers:
        each.provide()
    askers = [end(network, "mqtt"), end(network, "objects")]
    for number in range(12):
        askers[number % 2].ask(f"q{number}")
    found = [each.requests() for each in providers]
    assert [len(each) for each in found] == [3] * len(providers)
    for provider, requests in zip(providers, found, strict=True):
        for request in requests:
            provider.reply(request, b"on", "text/plain")
    assert sorted(each.about for asker in askers for each in asker.answers()) == sorted(f"q{n}" for n in range(12))


def test_one_becomes_a_provider_after_it_has_published() -> None:
    pair = Pair(provider="objects")
    publisher = MqttEnd(pair.network)
    publisher.peer.publish(SERVICE, b"news")
    for number in range(2):
        pair.asker.ask(f"q{number}")
    assert (len(pair.provider.requests()), publisher.requests()) == (2, [])
    publisher.provide()
    for number in range(2):
        pair.asker.ask(f"r{number}")
    assert (len(pair.provider.requests()), len(publisher.requests())) == (1, 1)
    publisher.peer.subscribe(SERVICE)  # It does not say again that it answers.
    publisher.peer.publish(SERVICE, b"more news")
    publisher.peer.received()
    for number in range(2):
        pair.asker.ask(f"s{number}")
    assert (len(pair.provider.requests()), publisher.requests()) == (2, [])
    assert pair.network.registry.state == fold(pair.network.journal.records)


def test_a_client_that_answers_keeps_its_service() -> None:
    """Though it gives up topics, because it publishes on too many."""
    network = Network(max_services=2)
    provider = MqttEnd(network)
    provider.peer.publish(SERVICE, b"x")
    provider.provide()
    for topic in ("a", SERVICE, "b", "c"):
        provider.peer.publish(topic, b"x")
    assert network.registry.state.provided_by(provider.peer.session_id) == {SERVICE, "c"}


def test_a_member_addresses_a_client_of_mqtt() -> None:
    network = Network()
    provider, asker = MqttEnd(network), MemberEnd(network, "objects")
    provider.provide()
    to = network.registry.state.sessions[provider.peer.session_id].routing_id
    for name in (SERVICE, "radio"):
        asker.member.send({"event": "services/request", "name": name, "id": name, "to": to})
    assert [(each.about, each.error) for each in asker.answers()] == [("radio", "no-such-service")]
    (request,) = provider.requests()
    provider.reply(request, b"on")
    assert asker.answers() == [Answer(SERVICE, b"on", "application/octet-stream")]
    several = [to, asker.member.routing_id]
    asker.member.send({"event": "services/request", "name": SERVICE, "id": "both", "to": several})
    (request,) = provider.requests()
    provider.reply(request, b"on", "text/plain")
    assert asker.answers() == [Answer("both", b"on", "text/plain")]


@each_row("request_id", [7, True, 1.5, "x" * 300, "äö", "", 2**60, -1])
def test_any_id_comes_back(request_id: Any) -> None:
    network = Network()
    provider, asker = MqttEnd(network), network.member(receive_mode="no_echo")
    provider.provide()
    asker.received()
    asker.send({"event": "services/request", "name": SERVICE, "id": request_id})
    (request,) = provider.requests()
    provider.reply(request, b"on", "text/plain")
    (reply,) = asker.heads()
    assert (type(reply["in-reply-to"]), reply["in-reply-to"]) == (type(request_id), request_id)


def test_user_properties_and_qos_cross() -> None:
    network = Network()
    provider, asker = MqttEnd(network, 1), MqttEnd(network, 1)
    provider.provide()
    asker.ask("q", b"x", user_properties=(("a", "1"), ("a", "2")))
    assert asker.told == [packets.Puback(7)]
    (asked,) = provider.messages(SERVICE)
    assert (asked.qos, asked.properties.user_properties) == (1, (("a", "1"), ("a", "2")))
    properties = Properties(correlation_data=asked.properties.correlation_data, user_properties=(("b", "3"),))
    assert asked.properties.response_topic is not None
    assert provider.peer.publish(asked.properties.response_topic, b"y", 2, properties=properties) == [packets.Pubrec(7)]
    (answer,) = asker.messages(ANSWERS)
    assert (answer.qos, answer.retain, answer.properties) == (
        1,
        False,
        Properties(content_type="application/octet-stream", correlation_data=b"q", user_properties=(("b", "3"),)),
    )


# Messages that are no requests.


@pytest.mark.parametrize("version", [VERSION_3_1_1, packets.VERSION_5])
def test_responders_that_only_subscribe_answer_themselves(version: int) -> None:
    network = Network()
    asker, responder = MqttEnd(network), MqttPeer(network, "responder", version)
    responder.subscribe(SERVICE)
    asker.ask("q", b"on?")
    (asked,) = [each for each in responder.received() if isinstance(each, Publish)]
    assert asked.payload == b"on?"
    if version == packets.VERSION_5:
        assert (asked.properties.response_topic, asked.properties.correlation_data) == (ANSWERS, b"q")
    about = Properties(correlation_data=b"q") if version == packets.VERSION_5 else packets.NO_PROPERTIES
    responder.publish(ANSWERS, b"on", properties=about)
    assert [each.payload for each in asker.messages(ANSWERS)] == [b"on"]


def test_a_request_is_for_one_provider_and_no_subscriber() -> None:
    pair = Pair(provider="objects")
    subscriber, other = MqttPeer(pair.network, "subscriber"), MqttPeer(pair.network, "other")
    subscriber.subscribe(SERVICE)
    other.subscribe("#")
    pair.asker.ask("q")
    (request,) = pair.provider.requests()
    pair.provider.reply(request, b"on", "text/plain")
    assert (subscriber.received(), other.received()) == ([], [])
    assert len(pair.asker.answers()) == 1
    assert isinstance(pair.asker, MqttEnd)
    assert not pair.network.registry.state.provides(pair.asker.peer.session_id, SERVICE)
    pair.asker.peer.publish(SERVICE, b"kept", 1, retain=True, properties=Properties(response_topic=ANSWERS))
    assert (subscriber.messages(), pair.provider.requests()) == ([(SERVICE, b"kept")], [])


def test_services_of_the_server_answer() -> None:
    network = Hosting()
    asker = MqttPeer(network)
    asker.subscribe(ANSWERS)
    about = Properties(response_topic=ANSWERS, correlation_data=b"q")
    (answer,) = asker.publish("bus/registry", properties=about)
    assert isinstance(answer, Publish)
    assert (answer.properties.correlation_data, answer.properties.content_type) == (b"q", "application/json")
    assert asker.session_id in answer.payload.decode()


# Refusals.

POLICY = """
[[rule]]
users = "anonymous"
networks = "10.0.0.1"
{rights}
"""


def judged(network: Network, rights: str) -> None:
    network.bus.access.policy = parse_policy(POLICY.format(rights=rights), Path("policy.toml"), FORMATS)
    network.bus.policy_changed()
    network.reactor.advance(1)


@each_row(
    ("rights", "code", "error"),
    [
        ('request = "*"\nwatch = "answers/*"', 0, None),
        ('publish = "*"\nwatch = "answers/*"', ReasonCode.NOT_AUTHORIZED, "not-allowed"),
        ('request = "*"\nwatch = "other"', ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, None),
    ],
)
def test_requests_and_their_answers_are_judged(rights: str, code: int, error: str | None) -> None:
    network = Network()
    provider = network.member(types="none")
    asker = MqttEnd(network, 1)
    judged(network, rights + '\nprovide = "tv"\nsend = "*"')
    provider.send({"event": "services/register", "name": SERVICE})
    provider.received()
    asker.ask("q")
    assert asker.told == [packets.Puback(7, code)]
    assert [each.error for each in asker.answers()] == ([] if error is None else [error])
    assert ("services/request" in provider.names()) == (code == 0)


def test_a_service_that_is_hidden_is_as_if_nobody_provided_it() -> None:
    network = Network()
    judged(network, 'watch = "answers/*"')
    provider = Member(network.connect("objects", "10.0.0.9"))
    asker = MqttEnd(network, 1)
    network.bus.access.policy = parse_policy(
        POLICY.format(rights='watch = "answers/*"') + POLICY.format(rights='provide = "tv"').replace(".1", ".9"),
        Path("policy.toml"),
        FORMATS,
    )
    network.bus.policy_changed()
    provider.send({"event": "routing/subscribe", "types": "none"})
    provider.send({"event": "services/register", "name": SERVICE})
    assert "services/register/reply" in provider.names()
    asker.ask("q")
    assert asker.told == [packets.Puback(7, ReasonCode.NOT_AUTHORIZED)]
    assert (asker.answers(), provider.names()) == ([], [])


@each_row("lost", ['watch = "*"', 'provide = "tv"', 'publish = "*"'])
@each_row(
    ("rights", "code"),
    [
        ('provide = "tv"\nwatch = "*"', 0),
        ('publish = "tv"\nwatch = "*"', ReasonCode.NOT_AUTHORIZED),
        ('provide = "tv"', ReasonCode.NOT_AUTHORIZED),
    ],
)
def test_who_answers_needs_provide_and_watch(rights: str, code: int, lost: str) -> None:
    network = Network()
    judged(network, rights)
    peer = MqttPeer(network)
    peer.send(packets.Subscribe(1, (WantedFilter(SERVICE),), PROVIDE))
    assert peer.received() == [packets.Suback(1, (code,))]
    assert (SERVICE in network.registry.state.services) == (code == 0)
    assert network.registry.state.subscribed_by(peer.session_id) == ({SERVICE} if code == 0 else set())
    if code == 0:
        judged(network, lost)
        assert network.registry.state.services == {}
        assert network.bus.exchanges.answered_by(peer.session_id) == frozenset()
    assert network.registry.state == fold(network.journal.records)


@each_row(
    ("filter_", "code"),
    [
        ("hall/+", ReasonCode.FILTER_INVALID),
        ("$share/g/tv", ReasonCode.FILTER_INVALID),
        ("bus/clock", ReasonCode.FILTER_INVALID),
        ("x" * 256, ReasonCode.FILTER_INVALID),
    ],
)
def test_one_answers_for_names_only(filter_: str, code: int) -> None:
    network = Network()
    peer = MqttPeer(network)
    peer.send(packets.Subscribe(1, (WantedFilter(filter_),), PROVIDE))
    assert peer.received() == [packets.Suback(1, (code,))]
    assert network.registry.state.subscribed_by(peer.session_id) == set()


@each_row("limits", [{"max_services_total": 1}, {"max_services": 0}])
def test_who_cannot_provide_is_not_subscribed_either(limits: dict[str, Any]) -> None:
    network = Network(**limits)
    MqttPeer(network, "publisher").publish("radio", b"x")
    peer = MqttPeer(network)
    peer.subscribe("door")
    peer.send(packets.Subscribe(1, (WantedFilter(SERVICE), WantedFilter("door")), PROVIDE))
    assert peer.received() == [packets.Suback(1, (ReasonCode.QUOTA_EXCEEDED,) * 2)]
    assert network.registry.state.subscribed_by(peer.session_id) == {"door"}
    assert network.bus.exchanges.answered_by(peer.session_id) == frozenset()


@each_row("has_published", [False, True])
@each_row("steps", range(4))
def test_a_client_goes_while_it_becomes_a_provider(has_published: bool, steps: int) -> None:
    network = Network()
    peer = MqttPeer(network)
    if has_published:
        peer.publish(SERVICE)
    network.journal.hold()
    peer.send(packets.Subscribe(1, (WantedFilter(SERVICE),), PROVIDE))
    for _ in range(steps):
        network.journal.release(1)
    peer.connection.close()
    network.journal.release()
    network.reactor.advance(1)
    assert network.registry.state.services == {}
    assert not network.bus.exchanges.is_answered(SERVICE)
    assert network.registry.state == fold(network.journal.records)


def test_what_is_too_long_is_refused_with_an_error() -> None:
    pair = Pair(provider="objects")
    assert isinstance(pair.asker, MqttEnd)
    pair.asker.ask("q" * MOST_KEPT)
    pair.asker.ask("type", content_type="a/" + "x" * 65_000, user_properties=(("a", "b" * 5_000),))
    assert [each.error for each in pair.asker.answers()] == ["correlation-too-long", "metadata-too-large"]
    assert pair.provider.requests() == []
    assert pair.open_requests == 0


def test_who_is_not_subscribed_to_the_response_topic_is_refused() -> None:
    pair = Pair(provider="objects")
    peer = MqttPeer(pair.network, "deaf")
    peer.subscribe("answers/b")
    about = Properties(response_topic=ANSWERS)
    assert peer.publish(SERVICE, b"", 1, properties=about) == [
        packets.Puback(7, ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR)
    ]
    assert pair.provider.requests() == []


def test_a_reply_is_dropped_if_its_asker_has_unsubscribed() -> None:
    pair = Pair(provider="objects")
    assert isinstance(pair.asker, MqttEnd)
    pair.asker.ask("q")
    pair.asker.peer.send(packets.Unsubscribe(4, (ANSWERS,)))
    pair.asker.peer.received()
    (request,) = pair.provider.requests()
    pair.provider.reply(request, b"on", "text/plain")
    assert pair.asker.peer.received() == []
    assert pair.network.bus.counters["mqtt-unheard"] == 1


def test_a_provider_that_cannot_be_given_it_is_nobody() -> None:
    for name in FORMATS:
        network = Network()
        provider = MqttPeer(network, "provider", properties=Properties(maximum_packet_size=200))
        provider.send(packets.Subscribe(2, (WantedFilter(SERVICE),), PROVIDE))
        provider.received()
        asker = end(network, name)
        asker.ask("q", b"x" * 200, "text/plain")
        assert [each.error for each in asker.answers()] == ["no-such-service"]
        assert (provider.received(), len(network.bus._requests)) == ([], 0)


def test_a_format_that_fails_at_a_request_loses_its_own_session() -> None:
    network = Network()
    provider, asker = MqttEnd(network), MemberEnd(network, "objects")
    provider.provide()
    network.bus.exchanges._sessions[provider.peer.session_id].as_publication = lambda delivery: 1 / 0
    with capturedLogs() as logged:
        asker.ask("q", b"on?", "text/plain")
        network.reactor.advance(0)
    assert [each.error for each in asker.answers()] == ["no-such-service"]
    assert (provider.peer.connection.is_open, asker.member.connection.is_open) == (False, True)
    assert network.bus.counters["internal-error"] == 1
    assert [event["log_failure"].type for event in logged if "log_failure" in event] == [ZeroDivisionError]


# Time, numbers, and strangers.


def test_nobody_answers_in_time() -> None:
    pair = Pair(provider="objects", request_timeout=10.0)
    pair.asker.ask("q1")
    pair.network.reactor.advance(6)
    pair.asker.ask("q2")
    first, second = pair.provider.requests()
    pair.network.reactor.advance(5)
    assert [(each.about, each.error) for each in pair.asker.answers()] == [("q1", "reply-timeout")]
    pair.provider.reply(first, b"late", "text/plain")
    pair.provider.reply(second, b"in time", "text/plain")
    assert [each.about for each in pair.asker.answers()] == ["q2"]
    pair.network.reactor.advance(60)
    assert pair.asker.answers() == []
    assert timer_of(pair.asker) is None


@each_row("provider", FORMATS)
def test_only_the_first_of_two_replies_comes(provider: str) -> None:
    pair = Pair(provider=provider)
    pair.asker.ask("q")
    (request,) = pair.provider.requests()
    pair.provider.reply(request, b"1", "text/plain")
    pair.provider.reply(request, b"2", "text/plain")
    assert [each.payload for each in pair.asker.answers()] == [b"1"]
    assert pair.network.bus.counters["no-such-request"] == 1


@each_row("asker", FORMATS)
def test_a_reply_to_an_asker_that_is_gone_goes_to_nobody(asker: str) -> None:
    pair = Pair(asker)
    assert isinstance(pair.provider, MqttEnd)
    pair.asker.ask("q")
    (request,) = pair.provider.requests()
    pair.asker.leave()
    assert pair.provider.reply(request, b"late") == [packets.Puback(7, ReasonCode.NO_MATCHING_SUBSCRIBERS)]
    assert pair.network.bus.counters["no-such-request"] == 1


@each_row("correlation", [None, b"", b'"other"', b"7", b"null", b"{", b"[1]", b'"\xff"', b"\0" * 65_535, b"1e999"])
def test_foreign_correlation_data_reaches_nobody(correlation: bytes | None) -> None:
    pair = Pair("objects")
    assert isinstance(pair.provider, MqttEnd)
    pair.asker.ask("q")
    (request,) = pair.provider.requests()
    topic = request.handle.response_topic
    properties = packets.NO_PROPERTIES if correlation is None else Properties(correlation_data=correlation)
    told = pair.provider.peer.publish(topic, b"x", 1, properties=properties)
    assert told == [packets.Puback(7, ReasonCode.NO_MATCHING_SUBSCRIBERS)]
    assert (pair.asker.answers(), pair.provider.peer.is_open) == ([], True)
    assert topic not in pair.network.registry.state.services


def test_others_cannot_use_a_response_topic() -> None:
    """Neither can they subscribe to it with effect, nor one of 3.1.1 provide it."""
    pair = Pair("objects")
    pair.asker.ask("q")
    strangers = [
        MqttPeer(pair.network, "new"),
        MqttPeer(pair.network, "old", VERSION_3_1_1),
        MqttEnd(pair.network).peer,
    ]
    for each in strangers:
        each.subscribe("$reply/#", "#")
    (request,) = pair.provider.requests()
    topic, about = request.handle.response_topic, Properties(correlation_data=request.handle.correlation_data)
    for each in strangers:
        properties = about if each.version == packets.VERSION_5 else packets.NO_PROPERTIES
        code = ReasonCode.NOT_AUTHORIZED if each.version == packets.VERSION_5 else 0
        assert each.publish(topic, b"forged", 1, properties=properties) == [packets.Puback(7, code)]
        assert each.publish(REPLIES + "guessed", b"forged", 1)[0].code == code  # type: ignore[union-attr]
    assert pair.asker.answers() == []
    pair.provider.reply(request, b"true", "text/plain")
    assert [each.payload for each in pair.asker.answers()] == [b"true"]
    assert [each.messages() for each in strangers] == [[], [], []]
    assert [name for name in pair.network.registry.state.services if name.startswith("$")] == []


def test_response_topics_differ() -> None:
    network = Network()
    topics = set()
    for _ in range(3):
        pair = MqttEnd(network)
        pair.provide()
        asker = MemberEnd(network, "objects")
        asker.ask("q")
        (request,) = pair.requests()
        topics.add(request.handle.response_topic)
        pair.leave()
    assert len(topics) == 3
    assert all(len(each) >= len(REPLIES) + 16 for each in topics)


def test_open_requests_are_bounded() -> None:
    pair = Pair(provider="objects", max_requests_per_asker=50)
    assert isinstance(pair.asker, MqttEnd)
    for number in range(2_000):
        pair.asker.ask(f"q{number}")
    errors = pair.asker.answers()
    assert (len(errors), {each.error for each in errors}) == (1_950, {"too-many-requests"})
    assert pair.open_requests == 50
    assert len(requests_of(pair.asker)._asked) == 50
    requests = pair.provider.requests()
    for request in requests:
        pair.provider.reply(request, b"on", "text/plain")
    assert len(pair.asker.answers()) == 50
    assert {limit for limit, *_ in limits(pair.network)} == {"max-requests-per-asker"}
    pair.asker.leave()
    assert timer_of(pair.asker) is None


@each_row("name", ["a\0b", "x" * 65_536, "\ufeff"])
def test_what_is_no_text_of_mqtt_harms_nobody(name: str) -> None:
    """Content types, user properties and reasons are any strings in the object network."""
    pair = Pair(provider="objects", max_metadata=1 << 20)
    provider = pair.provider
    assert isinstance(provider, MemberEnd)
    assert isinstance(pair.asker, MqttEnd)
    watcher = MqttPeer(pair.network, "watcher")
    watcher.subscribe("#")
    for about in ("reply", "error"):
        pair.asker.ask(about)
    reply, error = provider.requests()
    more = {"type": name, "user-properties": [[name, "x"], ["a", 1], ["b", "2"]]}
    provider.member.send({"event": "services/reply", "in-reply-to": reply.handle, **more}, b"on")
    provider.member.send({"event": "error", "in-reply-to": error.handle, "reason": name, "message": name})
    provider.member.send({"sender": SERVICE, "type": name}, b"published")
    pair.network.reactor.advance(1)
    first, second = pair.asker.messages(ANSWERS)
    assert (first.payload, first.properties.user_properties[-1]) == (b"on", ("b", "2"))
    assert dict(second.properties.user_properties)["error"] in ("error", name)
    assert watcher.messages() == [(SERVICE, b"published")]
    assert (pair.network.bus.counters["internal-error"], pair.asker.peer.is_open) == (0, True)


def test_the_session_ends_with_open_requests() -> None:
    pair = Pair(provider="mqtt")
    pair.asker.ask("q")
    pair.asker.leave()
    pair.provider.leave()
    pair.network.reactor.advance(1)
    assert (pair.open_requests, timer_of(pair.asker)) == (0, None)
    assert pair.network.registry.state.services == {}
    exchanges = pair.network.bus.exchanges
    assert not exchanges.is_answered(SERVICE)
    for each in (pair.asker, pair.provider):
        assert isinstance(each, MqttEnd)
        assert each.peer.session_id not in exchanges
