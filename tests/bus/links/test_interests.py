"""Linked servers are given what they want of the objects that are for everybody, and told what this server wants."""

from __future__ import annotations

import itertools
import json
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bussrv import events as ev
from bussrv.bus.interest.vocabulary import INTEREST
from bussrv.bus.links.interest_fields import MOST_NAMED
from bussrv.service_patterns import filter_of
from bussrv.values import ModeInterest
from bussrv.wire.mqtt import packets
from bussrv.wire.objects import encode
from tests.bus.links.fabric import ask, notify, provide, say
from tests.bus.links.test_rights import judged, reload
from tests.formats.mqtt.peer import MqttPeer
from tests.formats.network import Member, Network, drain
from tests.size import sized

NOTHING = {"anew": True, "events": False, "types": "none"}


def wants(server: Member, **said: Any) -> None:
    server.send({"event": INTEREST, **said, "route": [server.routing_id]})
    server.connection.protocol.reactor.advance(0)


def uplink(network: Network, name: str = "uplink", **said: Any) -> Member:
    """A server that says what it wants, and asks for the same."""
    server = network.server(name, directory=True, interest=True)
    if said:
        wants(server, **said)
    server.received()
    return server


def everything(network: Network) -> list[Any]:
    """Publish, in every format, on ``tv``, ``hall/tv`` and ``door``; and say what is no publication."""
    said = []
    providers = [network.member(receive_mode="none") for _ in range(2)]
    for name in ("tv", "hall/tv"):
        for each in providers:
            each.send({"event": "services/register", "name": name})
    for each in (*providers, providers[0]):
        each.send({"type": "text/plain", "sender": "tv", "id": "tv"})
        each.send({"event": "lamp/on", "type": "text/plain", "sender": "hall/tv", "id": "event on hall/tv"})
        each.send({"event": "lamp/on", "id": "event"})
        each.send({"type": "text/plain", "id": "text"})
        each.send({"type": "image/png", "id": "image"})
        said += ["tv", "event on hall/tv", "event", "text", "image"]
    network.udp.publish("door", b"inbus")
    MqttPeer(network).publish("hall/door", b"mqtt")
    return [*said, "door", "hall/door"]


@pytest.mark.parametrize(
    ("said", "crossing"),
    [
        ({"anew": True}, {"tv", "event on hall/tv", "event", "text", "image", "door", "hall/door"}),
        (NOTHING, set()),
        ({**NOTHING, "events": True}, {"event on hall/tv", "event"}),
        ({**NOTHING, "types": ["image/*"]}, {"image"}),
        ({**NOTHING, "types": ["text/plain"]}, {"tv", "text", "door"}),
        ({**NOTHING, "added": ["tv"]}, {"tv"}),
        ({**NOTHING, "added": ["hall/+"]}, {"event on hall/tv", "hall/door"}),
        ({**NOTHING, "added": ["#"]}, {"tv", "event on hall/tv", "door", "hall/door"}),
        ({**NOTHING, "added": ["tv", "door"], "types": ["image/png"]}, {"tv", "door", "image"}),
    ],
)
def test_what_crosses_is_what_the_other_server_wants(said: dict[str, Any], crossing: set[str]) -> None:
    network = Network()
    server = uplink(network, **said)
    named = everything(network)
    crossed = [head.get("id") if head.get("id") in named else head.get("sender") for head in server.heads()]
    advertised = [each for each in crossed if each is not None]
    assert set(advertised) == crossing
    # Each of the members' objects was said three times.
    assert [advertised.count(each) for each in crossing] == [named.count(each) for each in crossing]


def test_differences_add_up() -> None:
    network = Network()
    sender, server = network.member(), uplink(network, **NOTHING, added=["tv", "news"])
    for name in ("tv", "news", "radio"):
        sender.send({"event": "services/register", "name": name})

    def crossing() -> list[str]:
        server.received()
        for name in ("tv", "news", "radio"):
            sender.send({"type": "a/b", "sender": name})
        return [head["sender"] for head in server.heads()]

    assert crossing() == ["tv", "news"]
    wants(server, removed=["tv"], added=["radio"])
    assert crossing() == ["news", "radio"]
    wants(server, types="all")
    assert crossing() == ["tv", "news", "radio"]
    wants(server, types="none", removed=["never"])
    assert crossing() == ["news", "radio"]
    wants(server, anew=True, types="none")
    assert crossing() == []
    server.connection.close()
    server = uplink(network)
    assert crossing() == ["tv", "news", "radio"]


