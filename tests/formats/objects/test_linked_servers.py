"""Linked servers: one test for each sentence. Real processes: tests/end_to_end/test_links.py and its neighbours."""

from itertools import pairwise
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from bussrv import events as ev
from bussrv.wire import spp
from tests.bus.links.fabric import Fabric
from tests.formats.network import Member, Network, drain
from tests.tables import each_row

TOPOLOGIES = {
    "a triangle": ("ab", "bc", "ca"),
    "a diamond": ("ab", "ac", "bd", "cd"),
    "a ring": ("ab", "bc", "cd", "de", "ea"),
    "both dialed": ("ab", "ba"),
}


def fabric(*pairs: str) -> Fabric:
    linked = Fabric(*sorted(set("".join(pairs))), max_link_delay=30.0)
    linked.links(*pairs)
    return linked


def members(linked: Fabric) -> dict[str, Member]:
    """One on every server, by the name of that."""
    found = {name: linked[name].member(receive_mode="no_echo") for name in linked.servers}
    linked.settle()
    drain(list(found.values()))
    return found


def test_a_link_is_kept_and_dialed_again_with_growing_delays() -> None:
    """While nobody answers each delay is longer than the one before, never by the same, up to the limit."""
    linked = Fabric("a", "b", max_link_delay=30.0)
    cable = linked.link("a", "b")
    linked.settle()
    cable.unplug()
    linked.run(300)
    delays = [later - earlier for earlier, later in pairwise(cable.attempts[1:])]
    assert delays[0] < 3
    assert all(delay > earlier - 1 for earlier, delay in pairwise(delays))
    assert 30 <= max(delays) <= 31
    assert len(set(delays)) == len(delays)
    cable.plug()
    linked.run(40)
    assert cable.is_open


