"""Which servers may link, and which link stays of two."""

from ipaddress import ip_network

import pytest

from bussrv import events as ev
from tests.bus.links.fabric import SUBSCRIPTION, ask, dial, homes, notify, provide
from tests.formats.network import Member, Network
from tests.tables import each_row


@pytest.mark.parametrize("first", ["dialed", "taken"])
@pytest.mark.parametrize(("server_id", "kept"), [("attic", "taken"), ("zoo", "dialed")])
def test_of_two_links_the_one_dialed_by_the_lesser_id_stays(network, server_id, kept, first):
    routes = {"dialed": lambda: dial(network, server_id), "taken": lambda: ask(network, **{"routing-id": server_id})[0]}
    second = "taken" if first == "dialed" else "dialed"
    servers = {way: routes[way]() for way in (first, second)}
    assert {way: server.connection.is_open for way, server in servers.items()} == {
        "dialed": kept == "dialed",
        "taken": kept == "taken",
    }
    assert network.bus.links.neighbors() == [server_id]
    reason = "duplicate-link" if kept == first else "replaced"
    assert [event.reason for event in network.events(ev.SessionClosed)] == [reason]
    network.member().send({"event": "door/opened"})
    assert servers[kept].names()[-1] == "door/opened"


def test_a_newer_link_of_the_same_direction_replaces_the_older(network):
    older, member = network.server("cellar"), network.member()
    notify(older, "ann")
    newer, heads = ask(network, **{"routing-id": "cellar"})
    assert heads[0]["event"] == "routing/subscribe/reply"
    assert (older.connection.is_open, newer.connection.is_open) == (False, True)
    assert network.events(ev.LinkDown)[-1].reason == "replaced"
    assert homes(network) == {}
    assert member.names()[-3:].count("routing/disconnect") == 2


def test_a_program_that_restarts_replaces_its_stuck_link():
    """Over a UNIX socket. Nothing of the older link is left: what it advertised, what it wanted, what waits for it."""
    network = Network(link_allow=("unix",))
    member = network.member()

    def links():
        about = {"routing-id": "uplink", "directory": True, "interest": True, "subscriptions": ["*"]}
        server, heads = ask(network, None, **about)
        server.routing_id = "uplink"
        return server, heads

    older, _ = links()
    notify(older, "ann")
    provide(older, "ann", "tv")
    older.send({"event": "routing/announcement/interest", "anew": True, "events": False, "types": "none"})
    assert homes(network) == {"ann": "uplink"}
    older.connection.protocol.link.pauseProducing()
    member.send({"event": "note", "to": "ann"}, b"x" * 100_000)
    newer, heads = links()
    assert heads[0]["event"] == "routing/subscribe/reply"
    assert network.events(ev.LinkDown)[-1].reason == "replaced"
    assert (homes(network), network.bus.links.neighbors()) == ({}, ["uplink"])
    assert "tv" not in network.registry.state.services
    heads += newer.heads()
    assert "routing/announcement/interest" in [each["event"] for each in heads]
    member.send({"type": "a/b"})
    assert newer.names() == ["a/b"]
    provide(newer, "ann", "tv")
    assert homes(network) == {"ann": "uplink"}
    network.reactor.advance(10)
    assert not older.connection.is_open


@pytest.mark.parametrize(("name", "reason"), [("hall", "link-to-itself"), ("cellar", "link-not-allowed")])
def test_a_link_is_refused_and_closed(network, name, reason):
    server, (error,) = ask(network, "10.0.0.9", id="s", **{"routing-id": name})
    assert (error["event"], error["reason"], error["in-reply-to"]) == ("error", reason, "s")
    assert not server.connection.is_open
    assert network.bus.counters[reason] == 1
    assert network.events(ev.LinkUp, ev.LinkDown) == []


def test_servers_may_link_from_where_they_are_allowed_to():
    network = Network(link_allow=(ip_network("10.1.0.0/16"),))
    hosts = ("10.1.2.3", "::ffff:10.1.2.4", "::1", "127.0.0.1", "10.2.0.1")
    linked = [ask(network, host, **{"routing-id": host})[0].connection.is_open for host in hosts]
    assert linked == [True, True, False, False, False]


@each_row(("places", "allowed"), [((), False), (("unix",), True), ((ip_network("0.0.0.0/0"),), False)])
def test_servers_may_link_over_a_unix_socket_if_allowed(places, allowed):
    network = Network(link_allow=places)
    server = Member(network.connect("objects", None))
    server.send({**SUBSCRIPTION, "routing-id": "cellar"})
    assert server.connection.is_open == allowed


def test_a_server_that_was_dialed_need_not_be_allowed():
    network = Network(link_allow=())
    assert dial(network, "cellar").connection.is_open
    assert network.bus.links.neighbors() == ["cellar"]


def refused(network, host="127.0.0.1", name="cellar"):
    """Why a link was refused; nobody noticed it."""
    before = {session.id for session in network.registry.state.sessions.values()}
    server, (error,) = ask(network, host, **{"routing-id": name})
    assert not server.connection.is_open
    assert {session.id for session in network.registry.state.sessions.values()} == before
    return error["reason"]


def test_a_link_does_not_take_the_routing_id_of_a_client(network):
    client, other = network.member(**{"routing-id": "cellar"}), network.member()
    assert refused(network) == "routing-id-taken"
    assert client.connection.is_open
    assert dial(network, "cellar").names()[-1] == "error"
    other.send({"event": "door/opened", "to": "cellar"})
    assert (client.names()[-1], other.names()) == ("door/opened", [])
    client.connection.close()
    assert network.server("cellar").connection.is_open


def test_a_link_does_not_take_the_routing_id_of_a_remote_client(network):
    attic = network.server("attic")
    notify(attic, "ann")
    provide(attic, "bob", "tv")
    network.journal.hold()
    notify(attic, "eve")
    assert [refused(network, name=name) for name in ("ann", "bob", "eve")] == ["routing-id-taken"] * 3
    network.journal.release()
    assert set(homes(network)) == {"ann", "bob", "eve"}


def test_a_server_that_is_known_over_another_link_may_link(network):
    notify(network.server("attic"), "cellar", role="server", route=["cellar", "attic"])
    assert homes(network) == {"cellar": "cellar"}
    assert network.server("cellar").connection.is_open
    assert homes(network) == {}


def test_a_link_is_replaced_only_from_where_it_leads():
    network = Network(link_allow=(ip_network("10.0.0.0/8"),))
    older, _ = ask(network, "10.0.0.1", **{"routing-id": "cellar"})
    assert refused(network, "10.0.0.2") == "duplicate-link"
    newer, heads = ask(network, "10.0.0.1", **{"routing-id": "cellar"})
    assert heads[0]["event"] == "routing/subscribe/reply"
    assert (older.connection.is_open, newer.connection.is_open) == (False, True)


def test_links_are_limited_in_number_except_those_dialed():
    network = Network(max_links=2)
    first = network.server("attic")
    dial(network, "barn")
    assert refused(network) == "too-many-links"
    assert network.bus.counters["max-links"] == 1
    assert [event.limit for event in network.events(ev.LimitReached)] == ["max-links"]
    assert dial(network, "shed").connection.is_open
    for server in (first, first):
        server.connection.close()
    assert refused(network) == "too-many-links"
    assert len(network.bus.links.neighbors()) == 2