def test_what_is_for_somebody_crosses_whatever_is_wanted() -> None:
    network = Network()
    asker, server = network.member(**{"routing-id": "ann"}), uplink(network, **NOTHING)
    notify(server, "bob")
    provide(server, "bob", "tv")
    drain([asker, server])
    asker.send({"event": "note", "to": "bob"})
    asker.send({"event": "note", "to": "somebody unknown"})
    asker.send({"event": "services/request", "name": "tv", "id": "q"})
    assert server.names() == ["note", "note", "services/request"]
    say(server, "bob", event="services/reply", in_reply_to="q")
    assert asker.names()[-1] == "services/reply"
    say(server, "bob", event="services/request", name="radio", id="r")
    assert asker.names() == ["services/request"]
    asker.send({"event": "services/reply", "in-reply-to": "r"})
    assert server.names()[-1] == "services/reply"
    # Nobody there would answer a request for what nobody registered.
    asker.send({"event": "services/request", "name": "unknown", "id": "s"})
    assert (server.names(), asker.heads()[-1]["reason"]) == ([], "no-such-service")


def test_thousands_of_changes_in_a_turn_count_as_one() -> None:
    network = Network()
    server = uplink(network, **NOTHING)
    before = network.bus.audience.generation
    said = [{"event": INTEREST, "added": [f"s{number}"], "route": ["uplink"]} for number in range(2000)]
    server.connection.send_bytes(b"".join(map(encode, said)))
    network.reactor.advance(0)
    assert network.bus.audience.generation == before + 1


def test_beyond_the_limit_everything_is_wanted() -> None:
    network = Network(max_link_interest=3)
    member, server = network.member(), uplink(network, **NOTHING, added=["a", "b"])
    wants(server, added=["c"], removed=["a"])
    member.send({"type": "a/b"})
    assert server.names() == []
    for _ in range(2):
        wants(server, added=["d", "e"])
        member.send({"type": "a/b"})
        assert server.names() == ["a/b"]
        wants(server, removed=["d"], types="none")  # It is open what that is a difference to.
        member.send({"type": "c/d"})
        assert server.names() == ["c/d"]
        wants(server, **NOTHING, added=["a", "b"])
        member.send({"type": "a/b"})
        assert server.names() == []
    (reached,) = network.events(ev.LimitReached)
    assert (reached.limit, reached.value, reached.reason) == ("max-link-interest", 3, "link-interest-full")
    assert (reached.routing_id, network.bus.counters["link-interest-full"]) == ("uplink", 2)


@pytest.mark.parametrize(
    "said",
    [
        *({"added": each} for each in ("tv", 7, ["tv", 7], [""], ["a\nb"], ["x" * 256], ["#/a"], [None])),
        *({"removed": each} for each in ({}, [[]])),
        *({"types": each} for each in (7, [7], "some", ["x"] * 257, ["a*b" * 50])),
        *({"events": each} for each in (7, "true", [])),
        {"anew": 1},
    ],
)
def test_what_is_said_wrongly_leaves_everything_wanted(said: dict[str, Any]) -> None:
    network = Network()
    member, server = network.member(), uplink(network, **NOTHING)
    wants(server, **said)
    member.send({"type": "a/b"})
    assert server.names() == ["a/b"]
    assert network.bus.counters["bad-attribute"] + network.bus.counters["bad-service-name"] == 1
    wants(server, **NOTHING)
    member.send({"type": "a/b"})
    assert server.names() == []


