"""Object System, sentence by sentence, on transports that are strings."""

from typing import Any

from bussrv import events as ev
from tests.formats.network import Member, Network, drain
from tests.tables import each_row


def test_nothing_is_served_before_the_subscription_and_nothing_is_answered() -> None:
    network = Network()
    watching = network.member()
    stranger = Member(network.connect("objects"))
    stranger.send({"event": "ping", "id": "1"})
    stranger.send({"type": "text/plain"}, b"hello")
    stranger.send({"event": 7})
    assert stranger.received() == []
    assert watching.received() == []
    assert network.bus.counters["not-subscribed"] == 3


def test_whoever_does_not_subscribe_in_time_is_closed() -> None:
    network = Network(subscribe_timeout=30)
    stranger, member = network.connect("objects"), network.member()
    network.reactor.advance(29)
    assert stranger.is_open
    network.reactor.advance(1)
    assert not stranger.is_open
    assert member.connection.is_open
    (closed,) = network.events(ev.SessionClosed)
    assert (closed.reason, network.bus.counters["subscribe-timeout"]) == ("subscribe-timeout", 1)


def test_whoever_waits_for_a_slow_disk_has_subscribed_in_time() -> None:
    network = Network(subscribe_timeout=30)
    member = Member(network.connect("objects"))
    network.journal.hold()
    member.send({"event": "routing/subscribe"})
    network.reactor.advance(31)
    assert member.connection.is_open
    network.journal.release()
    assert member.names() == ["routing/subscribe/reply"]
    network.reactor.advance(60)
    assert member.connection.is_open


def test_subscribing_is_answered_with_the_routing_ids() -> None:
    network = Network()
    member = Member(network.connect("objects"))
    member.send({"event": "routing/subscribe", "id": "7", "routing-id": "tv-1", "routing-ids": ["tv", "tv", "hall"]})
    assert member.heads() == [
        {"event": "routing/subscribe/reply", "in-reply-to": "7", "routing-id": "tv-1", "routing-ids": ["tv"]}
    ]
    member.send({"event": "routing/subscribe"})
    assert "in-reply-to" not in member.only_reply()


def test_one_further_routing_id_may_be_a_string_and_other_roles_are_none() -> None:
    network = Network()
    member = Member(network.connect("objects"))
    member.send({"event": "routing/subscribe", "routing-ids": "tv", "role": "king", "user": 7, "name": "n" * 1000})
    assert member.only_reply()["routing-ids"] == ["tv"]
    (session,) = network.registry.state.sessions.values()
    assert (session.role, session.claimed, session.name) == (None, None, "n" * 255)


def test_a_routing_id_that_is_taken_is_not_granted() -> None:
    network = Network()
    owner = network.member(**{"routing-id": "tv-1", "routing-ids": ["tv"]})
    thief = network.member(**{"routing-id": "tv-1"})
    shared = network.member(**{"routing-id": "tv"})
    sharing = Member(network.connect("objects"))
    sharing.send({"event": "routing/subscribe", "routing-ids": ["tv-1", "tv", "hall"]})
    assert owner.routing_id == "tv-1"
    assert thief.routing_id not in ("tv-1", "hall")
    assert shared.routing_id != "tv"
    assert sharing.only_reply()["routing-ids"] == ["tv"]


