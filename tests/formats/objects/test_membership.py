"""Object System: subscribing, and being told of members; one test for each thing that is said of it."""

from typing import Any

from bussrv import events as ev
from tests.formats.network import Member, Network, drain
from tests.formats.objects.support import quiet_pair, reasons, unjoined
from tests.tables import each_row

# Before the subscription.


@each_row(
    "sent",
    [
        {"event": "ping", "id": "1"},
        {"event": "services/request", "name": "tv", "id": "1"},
        {"event": "services/register", "name": "tv", "id": "1"},
        {"event": "services/discovery", "id": "1"},
        {"event": "routing/neighbors", "id": "1", "to": "hall"},
        {"event": "client/register", "id": "1"},
        {"event": "x", "to": "member"},
        {"event": 7, "id": "1"},
        {"type": "text/plain"},
        {},
    ],
    ids=lambda sent: str(sent.get("event", sent)),
)
def test_before_the_subscription_objects_are_only_counted(sent: dict[str, Any]) -> None:
    """Neither does the unjoined one hear anything, nor is anything heard of it."""
    network = Network()
    member, stranger = network.member(**{"routing-id": "member"}), unjoined(network)
    stranger.send(sent, b"x")
    assert (stranger.received(), member.received()) == ([], [])
    assert network.bus.counters["not-subscribed"] == 1
    assert network.registry.state.services == {}
    member.send({"event": "x"})
    assert stranger.received() == []


def test_whoever_has_not_subscribed_within_30_seconds_is_closed() -> None:
    """Other input does not count as a subscription, a refused subscription does not either; members may stay silent."""
    network = Network()
    silent, talking, wrong, member = unjoined(network), unjoined(network), unjoined(network), network.member()
    network.reactor.advance(29.9)
    talking.send({"event": "ping"})
    wrong.send({"event": "routing/subscribe", "types": 7})
    assert [each.connection.is_open for each in (silent, talking, wrong, member)] == [True, True, True, True]
    network.reactor.advance(0.2)
    assert [each.connection.is_open for each in (silent, talking, wrong, member)] == [False, False, False, True]
    network.reactor.advance(1000)
    assert member.connection.is_open
    assert [event.reason for event in network.events(ev.SessionClosed)] == ["subscribe-timeout"] * 3
    assert network.bus.counters["subscribe-timeout"] == 3


def test_a_client_is_a_member_once_its_subscription_is_answered() -> None:
    """While the subscription is being written down, what others send does not reach it; afterwards it does."""
    network = Network()
    sender, member = network.member(receive_mode="no_echo"), unjoined(network)
    network.journal.hold()
    member.connection.send_bytes(b'{"event":"routing/subscribe"}\0{"event":"mine"}\0')
    sender.send({"event": "early"})
    assert (member.received(), sender.received()) == ([], [])
    network.journal.release()
    assert member.names() == ["routing/subscribe/reply", "mine"]
    assert sender.names() == ["routing/subscribe/notify", "mine"]
    sender.send({"event": "late"})
    assert member.names() == ["late"]


def test_what_a_client_sends_before_its_subscription_is_lost() -> None:
    """Not even when both come in one chunk."""
    network = Network()
    member = network.member()
    unjoined(network).connection.send_bytes(b'{"event":"early"}\0{"event":"routing/subscribe"}\0{"event":"late"}\0')
    assert member.names() == ["routing/subscribe/notify", "late"]


def test_the_reply_is_the_first_thing_that_a_member_hears() -> None:
    """Of those who subscribe at the same time, too, it is told only after it."""
    network = Network()
    members = [unjoined(network) for _ in range(3)]
    network.journal.hold()
    for member in members:
        member.send({"event": "routing/subscribe"})
    network.journal.release()
    heard = [member.names() for member in members]
    assert [names[0] for names in heard] == ["routing/subscribe/reply"] * 3
    assert [names[1:] for names in heard] == [["routing/subscribe/notify"] * others for others in (2, 1, 0)]


# What a subscription lets pass. Objects by what they are called here, with what they are.