def test_only_a_bussrv_neighbour_says_what_it_wants() -> None:
    network = Network()
    member, server, plain = network.member(), uplink(network), network.server("plain")
    drain([member, server, plain])
    plain.send({"event": INTEREST, **NOTHING, "route": ["plain"]})
    server.send({"event": INTEREST, **NOTHING, "route": ["attic", "uplink"]})
    network.reactor.advance(0)
    assert member.names() == []
    member.send({"event": INTEREST, **NOTHING})
    assert member.only_reply()["reason"] == "reserved-event"
    member.send({"type": "a/b"})
    assert (server.names(), plain.names()) == (["a/b"], ["a/b"])


# What this server tells.


class Known(NamedTuple):
    """What a server that asked was told, all in all."""

    events: bool
    types: Any
    names: frozenset[str]


class Listener:
    """A server that asked for the interest of this one."""

    def __init__(self, network: Network, name: str = "uplink") -> None:
        about = {"routing-id": name, "subscriptions": ["*"], "directory": True, "interest": True}
        self.server, self._heads = ask(network, **about)
        self.server.routing_id = name
        self.events: Any = None
        self.types: Any = None
        self.names: set[str] = set()

    def hear(self) -> list[dict[str, Any]]:
        """What was told since the last time."""
        told = [head for head in (*self._heads, *self.server.heads()) if head["event"] == INTEREST]
        self._heads = []
        for fields in told:
            if fields.get("anew"):
                self.names.clear()
            assert self.names.issuperset(fields.get("removed", ()))
            assert self.names.isdisjoint(fields.get("added", ()))
            self.names = self.names.difference(fields.get("removed", ())).union(fields.get("added", ()))
            self.events, self.types = fields.get("events", self.events), fields.get("types", self.types)
            assert fields["route"] == ["hall"]
        return told

    @property
    def known(self) -> Known:
        self.hear()
        types = frozenset(self.types) if isinstance(self.types, list) else self.types
        return Known(self.events, types, frozenset(self.names))


def test_nobody_is_told_who_did_not_ask() -> None:
    network = Network()
    server = network.server("attic", directory=True)
    network.watcher().subscribe("tv")
    MqttPeer(network).subscribe("tv/#")
    assert INTEREST not in server.names()


def test_changes_of_a_turn_are_told_together() -> None:
    network = Network()
    listener = Listener(network)
    first = listener.hear()
    assert [(each["anew"], each["events"], each["types"]) for each in first] == [(True, False, "none")]
    gone = MqttPeer(network)
    gone.subscribe("tv", "a/+")
    (told,) = listener.hear()
    assert (sorted(told["added"]), told.keys() & {"anew", "events", "types", "removed"}) == (["a/+", "tv"], set())
    network.journal.hold()
    members = [network.connect("objects") for _ in range(3)]
    for each, types in zip(members, (["a/*"], ["b/c"], ["a/*"]), strict=True):
        each.send_bytes(encode({"event": "routing/subscribe", "types": types, "services": [types[0]]}))
    gone.connection.close()
    network.journal.release()
    (told,) = listener.hear()
    assert (told["events"], told["types"], sorted(told["added"])) == (True, ["a/*", "b/c"], ["a/*", "b/c"])
    assert sorted(told["removed"]) == ["a/+", "tv"]
    # Another session wants the same, and one of those that did goes: that is no news.
    network.member(types=["b/c"], services=["b/c"])
    members[1].close()
    network.reactor.advance(0)
    assert listener.hear() == []


def test_many_names_are_told_bit_by_bit_and_nothing_is_missed() -> None:
    network = Network(max_metadata=1 << 20, max_patterns=10_000)
    names = {f"service/{number}/{'x' * 60}" for number in range(3000)}
    member = Member(network.connect("objects"))
    member.send({"event": "routing/subscribe", "types": "none", "services": sorted(names)})
    listener = Listener(network)
    for _ in range(40):
        network.reactor.advance(0)
    told = listener.hear()
    assert len(told) > 5
    assert [each.get("anew", False) for each in told] == [True] + [False] * (len(told) - 1)
    assert max(len(json.dumps(each)) for each in told) < MOST_NAMED + 4096
    # It narrows only when all of them are said.
    assert (told[0]["events"], told[0]["types"]) == (True, "all")
    assert [("types" in each) for each in told[1:]] == [False] * (len(told) - 2) + [True]
    assert listener.known == Known(True, "none", frozenset(names))
    member.connection.close()
    for _ in range(40):
        network.reactor.advance(0)
    assert listener.known == Known(False, "none", frozenset())