@each_row(
    ("attributes", "complaint"),
    [
        ({"types": 7}, "types is"),
        ({"types": ["a", 7]}, "types is"),
        ({"receive_mode": "some"}, "the receive mode is one of"),
        ({"receive": ["all"]}, "the receive mode is one of"),
        ({"subscriptions": 7}, "subscriptions is"),
        ({"subscriptions": [7]}, "a rule is"),
        ({"subscriptions": [["a", [None]]]}, "a rule is"),
        ({"routing-id": 7}, "routing-id is"),
        ({"routing-id": "x" * 256}, "routing-id is"),
        ({"routing-ids": {"a": 1}}, "routing-ids is"),
        ({"routing-ids": [""]}, "each of routing-ids is"),
    ],
)
def test_a_wrong_subscription_is_refused_and_the_connection_lives_on(
    attributes: dict[str, Any], complaint: str
) -> None:
    network = Network()
    member = Member(network.connect("objects"))
    member.send({"event": "routing/subscribe", "id": "x", **attributes})
    error = member.only_reply()
    assert (error["event"], error["in-reply-to"], error["reason"]) == ("error", "x", "bad-subscription")
    assert error["message"].startswith(complaint)
    member.send({"event": "routing/subscribe"})
    assert member.names() == ["routing/subscribe/reply"]


def test_others_are_told_of_members_in_their_vocabulary() -> None:
    network = Network()
    seed, deployed, business = network.member(), network.member(subscriptions="all"), network.business()
    drain([seed, deployed, business])
    member = network.member(**{"routing-id": "tv-1", "routing-ids": ["tv"]})
    about = {"routing-id": "tv-1", "routing-ids": ["tv"], "route": ["hall"]}
    for told, event in ((seed, "routing/subscribe/notify"), (deployed, "routing/subscribe/notification")):
        ((fields, _),) = told.received()
        assert fields.pop("id")
        assert fields == {"event": event, **about}
    assert business.received() == []
    assert member.received() == []
    member.connection.close()
    for told in (seed, deployed):
        ((fields, _),) = told.received()
        assert (fields["event"], fields["routing-id"]) == ("routing/disconnect", "tv-1")
    assert business.received() == []


def test_a_connection_that_never_subscribed_leaves_unannounced() -> None:
    network = Network()
    member = network.member()
    network.connect("objects").close()
    assert member.received() == []


@each_row(("announce", "told"), [("members", (1, 1)), ("servers", (0, 1)), ("off", (0, 0))])
def test_announcements_can_be_limited(announce: str, told: tuple[int, int]) -> None:
    network = Network(announce=announce)
    member, server = network.member(), network.server()
    drain([member, server])
    network.member()
    assert (len(member.received()), len(server.received())) == told


@each_row(
    ("subscription", "passing"),
    [
        ({}, {"event", "event with text", "text", "image", "none"}),
        ({"receive_mode": "all", "types": "all"}, {"event", "event with text", "text", "image", "none"}),
        ({"receive-mode": "none"}, set()),
        ({"receive": "events_only"}, {"event", "event with text"}),
        ({"types": "none"}, {"event", "event with text"}),
        ({"types": ["TEXT/*"]}, {"event", "event with text", "text"}),
        ({"types": ["image/pn?"]}, {"event", "event with text", "image"}),
        ({"types": ["application/octet-stream"]}, {"event", "event with text", "none"}),
        ({"subscriptions": "all"}, {"event", "event with text", "text", "image", "none"}),
        ({"subscriptions": []}, set()),
        ({"subscriptions": ["text/*"]}, {"event with text", "text"}),
        ({"subscriptions": ["*", "!@ALARM"]}, {"text", "image", "none"}),
        ({"subscriptions": ["#news", "!image/*"]}, {"text"}),
        ({"subscriptions": ["*", ["!image/*"], "image/*"]}, {"event", "event with text", "text", "none"}),
    ],
)
def test_what_a_subscription_lets_pass(subscription: dict[str, Any], passing: set[str]) -> None:
    network = Network()
    member, sender = network.member(**subscription), network.member(receive_mode="none")
    member.received()
    objects: dict[str, tuple[dict[str, Any], bytes]] = {
        "event": ({"event": "alarm", "is": "event"}, b""),
        "event with text": ({"event": "alarm", "type": "text/plain", "is": "event with text"}, b"x"),
        "text": ({"type": "text/plain; charset=UTF-8", "natures": ["News"], "is": "text"}, b"x"),
        "image": ({"type": "image/png", "natures": ["news"], "is": "image"}, b"x"),
        "none": ({"is": "none"}, b"x"),
    }
    for fields, payload in objects.values():
        sender.send(fields, payload)
    assert {fields["is"] for fields in member.heads()} == passing


