"""What was delivered is what ``why`` says, both ways: on histories of servers with policies, links and all formats.

The servers are in memory, and linked by a cable. After each history something is sent, by a member or by a publisher of
another wire format. Who was given it is read from the counts of the real sessions.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from bussrv.journal.moments import END
from bussrv.policy.permissions.file import parse_policy
from bussrv.values import OCTET_STREAM, UTF8_TEXT
from bussrv.why.answer import Answer, answer
from bussrv.why.past import past_of
from bussrv.why.question import Question
from bussrv.wire.mqtt.packets import WantedFilter
from tests.bus.links.fabric import Fabric
from tests.formats.mqtt.peer import MqttPeer
from tests.formats.network import Member, Network
from tests.formats.websocket.browser import SocketConnection
from tests.size import sized
from tests.why.written import begin, reload, write

FORMATS = ("objects", "business", "inbus", "spp", "mqtt", "websocket")
TV, HALL = "tv", "hall/light"
LARGE = 60_000
"""Bytes that a datagram of Inbus, as base64, and a packet of SPP here have no room for."""
LINKING = """
[[rule]]
networks = "127.0.0.0/8"
send = "*"
publish = "*"
link = "*"
tell = "*"
address = "*"
"""
STRICT = f"""{LINKING}
observe = "*"
watch = "*"
[[rule]]
provide = "*"
publish = "*"
send = ["!@secret", "*"]
request = "*"
address = "*"
watch = ["!hall/*", "*"]
observe = ["!image/*", "!@door/*", "*"]
"""
BY_FORMAT = f"""{LINKING}
observe = ["!text/*", "*"]
watch = "!tv"
[[rule]]
formats = ["inbus", "spp"]
watch = "tv"
publish = "*"
[[rule]]
formats = ["objects", "websocket", "mqtt"]
provide = "*"
publish = ["!tv", "*"]
send = "text/*"
request = "tv"
watch = "*"
observe = "text/*"
address = "*"
"""
POLICIES = (None, STRICT, BY_FORMAT)

servers = st.sampled_from(["hall", "attic", "barn"])
names = st.sampled_from([TV, HALL])
wanted = st.sampled_from([TV, HALL, "hall/#", "+", "#"])
interests = st.sampled_from(
    [
        {},
        {"receive": "no_echo"},
        {"receive": "events_only"},
        {"receive": "none"},
        {"types": ["text/*", "image/?n*"]},
        {"types": "none"},
        {"subscriptions": ["*", "!image/*"]},
        {"subscriptions": ["@door*", ["!text/html", "text/*"]]},
    ]
)
steps = st.one_of(
    st.tuples(st.just("member"), servers, interests, st.lists(wanted, max_size=2, unique=True), st.booleans()),
    st.tuples(st.just("member"), servers, interests, st.just([]), st.just(True)),
    st.tuples(st.just("business"), servers, st.sampled_from([{}, {"receive": "events_only"}])),
    st.tuples(st.just("provides"), st.integers(0, 9), names),
    st.tuples(st.just("watches"), servers, names),
    st.tuples(st.just("hears"), servers, names, st.sampled_from([1, 2])),
    st.tuples(st.just("mqtt"), servers, wanted, st.booleans(), st.booleans()),
    st.tuples(st.just("publishes"), servers, names, st.booleans()),
    st.tuples(st.just("leaves"), st.integers(0, 9)),
    st.tuples(st.just("policy"), servers, st.sampled_from(POLICIES)),
    st.tuples(st.just("cable"), st.booleans()),
)
objects = st.sampled_from(
    [
        {"type": "text/plain"},
        {"type": "text/html; charset=UTF-8"},
        {"type": "image/png", "sender": TV},
        {"type": "text/plain", "sender": HALL},
        {"event": "door/opened", "type": "text/plain"},
        {"event": "secret"},
        {"size": 3},
        {"natures": ["x"], "type": "a/b"},
        {"event": "services/request", "name": TV, "id": 7},
        {"event": "services/request", "name": HALL, "id": "b"},
        {"type": "text/plain", "to": "first"},
        {"type": "text/plain", "to": ["first", "nobody"]},
        {"type": "text/plain", "to": ["first", "second", "nobody"]},
        {"type": "text/plain", "sender": TV, "size": LARGE},
    ]
)


class World:
    """Three servers in a row, and their clients.

    :ivar members: those of the object network, each with its server.
    :ivar publishers: sessions of other wire formats that have published, by server and service.
    """

    def __init__(self) -> None:
        limits = {"max_packet": LARGE - 1000, "max_addressees": 2}
        self.fabric = Fabric("hall", "attic", "barn", announce="servers", **limits)
        self.cable = self.fabric.link("hall", "attic")
        self.fabric.link("attic", "barn")
        self.fabric.settle()
        for network in self.fabric.servers.values():
            begin(network)
        self.members: list[tuple[Network, Member]] = []
        self.publishers: list[tuple[Network, str, str, Callable[[], object]]] = []
        self.leaving: list[Callable[[], None]] = []
        self.number = 0

    def do(self, kind: str, *given: Any) -> None:
        getattr(self, kind)(*given)
        self.fabric.settle(0.1)

    def member(self, server: str, interest: dict[str, Any], services: list[str], over_socket: bool) -> None:
        network = self.fabric[server]
        name = "websocket" if over_socket and not interest else "objects"
        if name == "websocket":
            connection: Any = SocketConnection(network.factory("websocket").buildProtocol(None), "10.0.0.1")
        else:
            connection = network.connect("objects")
        self.number += 1
        member = Member(connection)
        routing_ids = [["first"], ["second"], []][self.number % 3]
        about = {**interest, "routing-ids": routing_ids, "name": f"member {self.number}"}
        member.send({"event": "routing/subscribe", **about, **({"services": services} if services else {})})
        self.members.append((network, member))
        self.leaving.append(connection.close)

    def business(self, server: str, interest: dict[str, Any]) -> None:
        member = Member(self.fabric[server].connect("business"))
        member.send({"event": "client/register", **interest})
        self.leaving.append(member.connection.close)

    def provides(self, number: int, service: str) -> None:
        if self.members:
            _, member = self.members[number % len(self.members)]
            if member.connection.is_open:
                member.send({"event": "services/register", "name": service})

    def watches(self, server: str, service: str) -> None:
        watcher = self.fabric[server].watcher()
        watcher.subscribe(service)
        self.leaving.append(watcher.connection.close)

    def hears(self, server: str, service: str, version: int) -> None:
        self.number += 1
        self.fabric[server].udp.subscribe(service, 5000 + self.number, version)

    def mqtt(self, server: str, pattern: str, no_local: bool, shares: bool) -> None:
        self.number += 1
        peer = MqttPeer(self.fabric[server], f"mqtt{self.number}")
        if peer.is_open:
            peer.subscribe(f"$share/all/{pattern}" if shares else WantedFilter(pattern, no_local=no_local))
            peer.publish(TV)
            self.publishers.append((self.fabric[server], peer.session_id, TV, lambda: peer.publish(TV)))
            self.leaving.append(peer.connection.close)

    def publishes(self, server: str, service: str, by_mqtt: bool) -> None:
        self.number += 1
        network = self.fabric[server]
        if by_mqtt:
            peer = MqttPeer(network, f"mqtt{self.number}")
            peer.publish(service)
            session_id, send = peer.session_id, lambda: peer.publish(service)
            self.leaving.append(peer.connection.close)
        else:
            before = {*network.registry.state.sessions}
            source = f"10.0.1.{self.number}"
            network.udp.publish(service, b"x", source=source)
            send = lambda: network.udp.publish(service, b"x", source=source)  # noqa: E731
            session_id = next(iter(network.registry.state.sessions.keys() - before), "")
        self.publishers.append((network, session_id, service, send))

    def leaves(self, number: int) -> None:
        if self.leaving:
            self.leaving[number % len(self.leaving)]()

    def policy(self, server: str, text: str | None) -> None:
        network = self.fabric[server]
        network.bus.access.policy = None if text is None else parse_policy(text, Path("policy.toml"), FORMATS)
        reload(network)
        network.bus.policy_changed()

    def cable_(self, is_plugged: bool) -> None:
        self.cable.plug() if is_plugged else self.cable.unplug()
        self.fabric.settle(70)

    def counts(self) -> dict[tuple[str, str], int]:
        """How many frames each session was given so far."""
        self.fabric.settle(0.2)
        found = {}
        for name, network in self.fabric.servers.items():
            for session in network.registry.state.sessions.values():
                link = network.bus.link_of(session.id)
                if link is not None and session.home is None and not session.is_link:
                    found[name, session.id] = link.traffic.objects_out
        return found

    def provides_it(self, server: str, session_id: str) -> bool:
        """Whether a session provides the service that is asked for."""
        return TV in self.fabric[server].registry.state.provided_by(session_id)

    def ask(self, question: Question, *servers: str) -> Answer:
        """What ``why`` says, from the journals of these servers, or of all."""
        with TemporaryDirectory() as place:
            journals = [write(self.fabric[name], Path(place) / name) for name in servers or self.fabric.servers]
            pasts = [past_of(each, END) for each in journals]
        return answer(pasts, question)


def check(world: World, question: Question, send: Callable[[], object], sender: tuple[str, str]) -> None:
    """Send something, and hold who was given it against what ``why`` says."""
    before = world.counts()
    answered = world.ask(question)
    alone = world.ask(question, sender[0])
    said = {(each.server, each.session): each for each in answered.sessions if each.reason != "closed"}
    send()
    after = world.counts()
    given_to = {each for each, count in after.items() if count > before[each]}
    is_request = question.fields is not None and question.fields.get("event") == "services/request"
    if is_request or answered.sender.refused is not None:
        # It is told if nobody serves it, or that it may not send it.
        given_to.discard(sender)
        said.pop(sender)
    for each in after:
        verdict = said.get(each)
        if each == sender and verdict is None:
            continue
        assert verdict is not None, each
        event(f"{verdict.answer}: {verdict.reason}")
        if verdict.answer != "unknown":
            assert (verdict.answer == "yes") == (each in given_to), (verdict, question)
    unsure = [each for each in given_to if each in said and said[each].reason == "in-turn"]
    # Others may see a request only because of whose turn it is.
    taken = [each for each in unsure if not is_request or said[each].protocol == "mqtt" or world.provides_it(*each)]
    if question.turn is None and len(taken) == 1:
        check_turn(world, question, taken[0], given_to)
    if answered.sender.refused is None:
        check_of_one(world, alone, given_to, sender)


def check_turn(world: World, question: Question, taken: tuple[str, str], given_to: set[tuple[str, str]]) -> None:
    """Whoever says whose turn it was gets an answer for all that took turns."""
    found = world.ask(question.knowing(taken[1], None))
    for each in found.sessions:
        assert each.reason != "in-turn" or each.answer == "no", each
        if each.reason in ("in-turn", "provider") or (each.server, each.session) == taken:
            assert (each.answer == "yes") == ((each.server, each.session) in given_to), each
            event(f"turn: {each.answer}: {each.reason}")


def check_reply(world: World, asker: tuple[Network, Member], replier: tuple[Network, Member], service: str) -> None:
    """A client asks another one, which replies: the asker is given that, if ``why`` says so."""
    (_, member), (other, provider) = asker, replier
    session_id, sender = member.connection.protocol.session_id, provider.connection.protocol.session_id
    provided = service in other.registry.state.provided_by(sender)
    world.number += 1
    before = world.counts()
    member.send({"event": "services/request", "name": service, "id": world.number})
    given_request = world.counts()
    is_asked = given_request.get((other.server_id, sender), 0) > before[other.server_id, sender]
    fields = {"event": "services/reply", "in-reply-to": world.number, "name": service, "id": f"r{world.number}"}
    question = Question(fields=fields, size=0, sender=sender).knowing(None, session_id)
    if not is_asked and provided:
        return  # It was the turn of another one, or nobody was asked: that is another question.
    answered = world.ask(question)
    unsure = world.ask(Question(fields=fields, size=0, sender=sender))
    provider.send(fields)
    after = world.counts()
    given_to = {each for each, count in after.items() if count > given_request[each]} - {(other.server_id, sender)}
    for each in answered.sessions:
        if each.reason != "closed" and each.session != sender:
            event(f"reply: {each.answer}: {each.reason}")
            is_given = (each.server, each.session) in given_to
            assert (each.answer == "yes") == is_given or (each.answer == "unknown" and not provided), (each, fields)
    for each in unsure.sessions:
        assert each.answer != "yes", each
        assert each.answer == "unknown" or (each.server, each.session) not in given_to, each


def check_of_one(world: World, alone: Answer, given_to: set[tuple[str, str]], sender: tuple[str, str]) -> None:
    """What the journal of the sender's server alone knows of the sessions of others is true, too."""
    for each in alone.sessions:
        session = world.fabric[each.server].registry.state.owner(each.routing_id)
        if each.reason == "closed" or session is None or each.server == sender[0]:
            continue
        event(f"of one journal, {each.answer}: {each.reason}")
        assert each.answer != "yes"
        assert each.answer == "unknown" or (each.server, session) not in given_to, each