SEEN = """
[[rule]]
users = ["anonymous"]
networks = ["127.0.0.1"]
link = ["cellar"]
watch = ["tv", "cellar/*"]

[[rule]]
users = ["anonymous"]
networks = ["10.0.0.0/8"]
watch = ["*"]
"""


def test_a_server_is_told_only_of_what_it_may_know() -> None:
    network = judged(SEEN)
    watcher = MqttPeer(network)
    watcher.subscribe("tv", "secret-door", "cellar/1", "bus/registry")
    listener = Listener(network, "cellar")
    assert listener.known.names == {"tv", "cellar/1"}
    reload(network, SEEN.replace("cellar/*", "secret-*"))
    assert listener.known.names == {"tv", "secret-door"}


NAMES = ["tv", "hall/tv", "hall/+", "#", "bus/registry", "bus/#", "$share/us/tv", "$share/us/door"]
PLAIN_NAMES = ["tv", "hall/tv", "door"]
SUBSCRIPTIONS: list[dict[str, Any]] = [
    {},
    {"types": ["a/*"]},
    {"types": ["a/*", "b/c"], "receive_mode": "no_echo"},
    {"types": "none"},
    {"receive_mode": "events_only", "types": ["a/*"]},
    {"receive_mode": "none"},
    {"subscriptions": ["@lamp/*", "!x/y"]},
    {"subscriptions": ["!a/b", ["#spam"]]},
    {"subscriptions": ["text/*"]},
    {"subscriptions": ["!a"]},
]


EVERYTHING = {"events": True, "types": "all", "names": frozenset()}


def reach(interest: Any) -> tuple[bool, Any]:
    """Whether events may pass, and which content types; of rules, all if any rule lets content pass."""
    if isinstance(interest, ModeInterest):
        types = {"none": (), "events_only": ()}.get(interest.receive, interest.types)
        return interest.receive != "none", "all" if types is None else types or "none"
    tests = [test for rule in interest.rules for test in ([rule] if isinstance(rule, str) else rule)]
    letting = [test for test in tests if test[0] != "!"]
    return bool(letting), "all" if any(test[0] != "@" for test in letting) else "none"


SERVERS = st.sampled_from(["uplink", "downlink", "attic"])
MOST = 5


