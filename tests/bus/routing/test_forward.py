"""Objects that linked servers sent: to whom here they go, and over which links."""

import pytest

from tests.bus.links.fabric import notify, provide, say
from tests.formats.network import Network, drain


def test_an_object_is_forwarded_with_its_route_and_given_an_id(scene):
    member, attic, cellar = scene
    say(cellar, "ann", "shed", id="1")
    say(cellar, "ann", "shed", event="door/opened")
    first, second = member.heads()
    assert (first["route"], first["id"]) == (["ann", "shed", "cellar", "hall"], "1")
    assert second["id"]
    assert (attic.heads(), cellar.heads()) == ([first, second], [])


def test_an_object_does_not_go_where_it_was(scene):
    member, attic, cellar = scene
    say(cellar, "ann", "attic", id="1")
    assert (member.names(), attic.names()) == (["text/plain"], [])


def test_an_object_for_a_far_member_goes_only_towards_it(scene):
    member, attic, cellar = scene
    notify(attic, "ann", **{"routing-ids": ["door"]})
    drain(scene)
    member.send({"type": "text/plain", "to": "ann"})
    member.send({"type": "text/html", "to": ["door", member.routing_id]})
    say(cellar, "bob", id="1", to=["ann"])
    assert attic.names() == ["text/plain", "text/html", "text/plain"]
    assert (member.names(), cellar.names()) == (["text/html"], [])


def test_an_object_for_nobody_known_goes_to_servers_only(scene):
    member, attic, cellar = scene
    member.send({"type": "text/plain", "to": "ann"})
    say(cellar, "bob", id="1", to="ann")
    assert (member.names(), attic.names(), cellar.names()) == ([], ["text/plain"] * 2, ["text/plain"])


def test_publications_of_far_providers_reach_every_format(network):
    watcher, cellar = network.watcher(), network.server("cellar")
    provide(cellar, "ann", "tv")
    watcher.subscribe("tv")
    network.udp.subscribe("tv")
    watcher.received()
    say(cellar, "ann", id="1", payload=b"news")
    assert (watcher.messages(), network.udp.payloads()) == ([b"news"], [b"news"])


def test_too_many_requests_over_a_link_get_an_error(scene):
    network = Network(max_requests=2)
    provider, cellar = network.member(receive_mode="no_echo"), network.server("cellar")
    provider.send({"event": "services/register", "name": "tv"})
    drain([provider, cellar])
    for name in ("ann", "bob"):
        say(cellar, name, event="services/request", name="tv", id=7)
    assert [head["route"][0] for head in provider.heads()] == ["ann"]
    (error,) = cellar.heads()
    assert (error["event"], error["reason"], error["in-reply-to"]) == ("error", "too-many-requests", 7)
    assert (error["to"], error["route"]) == ("bob", ["hall"])


@pytest.mark.parametrize("event", ["Routing/Subscribe/Notify", "services/list/reply", "ABBOE/close/notify"])
def test_a_client_of_another_server_cannot_speak_as_a_server(network, scene, event):
    """Its own server may not refuse that; words of a server itself are passed on to those they are addressed to."""
    member, _, cellar = scene
    say(cellar, event="routing/subscribe/notify", routing_id="ann")
    drain(scene)
    for to in ({}, {"to": member.routing_id}):
        say(cellar, "ann", event=event, **to)
    assert [each.heads() for each in scene] == [[], [], []]
    assert network.bus.counters["reserved-event"] == 2
    say(cellar, "shed", event=event, to=member.routing_id)
    assert member.names() == [event]
