"""The whole server against the plain reference: the same bytes in, in the same chunks, and then the same bytes out.

A history is made of turns of a reactor. In a turn, chunks of many clients come, cut wherever they happen to be cut;
connections are made and lost, in the middle of an object too; some clients take what they are sent slowly, or not at
all. When the turn has ended, every client that reads must have been sent exactly what the reference says, and every
other one the beginning of that.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from bussrv import events as ev
from tests.bus.reference import frame
from tests.equality.arena import BUFFER, Arena
from tests.equality.histories import (
    Item,
    devices,
    from_members,
    from_servers,
    from_spp_clients,
    interests,
    joins,
    served_from_members,
    served_from_servers,
    services,
    subscribable,
)
from tests.equality.judging import Ids
from tests.equality.linked import LinkedReference
from tests.equality.peer import MOST_IN_A_TURN, Peer
from tests.equality.writing import FAR, Writer, pick
from tests.formats.network import SERVER
from tests.size import sized

MAX_OUTBOUND = 8000
MOST_WAITING = 8
"""How many chunks come while the journal is slow: what they bring comes in one turn."""

LEEWAY = BUFFER + 6000
"""The cap is for what the server keeps; beside it are the transport's buffer, and what one turn brings at once."""

FLOODS = (50, 3000, 3000)
"""Bytes of payload that come again and again."""

COUNTED = (
    "not-subscribed",
    "missing-type",
    "reserved-event",
    "reserved-name",
    "reserved-app-type",
    "bad-service-name",
    "bad-attribute",
    "bad-subscription",
    "not-registered",
    "no-such-service",
    "no-such-subscription",
    "no-such-request",
    "provider-gone",
    "slow-consumer",
    "bad-json",
    "bad-utf8",
    "bad-size",
    "not-an-object",
    "packet-too-large",
    "packet-too-short",
    "string-overruns-packet",
    "link-objects",
    "link-duplicate",
    "link-loop",
    "link-too-far",
)


some = st.integers(0, 9)
few = st.integers(1, 6)
sizes = st.one_of(st.just(9999), st.integers(1, 400))