def test_subscribing_again_replaces() -> None:
    network = Network()
    member, sender = network.member(types=["text/*"]), network.member(receive_mode="none")
    member.send({"event": "routing/subscribe", "types": ["image/*"]})
    member.received()
    sender.send({"type": "text/plain"}, b"x")
    sender.send({"type": "image/png"}, b"x")
    assert member.names() == ["image/png"]
    (removed,) = network.events(ev.SubscriptionRemoved)
    assert removed.reason == "replaced"


@each_row(("mode", "names"), [("all", ["text/plain"]), ("no_echo", []), ("none", [])])
def test_ones_own_objects(mode: str, names: list[str]) -> None:
    network = Network()
    member = network.member(receive_mode=mode)
    member.send({"type": "text/plain"}, b"x")
    assert member.names() == names


def test_receive_none_gets_nothing_but_the_reply_to_its_subscription() -> None:
    network = Network()
    member = network.member(receive_mode="none")
    member.send({"event": "ping", "id": "1"})
    member.send({"event": "services/register", "name": "tv"})
    member.send({"event": "services/register", "name": ""})
    assert member.received() == []
    assert network.bus.counters["receive-none"] == 3
    assert list(network.registry.state.services) == ["tv"]
    member.send({"event": "routing/subscribe"})
    member.send({"event": "ping"})
    assert member.names() == ["routing/subscribe/reply", "pong"]


def test_what_is_routed_gets_a_route_and_an_id_and_keeps_everything_else() -> None:
    network = Network()
    sender, member = network.member(), network.member()
    drain([sender, member])
    sender.connection.send_bytes(b'{"type":"a/b","n":[1.0,1e3],"big":1180591620717411303424,"size":2}\0\0\xff')
    metadata = member.connection.take()
    assert metadata.startswith(b'{"type":"a/b","n":[1.0,1e3],"big":1180591620717411303424,"size":2,"id":"')
    assert metadata.endswith(b'"route":["%b","hall"]}\0\0\xff' % sender.routing_id.encode())


def test_a_forged_route_is_replaced() -> None:
    network = Network()
    sender, member = network.member(), network.member()
    drain([sender, member])
    sender.connection.send_bytes(b'{"event":"x","id":"1","route":["king"],"r\\u006fute":["god"]}\0')
    ((fields, _),) = member.received()
    assert fields == {"event": "x", "id": "1", "route": [sender.routing_id, "hall"]}


def test_to() -> None:
    network = Network()
    sender = network.member(receive_mode="no_echo")
    one = network.member(**{"routing-ids": ["tv", "all"]})
    two = network.member(**{"routing-ids": ["tv"], "types": ["image/*"]})
    deaf = network.member(receive_mode="none", **{"routing-ids": ["tv"]})
    everybody = [sender, one, two, deaf]

    def who_gets(to: Any, **fields: Any) -> list[int]:
        drain(everybody)
        sender.send({"to": to, **fields})
        return [len(member.received()) for member in everybody]

    assert who_gets(one.routing_id, event="x") == [0, 1, 0, 0]
    assert who_gets("tv", event="x") == [0, 1, 1, 0]
    assert who_gets("tv", type="text/plain") == [0, 1, 0, 0]
    assert who_gets(["tv", "all", one.routing_id, sender.routing_id, "nobody"], event="x") == [0, 1, 1, 0]
    assert who_gets("nobody", event="x") == [0, 0, 0, 0]
    assert who_gets([], event="x") == [0, 0, 0, 0]
    assert network.bus.counters["no-such-recipient"] == 2