OBJECTS: dict[str, tuple[dict[str, Any], bytes]] = {
    "event": ({"event": "alarm"}, b""),
    "event with text": ({"event": "alarm", "type": "text/plain"}, b"x"),
    "text": ({"type": "text/plain"}, b"x"),
    "text with a charset": ({"type": "Text/HTML; charset=UTF-8"}, b"x"),
    "png": ({"type": "image/png"}, b"x"),
    "text without payload": ({"type": "text/plain"}, b""),
    "typeless": ({}, b"x"),
    "nothing": ({}, b""),
}
EVERYTHING = set(OBJECTS)
EVENTS = {"event", "event with text"}
TEXTS = {"text", "text with a charset", "text without payload"}
MODE_NAMES = each_row("name", ["receive_mode", "receive-mode", "receive"])


def passing(network: Network, receiver: Member, sender: Member) -> set[str]:
    drain([receiver])
    for called, (fields, payload) in OBJECTS.items():
        sender.send({**fields, "called": called}, payload)
    return {fields["called"] for fields in receiver.heads()}


@MODE_NAMES
@each_row(
    ("mode", "of_others", "of_its_own"),
    [
        ("none", set(), set()),
        ("all", EVERYTHING, EVERYTHING),
        ("no_echo", EVERYTHING, set()),
        ("events_only", EVENTS, EVENTS),
    ],
)
def test_the_receive_mode_in_each_of_its_spellings(
    name: str, mode: str, of_others: set[str], of_its_own: set[str]
) -> None:
    """Nothing, everything, everything but one's own, events only: with a payload or without."""
    network = Network()
    receiver, sender = network.member(**{name: mode}), network.member(receive_mode="none")
    assert passing(network, receiver, sender) == of_others
    assert passing(network, receiver, receiver) == of_its_own


def test_the_receive_mode_is_all_when_there_is_none() -> None:
    """Its own objects come back to the sender, too."""
    network = Network()
    receiver, sender = network.member(), network.member(receive_mode="none")
    assert (passing(network, receiver, sender), passing(network, receiver, receiver)) == (EVERYTHING, EVERYTHING)


def test_receive_mode_none_hears_only_its_subscription_reply() -> None:
    """Not even answers, and nothing of other members; it is served all the same."""
    network = Network()
    deaf = unjoined(network)
    deaf.send({"event": "routing/subscribe", "receive_mode": "none", "routing-ids": ["deaf"]})
    assert deaf.names() == ["routing/subscribe/reply"]
    other = network.member()
    other.send({"event": "x", "to": "deaf"})
    for event in ("ping", "services/register", "services/unregister", "services/discovery", "services/request"):
        deaf.send({"event": event, "name": "tv", "id": "1"})
        assert list(network.registry.state.services) == (["tv"] if event == "services/register" else [])
    other.connection.close()
    assert deaf.received() == []
    assert network.bus.counters["receive-none"] == 5
    deaf.send({"event": "routing/subscribe"})
    deaf.send({"event": "ping"})
    assert deaf.names() == ["routing/subscribe/reply", "pong"]


@each_row(
    ("types", "contents"),
    [
        ("all", EVERYTHING - EVENTS),
        (None, EVERYTHING - EVENTS),
        ("none", set()),
        ([], set()),
        (["text/plain"], {"text", "text without payload"}),
        (["text/*"], TEXTS),
        (["TEXT/HTML"], {"text with a charset"}),
        (["text/html; charset=ISO-8859-1"], {"text with a charset"}),
        (["image/pn?"], {"png"}),
        (["image/?"], set()),
        (["*/p*"], {"text", "png", "text without payload"}),
        (["text/html", "image/*"], {"text with a charset", "png"}),
        (["application/octet-stream"], {"typeless"}),
        (["*"], EVERYTHING - EVENTS),
    ],
)
def test_types_filter_content_and_every_event_passes(types: Any, contents: set[str]) -> None:
    """All, none or wildcard patterns, compared without case and without what comes behind a semicolon."""
    network = Network()
    receiver, sender = network.member(types=types), network.member(receive_mode="none")
    assert passing(network, receiver, sender) == contents | EVENTS


def test_mode_and_types_both_have_to_let_an_object_pass() -> None:
    """Events only means no content, whatever the types are; no_echo means nothing of its own, whatever they are."""
    network = Network()
    sender = network.member(receive_mode="none")
    assert passing(network, network.member(receive_mode="events_only", types=["text/*"]), sender) == EVENTS
    quiet = network.member(receive_mode="no_echo", types=["text/*"])
    assert passing(network, quiet, sender) == EVENTS | TEXTS
    assert passing(network, quiet, quiet) == set()


