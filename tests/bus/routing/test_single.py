"""Objects that are routed one by one: requests, replies and addressed objects."""

import pytest

from tests.bus.harness import NO_ECHO, TEXT, member
from tests.bus.links.fabric import notify, provide, say
from tests.formats.network import drain


def test_an_unknown_recipient_is_counted(harness):
    sender = member(harness)
    assert sender.send({**TEXT, "to": "nobody"}) == 0
    assert sender.send({**TEXT, "to": []}) == 0
    assert harness.bus.counters["no-such-recipient"] == 2
    assert sender.send({**TEXT, "to": ["nobody", sender.routing_id]}) == 0
    assert harness.bus.counters["no-such-recipient"] == 2


def test_the_name_of_a_service_may_stand_in_either_attribute(harness):
    asking = member(harness, NO_ECHO)
    for _ in range(2):
        member(harness).register("tv")
    assert asking.send({"event": "services/request", "service": "tv"}) == 1
    member(harness, {"subscriptions": ["*"]})
    assert asking.send({"event": "services/request", "name": "radio", "service": "tv"}) == 3


def test_a_reply_finds_who_asked_and_only_that_one(harness):
    asking, provider, other = member(harness, NO_ECHO), member(harness, NO_ECHO), member(harness, NO_ECHO)
    asking.send({"event": "services/request", "id": 1, "name": "tv"})
    harness.bus.flush()
    assert provider.send({"event": "services/reply", "in-reply-to": 1}) == 1
    for another in (1.0, True, [1], "1", None):
        assert provider.send({"event": "services/reply", "in-reply-to": another}) == 0
    assert provider.send({"event": "services/reply"}) == 0
    harness.bus.flush()
    assert (len(asking.got), len(other.got)) == (1, 1)
    asking.close()
    assert provider.send({"event": "services/reply", "in-reply-to": 1}) == 0
    assert harness.bus.counters["no-such-request"] == 7


def test_only_who_was_given_a_request_may_reply(harness):
    """Of those that many requests go to: not who wants none, nor who came later."""
    asking, given, deaf = member(harness, NO_ECHO), member(harness), member(harness, {"subscriptions": ["text/*"]})
    asking.send({"event": "services/request", "id": 1, "name": "tv"})
    late = member(harness)
    reply = {"event": "services/reply", "in-reply-to": 1}
    assert [each.send(reply) for each in (deaf, late, given)] == [0, 0, 1]


def test_a_reply_goes_back_the_way_the_request_came(network, scene):
    member, attic, cellar = scene
    provide(attic, "ann", "tv")
    drain(scene)
    member.send({"event": "services/request", "name": "tv", "id": 1})
    say(cellar, "bob", event="services/request", name="tv", id=2)
    assert ([head["id"] for head in attic.heads()], cellar.heads()) == ([1, 2], [])
    drain(scene)
    say(attic, "ann", event="services/reply", in_reply_to=1)
    assert (member.names(), attic.names(), cellar.names()) == (["services/reply"], [], [])
    say(attic, "ann", event="services/reply", in_reply_to=2)
    assert (member.names(), attic.names(), cellar.names()) == ([], [], ["services/reply"])


def test_an_addressed_object_is_not_given_back(network, scene):
    """Not even to the server that leads to its addressee, nor to one that it has passed."""
    member, attic, cellar = scene
    for server in (attic, cellar):
        notify(server, f"far in {server.routing_id}")
    drain(scene)
    to = ["far in attic", "far in cellar", member.routing_id]
    say(attic, "ann", type="a/b", to=to)
    say(attic, "bob", "cellar", type="a/b", to=to)
    assert [[head["route"][0] for head in each.heads()] for each in scene] == [["ann", "bob"], [], ["ann"]]


def test_a_server_that_a_request_passed_before_cannot_answer_it(network, scene):
    """Neither was given it from here: it came over the one, and the other is in its route."""
    member, attic, cellar = scene
    say(attic, "ann", "cellar", event="services/request", name="radio", id="b")
    assert (member.names(), attic.names(), cellar.names()) == (["services/request"], [], [])
    for each in (attic, cellar):
        say(each, "eve", event="services/reply", in_reply_to="b")
    assert [each.heads() for each in scene] == [[], [], []]
    assert network.bus.counters["no-such-request"] == 2
    member.send({"event": "services/reply", "in-reply-to": "b"})
    assert attic.names() == ["services/reply"]


def test_two_clients_of_another_server_may_use_one_id(network, scene):
    """Their server tells them apart by whom a reply is addressed to; so the server of the provider says that."""
    member, attic, cellar = scene
    provider = network.member(receive_mode="no_echo")
    provider.send({"event": "services/register", "name": "tv"})
    drain([*scene, provider])
    for name in ("ann", "bob"):
        say(cellar, name, event="services/request", name="tv", id=1)
    first, second = provider.heads()
    assert (first["id"], first["route"][0], second["route"][0]) == (1, "ann", "bob")
    assert second["id"] != 1
    for asked in (second, first, second):
        provider.send({"event": "services/reply", "in-reply-to": asked["id"]})
        (reply,) = cellar.heads()
        assert (reply["in-reply-to"], reply["to"], reply["route"]) == (
            1,
            asked["route"][0],
            [provider.routing_id, "hall"],
        )
    drain([member])
    say(attic, "eve", event="services/reply", in_reply_to=1, to="ann")
    assert [each.heads() for each in scene] == [[], [], []]


def test_the_reply_of_another_server_goes_to_its_addressee(network, scene):
    """Requests keep their ids on a link: who asked tells them apart."""
    member, attic, cellar = scene
    other = network.member(receive_mode="no_echo")
    provide(attic, "ann", "tv")
    drain([*scene, other])
    for each in (member, other):
        each.send({"event": "services/request", "name": "tv", "id": 1})
    assert [(head["id"], head["route"][0]) for head in attic.heads()] == [(1, member.routing_id), (1, other.routing_id)]
    drain([member, other])
    for each in (member, other, member):
        say(attic, "ann", event="services/reply", in_reply_to=1, to=each.routing_id)
        assert each.names() == ["services/reply"]
    say(cellar, "bob", event="services/reply", in_reply_to=1, to=other.routing_id)
    say(attic, "ann", event="error", in_reply_to=1, to="nobody")
    assert [each.heads() for each in (*scene, other)] == [[], [], [], []]
    assert network.bus.counters["no-such-request"] == 2


@pytest.mark.parametrize("content", [{}, {"type": "text/plain"}])
def test_a_request_that_nobody_takes_keeps_an_earlier_one_open(network, content):
    """The client sees an error in reply to the later request, and then the reply to the earlier one."""
    asker, other = network.member(receive_mode="no_echo"), network.member(receive_mode="no_echo")
    attic = network.server("attic", directory=True)
    drain([asker, other, attic])
    request = {"event": "services/request", "name": "tv", "id": 1}
    asker.send(request)
    assert [head["id"] for head in (*other.heads(), *attic.heads())] == [1, 1]
    other.connection.close()
    drain([asker, attic])
    asker.send({**request, **content})
    assert [head["reason"] for head in asker.heads()] == ["no-such-service"]
    say(attic, "ann", event="services/reply", in_reply_to=1)
    assert asker.names() == ["services/reply"]
