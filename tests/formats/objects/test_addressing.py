"""Object System: routing ids, recipients and routes; one test for each thing that is said of them."""

from typing import Any

from tests.formats.network import Network, drain
from tests.formats.objects.support import keys, metadata_of, quiet_pair, unjoined
from tests.tables import each_row

# Routing ids.


def test_every_session_has_a_routing_id_of_its_own() -> None:
    """Nobody has to ask for one."""
    network = Network()
    members = [network.member(), network.business(), network.member(subscriptions="all"), network.business()]
    assert len({member.routing_id for member in members} | {"hall"}) == 5


def test_a_routing_id_that_is_free_is_honoured() -> None:
    """And is free again when its session ended."""
    network = Network()
    first = network.member(**{"routing-id": "tv-1"})
    first.connection.close()
    assert (first.routing_id, network.member(**{"routing-id": "tv-1"}).routing_id) == ("tv-1", "tv-1")


@each_row("wanted", ["tv-1", "shared", "hall", "an unjoined one's"])
def test_instead_of_a_taken_routing_id_a_fresh_one_is_assigned(wanted: str) -> None:
    """Neither another's own, nor one that others share, nor the server's; and objects go on to the one who had it."""
    network = Network()
    owner, thief = network.member(**{"routing-id": "tv-1", "routing-ids": ["shared"]}), unjoined(network)
    if wanted == "an unjoined one's":
        session_id = unjoined(network).connection.protocol.session_id
        wanted = network.registry.state.sessions[session_id].routing_id
    thief.send({"event": "routing/subscribe", "routing-id": wanted, "receive_mode": "no_echo"})
    assert thief.only_reply()["routing-id"] != wanted
    owner.received()
    owner.send({"event": "x", "to": wanted})
    assert thief.received() == []


def test_of_two_that_ask_for_a_routing_id_at_once_one_gets_it() -> None:
    """What is on its way to the journal is taken already."""
    network = Network()
    one, two = unjoined(network), unjoined(network)
    network.journal.hold()
    for each in (one, two):
        each.send({"event": "routing/subscribe", "routing-id": "tv-1", "receive_mode": "none"})
    network.journal.release()
    assert one.only_reply()["routing-id"] == "tv-1"
    assert two.only_reply()["routing-id"] != "tv-1"


def test_further_routing_ids_may_be_shared_by_many() -> None:
    """Whoever sends to one of them reaches them all."""
    network = Network()
    sharing = [network.member(**{"routing-ids": ["tv", f"tv-{number}"]}) for number in range(3)]
    sharing.append(network.business(**{"routing-ids": ["tv"]}))
    sender = network.member(receive_mode="none")
    drain(sharing)
    sender.send({"event": "x", "to": "tv"})
    assert [member.names() for member in sharing] == [["x"]] * 4


def test_a_further_routing_id_that_another_has_is_not_granted() -> None:
    """Nor the server's; the others that were asked for are, each once."""
    network = Network()
    owner, thief = network.member(), unjoined(network)
    wanted = [owner.routing_id, "tv", "hall", "tv"]
    thief.send({"event": "routing/subscribe", "routing-ids": wanted, "receive_mode": "no_echo"})
    assert thief.only_reply()["routing-ids"] == ["tv"]
    drain([owner])
    owner.send({"event": "secret", "to": owner.routing_id})
    assert (owner.names(), thief.received()) == (["secret"], [])


def test_a_session_may_make_a_further_routing_id_its_routing_id() -> None:
    """Nobody else holds it, and the new subscription replaces the old one."""
    member = Network().member(**{"routing-ids": ["tv"]})
    member.send({"event": "routing/subscribe", "routing-id": "tv"})
    assert member.only_reply()["routing-id"] == "tv"


# Addressing and routes.