def test_subscribing_again_replaces_all_that_was_said_before() -> None:
    """Interest, further addresses and role; nothing is delivered twice."""
    network = Network()
    member, sender = network.member(types=["text/*"], **{"routing-ids": ["old"]}), network.member(receive_mode="none")
    member.send({"event": "routing/subscribe", "types": ["image/*"], "routing-ids": ["new"], "id": "2"})
    reply = member.heads()[-1]
    assert (reply["in-reply-to"], reply["routing-id"], reply["routing-ids"]) == ("2", member.routing_id, ["new"])
    (removed,) = network.events(ev.SubscriptionRemoved)
    assert removed.reason == "replaced"
    assert passing(network, member, sender) == EVENTS | {"png"}
    sender.send({"event": "x", "to": "old"})
    assert member.received() == []
    sender.send({"event": "x", "to": "new"})
    assert member.names() == ["x"]


# The reply, and what others are told.


@each_row("id_", [None, "1", 7, 1.5, 2**70, "", True, "é"])
@each_row("further", [None, [], ["tv"], ["tv", "radio"], "tv"])
def test_the_reply_names_the_request_and_the_addresses(id_: Any, further: Any) -> None:
    """In reply to the id, when there was one; the routing id; the list of further ones, even if it is empty."""
    member = unjoined(Network())
    given = {"id": id_, "routing-ids": further}
    member.send({"event": "routing/subscribe", **{key: value for key, value in given.items() if value is not None}})
    reply = member.only_reply()
    assert isinstance(reply.pop("routing-id"), str)
    assert reply.pop("in-reply-to", None) == id_
    granted = [further] if isinstance(further, str) else further or []
    assert reply == {"event": "routing/subscribe/reply", "routing-ids": granted}


@each_row("role", [None, "king"])
def test_every_other_member_is_told_of_a_subscription(role: str | None) -> None:
    """With its routing id and its further ones, and no role, as it is no server; it and unjoined ones are not told."""
    network = Network()
    told, deaf, stranger = network.member(types="none"), network.member(receive_mode="none"), unjoined(network)
    drain([told, deaf])
    member = unjoined(network)
    member.send({"event": "routing/subscribe", "routing-ids": ["tv"], **({"role": role} if role else {})})
    own = member.only_reply()["routing-id"]
    (notify,) = told.heads()
    assert notify.pop("id")
    assert notify.pop("route") == ["hall"]
    assert notify == {"event": "routing/subscribe/notify", "routing-id": own, "routing-ids": ["tv"]}
    assert (deaf.received(), stranger.received()) == ([], [])


@each_row("end", ["closed by the client", "malformed"])
def test_members_are_told_when_one_of_them_is_gone(end: str) -> None:
    """By its routing id, however it ended; of those who never subscribed nothing is said."""
    network = Network()
    told, member, stranger = network.member(), network.member(), unjoined(network)
    told.received()
    for leaving in (stranger, member):
        if end == "malformed":
            leaving.connection.send_bytes(b"[]\0")
        else:
            leaving.connection.close()
    (gone,) = told.heads()
    assert (gone["event"], gone["routing-id"]) == ("routing/disconnect", member.routing_id)
    assert sorted(gone) == ["event", "id", "route", "routing-id"]


@each_row(
    ("announce", "members_told", "servers_told"),
    [
        ({}, True, True),
        ({"announce": "members"}, True, True),
        ({"announce": "servers"}, False, True),
        ({"announce": "off"}, False, False),
    ],
)
def test_announcing_may_be_limited(announce: dict[str, str], members_told: bool, servers_told: bool) -> None:
    """Members are told of each other unless the operator says that only servers are, or nobody."""
    network = Network(**announce)
    member, server = network.member(), network.server()
    drain([member, server])
    network.member().connection.close()
    assert member.names() == (["routing/subscribe/notify", "routing/disconnect"] if members_told else [])
    assert len(server.names()) == (2 if servers_told else 0)


def test_a_refused_subscription_changes_nothing() -> None:
    """The one before it holds on."""
    sender, member = quiet_pair(Network(), types=["text/*"])
    member.send({"event": "routing/subscribe", "types": {"a": 1}})
    assert reasons(member) == ["bad-subscription"]
    sender.send({"type": "text/plain"}, b"x")
    sender.send({"type": "image/png"}, b"x")
    assert member.names() == ["text/plain"]