def test_objects_right_behind_the_subscription_in_one_chunk() -> None:
    network = Network()
    member = Member(network.connect("objects"))
    member.connection.send_bytes(
        b'{"event":"routing/subscribe"}\0{"event":"ping","id":"1"}\0{"type":"a/b","size":1}\0x'
    )
    assert member.names() == ["routing/subscribe/reply", "pong", "a/b"]


def test_while_a_change_is_pending_later_input_waits_and_nobody_else_does() -> None:
    network = Network()
    member, other = network.member(receive_mode="no_echo"), network.member()
    drain([member, other])
    network.journal.hold()
    member.send({"event": "services/register", "name": "tv", "id": "1"})
    assert member.connection.transport.producerState == "producing"
    member.send({"type": "a/b"}, b"later")
    assert member.connection.transport.producerState == "paused"
    assert other.received() == []
    other.send({"event": "ping"})
    assert other.names() == ["pong"]
    network.journal.release()
    assert member.heads() == [{"event": "services/register/reply", "name": "tv", "in-reply-to": "1"}]
    assert other.names() == ["a/b"]
    assert member.connection.transport.producerState == "producing"


def test_a_change_that_cannot_be_written_is_refused_and_objects_flow() -> None:
    network = Network()
    member, other = network.member(receive_mode="no_echo"), network.member()
    drain([member, other])
    network.journal.fail("no space left")
    member.send({"event": "services/register", "name": "tv", "id": 1})
    error = member.only_reply()
    assert (error["reason"], error["in-reply-to"]) == ("journal-unavailable", 1)
    member.send({"type": "a/b"}, b"x")
    assert other.names() == ["a/b"]
    network.journal.fail(None)
    member.send({"event": "services/register", "name": "tv"})
    assert member.names() == ["services/register/reply"]


@each_row(
    ("name", "reason"),
    [
        ("", "bad-service-name"),
        ("x" * 256, "bad-service-name"),
        ("a\nb", "bad-service-name"),
        (7, "bad-service-name"),
        (None, "bad-service-name"),
        ("bus/clock", "reserved-name"),
    ],
)
def test_names_that_cannot_be_registered(name: Any, reason: str) -> None:
    network = Network()
    member = network.member()
    member.send({"event": "services/register", "id": "1", "name": name})
    error = member.only_reply()
    assert (error["event"], error["in-reply-to"], error["reason"]) == ("error", "1", reason)
    (refused,) = network.events(ev.ServiceRefused)
    assert refused.reason == reason
    assert network.bus.counters[reason] == 1


def test_registering_and_unregistering() -> None:
    network = Network()
    member = network.member()
    for name in ("a", "b", "c", "a"):
        member.send({"event": "services/register", "name": name})
    member.send({"event": "services/unregister", "name": "b", "id": 1})
    member.send({"event": "services/unregister", "name": "b", "id": 2})
    assert member.heads()[-2:] == [
        {"event": "services/unregister/reply", "name": "b", "in-reply-to": 1},
        {
            "event": "error",
            "in-reply-to": 2,
            "reason": "not-registered",
            "message": "the service 'b' is not registered by this session",
        },
    ]
    network.journal.fail("no space left")
    member.send({"event": "services/unregister", "id": 4})
    assert [(fields["event"], fields["in-reply-to"]) for fields in member.heads()] == [("error", 4)]
    assert list(network.registry.state.services) == ["a", "c"]
    network.journal.fail(None)
    member.send({"event": "services/unregister", "id": 3})
    assert member.heads() == [{"event": "services/unregister/reply", "in-reply-to": 3}]
    assert network.registry.state.services == {}


