"""Business Object, and both vocabularies in one network: one test for each thing that is said of them."""

import json
from typing import Any

from bussrv import events as ev
from tests.formats.network import Member, Network, drain
from tests.formats.objects.support import reasons, unjoined
from tests.tables import each_row

SPELLINGS = each_row("event", ["client/register", "clients/register"])
INTERESTS = each_row("key", ["subscribe", "subscriptions"])

OBJECTS: dict[str, tuple[dict[str, Any], bytes]] = {
    "event": ({"event": "alarm"}, b""),
    "event with image": ({"event": "alarm", "type": "image/png"}, b"x"),
    "text": ({"type": "text/plain; charset=UTF-8"}, b"x"),
    "image": ({"type": "image/png"}, b"x"),
    "typeless": ({}, b"x"),
}
EVERYTHING = set(OBJECTS)
EVENTS = {"event", "event with image"}


def registered(network: Network, event: str, **attributes: Any) -> Member:
    member = unjoined(network, "business")
    member.send({"event": event, **attributes})
    reply = member.only_reply()
    assert reply["event"] == f"{event}/reply"
    member.routing_id = reply["routing-id"]
    return member


def passing(receiver: Member, sender: Member) -> set[str]:
    drain([receiver])
    for called, (fields, payload) in OBJECTS.items():
        sender.send({**fields, "called": called}, payload)
    return {fields["called"] for fields in receiver.heads()}


# Registering a client.


@SPELLINGS
@each_row("id_", [None, "1", 7, ""])
@each_row("wanted", [None, "office-1"])
@each_row("further", [None, [], ["office", "all"]])
def test_registering_is_answered_as_spelled_with_the_routing_id(
    event: str, id_: Any, wanted: str | None, further: list[str] | None
) -> None:
    """In reply to the id if there was one; the id that was asked for, or one that the server makes."""
    member = unjoined(Network(), "business")
    given = {"id": id_, "unique-routing-id": wanted, "routing-ids": further}
    member.send({"event": event, **{key: value for key, value in given.items() if value is not None}})
    reply = member.only_reply()
    assert reply.pop("event") == f"{event}/reply"
    assert reply.pop("in-reply-to", None) == id_
    routing_id = reply.pop("routing-id")
    assert routing_id == wanted or (wanted is None and routing_id)
    assert reply == {"routing-ids": further or []}


@SPELLINGS
@each_row(
    ("receive", "of_others", "of_its_own"),
    [
        ({}, EVERYTHING, EVERYTHING),
        ({"receive": "all"}, EVERYTHING, EVERYTHING),
        ({"receive": "none"}, set(), set()),
        ({"receive": "no_echo"}, EVERYTHING, set()),
        ({"receive": "events_only"}, EVENTS, EVENTS),
    ],
)
def test_receive(event: str, receive: dict[str, str], of_others: set[str], of_its_own: set[str]) -> None:
    """Nothing, everything, everything but one's own, events only, whatever content comes with them."""
    network = Network()
    member, sender = registered(network, event, **receive), network.business(receive="none")
    assert passing(member, sender) == of_others
    assert passing(member, member) == of_its_own


@SPELLINGS
@INTERESTS
@each_row(
    ("types", "contents"),
    [
        ("all", EVERYTHING - EVENTS),
        ("none", set()),
        ([], set()),
        (["text/plain"], {"text"}),
        (["TEXT/*", "image/pn?"], {"text", "image"}),
        (["application/octet-stream"], {"typeless"}),
    ],
)
def test_subscribe_names_content_and_every_event_passes(event: str, key: str, types: Any, contents: set[str]) -> None:
    """An array of content types, all, or none; in the attribute of the seed, and in the one of deployed clients."""
    network = Network()
    member, sender = registered(network, event, **{key: types}), network.member(receive_mode="none")
    assert passing(member, sender) == contents | EVENTS


@each_row("about", [{}, {"name": "java-tv"}, {"user": "ann"}, {"name": 7, "user": ["ann"]}])
def test_name_and_user_are_information_only(about: dict[str, Any]) -> None:
    """They stand in the journal where they are text, and change nothing."""
    network = Network()
    member, sender = registered(network, "client/register", **about), network.member(receive_mode="none")
    assert passing(member, sender) == EVERYTHING
    (identified, _) = network.events(ev.SessionIdentified)
    known = {"name": identified.name, "user": identified.claimed}
    assert (identified.actor, identified.vocabulary) == (None, "business")
    assert known == {"name": None, "user": None} | {key: each for key, each in about.items() if isinstance(each, str)}


def test_a_taken_unique_routing_id_is_replaced_as_the_reply_says() -> None:
    """One id, one client; in whichever vocabulary the other one is."""
    network = Network()
    network.member(**{"routing-id": "tv", "routing-ids": ["shared"]})
    granted = [network.business(**{"unique-routing-id": wanted}).routing_id for wanted in ("tv", "shared", "hall")]
    assert len({"tv", "shared", "hall", *granted}) == 6


def test_events_reach_a_client_by_its_further_routing_ids() -> None:
    """They are not its alone; and another's own id cannot be one of them."""
    network = Network()
    one, two = network.business(**{"routing-ids": ["tv"]}), network.member(**{"routing-ids": ["tv"]})
    thief = network.business(**{"routing-ids": [one.routing_id, "hall"]})
    drain([one, two, thief])
    sender = network.business(receive="none")
    sender.send({"event": "x", "to": "tv"})
    sender.send({"event": "y", "to": one.routing_id})
    assert [member.names() for member in (one, two, thief)] == [["x", "y"], ["routing/subscribe/notify", "x"], []]