def is_joined(network: Network, member: Member) -> bool:
    """Whether a connection is that of a member of the object network."""
    return network.registry.state.subscription(member.connection.protocol.session_id, None) is not None


@settings(max_examples=sized(60, 10))
@given(st.lists(steps, min_size=4, max_size=12), st.lists(st.tuples(st.integers(0, 9), objects), max_size=3))
def test_what_was_delivered_is_what_why_says(history: list[Any], sent: list[tuple[int, dict[str, Any]]]) -> None:
    world = World()
    for kind, *about in history:
        world.do("cable_" if kind == "cable" else kind, *about)
    members = [(network, each) for network, each in world.members if each.connection.is_open]
    for number, fields in sent:
        if members:
            network, member = members[number % len(members)]
            session_id = member.connection.protocol.session_id
            if network.registry.state.subscription(session_id, None) is not None:
                size = fields.get("size", 0)
                world.number += 1
                # A linked server forwards an id once.
                shown = {name: value for name, value in fields.items() if name != "size"} | {"id": world.number}
                question = Question(fields=shown, size=size, sender=session_id)
                check(
                    world,
                    question,
                    lambda member=member, shown=shown, size=size: member.send(shown, bytes(size)),
                    (network.server_id, session_id),
                )
    for network, session_id, service, send in world.publishers[-3:]:
        if service in network.registry.state.provided_by(session_id):
            is_mqtt = network.registry.state.sessions[session_id].protocol == "mqtt"
            content_type = OCTET_STREAM if is_mqtt else UTF8_TEXT
            question = Question(service=service, content_type=content_type, sender=session_id)
            check(world, question, send, (network.server_id, session_id))


