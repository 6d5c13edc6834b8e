"""Sessions of other servers that provide many services: they come and go in steps, whatever happens in between.

Two linked servers tell of one session, of different homes; links break, the journal is slow or fails, and a client of
this server wants the same routing id. Once everything has settled, the registry has what the links that are up say.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import bussrv.bus.links.remote_sessions
import bussrv.bus.sessions.ending
from bussrv import events as ev
from bussrv.bus.links.remote_sessions import MOST_PENDING, RETRY_DELAY
from bussrv.policy.permissions.permissions import EVERYTHING
from bussrv.registry.state.state import RegistryState
from bussrv.wire import spp
from bussrv.wire.objects import encode
from tests.bus.links.fabric import WORDS, homes, leave, notify, provide, say
from tests.formats.network import Member, Network, drain
from tests.size import sized

SERVERS = ("attic", "cellar")
"""The first one's word counts, if both tell of the session."""

SERVICES = [f"service {number}" for number in range(9)]
A_SLICE, A_STEP = 2, 3
MANY = 1000

_servers = st.sampled_from(SERVERS)
_services = st.lists(st.sampled_from(SERVICES), max_size=9, unique=True)


def turn(network: Network) -> None:
    """One turn of the reactor: what is put off meanwhile waits for the next one."""
    now = network.reactor.seconds()
    for call in network.reactor.getDelayedCalls():
        if call.getTime() <= now and call.active():
            function, arguments = call.func, call.args
            call.cancel()
            function(*arguments)


def services_of(network: Network, routing_id: str) -> dict[str | None, set[str]]:
    """The services of the sessions with a routing id, by their homes."""
    state = network.registry.state
    found = (each for each in state.sessions.values() if each.routing_id == routing_id)
    return {session.home: set(state.provided_by(session.id)) for session in found}