@each_row(
    ("to", "takers"),
    [
        ("one", ["one"]),
        ("tv", ["one", "two"]),
        (["tv"], ["one", "two"]),
        (["one", "tv", "one", "also-one", "two"], ["one", "two"]),
        (["one", "nobody"], ["one"]),
        ("sender", ["sender"]),
        ("nobody", []),
        ("hall", []),
        ("", []),
        ([], []),
        (None, ["one", "two", "sender", "bystander"]),
    ],
)
def test_an_object_with_to_goes_once_to_each_holder_of_an_id(to: Any, takers: list[str]) -> None:
    """A string or an array; without one it goes to everybody."""
    network = Network()
    further = {"one": ["tv", "also-one"], "two": ["tv"], "sender": [], "bystander": []}
    members = {name: network.member(**{"routing-id": name, "routing-ids": ids}) for name, ids in further.items()}
    drain(list(members.values()))
    members["sender"].send({"event": "x", "to": to} if to is not None else {"event": "x"})
    assert {name: member.names() for name, member in members.items()} == {
        name: ["x"] if name in takers else [] for name in members
    }


@each_row(
    ("subscription", "gets"),
    [
        ({"receive_mode": "none"}, []),
        ({"receive_mode": "events_only"}, ["alarm"]),
        ({"types": ["image/*"]}, ["alarm"]),
        ({"subscriptions": ["text/*"]}, ["text/plain"]),
        ({"subscriptions": []}, []),
    ],
)
def test_being_addressed_does_not_go_beyond_the_subscription(subscription: dict[str, Any], gets: list[str]) -> None:
    """What one did not subscribe to one is not sent, even by name."""
    sender, receiver = quiet_pair(Network(), **{"routing-id": "me"}, **subscription)
    sender.send({"event": "alarm", "to": "me"})
    sender.send({"type": "text/plain", "to": ["me"]}, b"x")
    assert receiver.names() == gets


def test_without_echo_a_member_is_not_sent_its_own_objects() -> None:
    """Neither by its own id, nor by one that it shares."""
    network = Network()
    member, other = (
        network.member(receive_mode="no_echo", **{"routing-ids": ["tv"]}),
        network.member(**{"routing-ids": ["tv"]}),
    )
    drain([member, other])
    member.send({"event": "x", "to": [member.routing_id, "tv"]})
    assert (member.received(), other.names()) == ([], ["x"])


def test_the_route_is_the_sender_then_the_server() -> None:
    """By it the recipient can answer; the sender's id is the one that was granted."""
    network = Network()
    sender, receiver = network.member(**{"routing-id": "me", "receive_mode": "no_echo"}), network.member()
    drain([sender, receiver])
    sender.send({"event": "x"})
    assert receiver.only_reply()["route"] == ["me", "hall"]
    sender.send({"event": "routing/subscribe", "routing-id": "me-2", "receive_mode": "no_echo"})
    drain([sender, receiver])
    sender.send({"event": "x", "to": receiver.routing_id})
    got = receiver.connection.take()
    assert got.endswith(b'"route":["me-2","hall"]}\0')
    assert keys(metadata_of(got)) == ["event", "to", "id", "route"]
    receiver.send({"event": "y", "to": "me-2"})
    assert sender.names() == ["y"]


@each_row("id_", [None, "n-1", 7, True])
def test_neighbors_are_answered_in_reply_to_the_request(id_: Any) -> None:
    """Asked of this server by its id; asked of another member, the question is routed: only servers answer it."""
    network = Network()
    asking, other = network.member(receive_mode="no_echo"), network.member(receive_mode="no_echo")
    network.server("cellar")
    drain([asking, other])
    given = {} if id_ is None else {"id": id_}
    asking.send({"event": "routing/neighbors", "to": "hall", **given})
    reply = asking.only_reply()
    assert (reply["event"], reply["to"]) == ("routing/neighbors/reply", asking.routing_id)
    assert (reply["neighbors"], reply.get("in-reply-to")) == (["cellar"], id_)
    asking.send({"event": "routing/neighbors", "to": other.routing_id, **given})
    asked = other.only_reply()
    assert asked["id"] == id_ or id_ is None
    other.send({"event": "routing/neighbors/reply", "to": asked["route"][0], "in-reply-to": asked["id"]})
    assert (asking.received(), other.only_reply()["reason"]) == ([], "reserved-event")