@SPELLINGS
@each_row("wrong", [{"receive": "some"}, {"subscribe": 7}, {"unique-routing-id": 7}, {"routing-ids": 7}])
def test_a_wrong_registration_is_refused_and_may_be_repeated(event: str, wrong: dict[str, Any]) -> None:
    """Until one is accepted, nothing is received."""
    network = Network()
    member = unjoined(network, "business")
    member.send({"event": event, **wrong})
    assert reasons(member) == ["bad-subscription"]
    network.member().send({"event": "x"})
    assert member.received() == []
    member.send({"event": event})
    assert member.names() == [f"{event}/reply"]


def test_registering_again_replaces() -> None:
    """In either spelling; nothing comes twice."""
    network = Network()
    member, sender = network.business(subscribe=["text/*"]), network.member(receive_mode="none")
    member.send({"event": "clients/register", "subscriptions": ["image/*"]})
    assert passing(member, sender) == EVENTS | {"image"}


def test_before_it_registered_a_client_is_not_served() -> None:
    """Registering on the other port's terms does not count."""
    network = Network()
    member, stranger = network.member(), unjoined(network, "business")
    for event in ("services/list", "services/register", "routing/subscribe", "x"):
        stranger.send({"event": event, "name": "tv"})
    member.send({"event": "y"})
    assert (stranger.received(), member.names()) == ([], ["y"])
    network.reactor.advance(30)
    assert (stranger.connection.is_open, member.connection.is_open) == (False, True)


# Services.


@each_row("id_", [None, "1", 7, ""])
def test_registering_listing_and_unregistering_services(id_: Any) -> None:
    """Each is answered, in reply to its id if there was one; the list is JSON, of whatever format the services are."""
    network = Network()
    client, member = network.business(receive="no_echo"), network.member(receive_mode="no_echo")
    network.udp.publish("gauge", b"1")
    member.send({"event": "services/register", "name": "tv"})
    client.received()
    given = {} if id_ is None else {"id": id_}

    def ask(event: str, **attributes: Any) -> tuple[str, Any]:
        client.send({"event": event, **given, **attributes})
        ((fields, payload),) = client.received()
        assert (fields["event"], fields.get("in-reply-to")) == (f"{event}/reply", id_)
        assert fields.get("type") == ("application/json" if payload else None)
        return fields.get("name"), json.loads(payload) if payload else None

    assert ask("services/register", name="office") == ("office", None)
    assert ask("services/register", name="bürö") == ("bürö", None)
    assert ask("services/list") == (None, ["bürö", "gauge", "office", "tv"])
    assert ask("services/unregister", name="bürö") == ("bürö", None)
    assert ask("services/list") == (None, ["gauge", "office", "tv"])
    assert ask("services/unregister") == (None, None)
    assert ask("services/list") == (None, ["gauge", "tv"])


def test_an_empty_list_of_services_is_a_list() -> None:
    """Its payload is an empty JSON array."""
    client = Network().business()
    client.send({"event": "services/list"})
    ((fields, payload),) = client.received()
    assert (fields["size"], payload) == (2, b"[]")


# One network.


@each_row(
    "fields",
    [
        {"type": "text/plain", "size": 1, "event": "x", "sender": "ann", "id": "1"},
        {"type": "text/plain", "size": 1, "sender": "a service of ann's", "id": "1"},
        {"event": "x"},
        {"event": "x", "sender": ""},
        {"event": "x", "id": 7},
        {"type": "text/plain", "size": 1},
        {},
    ],
)
@each_row("from_business", [True, False])
def test_an_object_sent_in_either_vocabulary_reaches_the_other(fields: dict[str, Any], from_business: bool) -> None:
    """With every attribute, whichever there are, as its sender wrote it."""
    network = Network()
    members = [network.member(), network.member(subscriptions="all"), network.business()]
    sender = network.business(receive="none") if from_business else network.member(receive_mode="none")
    drain(members)
    payload = b"x" if "size" in fields else b""
    sender.send(fields, payload)
    for member in members:
        ((got, got_payload),) = member.received()
        assert got.pop("route") == [sender.routing_id, "hall"]
        assert got.pop("id") == fields["id"] if "id" in fields else got.pop("id")
        assert (got, got_payload) == ({key: fields[key] for key in fields if key != "id"}, payload)


@each_row("event", ["ping", "services/discovery", "services/none", "routing/subscribe", "x", ""])
def test_events_that_are_none_of_this_vocabulary_are_routed(event: str) -> None:
    """As they are."""
    network = Network()
    sender, receivers = network.business(receive="no_echo"), [network.business(), network.member()]
    sender.send({"event": event, "id": "1", "name": "tv"})
    routed = {"event": event, "id": "1", "name": "tv", "route": [sender.routing_id, "hall"]}
    assert [receiver.heads() for receiver in receivers] == [[routed], [routed]]
    assert sender.received() == []


def test_the_older_vocabulary_hears_no_newer_events_on_members() -> None:
    """Their own has none; the coming and going of others is told to those whose vocabulary has words for it."""
    network = Network()
    business, member = network.business(), network.member()
    drain([business, member])
    for join in (network.business, network.member):
        join().connection.close()
    assert business.received() == []
    assert member.names() == ["routing/subscribe/notify", "routing/disconnect"] * 2