class FarServices(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.patches = pytest.MonkeyPatch()
        self.patches.setattr(bussrv.bus.sessions.ending, "MOST_ENDED", A_SLICE)
        self.patches.setattr(bussrv.bus.links.remote_sessions, "MOST_PENDING", A_STEP)
        self.network = Network()
        self.links: dict[str, Member] = {}
        self.told: dict[str, set[str]] = {}
        self.own: Member | None = None
        self.state = "written"
        for name in SERVERS:
            self.link(name)

    def link(self, name: str) -> None:
        self.links[name] = self.network.server(name)

    @rule(name=_servers, services=_services)
    def a_server_tells_of_services(self, name: str, services: list[str]) -> None:
        if name not in self.links:
            return
        if name not in self.told:
            notify(self.links[name], "far")
        for service in services:
            provide(self.links[name], "far", service)
        self.told.setdefault(name, set()).update(services)

    @rule(name=_servers)
    def a_server_says_that_it_is_gone(self, name: str) -> None:
        if name in self.links:
            leave(self.links[name], "far")
            self.told.pop(name, None)

    @precondition(lambda self: self.state == "written")
    @rule(name=_servers)
    def a_link_breaks_or_is_back(self, name: str) -> None:
        if name in self.links:
            self.links.pop(name).connection.close()
            self.told.pop(name, None)
        else:
            self.link(name)

    @precondition(lambda self: self.state == "written")
    @rule()
    def a_client_wants_its_routing_id(self) -> None:
        if self.own is not None:
            self.own.connection.close()
            self.own = None
            return
        client = Member(self.network.connect("objects"))
        client.send({"event": "routing/subscribe", "routing-id": "far"})
        (reply,) = (each for each in client.heads() if each["event"] == "routing/subscribe/reply")
        if reply["routing-id"] == "far":
            self.own = client
        else:
            client.connection.close()

    @rule(state=st.sampled_from(["slow", "failing", "written"]))
    def journal(self, state: str) -> None:
        journal = self.network.journal
        journal.fail(None)
        if state == "written" and self.state == "slow":
            journal.release()
        elif state == "slow" and self.state != "slow":
            journal.hold()
        elif state == "failing":
            journal.fail("full")
        self.state = state

    @rule(turns=st.integers(1, 4))
    def turns_pass(self, turns: int) -> None:
        for _ in range(turns):
            turn(self.network)

    @rule()
    def settled_the_registry_has_what_the_links_say(self) -> None:
        self.journal("written")
        for _ in range(3):
            self.network.reactor.advance(RETRY_DELAY)
        assert self.network.bus.links.all_durable() is None
        name = next((each for each in SERVERS if each in self.told), None)
        expected: dict[str | None, set[str]] = {} if name is None else {name: self.told[name]}
        if self.own is not None:
            expected = {None: set()}
        assert services_of(self.network, "far") == expected
        assert self.network.registry.state == replayed(self.network)

    def teardown(self) -> None:
        if not hasattr(self, "network"):
            return
        try:
            self.settled_the_registry_has_what_the_links_say()
            self.a_service_ends_once_and_before_its_session()
            assert not self.network.bus.counters["internal-error"]
        finally:
            self.patches.undo()

    def a_service_ends_once_and_before_its_session(self) -> None:
        provided: dict[str | None, set[str | None]] = {}
        for record in self.network.journal.records:
            event = record.event
            held = provided.setdefault(event.session, set())
            if isinstance(event, ev.ServiceRegistered):
                assert event.service not in held
                held.add(event.service)
            elif isinstance(event, ev.ServiceUnregistered):
                held.remove(event.service)
            elif isinstance(event, ev.SessionClosed):
                assert not held


def replayed(network: Network) -> RegistryState:
    state = RegistryState()
    for record in network.journal.records:
        state.apply(record.event, record.time)
    return state


TestFarServices = FarServices.TestCase
TestFarServices.settings = settings(max_examples=sized(300), stateful_step_count=25, deadline=None)


def told(server: Member, routing_id: str, count: int) -> None:
    """A linked server tells of a session that provides so many services."""
    home = server.routing_id
    about: dict[str, Any] = {"routing-id": routing_id, "route": [home]}
    words = [{"event": "routing/subscribe/notify", **about}]
    words += [
        {"event": "services/register", "name": f"{routing_id} {number}", "route": [routing_id, home]}
        for number in range(count)
    ]
    server.connection.send_bytes(b"".join(map(encode, words)))


def test_what_follows_the_end_of_a_session_waits_for_services() -> None:
    network = Network()
    cellar, watcher = network.server("cellar"), network.watcher()
    told(cellar, "far", MANY)
    told(cellar, "ann", 1)
    watcher.subscribe("ann 0")
    watcher.received()
    leave(cellar, "far")
    cellar.send({"type": "text/plain", "sender": "ann 0", "route": ["ann", "cellar"], "size": 4}, b"late")
    turns = 0
    while services_of(network, "far"):
        assert network.bus.last("ann 0", EVERYTHING) == b""
        turn(network)
        turns += 1
    assert turns >= MANY // MOST_PENDING // 2
    assert watcher.messages() == [b"late"]


def test_a_server_gets_its_routing_id_once_its_holder_has_ended() -> None:
    network = Network()
    cellar = network.server("cellar")
    cellar.send({"event": "routing/subscribe/notify", "routing-id": "attic", "role": "server", "route": ["cellar"]})
    for number in range(MANY):
        provide(cellar, "attic", f"service {number}")
    asking = Member(network.connect("objects", "127.0.0.1"))
    asking.connection.send_bytes(
        encode({"event": "routing/subscribe", "role": "server", "routing-id": "attic", "subscriptions": ["*"]})
    )
    assert network.bus.links.neighbors() == ["cellar"]
    assert "routing/subscribe/reply" in asking.names()
    assert network.bus.links.neighbors() == ["attic", "cellar"]
    assert services_of(network, "attic") == {None: set()}


def test_far_services_are_services_here_until_the_link_is_lost(network):
    watcher, asker, lister, cellar = network.watcher(), network.member(), network.business(), network.server("cellar")
    provide(cellar, "ann", "tv", protocol="spp")
    assert watcher.received() == [spp.Offer("tv")]
    drain([asker])
    asker.send({"event": "services/discovery", "name": "tv"})
    found = asker.only_reply()
    assert (found["routing-id"], found["protocol"], found["route"]) == ("ann", "spp", ["ann", "cellar"])
    lister.send({"event": "services/list"})
    assert lister.received()[-1][1] == b'["tv"]'
    cellar.connection.close()
    assert watcher.received() == [spp.Removed("tv")]
    assert network.registry.state.services == {}


def test_a_remote_member_and_its_objects_wait_for_the_journal(network, scene):
    member, _, cellar = scene
    network.journal.hold()
    notify(cellar, "ann")
    say(cellar, "ann", id="1")
    assert (member.heads(), homes(network)) == ([], {})
    network.journal.release()
    assert member.names() == [WORDS["objects"], "text/plain"]


def test_a_remote_member_gone_before_the_journal_leaves_nothing(network, scene):
    cellar = scene[2]
    network.journal.hold()
    notify(cellar, "ann")
    cellar.connection.close()
    network.journal.release()
    assert homes(network) == {}
    assert len(network.events(ev.SessionOpened)) == len(network.events(ev.SessionClosed)) + 2


def test_an_object_waits_for_everything_that_was_told_before_it(network):
    provider, watcher, cellar = network.member(), network.watcher(), network.server("cellar")
    provider.send({"event": "services/register", "name": "tv"})
    watcher.subscribe("tv")
    watcher.received()
    network.journal.hold()
    notify(cellar, "ann")
    provide(cellar, "ann", "tv")
    say(cellar, "ann", id="1", payload=b"news")
    network.journal.release()
    assert watcher.messages() == [b"news"]


def test_remote_members_are_entered_when_the_journal_works_again(network, scene):
    member, _, cellar = scene
    network.journal.fail("full")
    notify(cellar, "ann")
    say(cellar, "ann", id="1")
    network.reactor.advance(3)
    assert (member.names(), homes(network)) == (["text/plain"], {})
    network.journal.fail(None)
    network.reactor.advance(1)
    assert (member.names(), homes(network)) == ([WORDS["objects"]], {"ann": "cellar"})