def test_a_link_stays_the_one_to_the_server_that_answered_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while something else accepts its connections and says nothing: it is one lost link, not two."""
    linked = fabric("ab")
    cable, (dialer,) = linked.cables["a", "b"], linked.dialers
    connect = cable.connect

    def break_at_once(factory: Any) -> Deferred[Any]:
        connected = connect(factory)
        linked.clock.callLater(0, cable.unplug)
        return connected

    cable.unplug()
    monkeypatch.setattr(cable, "connect", break_at_once)
    cable.plug()
    before = len(cable.attempts)
    linked.run(40)
    assert len(cable.attempts) > before
    assert dialer.server_id == "b"


def test_a_link_subscribes_as_a_server_and_is_subscribed_back() -> None:
    """Each side is a session of the other, with the role of a server."""
    linked = fabric("ab")
    for name, other in (("a", "b"), ("b", "a")):
        (session,) = linked[name].registry.state.sessions.values()
        assert (session.routing_id, session.role, session.home) == (other, "server", None)


@each_row("pairs", TOPOLOGIES.values(), ids=TOPOLOGIES.keys())
def test_in_any_topology_a_subscriber_gets_each_object_once(pairs: tuple[str, ...]) -> None:
    """As long as it is stable, and at most once always: tests/bus/links/test_simulation.py."""
    linked = fabric(*pairs)
    everybody = members(linked)
    everybody["a"].send({"type": "text/plain", "id": "1"}, b"hello")
    linked.settle()
    for name, member in everybody.items():
        assert [payload for _, payload in member.received()] == ([] if name == "a" else [b"hello"])


def test_an_object_does_not_go_to_a_server_in_its_route() -> None:
    """Nor back to where it came from."""
    hall = Network()
    cellar, attic = hall.server("cellar"), hall.server("attic")
    drain([cellar, attic])
    cellar.send({"event": "note", "id": "1", "route": ["bob", "attic", "cellar"]})
    assert (attic.received(), cellar.received()) == ([], [])


def test_an_object_that_was_seen_goes_no_further() -> None:
    """The same sender and id, by whichever way."""
    hall = Network()
    member, cellar, attic = hall.member(), hall.server("cellar"), hall.server("attic")
    drain([member])
    cellar.send({"event": "note", "id": "1", "route": ["bob", "barn", "cellar"]})
    attic.send({"event": "note", "id": "1", "route": ["bob", "barn", "attic"]})
    assert [fields["event"] for fields in member.heads() if fields["event"] == "note"] == ["note"]
    assert hall.bus.counters["link-duplicate"] == 1


@each_row(("hops", "arrives"), [(15, True), (16, False)])
def test_an_object_makes_16_hops(hops: int, arrives: bool) -> None:
    """The servers in its route, this one among them."""
    hall = Network()
    member, cellar = hall.member(), hall.server("cellar")
    drain([member])
    servers = [f"s{number}" for number in range(hops - 1)]
    cellar.send({"event": "note", "id": "1", "route": ["bob", *servers, "cellar"]})
    assert (member.names() == ["note"]) == arrives
    assert hall.bus.counters["link-too-far"] == (not arrives)


def test_members_and_services_of_other_servers_are_known() -> None:
    """They are told of, found and offered."""
    linked = fabric("ab", "bc")
    watcher = linked["c"].watcher()
    everybody = members(linked)
    everybody["a"].send({"event": "services/register", "name": "tv"})
    linked.settle()
    assert linked.known("c")[everybody["a"].routing_id] == "a"
    assert watcher.received() == [spp.Offer("tv")]
    drain([everybody["c"]])
    everybody["c"].send({"event": "services/discovery", "name": "tv"})
    (found,) = everybody["c"].heads()
    assert (found["routing-id"], found["protocol"]) == (everybody["a"].routing_id, "objects")


def test_addresses_and_requests_cross_links_without_flooding() -> None:
    """Servers that lie aside see nothing of them."""
    linked = fabric("ab", "bc", "bd")
    everybody = members(linked)
    everybody["c"].send({"event": "services/register", "name": "tv"})
    linked.settle()
    drain(list(everybody.values()))
    everybody["a"].send({"event": "note", "to": everybody["c"].routing_id, "id": "1"})
    everybody["a"].send({"event": "services/request", "name": "tv", "id": "2"})
    linked.settle()
    assert everybody["c"].names() == ["note", "services/request"]
    assert everybody["d"].received() == []
    assert linked["d"].bus.counters["link-objects"] == 0


def test_what_was_known_over_a_link_is_forgotten_when_it_drops() -> None:
    """Announced and journaled; it returns with the link."""
    linked = fabric("ab")
    everybody = members(linked)
    everybody["b"].send({"event": "services/register", "name": "tv"})
    linked.settle()
    drain([everybody["a"]])
    linked.cables["a", "b"].unplug()
    gone = {fields["routing-id"] for fields in everybody["a"].heads() if fields["event"] == "routing/disconnect"}
    assert gone == {"b", everybody["b"].routing_id}
    assert "tv" not in linked["a"].registry.state.services
    (closed,) = [event for event in linked["a"].events(ev.SessionClosed) if event.reason == "link-lost"]
    assert closed.routing_id == everybody["b"].routing_id
    linked.cables["a", "b"].plug()
    linked.settle(40)
    assert linked.known("a")[everybody["b"].routing_id] == "b"
    assert "tv" in linked["a"].registry.state.services


def test_a_server_says_whom_it_is_linked_with() -> None:
    """Also to members of other servers, by its routing id."""
    linked = fabric("ab", "bc")
    everybody = members(linked)
    everybody["a"].send({"event": "routing/neighbors", "to": "b", "id": "n"})
    linked.settle()
    (reply,) = everybody["a"].heads()
    assert (reply["event"], reply["in-reply-to"], reply["neighbors"]) == ("routing/neighbors/reply", "n", ["a", "c"])


def test_the_journal_tells_of_links() -> None:
    """When one stands, and when it is lost."""
    linked = fabric("ab")
    linked.cables["a", "b"].unplug()
    events = [type(event).__name__ for event in linked["b"].events(ev.LinkUp, ev.LinkDown)]
    assert events == ["LinkUp", "LinkDown"]
