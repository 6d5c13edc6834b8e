"""One server and the servers that link with it: how a link stands, what is told over it, and what goes over which."""

from ipaddress import ip_network

import pytest

from bussrv import events as ev
from bussrv.formats.objects.dialing import DialedProtocol
from bussrv.net.session.factory import StreamFactory
from bussrv.wire import spp
from tests.formats.network import Connection, Member, Network, drain
from tests.tables import each_row

SUBSCRIPTION = {"event": "routing/subscribe", "role": "server"}
WORDS = {"objects": "routing/subscribe/notify", "rules": "routing/subscribe/notification"}
DIALECTS = {"objects": {"receive_mode": "all"}, "rules": {"subscriptions": "all"}}


def ask(network, host="127.0.0.1", **fields):
    """Somebody who asked for a link, and every answer."""
    server = Member(network.connect("objects", host))
    server.send({**SUBSCRIPTION, **fields})
    return server, server.heads()


def dial(network, server_id, **fields):
    """Somebody whom ``network`` dialed."""
    protocol = StreamFactory(DialedProtocol, network.bus, network.reactor).buildProtocol(None)
    connection = Connection(protocol, "127.0.0.1")
    connection.protocol.linked.addErrback(lambda _: None)
    server = Member(connection)
    server.routing_id = server_id
    server.send({**SUBSCRIPTION, "routing-id": server_id, **fields})
    return server


def notify(server, routing_id, **fields):
    about = {"routing-id": routing_id, "routing-ids": [], "route": [server.routing_id], **fields}
    server.send({"event": "routing/subscribe/notify", **about})


def provide(server, routing_id, name, **fields):
    server.send({"event": "services/register", "name": name, "route": [routing_id, server.routing_id], **fields})


def leave(server, routing_id):
    server.send({"event": "routing/disconnect", "routing-id": routing_id, "route": [server.routing_id]})


def say(server, *route, payload=b"", **fields):
    """An object that passed ``route`` before that server."""
    named = {key.replace("_", "-"): value for key, value in fields.items()}
    server.send({"type": "text/plain", **named, "route": [*route, server.routing_id]}, payload)


def about(head):
    return head["event"], head.get("name", head.get("routing-id")), head["route"]


def homes(network):
    return {session.routing_id: session.home for session in network.registry.state.sessions.values() if session.home}


@pytest.fixture
def network():
    return Network()


# A link comes about.


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


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_server_is_told_of_all_there_is_and_of_every_change(network, dialect):
    ann = network.member(**{"routing-id": "ann", "routing-ids": ["door"]})
    ann.send({"event": "services/register", "name": "tv"})
    cellar, (_, _, member, service, _) = ask(network, **{"routing-id": "cellar", **DIALECTS[dialect]})
    assert about(member) == (WORDS[dialect], "ann", ["hall"])
    assert (member["routing-ids"], member["protocol"], "role" in member) == (["door"], "objects", False)
    assert about(service) == ("services/register", "tv", ["ann", "hall"])
    bob = network.business(**{"unique-routing-id": "bob"})
    assert [about(head) for head in cellar.heads()] == [(WORDS[dialect], "bob", ["hall"])]
    ann.send({"event": "services/unregister", "name": "tv"})
    assert [about(head) for head in cellar.heads()] == [("services/unregister", "tv", ["ann", "hall"])]
    bob.connection.close()
    ann.send({"event": "routing/subscribe", "routing-id": "eve"})
    told = [about(head) for head in cellar.heads()]
    gone = [("routing/disconnect", name, ["hall"]) for name in ("bob", "ann")]
    assert told == [*gone, (WORDS[dialect], "eve", ["hall"])]


def test_a_server_is_told_of_providers_that_are_no_members(network):
    cellar = network.server("cellar")
    network.udp.publish("lamp", b"on")
    (told, publication) = cellar.heads()
    assert (told["event"], told["name"], told["protocol"]) == ("services/register", "lamp", "inbus")
    assert (publication["sender"], publication["route"][-1]) == ("lamp", "hall")


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


@pytest.mark.parametrize("dialect", DIALECTS)
def test_members_are_told_of_the_members_of_other_servers(network, dialect):
    member = network.member(**DIALECTS[dialect])
    cellar = network.server("cellar")
    notify(cellar, "ann", **{"routing-ids": ["door"]})
    linked, far = member.heads()
    assert (linked["event"], linked["routing-id"], linked["role"]) == (WORDS[dialect], "cellar", "server")
    assert (far["event"], far["routing-id"], far["routing-ids"]) == (WORDS[dialect], "ann", ["door"])
    notify(cellar, "bob")
    leave(cellar, "ann")
    cellar.connection.close()
    told = [(head["event"], head["routing-id"]) for head in member.heads()]
    assert told[:2] == [(WORDS[dialect], "bob"), ("routing/disconnect", "ann")]
    assert sorted(told[2:]) == [("routing/disconnect", "bob"), ("routing/disconnect", "cellar")]


# A link that does not come about, or is replaced.


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


@pytest.mark.parametrize(("name", "reason"), [("hall", "link-to-itself"), ("cellar", "link-not-allowed")])
def test_a_link_is_refused_and_closed(network, name, reason):
    server, (error,) = ask(network, "10.0.0.9", id="s", **{"routing-id": name})
    assert (error["event"], error["reason"], error["in-reply-to"]) == ("error", reason, "s")
    assert not server.connection.is_open
    assert network.bus.counters[reason] == 1
    assert network.events(ev.LinkUp, ev.LinkDown) == []


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


# What goes over which link.


@pytest.fixture
def scene(network):
    """A member, and two servers that are linked."""
    scene = network.member(), network.server("attic"), network.server("cellar")
    drain(scene)
    return scene


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


def test_remote_providers_are_asked_in_turn_with_local_ones(network, scene):
    member, attic, cellar = scene
    provider = network.member(receive_mode="no_echo")
    provider.send({"event": "services/register", "name": "tv"})
    provide(cellar, "ann", "tv")
    drain([*scene, provider])
    for number in range(4):
        member.send({"event": "services/request", "name": "tv", "id": number})
    asked = [head["id"] for head in provider.heads()], [head["id"] for head in cellar.heads()]
    assert sorted(asked) == [[0, 2], [1, 3]]
    assert attic.heads() == []


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


def test_publications_of_far_providers_reach_every_format(network):
    watcher, cellar = network.watcher(), network.server("cellar")
    provide(cellar, "ann", "tv")
    watcher.subscribe("tv")
    network.udp.subscribe("tv")
    watcher.received()
    say(cellar, "ann", id="1", payload=b"news")
    assert (watcher.messages(), network.udp.payloads()) == ([b"news"], [b"news"])


# Nobody is told of what is not durable.


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
