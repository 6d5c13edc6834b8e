"""One server and the servers that link with it: how a link comes about, and how it ends."""

import pytest

from bussrv import events as ev
from tests.bus.links.fabric import SUBSCRIPTION, ask, dial, notify, provide, say


@pytest.mark.parametrize(
    "wanted", [{}, {"subscriptions": "all"}, {"subscriptions": ["*"]}, {"receive_mode": "no_echo"}]
)
@pytest.mark.parametrize("route", [{}, {"route": ["cellar"]}])
def test_a_server_is_answered_and_subscribed_back_once(network, wanted, route):
    subscription = {"routing-id": "cellar", "id": 7, **wanted, **route}
    cellar, (reply, subscribed, neighbors) = ask(network, **subscription)
    assert (reply["event"], reply["in-reply-to"], reply["routing-id"]) == ("routing/subscribe/reply", 7, "cellar")
    assert (subscribed["event"], subscribed["role"], subscribed["routing-id"]) == (
        "routing/subscribe",
        "server",
        "hall",
    )
    assert (subscribed["subscriptions"], subscribed["directory"], subscribed["route"]) == (["*"], True, ["hall"])
    assert (neighbors["event"], neighbors["neighbors"]) == ("routing/announcement/neighbors", ["cellar"])
    cellar.send({"event": "routing/subscribe/reply", "in-reply-to": subscribed["id"], "routing-id": "hall"})
    cellar.send({**SUBSCRIPTION, **subscription})
    assert cellar.heads() == []


def test_a_dialed_server_is_asked_first_and_does_not_ask_back(network):
    cellar = dial(network, "cellar")
    assert cellar.names() == ["routing/subscribe", "routing/subscribe/reply", "routing/announcement/neighbors"]
    assert network.bus.links.neighbors() == ["cellar"]


@pytest.mark.parametrize(
    ("wanted", "crossing"),
    [
        ({"subscriptions": "all"}, ["door/opened", "text/plain", "image/png"]),
        ({"subscriptions": ["image/*"]}, ["image/png"]),
        ({"receive_mode": "all"}, ["door/opened", "text/plain", "image/png"]),
        ({"receive-mode": "no_echo", "types": ["text/*"]}, ["door/opened", "text/plain"]),
        ({"receive_mode": "events_only"}, ["door/opened"]),
        ({"receive_mode": "none"}, []),
    ],
)
def test_a_server_is_given_what_it_subscribed_to(network, wanted, crossing):
    ann = network.member()
    cellar, _ = ask(network, **{"routing-id": "cellar", **wanted})
    for said in ({"event": "door/opened"}, {"type": "text/plain"}, {"type": "image/png"}):
        ann.send(said)
    assert cellar.names() == crossing


def test_links_and_far_sessions_are_journaled(network):
    cellar = network.server("cellar")
    notify(cellar, "ann", route=["attic", "cellar"])
    provide(cellar, "ann", "tv", route=["ann", "attic", "cellar"])
    cellar.connection.close()
    assert [event.routing_id for event in network.events(ev.LinkUp, ev.LinkDown)] == ["cellar", "cellar"]
    opened = network.events(ev.SessionOpened)[-1]
    assert (opened.routing_id, opened.protocol, opened.peer) == ("ann", "objects", "127.0.0.1:4711")
    assert [each.home for each in network.events(ev.SessionOpened)] == [None, "attic"]
    ends = [f"{ev.event_name(e)} {e.routing_id} {e.reason}" for e in network.events(ev.LinkDown, ev.SessionClosed)]
    assert ends[:2] == ["link.down cellar connection-lost", "session.closed cellar connection-lost"]
    assert ends[2:] == ["session.closed ann link-lost"]
    assert network.registry.state.sessions == {}


def test_a_link_lost_before_it_is_durable_is_only_journaled(network):
    member = network.member()
    network.journal.hold()
    cellar, _ = ask(network, **{"routing-id": "cellar", "subscriptions": ["*"]})
    cellar.connection.close()
    network.journal.release()
    ends = [f"{ev.event_name(e)} {e.routing_id}" for e in network.events(ev.LinkUp, ev.LinkDown, ev.SessionClosed)]
    assert ends[:2] == ["link.up cellar", "link.down cellar"]
    assert [each.partition(" ")[0] for each in ends[2:]] == ["session.closed"]
    assert (network.bus.links.neighbors(), member.names()) == ([], [])
    assert network.server("cellar").connection.is_open


def test_who_was_dialed_and_subscribes_as_a_client_is_hung_up_on(network):
    client = dial(network, "cellar", role=None)
    network.reactor.advance(60)
    assert not client.connection.is_open


@pytest.mark.parametrize("wrong", [{}, {"routing-id": 7}, {"routing-id": ""}, {"routing-id": "s", "subscriptions": 7}])
def test_a_server_that_subscribes_wrongly_may_try_again(network, wrong):
    server, (error,) = ask(network, **wrong)
    assert (error["event"], error["reason"]) == ("error", "bad-subscription")
    server.send({**SUBSCRIPTION, "routing-id": "cellar"})
    assert server.names()[0] == "routing/subscribe/reply"


@pytest.mark.parametrize(("asked", "reply"), [("ping", "pong"), ("routing/neighbors", "routing/neighbors/reply")])
@pytest.mark.parametrize("way", [["ann", "attic"], []])
def test_what_is_asked_of_this_server_is_answered_to_who_asked(scene, asked, reply, way):
    member, attic, cellar = scene
    say(cellar, *way, event=asked, id=5, to="hall")
    (answer,) = cellar.heads()
    assert (answer["event"], answer["in-reply-to"], answer["route"]) == (reply, 5, ["hall"])
    assert answer["to"] == [*way, "cellar"][0]
    assert answer.get("neighbors", ["attic", "cellar"]) == ["attic", "cellar"]
    assert (member.heads(), attic.heads()) == ([], [])