def test_a_request_goes_to_one_provider_in_turn_and_to_observers() -> None:
    network = Network()
    providers = [network.member() for _ in range(3)]
    for provider in providers:
        provider.send({"event": "services/register", "name": "tv"})
    deaf = network.member(receive_mode="none")
    deaf.send({"event": "services/register", "name": "tv"})
    observer, uninterested = network.member(), network.member(subscriptions=["text/*"])
    client = network.member(receive_mode="no_echo")
    everybody = [*providers, deaf, observer, uninterested, client]
    drain(everybody)
    turns = []
    for number in range(6):
        client.send({"event": "services/request", "name": "tv", "id": number})
        counts = [len(member.received()) for member in everybody]
        turns.append(counts[:3].index(1))
        assert sum(counts[:3]) == 1
        assert counts[3:] == [0, 1, 0, 0]
    assert turns[:3] == turns[3:]
    assert sorted(turns[:3]) == [0, 1, 2]


def test_a_name_that_nobody_registered_is_routed_to_those_who_listen() -> None:
    network = Network()
    service = network.member(subscriptions=["@routing/*", "@services/*", "@ping", "@pong"])
    client = network.member(subscriptions=["@services/reply", "text/*"])
    drain([service, client])
    client.send({"event": "services/request", "service": "tv", "id": "1"})
    request = service.only_reply()
    assert client.received() == []
    reply = {"event": "services/reply", "in-reply-to": request["id"], "to": request["route"][0]}
    service.send(reply, b"on")
    ((fields, payload),) = client.received()
    assert (fields["event"], fields["in-reply-to"], payload) == ("services/reply", "1", b"on")


@each_row("mode", ["all", "no_echo"])
def test_when_nobody_takes_a_request_the_requester_is_told(mode: str) -> None:
    network = Network()
    client = network.member(receive_mode=mode)
    network.member(subscriptions=["text/*"])
    client.received()
    client.send({"event": "services/request", "name": "tv", "id": 5})
    error = [fields for fields in client.heads() if fields["event"] == "error"]
    assert [(fields["reason"], fields["in-reply-to"]) for fields in error] == [("no-such-service", 5)]


def test_a_reply_without_to_finds_the_requester() -> None:
    network = Network()
    service = network.member(receive_mode="no_echo")
    service.send({"event": "services/register", "name": "tv"})
    client, other = network.member(receive_mode="no_echo"), network.member()
    drain([service, client, other])
    client.send({"event": "services/request", "name": "tv"})
    request = service.only_reply()
    other.received()
    service.send({"event": "services/reply", "in-reply-to": request["id"]})
    assert client.names() == ["services/reply"]
    assert other.received() == []
    service.send({"event": "services/reply", "in-reply-to": "unknown"})
    assert (client.names(), other.names()) == ([], [])


def test_discovery_finds_the_providers_of_every_format() -> None:
    network = Network()
    service, client = network.member(), network.member(receive_mode="no_echo")
    service.send({"event": "services/register", "name": "tv"})
    network.udp.publish("gauge", b"1")
    drain([service, client])
    client.send({"event": "services/discovery", "name": "gauge", "id": "1"})
    found = client.only_reply()
    assert found.pop("route") == [found.pop("routing-id"), "hall"]
    assert found == {
        "event": "services/discovery/reply",
        "name": "gauge",
        "protocol": "inbus",
        "in-reply-to": "1",
    }
    client.send({"event": "services/discovery"})
    assert [(fields["name"], fields["protocol"]) for fields in client.heads()] == [
        ("gauge", "inbus"),
        ("tv", "objects"),
    ]
    assert service.names()[-1] == "services/discovery"
    drain([service, client])
    client.send({"event": "services/discovery", "name": "radio"})
    assert service.names() == ["services/discovery"]


def test_ping_and_neighbors_are_answered_by_the_server_unless_they_are_for_somebody_else() -> None:
    network = Network()
    one, two = network.member(receive_mode="no_echo"), network.member()
    network.server("cellar")
    drain([one, two])
    one.send({"event": "ping", "id": "1"})
    one.send({"event": "ping", "to": "hall"})
    assert one.heads() == [
        {"event": "pong", "routing-id": "hall", "in-reply-to": "1"},
        {"event": "pong", "routing-id": "hall"},
    ]
    one.send({"event": "ping", "to": ["hall"], "id": True})
    assert one.heads() == [{"event": "pong", "routing-id": "hall", "in-reply-to": True}]
    one.send({"event": "ping", "to": two.routing_id})
    one.send({"event": "routing/neighbors", "to": two.routing_id})
    assert two.names() == ["ping", "routing/neighbors"]
    one.send({"event": "routing/neighbors", "to": "hall", "id": 3})
    assert one.heads() == [
        {"event": "routing/neighbors/reply", "to": one.routing_id, "neighbors": ["cellar"], "in-reply-to": 3}
    ]