class Delivery(RuleBasedStateMachine):
    """Every rule does one thing to the server and to the reference."""

    def __init__(self) -> None:
        super().__init__()
        self.peers: list[Peer] = []
        self.ids = Ids()
        self.waiting = 0
        self.writer = Writer(self.peers, self.ids)
        self.marks: dict[int, int] = {}
        self.is_sound = False

    @initialize(
        announce=st.sampled_from(["members", "members", "off"]),
        slow_spp=st.sampled_from(["disconnect", "coalesce"]),
        in_turns=st.booleans(),
        first=st.lists(joins, min_size=5, max_size=5),
        subscribed=st.lists(subscribable, min_size=4, max_size=4),
        provided=st.lists(services, min_size=3, max_size=3),
        max_seen=st.sampled_from([3, 1000]),
        linked=st.sampled_from([[], [0], [0, 1], [1, 0]]),
        wanted=st.lists(interests, max_size=2),
    )
    def begin(
        self,
        announce: Any,
        slow_spp: Any,
        in_turns: bool,
        first: list[Item],
        subscribed: list[str],
        provided: list[str],
        max_seen: int,
        linked: list[int],
        wanted: list[dict[str, Any]],
    ) -> None:
        """Members, SPP clients and devices, so that later steps have something to work with."""
        limits = {"max_outbound": MAX_OUTBOUND, "max_seen": max_seen}
        self.real = Arena(announce=announce, slow_spp=slow_spp, link_allow=(ip_network("10.0.0.0/8"),), **limits)
        for kind in ("objects", "business", "spp"):
            self.real.factory(kind).in_turns = in_turns
        self.real.udp.server.in_turns = in_turns
        self.model = LinkedReference(SERVER, announce == "members", max_seen)
        for kind in ("objects", "objects", "objects", "objects", "business", "spp", "spp"):
            self.connects(kind)
        for peer, join in zip(self.peers, first, strict=False):
            self.say(peer, [join])
        for peer, service in zip(self.peers, provided, strict=False):
            self.say(peer, [("object", ({"event": "services/register", "name": service}, b""))])
        self.turn_ends()
        for number in linked:
            self.a_server_links(number, tells_all=True)
        for number, said in enumerate(wanted):
            self.a_server_says_what_it_wants(number, said, [], 0)
        for number, service in enumerate(subscribed):
            self.packets_come(number, [("bytes", self.subscription(service))], 9999)
            self.subscribes_by_datagram("10.0.0.2", 5000 + number % 2, service)
        self.turn_ends()

    @staticmethod
    def subscription(service: str) -> bytes:
        name = service.encode()
        return b"\0\0\0\1" + (len(name) + 4).to_bytes(4, "big") + len(name).to_bytes(4, "big") + name

    def pick(self, number: int, fits: Callable[[Peer], Any]) -> Peer | None:
        return pick(self.peers, number, fits)

    # What clients say.

    @precondition(lambda self: sum(peer.pipe.connected for peer in self.peers) < 11)
    @rule(kind=st.sampled_from(["objects", "objects", "business", "spp"]))
    def connects(self, kind: str) -> None:
        pipe = self.real.pipe(kind)
        client = self.model.connect(f"{kind}{len(self.peers)}", kind)
        coalesces = kind == "spp" and self.real.bus.settings.slow_spp == "coalesce"
        self.peers.append(Peer(client, pipe, coalesces))

    @rule(number=some, items=from_members, size=sizes)
    def objects_come(self, number: int, items: list[Item], size: int) -> None:
        self.chunk_comes(self.pick(number, lambda peer: peer.is_member and peer.talks), items, size)

    @rule(number=some, items=from_members, other=some, others=from_members, size=sizes)
    def objects_of_two_come(self, number: int, items: list[Item], other: int, others: list[Item], size: int) -> None:
        self.objects_come(number, items, size)
        self.objects_come(other, others, 9999)
        self.goes_on(number, 9999)

    @rule(number=some, items=from_spp_clients, size=sizes)
    def packets_come(self, number: int, items: list[Item], size: int) -> None:
        self.chunk_comes(self.pick(number, lambda peer: peer.kind == "spp" and peer.talks), items, size)

    @rule(number=some, size=sizes)
    def goes_on(self, number: int, size: int) -> None:
        """The next chunk of something longer comes."""
        self.chunk_comes(self.pick(number, lambda peer: peer.talks and peer.outbox[0]), [], size)

    def chunk_comes(self, peer: Peer | None, items: list[Item], size: int) -> None:
        self.end_turn_in_time()
        if peer is not None and peer.may_talk(self.model.held):
            self.say(peer, items, size)

    def end_turn_in_time(self) -> None:
        """Before somebody who reads is sent too much, now or when the journal catches up."""
        self.waiting += self.model.held
        if self.waiting > MOST_WAITING:
            self.journal_is_slow_or_no_longer()
        if self.most_of_this_turn() > MOST_IN_A_TURN:
            self.turn_ends()

    def say(self, peer: Peer, items: list[Item], size: int = 9999) -> None:
        data = b"".join(self.writer.written(peer, each) for each in items)
        model, real = peer.outbox[0] + data, peer.outbox[1] + self.ids.as_real(data)
        peer.outbox = model[size:], real[size:]
        if not peer.client.ended:
            peer.bytes_in += len(model[:size])
        peer.pipe.protocol.dataReceived(real[:size])
        self.model.receive_advertisement(peer.client, model[:size])

    # Linked servers.

    @precondition(lambda self: not self.model.held)
    @rule(number=st.integers(0, 1), tells_all=st.booleans())
    def a_server_links(self, number: int, tells_all: bool) -> None:
        """Or it is linked already, and passes something on."""
        server_id = FAR[number]
        if any(peer.pipe.connected and peer.client.session.server == server_id for peer in self.peers):
            return
        self.turn_ends()
        pipe = self.real.pipe("objects")
        about = {"role": "server", "routing-id": server_id, "subscriptions": ["*"], "directory": tells_all}
        subscription = frame({"event": "routing/subscribe", **about})
        pipe.protocol.dataReceived(subscription)
        peer = Peer(self.model.link(f"server{len(self.peers)}", server_id, tells_all), pipe, False)
        peer.bytes_in = len(subscription)
        self.peers.append(peer)
        self.say(peer, [("advertisement", {"event": "services/register", "name": "radio"})])
        self.turn_ends()

    @precondition(lambda self: not self.model.held)
    @rule(number=some, said=interests, before_and_after=from_members, member=some)
    def a_server_says_what_it_wants(
        self, number: int, said: dict[str, Any], before_and_after: list[Item], member: int
    ) -> None:
        """It is taken into account from the next turn on."""
        self.objects_come(member, before_and_after, 9999)
        peer = self.pick(number, lambda peer: peer.kind == "server" and peer.talks and peer.client.session.tells_all)
        if peer is None:
            return
        self.turn_ends()
        route = [peer.client.session.server]
        self.chunk_comes(
            peer, [("bytes", frame({"event": "routing/announcement/interest", **said, "route": route}))], 9999
        )
        self.turn_ends()
        self.objects_come(member, before_and_after, 9999)

    @rule(number=some, items=from_servers, size=sizes)
    def a_server_passes_on(self, number: int, items: list[Item], size: int) -> None:
        """While the journal is slow it tells nothing: what it says behind that would have to wait."""
        if self.model.held:
            items, size = [each for each in items if each[0] != "advertisement"], 9999
        self.chunk_comes(self.pick(number, lambda peer: peer.kind == "server" and peer.talks), items, size)

    @rule(
        number=some,
        items=st.one_of(from_servers, served_from_servers),
        other=some,
        others=from_servers,
        members=st.one_of(from_members, served_from_members),
    )
    def servers_and_members_send_in_a_turn(
        self, number: int, items: list[Item], other: int, others: list[Item], members: list[Item]
    ) -> None:
        """Two members say the same, one after the other."""
        self.a_server_passes_on(number, items, 9999)
        self.objects_come(other, members, 9999)
        self.objects_come(other + 1, members, 9999)
        self.a_server_passes_on(number + 1, others, 9999)

    # Devices.

    @rule(host=devices, port=st.sampled_from([5000, 5001]), service=subscribable)
    def subscribes_by_datagram(self, host: str, port: int, service: str) -> None:
        """Each address speaks one version."""
        self.datagram_comes(host, port - 4999, 1, (service, 0), (host, port), "")

    @rule(host=devices, port=st.sampled_from([5000, 5001]), service=subscribable)
    def unsubscribes_by_datagram(self, host: str, port: int, service: str) -> None:
        self.datagram_comes(host, port - 4999, 2, (service, 0), (host, port), "")

    @rule(host=devices, service=services, app_type=st.integers(0, 3), payload=st.sampled_from([b"", b"x", b"\xff\0"]))
    def publishes_by_datagram(self, host: str, service: str, app_type: int, payload: bytes) -> None:
        self.writer.said += 1
        text = base64.b64encode(payload + b"%d" % self.writer.said).decode()
        self.datagram_comes(host, 2, 3, (service, app_type), ("", 0), text)

    def datagram_comes(
        self, host: str, version: int, opcode: int, application: Any, address: Any, payload: str
    ) -> None:
        self.end_turn_in_time()
        fields = {"version": version, "opcode": opcode, "application": application, "address": address}
        data = json.dumps({**fields, "payload": payload}).encode()
        self.real.udp.receive(data, host)
        self.model.datagram(data, host)

    # Coming and going, reading and not.

    @rule(number=some)
    def loses_its_connection(self, number: int) -> None:
        """Perhaps in the middle of an object."""
        peer = self.pick(number, lambda peer: peer.pipe.connected)
        if peer is not None:
            peer.lost = True
            peer.pipe.leave()
            self.model.end(peer.client)

    @rule(number=some)
    def sends_no_more(self, number: int) -> None:
        peer = self.pick(number, lambda peer: peer.talks)
        if peer is not None:
            self.end_input(peer)

    def end_input(self, peer: Peer) -> None:
        peer.pipe.end_input()
        self.model.no_more_input(peer.client)

    @rule(number=some)
    def stops_reading(self, number: int) -> None:
        peer = self.pick(number, lambda peer: peer.may_stall)
        if peer is not None:
            peer.stalled = True

    @rule(number=some, size=st.integers(1, 500))
    def reads_a_little(self, number: int, size: int) -> None:
        peer = self.pick(number, lambda peer: peer.pipe.connected and peer.stalled)
        if peer is not None:
            peer.pipe.deliver(size)

    @rule(number=some)
    def reads_again(self, number: int) -> None:
        peer = self.pick(number, lambda peer: peer.stalled)
        if peer is not None:
            peer.stalled = False

    @precondition(lambda self: not self.model.held)
    @rule(number=some, subscribed=st.booleans(), of_a_device=st.booleans(), size=st.sampled_from(FLOODS), times=few)
    def falls_behind(self, number: int, subscribed: bool, of_a_device: bool, size: int, times: int) -> None:
        """Somebody reads no more while there is much to read, perhaps more than the server keeps for it."""
        slow = self.pick(number, lambda peer: peer.may_stall and bool(peer.client.session.subscribed) == subscribed)
        if slow is None:
            return
        slow.stalled = True
        service = min(slow.client.session.subscribed, default="tv")
        for _ in range(times):
            self.turn_ends()
            if of_a_device:
                self.datagram_comes("10.0.0.3", 1, 3, (service, 1), ("", 0), f"{self.writer.said}" + "x" * size)
            else:
                talking = self.pick(number, lambda peer: peer.is_member and peer.talks)
                flood = {"type": "text/plain", "sender": service, "id": "flood"}
                self.chunk_comes(talking, [("object", (flood, b"x" * size))], 9999)
        self.turn_ends()

    @rule()
    def journal_is_slow_or_no_longer(self) -> None:
        if self.model.held:
            self.real.journal.release()
            self.model.catch_up()
            self.waiting = 0
        else:
            for peer in self.peers:
                # No advertisements come later.
                if peer.kind == "server" and peer.talks:
                    self.say(peer, [])
            self.real.journal.hold()
            self.model.held = True

    # Judging.

    def most_of_this_turn(self) -> int:
        return max((len(b"".join(peer.client.session.got[self.mark(peer) :])) for peer in self.peers), default=0)

    def mark(self, peer: Peer) -> int:
        return self.marks.get(id(peer), 0)

    @rule()
    def turn_ends(self) -> None:
        self.is_sound = False
        self.real.end_turn([peer.pipe for peer in self.peers if not peer.stalled])
        self.end_those_who_were_cut()
        for peer in self.peers:
            peer.judge(self.ids)
            assert peer.coalesces or not peer.pipe.connected or peer.unread <= MAX_OUTBOUND + LEEWAY
            self.marks[id(peer)] = len(peer.client.session.got)
            peer.behind = peer.stalled
        for address, client in self.model.inbus.items():
            sent = [datagram for datagram, to in self.real.udp.sent if to == address]
            assert sent == client.session.got, (address, sent, client.session.got)
        assert {to for _, to in self.real.udp.sent} <= self.model.inbus.keys()
        for key in COUNTED:
            assert self.real.bus.counters[key] == self.model.counters[key], key
        self.is_sound = True

    def end_those_who_were_cut(self) -> None:
        """In the order in which the server noticed: that depends on whom it sends to first."""
        for pipe in self.real.cut:
            (peer,) = [each for each in self.peers if each.pipe is pipe]
            peer.receive()
            assert not peer.coalesces
            assert peer.unread > MAX_OUTBOUND - BUFFER, "was cut too early"
            peer.lost = True
            self.model.counters["slow-consumer"] += 1
            self.model.end(peer.client)
        self.real.cut.clear()

    def teardown(self) -> None:
        """Everybody reads to the end, then all go; what the journal says of each is what each saw."""
        if not self.is_sound:
            return
        if self.model.held:
            self.journal_is_slow_or_no_longer()
        for peer in self.peers:
            peer.stalled = False
        self.turn_ends()
        for peer in self.peers:
            if peer.talks:
                self.end_input(peer)
        self.turn_ends()
        closed = {each.session: each for each in self.real.events(ev.SessionClosed)}
        for peer in self.peers:
            if not peer.lost:
                record: Any = closed[peer.pipe.protocol.session_id]
                assert record.bytes_in == peer.bytes_in
                assert record.bytes_out == len(peer.pipe.delivered)


