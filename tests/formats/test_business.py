"""Business Object, sentence by sentence, on transports that are strings."""

import json
from typing import Any

from bussrv import events as ev
from bussrv.formats.framed import SERVERS_ONLY
from tests.formats.network import Member, Network, drain
from tests.tables import each_row


@each_row("event", ["client/register", "clients/register"])
def test_registering_is_answered_in_the_spelling_that_was_used(event: str) -> None:
    network = Network()
    member = Member(network.connect("business"))
    member.send(
        {"event": event, "id": 1, "unique-routing-id": "tv-1", "routing-ids": ["tv"], "user": "ann", "name": "n"}
    )
    assert member.heads() == [
        {"event": f"{event}/reply", "in-reply-to": 1, "routing-id": "tv-1", "routing-ids": ["tv"]}
    ]
    (identified,) = network.events(ev.SessionIdentified)
    assert (identified.claimed, identified.name, identified.vocabulary) == ("ann", "n", "business")


def test_nothing_is_served_before() -> None:
    network = Network(subscribe_timeout=5)
    stranger, member = Member(network.connect("business")), network.business()
    stranger.send({"event": "services/list"})
    stranger.send({"event": "routing/subscribe"})
    stranger.send({"type": "a/b"}, b"x")
    assert (stranger.received(), member.received()) == ([], [])
    network.reactor.advance(5)
    assert (stranger.connection.is_open, member.connection.is_open) == (False, True)


@each_row(
    ("registration", "names"),
    [
        ({}, ["alarm", "text/plain", "image/png"]),
        ({"receive": "events_only"}, ["alarm"]),
        ({"receive": "none"}, []),
        ({"subscribe": ["text/*"]}, ["alarm", "text/plain"]),
        ({"subscribe": "none"}, ["alarm"]),
        ({"subscriptions": ["image/png"]}, ["alarm", "image/png"]),
        ({"subscribe": ["text/*"], "subscriptions": "all"}, ["alarm", "text/plain"]),
    ],
)
def test_receive_and_subscribe(registration: dict[str, Any], names: list[str]) -> None:
    network = Network()
    member, sender = network.business(**registration), network.member(receive_mode="none")
    sender.send({"event": "alarm", "type": "text/plain"}, b"x")
    sender.send({"type": "text/plain"}, b"x")
    sender.send({"type": "image/png"}, b"x")
    assert member.names() == names


@each_row("registration", [{"receive": 7}, {"subscribe": 7}, {"subscriptions": [7]}])
def test_a_wrong_registration_is_refused(registration: dict[str, Any]) -> None:
    member = Member(Network().connect("business"))
    member.send({"event": "client/register", "id": 1, **registration})
    error = member.only_reply()
    assert (error["reason"], error["in-reply-to"]) == ("bad-subscription", 1)


def test_both_vocabularies_are_one_network() -> None:
    network = Network()
    member, business = network.member(receive_mode="no_echo"), network.business(receive="no_echo")
    drain([member, business])
    business.send({"type": "text/plain", "sender": "ann"}, b"hello")
    ((fields, payload),) = member.received()
    assert (fields["sender"], fields["route"], payload) == ("ann", [business.routing_id, "hall"], b"hello")
    member.send({"event": "x", "to": business.routing_id})
    assert business.names() == ["x"]


@each_row("event", SERVERS_ONLY)
def test_what_only_servers_send_is_not_passed_on(event: str) -> None:
    network = Network()
    forger, member = network.business(), network.member()
    forger.send({"event": event, "routing-id": member.routing_id, "id": "1"})
    error = forger.only_reply()
    assert (error["reason"], error["in-reply-to"]) == ("reserved-event", "1")
    assert member.received() == []


def test_members_of_object_system_are_told_of_business_members() -> None:
    network = Network()
    member = network.member()
    business = network.business()
    business.connection.close()
    assert [(fields["event"], fields["routing-id"]) for fields in member.heads()] == [
        ("routing/subscribe/notify", business.routing_id),
        ("routing/disconnect", business.routing_id),
    ]


def test_services_of_every_format_are_listed() -> None:
    network = Network()
    business, member = network.business(receive="no_echo"), network.member()
    business.send({"event": "services/register", "name": "office", "id": 1})
    member.send({"event": "services/register", "name": "tv"})
    network.udp.publish("gauge", b"1")
    assert business.heads()[0] == {"event": "services/register/reply", "name": "office", "in-reply-to": 1}
    business.send({"event": "services/list", "id": 2})
    ((fields, payload),) = business.received()
    assert fields == {
        "event": "services/list/reply",
        "type": "application/json",
        "in-reply-to": 2,
        "size": len(payload),
    }
    assert json.loads(payload) == ["gauge", "office", "tv"]
    business.send({"event": "services/unregister"})
    business.send({"event": "services/list"})
    assert json.loads(business.received()[-1][1]) == ["gauge", "tv"]


def test_a_request_from_one_vocabulary_is_answered_from_the_other() -> None:
    network = Network()
    business, member = network.business(receive="no_echo"), network.member(receive_mode="no_echo")
    business.send({"event": "services/register", "name": "office"})
    drain([business, member])
    member.send({"event": "services/request", "name": "office", "id": "1"})
    assert business.names() == ["services/request"]
    business.send({"event": "services/reply", "in-reply-to": "1"})
    assert member.names() == ["services/reply"]
    business.send({"event": "services/request", "name": "nobody's", "id": 9, "to": "nowhere"})
    assert business.only_reply()["reason"] == "no-such-service"


def test_the_end_of_the_connection_unregisters() -> None:
    network = Network()
    business = network.business()
    business.send({"event": "services/register", "name": "office"})
    business.connection.close()
    assert network.registry.state.services == {}
    (unregistered,) = network.events(ev.ServiceUnregistered)
    assert (unregistered.service, unregistered.reason) == ("office", "client-closed")