@each_row(
    "event",
    [
        "routing/subscribe/reply",
        "routing/subscribe/notify",
        "routing/subscribe/notification",
        "routing/disconnect",
        "routing/announcement/neighbors",
    ],
)
def test_what_only_servers_send_is_not_passed_on(event: str) -> None:
    network = Network()
    forger, member = network.member(), network.member()
    drain([forger, member])
    forger.send({"event": event, "routing-id": member.routing_id, "id": "1"})
    error = forger.only_reply()
    assert (error["reason"], error["in-reply-to"]) == ("reserved-event", "1")
    assert member.received() == []


@each_row(
    ("data", "reason"),
    [
        (b'{"a":}\0', "bad-json"),
        (b'{"a":"\xff"}\0', "bad-utf8"),
        (b"[]\0", "not-an-object"),
        (b'{"size":-1}\0', "bad-size"),
        (b'{"size":"1"}\0', "bad-size"),
        (b'{"size":101}\0', "payload-too-large"),
        (b" " * 201, "metadata-too-large"),
        (b'{"a":' + b"[" * 9 + b"]" * 9 + b"}\0", "nesting-too-deep"),
    ],
)
def test_what_is_malformed_is_answered_once_and_the_connection_closed(data: bytes, reason: str) -> None:
    network = Network(max_metadata=200, max_payload=100, max_nesting=8)
    member, other = network.member(), network.member()
    drain([member, other])
    member.connection.send_bytes(b'{"event":"before"}\0' + data + b'{"event":"after"}\0')
    heads = member.heads()
    assert [fields["event"] for fields in heads] == ["before", "error"]
    assert heads[1]["reason"] == reason
    assert heads[1]["message"]
    assert not member.connection.is_open
    assert other.names() == ["before", "routing/disconnect"]
    (closed,) = network.events(ev.SessionClosed)
    assert closed.reason == reason
    assert network.bus.counters[reason] == 1


@each_row("fields", [{"event": 7}, {"type": ["a"]}, {"to": {"a": 1}}, {"natures": [1]}])
def test_what_is_well_framed_but_wrong_is_answered_and_the_connection_lives_on(fields: dict[str, Any]) -> None:
    network = Network()
    member, other = network.member(receive_mode="no_echo"), network.member()
    drain([member, other])
    member.send({"id": "1", **fields}, b"payload")
    error = member.only_reply()
    assert (error["event"], error["reason"], error["in-reply-to"]) == ("error", "bad-attribute", "1")
    assert next(iter(fields)) in error["message"]
    member.send({"event": "fine"})
    assert other.names() == ["fine"]


def test_a_payload_without_a_type_is_routed_and_counted_unless_the_server_is_strict() -> None:
    network = Network()
    sender, member = network.member(receive_mode="no_echo"), network.member()
    drain([sender, member])
    sender.send({}, b"x")
    assert [payload for _, payload in member.received()] == [b"x"]
    assert network.bus.counters["missing-type"] == 1

    network = Network(strict=True)
    sender, member = network.member(receive_mode="no_echo"), network.member()
    drain([sender, member])
    sender.send({"id": 3}, b"x")
    sender.send({"event": "services/request", "name": "tv", "id": 4}, b"x")
    assert [(fields["reason"], fields["in-reply-to"]) for fields in sender.heads()] == [
        ("missing-type", 3),
        ("missing-type", 4),
    ]
    assert member.received() == []
