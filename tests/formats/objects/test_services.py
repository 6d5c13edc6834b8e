"""Object System: services, requests, replies, small questions; one test for each thing that is said of them."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.error import ConnectionLost
from twisted.internet.task import Clock

from bussrv import events as ev
from bussrv.wire.objects import encode
from tests.formats.network import Member, Network, drain
from tests.formats.objects.support import VOCABULARIES, join, provider, quiet_pair, reasons, unjoined
from tests.size import sized
from tests.tables import each_row

FOUND = {"event": "services/discovery/reply"}
REQUEST = "services/request"
IDS = ["1", "1.0", "true", '"1"', '"\\u0031"', str(2**61), "1e22", "-0.5", '""', f'"{"x" * 3000}"', "9" * 300]


# Answers.


@each_row(
    ("event", "answer"),
    [
        ({"event": "services/register", "name": "radio"}, {"event": "services/register/reply", "name": "radio"}),
        ({"event": "services/unregister", "name": "tv"}, {"event": "services/unregister/reply", "name": "tv"}),
        ({"event": "services/unregister"}, {"event": "services/unregister/reply"}),
        ({"event": "services/discovery", "name": "tv"}, {**FOUND, "name": "tv", "protocol": "objects"}),
        ({"event": "services/discovery"}, {**FOUND, "name": "tv", "protocol": "objects"}),
        ({"event": "ping"}, {"event": "pong"}),
    ],
    ids=lambda fields: " ".join(fields.values()),
)
@each_row("id_", [None, "a", 7, 1.5, 2**70, ""])
def test_every_answer_says_in_reply_to_what(event: dict[str, Any], answer: dict[str, Any], id_: Any) -> None:
    """If the event had an id, that one; if it had none, nothing."""
    member = provider(Network(), "tv")
    member.send(event if id_ is None else {**event, "id": id_})
    reply = member.only_reply()
    provider_id, route = reply.pop("routing-id", None), reply.pop("route", None)
    assert route == ([provider_id, "hall"] if reply["event"] == "services/discovery/reply" else None)
    assert reply == (answer if id_ is None else {**answer, "in-reply-to": id_})


def test_services_are_registered_and_unregistered_by_name() -> None:
    """Without a name all of the session, and never those of others; registering twice changes nothing."""
    network = Network()
    one, two = provider(network, "a", "b", "c", "a"), provider(network, "a")

    def services() -> dict[str, int]:
        return {name: len(providers) for name, providers in network.registry.state.services.items()}

    assert services() == {"a": 2, "b": 1, "c": 1}
    one.send({"event": "services/unregister", "name": "b"})
    assert services() == {"a": 2, "c": 1}
    one.send({"event": "services/unregister"})
    assert services() == {"a": 1}
    two.connection.close()
    assert services() == {}


# Requests.


def takers(members: list[Member], asking: Member, **request: Any) -> list[int]:
    """How often each of the members got the request."""
    drain(members)
    asking.send({"event": "services/request", **request})
    return [member.names().count("services/request") for member in members]


@each_row("key", ["name", "service"])
def test_a_request_goes_to_exactly_one_provider_each_in_turn(key: str) -> None:
    """As long as there are several, none has to serve twice in a row."""
    network = Network()
    providers = [provider(network, "tv") for _ in range(3)]
    client = network.member(receive_mode="no_echo")
    served = [takers(providers, client, **{key: "tv"}) for _ in range(6)]
    assert all(sorted(each) == [0, 0, 1] for each in served)
    assert served[:3] == served[3:]
    assert [sum(column) for column in zip(*served, strict=True)] == [2, 2, 2]


def test_services_take_turns_apart_from_each_other() -> None:
    """How often one is asked for does not say whose turn it is at another."""
    network = Network()
    providers = [provider(network, "tv", "radio") for _ in range(2)]
    client = network.member(receive_mode="no_echo")
    for name in ("tv", "radio"):
        served = []
        for _ in range(4):
            served.append(takers(providers, client, name=name))
            takers(providers, client, name="radio" if name == "tv" else "tv")
        assert [sum(column) for column in zip(*served, strict=True)] == [2, 2]


def test_a_request_also_goes_to_those_who_merely_observe() -> None:
    """Whoever wants events and does not provide that service; even if it provides another, or asks itself."""
    network = Network()
    provider(network, "tv")
    observers = [
        network.member(),
        network.business(),
        provider(network, "radio"),
        network.member(subscriptions=["@services/*"]),
    ]
    others = [network.member(receive_mode="none"), network.member(subscriptions=["text/*"])]
    client = network.member()
    observed = [*observers, *others, client]
    for _ in range(2):
        assert takers(observed, client, name="tv") == [1, 1, 1, 1, 0, 0, 1]
    assert "error" not in client.names()


def test_the_round_skips_providers_gone_or_without_requests() -> None:
    """Nobody waits for somebody who cannot answer."""
    network = Network()
    deaf, picky = provider(network, "tv", receive_mode="none"), provider(network, "tv", subscriptions=["text/*"])
    unregistering, leaving, staying = (provider(network, "tv") for _ in range(3))
    client = network.member(receive_mode="no_echo")
    unregistering.send({"event": "services/unregister", "name": "tv"})
    leaving.connection.close()
    for _ in range(4):
        assert takers([deaf, picky, leaving, staying], client, name="tv") == [0, 0, 0, 1]
    # Who unregistered is an observer like any other.
    assert takers([unregistering], client, name="tv") == [1]


def test_a_name_that_nobody_registered_is_routed_plainly() -> None:
    """To everybody who listens: services in the field do not register."""
    network = Network()
    listening = [network.member(subscriptions=["@services/*"]), network.member(), network.business()]
    client = network.member(receive_mode="no_echo")
    assert takers(listening, client, name="tv") == [1, 1, 1]
    assert client.received() == []


@each_row("request_", [{"name": "tv"}, {"service": "tv"}, {"name": "tv", "to": "nobody"}, {}])
@each_row("id_", [None, "r-1", 7])
@each_row("mode", ["all", "no_echo"])
def test_if_nobody_took_a_request_the_requester_is_told_at_once(request_: dict[str, Any], id_: Any, mode: str) -> None:
    """With an error in reply to it, rather than that it waits for ever; its own echo does not count."""
    network = Network()
    network.member(receive_mode="none")
    client = network.member(receive_mode=mode)
    client.send({"event": "services/request", **request_, **({} if id_ is None else {"id": id_})})
    (error,) = [fields for fields in client.heads() if fields["event"] == "error"]
    assert (error["reason"], error.get("in-reply-to")) == ("no-such-service", id_)


OBSERVERS: list[dict[str, Any]] = [{"receive_mode": mode} for mode in ("events_only", "no_echo", "all")]


def errors(client: Member) -> list[Any]:
    """The reasons of the errors that a client was sent since the last time."""
    return [fields["reason"] for fields in client.heads() if fields["event"] == "error"]


def answers_to(client: Member, **request: Any) -> list[Any]:
    """The reasons of the errors that a client is answered with at once."""
    drain([client])
    client.send({"event": "services/request", "id": "q", **request})
    return errors(client)


@each_row("observing", [*OBSERVERS, {"receive_mode": "none"}, {"types": "none"}])
@each_row("vocabulary", VOCABULARIES)
def test_who_merely_observes_does_not_keep_the_requester_waiting(observing: dict[str, Any], vocabulary: str) -> None:
    """Members in the words of the seeds register what they serve. They are given the request all the same."""
    network = Network()
    told = {"receive" if key == "receive_mode" else "subscribe": value for key, value in observing.items()}
    observer = join(network, vocabulary, **(observing if vocabulary == "objects" else told))
    client = network.member(receive_mode="no_echo")
    drain([observer])
    for asked in ({"name": "tv"}, {"name": "tv", "event": "services/discovery"}):
        assert answers_to(client, **asked) == ["no-such-service"]
        assert observer.names() == ([] if observing == {"receive_mode": "none"} else [asked.get("event", REQUEST)])


@each_row("rules", [["*"], ["@services/*"], ["*", "!@services/*"], ["text/*"]])
def test_of_the_deployed_dialect_members_whose_rules_match_count(rules: list[str]) -> None:
    """Services in the field do not register."""
    network = Network()
    network.member(subscriptions=rules)
    client = network.member(receive_mode="no_echo")
    counts = rules in (["*"], ["@services/*"])
    assert answers_to(client, name="tv") == ([] if counts else ["no-such-service"])


@each_row("observing", OBSERVERS)
@each_row("before", ["registered", "addressed", "not registered"])
def test_an_observer_that_replied_once_counts_from_then_on(observing: dict[str, Any], before: str) -> None:
    """Also to one whose asker was told that nobody provides the service: the reply reaches it. An error is no reply."""
    network = Network()
    service, client = provider(network, **observing), network.member(receive_mode="no_echo")
    if before == "registered":
        service.send({"event": "services/register", "name": "radio"})
    to = {"to": service.routing_id} if before == "addressed" else {}
    first = answers_to(client, name="radio", **to)
    assert first == (["no-such-service"] if before == "not registered" else [])
    service.send({"event": "error", "in-reply-to": "q", "reason": "busy", "message": "Busy."})
    assert answers_to(client, name="tv") == ["no-such-service"]
    client.send({"event": REQUEST, "name": "radio", "id": "again", **to})
    drain([client])
    service.send({"event": "services/reply", "in-reply-to": "again"})
    assert client.names() == ["services/reply"]
    assert answers_to(client, name="tv") == []
    service.connection.close()
    network.member(**observing)
    assert answers_to(client, name="tv") == ["no-such-service"]


# Providers that go.


class TickingClock(Clock):
    """Time passes whenever somebody looks."""

    tick = 0.0

    def seconds(self) -> float:
        self.rightNow += self.tick
        return float(super().seconds())


def leave(network: Network, service: Member) -> None:
    service.connection.close()


def unregister(network: Network, service: Member) -> None:
    service.send({"event": "services/unregister", "name": "tv"})


def unregister_all(network: Network, service: Member) -> None:
    service.send({"event": "services/unregister"})


def say_rubbish(network: Network, service: Member) -> None:
    service.connection.send_bytes(b"rubbish\0")


def lose(network: Network, service: Member) -> None:
    service.connection.transport.disconnectReason = ConnectionLost()
    service.connection.close()


def be_closed(network: Network, service: Member) -> None:
    link = network.bus.link_of(service.connection.protocol.session_id)
    assert link is not None
    link.close("closed-by-operator")


WAYS = [leave, lose, unregister, unregister_all, say_rubbish, be_closed]


@pytest.mark.dear
@each_row("way", WAYS, ids=lambda way: way.__name__)
@each_row("id_", IDS)
@each_row("vocabulary", VOCABULARIES)
@each_row("in_a_batch", [False, True])
def test_when_the_provider_goes_the_requester_is_told_at_once(
    way: Callable[[Network, Member], None], id_: str, vocabulary: str, in_a_batch: bool
) -> None:
    """Once, in reply to its request as it wrote the id; only who asked, and only if there was no reply."""
    network = Network()
    service, other = provider(network, "tv"), provider(network, "radio")
    client, bystander = (join(network, vocabulary) for _ in range(2))
    answered = b'{"event":"services/request","name":"tv","id":"answered"}\0' * in_a_batch
    elsewhere = b'{"event":"services/request","name":"radio","id":"elsewhere"}\0' * in_a_batch
    asked = b'{"event":"services/request","name":"tv","id":%b}\0' % id_.encode()
    client.connection.send_bytes(answered + asked + elsewhere)
    given = service.heads()
    if in_a_batch:
        service.send({"event": "services/reply", "in-reply-to": "answered"})
    drain([client, bystander])
    way(network, service)
    (told,) = [fields for fields in client.heads() if fields["event"] == "error"]
    assert told.pop("message") == "the provider of 'tv' went before it answered"
    assert told == {"event": "error", "in-reply-to": json.loads(id_), "reason": "provider-gone"}
    assert type(told["in-reply-to"]) is type(json.loads(id_))
    assert "error" not in [*bystander.names(), *other.names()]
    assert network.bus.counters["provider-gone"] == 1
    if way in (unregister, unregister_all):
        service.send({"event": "services/reply", "in-reply-to": given[-1]["id"]})
        assert (client.names(), network.bus.counters["no-such-request"]) == ([], 1)
    other.connection.close()
    assert errors(client) == (["provider-gone"] if in_a_batch else [])


@each_row("deployed", [1, 2])
@each_row("to", [None, "own", "shared"])
def test_the_only_one_who_may_answer_a_request_is_its_provider(deployed: int, to: str | None) -> None:
    """Nobody registered: if it goes, the requester is told. Of two it is not known which one would have answered."""
    network = Network()
    services = [network.member(subscriptions=["@services/*"], **{"routing-ids": ["services"]}) for _ in range(deployed)]
    observer, client = network.member(), network.member(receive_mode="no_echo")
    address = {None: {}, "own": {"to": services[0].routing_id}, "shared": {"to": "services"}}[to]
    assert answers_to(client, name="tv", **address) == []
    observer.connection.close()
    assert errors(client) == []
    services[0].connection.close()
    assert errors(client) == (["provider-gone"] if deployed == 1 or to == "own" else [])


def test_a_deaf_requester_is_not_told_and_one_that_left_neither() -> None:
    network = Network()
    service, deaf, leaving = provider(network, "tv"), network.member(receive_mode="none"), network.member()
    for each in (deaf, leaving):
        each.send({"event": REQUEST, "name": "tv", "id": "1"})
    leaving.connection.close()
    service.connection.close()
    assert (deaf.received(), network.bus.counters["receive-none"]) == ([], 1)


def test_what_the_provider_said_before_it_went_comes_first() -> None:
    """A reply that is on its way is not lost, and no error follows it."""
    network = Network()
    service, client = provider(network, "tv"), network.member(receive_mode="no_echo")
    for number in range(3):
        client.send({"event": REQUEST, "name": "tv", "id": number})
    drain([client])
    replies = [{"event": "services/reply", "in-reply-to": number} for number in range(2)]
    service.connection.send_bytes(b"".join(map(encode, replies)))
    service.connection.close()
    said = [fields for fields in client.heads() if "in-reply-to" in fields]
    assert [(each["event"], each["in-reply-to"]) for each in said] == [
        ("services/reply", 0),
        ("services/reply", 1),
        ("error", 2),
    ]


def test_the_end_of_a_much_asked_provider_keeps_nobody_waiting() -> None:
    """Its askers are told in slices."""
    clock = TickingClock()
    network = Network(max_requests_per_asker=100_000, reactor=clock)
    service, client = provider(network, "tv"), network.member(receive_mode="no_echo")
    thousands = sized(20)
    for first in range(0, thousands * 1000, 1000):
        numbers = range(first, first + 1000)
        client.connection.send_bytes(
            b"".join(b'{"event":"services/request","name":"tv","id":%d}\0' % each for each in numbers)
        )
        network.reactor.advance(0)
    drain([service, client])
    clock.tick = 0.001
    service.connection.close()
    at_once = client.connection.transport.value().count(b"provider-gone")
    assert 0 < at_once < 1000
    assert errors(client) == ["provider-gone"] * thousands * 1000


def test_a_request_that_the_requester_itself_serves_was_taken() -> None:
    """It provides the service and was given the request: there is no error."""
    member = provider(Network(), "tv", receive_mode="all")
    member.send({"event": "services/request", "name": "tv", "id": "1"})
    assert member.names() == ["services/request"]


# Replies.


@each_row("id_", [None, "r-1", 7, 1.5, 2**70, ""])
@each_row("registered", [True, False], ids=["registered", "listening"])
def test_a_reply_without_to_is_sent_to_the_requester(id_: Any, registered: bool) -> None:
    """And to nobody else; if the request came without an id, by the one that the server gave it."""
    network = Network()
    service = provider(network, *(["tv"] if registered else []))
    client, bystander = network.member(receive_mode="no_echo"), network.member()
    drain([service, client])
    client.send({"event": "services/request", "name": "tv", **({} if id_ is None else {"id": id_})})
    request = service.only_reply()
    bystander.received()
    drain([client])
    for _ in range(2):
        service.send({"event": "services/reply", "name": "tv", "in-reply-to": request["id"], "type": "a/b"}, b"on")
    assert [(fields["in-reply-to"], payload) for fields, payload in client.received()] == [(request["id"], b"on")] * 2
    assert bystander.received() == []


def test_a_reply_without_to_answers_an_addressed_request_too() -> None:
    """The request had a recipient, its reply has none: the requester is known all the same."""
    network = Network()
    service, client, bystander = provider(network), network.member(receive_mode="no_echo"), network.member()
    drain([service, client, bystander])
    client.send({"event": "services/request", "name": "tv", "id": "1", "to": service.routing_id})
    assert service.names() == ["services/request"]
    service.send({"event": "services/reply", "in-reply-to": "1"})
    assert (client.names(), bystander.received()) == (["services/reply"], [])


def test_a_reply_finds_its_requester_though_another_used_the_id() -> None:
    """Ids of requests are chosen by clients, and many count from 1."""
    network = Network()
    tv, radio = provider(network, "tv"), provider(network, "radio")
    one, two = network.member(receive_mode="no_echo"), network.member(receive_mode="no_echo")
    drain([tv, radio, one, two])
    one.send({"event": "services/request", "name": "tv", "id": 1})
    two.send({"event": "services/request", "name": "radio", "id": 1})
    drain([one, two])
    tv.send({"event": "services/reply", "in-reply-to": 1, "name": "tv"})
    radio.send({"event": "services/reply", "in-reply-to": 1, "name": "radio"})
    assert [fields["name"] for fields in one.heads()] == ["tv"]
    assert [fields["name"] for fields in two.heads()] == ["radio"]


@each_row("event", ["services/reply", "error", "Services/Reply", "ERROR"])
@each_row("to", [False, True], ids=["without to", "with to"])
@each_row(
    "attributes", [{}, {"name": "tv"}, {"in-reply-to": "r-1"}, {"in-reply-to": "unheard-of"}, {"in-reply-to": [1]}]
)
def test_a_reply_of_one_who_was_not_asked_goes_to_nobody(event: str, to: bool, attributes: dict[str, Any]) -> None:
    """Nor does a reply to no request at all: it may hold what is for one client alone."""
    network = Network()
    asked, client, liar = provider(network, "tv"), network.member(receive_mode="no_echo"), network.member()
    observer = network.member()
    client.send({"event": "services/request", "name": "tv", "id": "r-1"})
    drain([asked, client, liar, observer])
    liar.send({"event": event, **attributes, **({"to": client.routing_id} if to else {})})
    assert [each.received() for each in (asked, client, liar, observer)] == [[], [], [], []]
    assert network.bus.counters["no-such-request"] == 1
    asked.send({"event": event, "in-reply-to": "r-1", **({"to": client.routing_id} if to else {})})
    assert (client.names(), liar.received(), observer.received()) == ([event], [], [])


def test_a_reply_addressed_to_others_than_the_requester_is_lost() -> None:
    """Whoever serves one client could otherwise answer what another one asked of somebody else."""
    network = Network()
    service, client, other = provider(network, "tv"), network.member(receive_mode="no_echo"), network.member()
    client.send({"event": "services/request", "name": "tv", "id": "1"})
    drain([service, client, other])
    service.send({"event": "services/reply", "in-reply-to": "1", "to": other.routing_id})
    assert (client.received(), other.received()) == ([], [])
    service.send({"event": "services/reply", "in-reply-to": "1", "to": [other.routing_id, client.routing_id]})
    assert (client.names(), other.received()) == (["services/reply"], [])


@each_row("id_", IDS)
@each_row("registered", [True, False], ids=["registered", "listening"])
@each_row("to", [True, False], ids=["with to", "without to"])
def test_two_clients_may_use_one_id_at_one_provider(id_: str, registered: bool, to: bool) -> None:
    """Each is replied to under the id that it used, in the words that it wrote it in; observers see that one, too."""
    network = Network()
    service = provider(network, *(["tv"] if registered else []))
    one, two = (network.member(receive_mode="no_echo") for _ in range(2))
    observer = network.member(subscriptions=["@services/request"]) if registered else None
    drain([service, one, two])
    asked = []
    for client in (one, two):
        client.connection.send_bytes(b'{"event":"services/request","name":"tv","id":%b}\0' % id_.encode())
        asked.append(service.only_reply())
        drain([one, two])
    assert asked[0]["id"] != asked[1]["id"]
    if observer is not None:
        seen = [bytes(frame).partition(b"\0")[0] for frame in observer.connection.take().split(b"\0")[:-1]]
        assert all(b'"id":%b' % id_.encode() in each for each in seen[-2:])
    for number, client in ((1, two), (0, one), (1, two)):
        reply = {"event": "services/reply", "in-reply-to": asked[number]["id"], "n": number}
        service.send({**reply, **({"to": asked[number]["route"][0]} if to else {})})
        data = client.connection.take()
        assert b'"n":%d' % number in data
        if number:
            assert b'"in-reply-to":%b,' % id_.encode() in data
        assert (one.received(), two.received()) == ([], [])


def test_ids_that_only_seem_to_be_the_same_are_left_as_they_are() -> None:
    """They are compared by kind and value."""
    network = Network()
    service, client = provider(network, "tv"), network.member(receive_mode="no_echo")
    drain([service, client])
    ids = [1, 1.0, True, "1", 2**61, 2**61 - 2, -1, -2, "x" * 300, "x" * 299 + "y"]
    for id_ in ids:
        client.send({"event": "services/request", "name": "tv", "id": id_})
    asked = [fields["id"] for fields in service.heads()]
    assert [(type(each), each) for each in asked] == [(type(each), each) for each in ids]


def test_a_reply_says_once_to_what_it_is_in_reply() -> None:
    """Whoever serves a client could otherwise answer another request of it: readers differ in which of two counts."""
    network = Network()
    service, client = provider(network, "tv"), network.member(receive_mode="no_echo")
    client.send({"event": "services/request", "name": "tv", "id": "1"})
    drain([service, client])
    service.connection.send_bytes(b'{"in-reply-to":"2","event":"services/reply","in-reply-t\\u006f":"1"}\0')
    assert client.connection.take().count(b"in-reply") == 1


def test_nobody_takes_the_requests_of_others_away() -> None:
    """An asker that has as many open requests as it may have is refused, or gives up its own that were answered."""
    network = Network(max_requests=20, max_requests_per_asker=4)
    service, client, greedy = provider(network, "tv"), *(network.member(receive_mode="no_echo") for _ in range(2))
    drain([service, client, greedy])
    client.send({"event": "services/request", "name": "tv", "id": "mine"})
    drain([greedy])
    for number in range(30):
        greedy.send({"event": "services/request", "name": "tv", "id": number})
    assert reasons(greedy) == ["too-many-requests"] * 26
    assert [fields["id"] for fields in service.heads()] == ["mine", 0, 1, 2, 3]
    (limit,) = network.events(ev.LimitReached)[:1]
    assert (limit.limit, limit.value, limit.reason) == ("max-requests-per-asker", 4, "too-many-requests")
    service.send({"event": "services/reply", "in-reply-to": 2})
    greedy.send({"event": "services/request", "name": "tv", "id": "more"})
    drain([client])
    service.send({"event": "services/reply", "in-reply-to": "mine"})
    assert (greedy.names(), client.names()) == (["services/reply"], ["services/reply"])
    service.send({"event": "services/reply", "in-reply-to": 2})
    assert greedy.received() == []


def test_a_request_is_open_for_its_time_while_both_are_there() -> None:
    """Then a reply goes to nobody; a client of the same routing id that comes later is not given it either."""
    network = Network(request_timeout=10.0)
    service = provider(network, "tv")
    client = network.member(receive_mode="no_echo", **{"routing-id": "ann"})
    drain([service, client])
    client.send({"event": "services/request", "name": "tv", "id": "1"})
    network.reactor.advance(10)
    service.send({"event": "services/reply", "in-reply-to": "1"})
    network.reactor.advance(0.1)
    service.send({"event": "services/reply", "in-reply-to": "1"})
    assert client.names() == ["services/reply"]
    client.send({"event": "services/request", "name": "tv", "id": "2"})
    client.connection.close()
    later = network.member(receive_mode="no_echo", **{"routing-id": "ann"})
    drain([later])
    service.send({"event": "services/reply", "in-reply-to": "2", "to": "ann"})
    assert later.received() == []


def test_who_came_after_a_request_cannot_answer_it() -> None:
    """Nor can those who want no such objects; of those that were given it each may."""
    network = Network()
    listening, deaf = network.member(subscriptions=["@services/*"]), network.member(subscriptions=["text/*"])
    client = network.member(receive_mode="no_echo")
    drain([listening, deaf, client])
    client.send({"event": "services/request", "name": "tv", "id": "1"})
    late = network.member()
    drain([client])
    for each in (late, deaf):
        each.send({"event": "services/reply", "in-reply-to": "1"})
    assert client.received() == []
    listening.send({"event": "services/reply", "in-reply-to": "1"})
    assert client.names() == ["services/reply"]


@each_row("attributes", [{}, {"in-reply-to": "unheard-of"}, {"name": "tv", "in-reply-to": None}])
@each_row("event", ["services/discovery/reply", "pong"])
def test_other_replies_are_routed_plainly(event: str, attributes: dict[str, Any]) -> None:
    """Services in the field send these."""
    sender, receiver = quiet_pair(Network())
    sender.send({"event": event, **attributes})
    assert (receiver.names(), sender.received()) == ([event], [])


WORDS_OF_SERVERS = [
    "routing/subscribe/reply",
    "routing/subscribe/notify",
    "routing/subscribe/notification",
    "routing/disconnect",
    "routing/announcement/neighbors",
    "routing/announcement/interest",
    "routing/announcement/gap",
    "services/gap",
    "routing/neighbors/reply",
    "client/register/reply",
    "clients/register/reply",
    "services/register/reply",
    "services/unregister/reply",
    "services/list/reply",
    "abboe/close/notify",
]


@pytest.mark.dear
@each_row("event", [spelt for word in WORDS_OF_SERVERS for spelt in (word, word.title(), word.upper())])
@each_row("to", [False, True], ids=["to all", "to one"])
def test_only_servers_tell_members_of_servers_and_each_other(event: str, to: bool) -> None:
    """In whatever case: many compare events without."""
    for vocabulary in VOCABULARIES:
        network = Network()
        sender, receiver = join(network, vocabulary), network.member()
        drain([sender, receiver])
        sender.send({"event": event, "id": 1, **({"to": receiver.routing_id} if to else {})})
        assert (receiver.received(), reasons(sender)) == ([], ["reserved-event"])


def test_request_and_reply_keep_every_attribute_and_the_payload() -> None:
    """They are objects like any other."""
    network = Network()
    service, client = provider(network, "tv"), network.member(receive_mode="no_echo")
    drain([service, client])
    client.send({"event": "services/request", "name": "tv", "channel": 7, "id": "1", "type": "a/b"}, b"\0?")
    ((request, payload),) = service.received()
    assert (request["channel"], request["route"], payload) == (7, [client.routing_id, "hall"], b"\0?")
    service.send({"event": "services/reply", "in-reply-to": "1", "to": request["route"][0], "volume": 1}, b"\0!")
    ((reply, payload),) = client.received()
    assert (reply["volume"], reply["route"], payload) == (1, [service.routing_id, "hall"], b"\0!")


# Discovery.


@each_row("named", [True, False], ids=["by name", "all"])
def test_discovery_is_answered_once_for_each_provider(named: bool) -> None:
    """With the name, the provider's routing id and its wire format; whatever format it speaks. A question about all is
    routed as well: there may be services that do not register."""
    network = Network()
    one, two, office = provider(network, "tv"), provider(network, "tv"), network.business()
    office.send({"event": "services/register", "name": "tv"})
    network.udp.publish("gauge", b"21")
    client = network.member(receive_mode="no_echo")
    client.send({"event": "services/discovery", "id": "d", **({"name": "tv"} if named else {})})
    found = client.heads()
    assert all(fields["event"] == "services/discovery/reply" and fields["in-reply-to"] == "d" for fields in found)
    providers = {(fields["name"], fields["routing-id"], fields["protocol"]) for fields in found}
    expected = {("tv", one.routing_id, "objects"), ("tv", two.routing_id, "objects")}
    expected.add(("tv", office.routing_id, "business"))
    if not named:
        (gauge,) = providers - expected
        assert (gauge[0], gauge[2]) == ("gauge", "inbus")
        expected.add(gauge)
    assert (providers, len(found)) == (expected, len(expected))
    assert ("services/discovery" in one.names()) == (not named)


def test_unregistered_services_may_answer_discovery_themselves() -> None:
    """A name that nobody registered is routed on, and the answer comes back to the one who asked."""
    network = Network()
    service, client = network.member(subscriptions=["@services/*"]), network.member(receive_mode="no_echo")
    drain([service, client])
    client.send({"event": "services/discovery", "name": "tv", "id": "d"})
    asked = service.only_reply()
    service.send({**FOUND, "name": "tv", "in-reply-to": asked["id"], "to": asked["route"][0]})
    reply = client.only_reply()
    assert (reply["event"], reply["in-reply-to"], reply["route"][0]) == (FOUND["event"], "d", service.routing_id)


# The small questions.


@each_row("to", [None, "hall", ["hall"]])
@each_row("id_", [None, "p", 7, True])
def test_a_ping_is_answered_by_the_server(to: Any, id_: Any) -> None:
    """With its routing id, in reply to the ping; others hear nothing of it."""
    client, other = quiet_pair(Network())
    given = {"to": to, "id": id_}
    client.send({"event": "ping", **{key: value for key, value in given.items() if value is not None}})
    pong = client.only_reply()
    assert (pong["event"], pong["routing-id"], pong.get("in-reply-to")) == ("pong", "hall", id_)
    assert other.received() == []


def test_a_ping_with_a_recipient_is_routed() -> None:
    """And so is the pong that comes back."""
    client, other = quiet_pair(Network())
    client.send({"event": "ping", "to": other.routing_id, "id": "p"})
    ping = other.only_reply()
    assert (ping["event"], ping["route"]) == ("ping", [client.routing_id, "hall"])
    other.send({"event": "pong", "in-reply-to": "p", "to": ping["route"][0]})
    assert client.names() == ["pong"]


def test_a_newcomer_gets_no_pong() -> None:
    """It is no member yet."""
    stranger = unjoined(Network())
    stranger.send({"event": "ping", "id": "p"})
    assert stranger.received() == []


@each_row("event", ["x", "", "services/none", "routing/none", "pong"])
def test_events_that_nobody_knows_are_routed_like_any_other(event: str) -> None:
    """As they are, with an id and a route."""
    sender, receiver = quiet_pair(Network())
    sender.send({"event": event, "id": "1"})
    assert receiver.heads() == [{"event": event, "id": "1", "route": [sender.routing_id, "hall"]}]
    assert sender.received() == []