EXAMPLES = max(sized(300, 6), settings.default.max_examples // 5)
Delivery.TestCase.settings = settings(max_examples=EXAMPLES, stateful_step_count=40)
TestDelivery = Delivery.TestCase


@pytest.mark.parametrize("replies", [0, 1])
@pytest.mark.parametrize("route", [["ann", "me"], ["ann", "you", "me"]])
def test_a_server_that_a_request_passed_before_cannot_answer_it(route: list[str], replies: int) -> None:
    """It takes everything else, so the other server may answer unless the request passed it, too."""
    state = Delivery()
    join = {"subscription": {"receive": "all"}, "wanted": None, "shared": [], "spelling": 0}
    nothing: Any = {"subscribed": [], "provided": [], "linked": [0, 1], "max_seen": 3, "wanted": []}
    state.begin(announce="off", slow_spp="disconnect", in_turns=False, first=[("join", join)], **nothing)
    servers = [peer for peer in state.peers if peer.kind == "server"]
    way = {"payload": b"", "has_own_id": False, "written": "last"}
    request = {"event": "services/request", "id": "b"}
    state.say(servers[0], [("passed on", {"fields": request, "route": route, **way})])
    reply = {"event": "services/reply", "in-reply-to": "b"}
    state.say(servers[replies], [("passed on", {"fields": reply, "route": ["eve", "me"], **way})])
    state.turn_ends()
    was_given = replies == 1 and "you" not in route
    assert state.real.bus.counters["no-such-request"] == (not was_given)
    state.teardown()