class Telling(RuleBasedStateMachine):
    """After each turn of the reactor, the servers that asked know what a walk over all sessions finds. ``attic`` does
    not ask.

    :ivar wanted: what each linked server wants; of those that are not there, everything is wanted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.network = Network(max_link_interest=MOST)
        self.members: list[Member] = []
        self.peers: list[MqttPeer] = []
        self.servers: dict[str, Member] = {}
        self.listeners: dict[str, Listener] = {}
        self.wanted: dict[str, dict[str, Any]] = {}

    @initialize(names=st.lists(st.sampled_from(NAMES)))
    def begin(self, names: list[str]) -> None:
        self.device_connects()
        for name in names:
            self.device_wants(0, name, is_wanted=True)
        self.server_comes("uplink")

    @rule(name=SERVERS)
    def server_comes(self, name: str) -> None:
        if name in self.servers:
            return
        if name == "attic":
            self.servers[name] = self.network.server(name, directory=True)
        else:
            self.listeners[name] = Listener(self.network, name)
            self.servers[name] = self.listeners[name].server

    @rule(name=SERVERS)
    def server_goes(self, name: str) -> None:
        if name in self.servers:
            self.servers.pop(name).connection.close()
            self.listeners.pop(name, None)
            self.wanted.pop(name, None)

    @rule(
        name=SERVERS,
        said=st.fixed_dictionaries(
            {"anew": st.booleans()},
            optional={
                "events": st.booleans(),
                "types": st.sampled_from(["all", "none", ["a/*"], ["d/e"]]),
                "added": st.lists(st.sampled_from(["tv", "x", "y", "z/#", "u", "v"]), max_size=4),
                "removed": st.lists(st.sampled_from(["tv", "x", "y", "z/#"]), max_size=2),
            },
        ),
    )
    def server_says(self, name: str, said: dict[str, Any]) -> None:
        if name not in self.servers:
            return
        wants(self.servers[name], **said)
        if said["anew"]:
            self.wanted[name] = {**EVERYTHING}
        if name in self.wanted:
            before = self.wanted.pop(name)
            names = before["names"].difference(said.get("removed", ())).union(said.get("added", ()))
            if len(names) <= MOST:
                about = {key: said[key] for key in ("events", "types") if key in said}
                self.wanted[name] = {**before, **about, "names": names}

    @rule(subscription=st.sampled_from(SUBSCRIPTIONS), names=st.lists(st.sampled_from(NAMES), max_size=2))
    def member_comes(self, subscription: dict[str, Any], names: list[str]) -> None:
        named = [each for each in names if not each.startswith("$")]
        self.members.append(Member(self.network.connect("objects")))
        self.join(self.members[-1], subscription, named)

    def join(self, member: Member, subscription: dict[str, Any], names: list[str]) -> None:
        member.send({"event": "routing/subscribe", **subscription, "services": names})

    @precondition(lambda self: self.members)
    @rule(data=st.data(), subscription=st.sampled_from(SUBSCRIPTIONS), name=st.sampled_from(PLAIN_NAMES))
    def member_joins_again(self, data: Any, subscription: dict[str, Any], name: str) -> None:
        self.join(data.draw(st.sampled_from(self.members)), subscription, [name])

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def member_goes(self, data: Any) -> None:
        member = data.draw(st.sampled_from(self.members))
        self.members.remove(member)
        member.connection.close()

    @rule()
    def device_connects(self) -> None:
        self.peers.append(MqttPeer(self.network, f"d{len(self.peers)}"))

    @precondition(lambda self: self.peers)
    @rule(number=st.integers(0, 9), name=st.sampled_from(NAMES), is_wanted=st.booleans())
    def device_wants(self, number: int, name: str, *, is_wanted: bool) -> None:
        peer = self.peers[number % len(self.peers)]
        if not peer.is_open:
            return
        if is_wanted:
            peer.subscribe(name)
        else:
            peer.send(packets.Unsubscribe(1, (name,)))

    @precondition(lambda self: self.peers)
    @rule(number=st.integers(0, 9))
    def device_goes(self, number: int) -> None:
        self.peers[number % len(self.peers)].connection.close()

    @rule(name=st.sampled_from(PLAIN_NAMES), port=st.integers(1, 3), is_wanted=st.booleans())
    def inbus_wants(self, name: str, port: int, *, is_wanted: bool) -> None:
        udp = self.network.udp
        (udp.subscribe if is_wanted else udp.unsubscribe)(name, port)

    @invariant()
    def each_knows_what_others_want(self) -> None:
        for _ in range(2):
            self.network.reactor.advance(0)
        for name, listener in self.listeners.items():
            assert listener.known == self.walk(name)

    def walk(self, asking: str) -> Known:
        """What is wanted by all except one server."""
        found = [self.of_session(session.id) for session in self.network.registry.state.sessions.values()]
        found += [self.wanted.get(each, EVERYTHING) for each in self.servers.keys() - {asking}]
        every = [each["types"] for each in found]
        types = frozenset(itertools.chain.from_iterable(each for each in every if each not in ("all", "none")))
        names = frozenset(itertools.chain.from_iterable(each["names"] for each in found))
        events = any(each["events"] for each in found)
        return Known(events, "all" if "all" in every else types or "none", names)

    def of_session(self, session_id: str) -> dict[str, Any]:
        state = self.network.registry.state
        held = dict(state.subscriptions.get(session_id, {}))
        own = held.pop(None, None)
        if own is None or state.sessions[session_id].is_link:
            events, types = False, "none"
        else:
            events, types = reach(own.interest)
        if own is not None and not events and isinstance(own.interest, ModeInterest):
            held = {}
        names = {filter_of(each) for each in held if each is not None and not each.startswith("bus/")}
        return {"events": events, "types": types, "names": names}


Telling.TestCase.settings = settings(max_examples=sized(150), stateful_step_count=30)
TestTelling = Telling.TestCase
