"""Object System, sentence by sentence, on transports that are strings."""

from typing import Any

from tests.formats.network import Member, Network
from tests.tables import each_row


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


def test_a_further_routing_id_may_be_a_string_odd_roles_are_none() -> None:
    network = Network()
    member = Member(network.connect("objects"))
    member.send({"event": "routing/subscribe", "routing-ids": "tv", "role": "king", "user": 7, "name": "n" * 1000})
    assert member.only_reply()["routing-ids"] == ["tv"]
    (session,) = network.registry.state.sessions.values()
    assert (session.role, session.claimed, session.name) == (None, None, "n" * 255)


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
def test_a_wrong_subscription_is_refused_the_connection_lives_on(attributes: dict[str, Any], complaint: str) -> None:
    network = Network()
    member = Member(network.connect("objects"))
    member.send({"event": "routing/subscribe", "id": "x", **attributes})
    error = member.only_reply()
    assert (error["event"], error["in-reply-to"], error["reason"]) == ("error", "x", "bad-subscription")
    assert error["message"].startswith(complaint)
    member.send({"event": "routing/subscribe"})
    assert member.names() == ["routing/subscribe/reply"]


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