asked_for = st.sampled_from(
    [
        {"event": "services/request", "name": TV},
        {"type": "text/plain", "sender": TV},
    ]
)
of_providers = st.one_of(
    st.tuples(st.just("member"), servers, interests, st.just([]), st.booleans()),
    st.tuples(st.just("provides"), st.integers(0, 9), st.just(TV)),
    st.tuples(st.just("mqtt"), servers, st.just(TV), st.just(False), st.just(True)),
    steps,
)


@settings(max_examples=sized(60, 10))
@given(
    st.lists(st.tuples(st.just("member"), servers, interests, st.just([]), st.booleans()), min_size=3, max_size=4),
    st.lists(of_providers, max_size=8),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), asked_for), min_size=1, max_size=4),
)
def test_who_knows_the_turn_and_the_asker_gets_an_answer(
    first: list[Any], more: list[Any], sent: list[tuple[int, int, dict[str, Any]]]
) -> None:
    world = World()
    for kind, *about in [*first, *(("provides", number, TV) for number in range(2)), *more]:
        world.do("cable_" if kind == "cable" else kind, *about)
    for number, other, fields in sent:
        members = [(network, each) for network, each in world.members if each.connection.is_open]
        joined = [(network, each) for network, each in members if is_joined(network, each)]
        if joined:
            network, member = joined[number % len(joined)]
            world.number += 1
            shown = {**fields, "id": world.number}
            session_id = member.connection.protocol.session_id
            question = Question(fields=shown, size=0, sender=session_id)
            check(
                world, question, lambda member=member, shown=shown: member.send(shown), (network.server_id, session_id)
            )
            check_reply(world, (network, member), joined[other % len(joined)], TV)
