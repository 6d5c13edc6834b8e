"""The dialect that deployed programs speak on the port of Object System: one test for each thing that is said of it."""

import re
from typing import Any

import pytest
from twisted.plugin import getPlugins

from bussrv.interfaces import IWireFormat
from tests.formats.network import Network, drain
from tests.formats.objects.support import in_bytes, provider, quiet_pair, reasons, relayed, unjoined
from tests.tables import each_row

DEPLOYED_SERVICE = ["@routing/*", "@services/*", "@ping", "@pong"]


@each_row(("name", "port"), [("objects", 7890), ("business", 7891)])
def test_the_default_port(name: str, port: int) -> None:
    """What deployed programs connect to when they are told nothing."""
    endpoints = {each.name: each.default_endpoint for each in getPlugins(IWireFormat)}
    assert re.match(rf"tcp:{port}(:|$)", endpoints[name])


# Rules. Objects by what they are called here, with what they are.

OBJECTS: dict[str, tuple[dict[str, Any], bytes]] = {
    "alarm": ({"event": "alarm/Fire"}, b""),
    "alarm with text": ({"event": "alarm/off", "type": "text/plain"}, b"x"),
    "text": ({"type": "Text/Plain; charset=UTF-8"}, b"x"),
    "news": ({"type": "text/html", "natures": ["News", "draft"]}, b"x"),
    "png": ({"type": "image/png", "natures": ["draft"]}, b"x"),
    "typeless": ({}, b"x"),
    "nothing": ({}, b""),
}
EVERYTHING = set(OBJECTS)
ALARMS = {"alarm", "alarm with text"}
UNTYPED = {"alarm", "typeless", "nothing"}
DRAFTS = {"news", "png"}
TEXTS = {"text", "alarm with text"}

RULES: dict[str, list[tuple[Any, set[str]]]] = {
    "a lone star matches every object, events too": [
        (["*"], EVERYTHING),
        (["!*"], set()),
        (["*", "!*"], set()),
        (["!*", "*"], EVERYTHING),
    ],
    "the bare string all is a lone star": [("all", EVERYTHING)],
    "an empty list lets nothing pass": [([], set()), ([[]], set())],
    "what no rule matches does not pass": [(["video/*"], set()), (["!video/*"], set()), (["@x", "#y"], set())],
    "the last rule that matches decides": [
        (["*", "!image/*"], EVERYTHING - {"png"}),
        (["!image/*", "*"], EVERYTHING),
        (["*", "!image/*", "image/png"], EVERYTHING),
        (["text/*", "!text/html", "#news"], TEXTS | {"news"}),
    ],
    "an exclamation mark negates": [
        (["*", "!@alarm/off"], EVERYTHING - {"alarm with text"}),
        (["*", "!#draft"], EVERYTHING - DRAFTS),
        (["*", "!text/plain"], EVERYTHING - TEXTS),
    ],
    "a number sign matches one of the natures": [
        (["#news"], {"news"}),
        (["#draft"], DRAFTS),
        (["#dra*"], DRAFTS),
        (["#*"], DRAFTS),
        (["#new"], set()),
    ],
    "an at sign matches the event": [
        (["@alarm/off"], {"alarm with text"}),
        (["@alarm/*"], ALARMS),
        (["@*"], ALARMS),
        (["@alarm"], set()),
        (["alarm/off"], set()),
    ],
    "anything else matches the content type before any semicolon": [
        (["text/plain"], TEXTS),
        (["text/*"], TEXTS | {"news"}),
        (["text/p*"], TEXTS),
        (["text"], set()),
    ],
    "a star elsewhere than at the end is no wildcard": [(["*/plain"], set()), (["@*/off"], set()), (["t*t/*"], set())],
    "one string holds rules separated by commas": [
        ("!*, @alarm/*", ALARMS),
        ("*,!image/*", EVERYTHING - {"png"}),
        (" #news ,, text/plain,", TEXTS | {"news"}),
        ("image/png", {"png"}),
        ("", set()),
    ],
    "letter case does not matter": [
        (["IMAGE/PNG"], {"png"}),
        (["@ALARM/FIRE"], {"alarm"}),
        (["#NEWS"], {"news"}),
        (["TEXT/PL*"], TEXTS),
    ],
    "in a nested array a match decides at once": [
        (["*", ["!image/*"], "image/*"], EVERYTHING - {"png"}),
        ([["image/png", "!image/*"], "!*"], {"png"}),
        (["!*", [["text/html"]], "!text/html"], {"news"}),
        ([["video/*"], "image/*"], {"png"}),
        ([[["!#news", ["text/*"]]], "*"], EVERYTHING - {"news"}),
        ([["*"]], EVERYTHING),
    ],
    "an object without a type has the empty type": [
        (["*", "!image/*"], EVERYTHING - {"png"}),
        (["image/*"], {"png"}),
        (["application/octet-stream"], set()),
        ([""], UNTYPED),
    ],
}


@each_row(
    ("rules", "passing"),
    [pytest.param(*case, id=f"{said}: {case[0]}") for said, cases in RULES.items() for case in cases],
)
def test_rules(rules: Any, passing: set[str]) -> None:
    """What a rule list lets pass of others; and of its own objects, and of those that are addressed to it, the same."""
    network = Network()
    member, sender = network.member(subscriptions=rules, **{"routing-id": "me"}), network.member(receive_mode="none")
    for who, to in ((sender, {}), (member, {}), (sender, {"to": "me"}), (member, {"to": ["me"]})):
        drain([member])
        for called, (fields, payload) in OBJECTS.items():
            who.send({**fields, **to, "called": called}, payload)
        assert {fields["called"] for fields in member.heads()} == passing


@each_row("rules", [7, "a," * 257, {"a": 1}, [7], [None], [["a", [7]]], None])
def test_rules_that_are_none_are_refused(rules: Any) -> None:
    """The connection lives on, and nothing was subscribed to."""
    network = Network()
    member = unjoined(network)
    member.send({"event": "routing/subscribe", "id": "1", "subscriptions": rules})
    assert reasons(member) == ["bad-subscription"]
    member.send({"event": "ping"})
    assert member.received() == []
    member.send({"event": "routing/subscribe", "subscriptions": []})
    assert member.names() == ["routing/subscribe/reply"]


@each_row("rules", [[], ["!*"], ["text/*"]])
def test_answers_of_the_server_arrive_whatever_the_rules_say(rules: list[str]) -> None:
    """To the subscription, to pings, services, discovery; and errors."""
    member = unjoined(Network())
    member.send({"event": "routing/subscribe", "id": "1", "subscriptions": rules})
    for event in ("ping", "services/register", "services/discovery", "services/unregister"):
        member.send({"event": event, "name": "tv"})
    member.send({"event": "services/request", "name": "nobody's"})
    assert member.names() == [
        "routing/subscribe/reply",
        "pong",
        "services/register/reply",
        "services/discovery/reply",
        "services/unregister/reply",
        "error",
    ]


@each_row("rules", ["all", [], ["*", ["!text/*", "#ä"]], "!*, @services/*", None])
def test_the_answer_to_a_rule_list_repeats_the_rules(rules: Any) -> None:
    """With the id that it replies to, the routing id that was granted, and the further ones. The rules are as sent."""
    member = unjoined(Network())
    subscriptions = {} if rules is None else {"subscriptions": rules}
    member.send({"event": "routing/subscribe", "id": 7, **subscriptions, "routing-id": "a", "routing-ids": "b"})
    about = {"routing-id": "a", "routing-ids": ["b"], **subscriptions}
    assert member.heads() == [{"event": "routing/subscribe/reply", "in-reply-to": 7, **about}]


# The vocabulary.


@each_row("newly", ["objects", "rules", "business"])
def test_members_hear_of_each_other_in_their_own_vocabulary(newly: str) -> None:
    """``notify`` in the seed's, ``notification`` in this dialect, nothing in Business Object; whoever it is about."""
    network = Network()
    seed, deployed, business = network.member(), network.member(subscriptions="all"), network.business()
    everybody = [seed, deployed, business]
    drain(everybody)
    if newly == "business":
        member = network.business(**{"routing-ids": ["tv"]})
    else:
        member = network.member(**{"routing-ids": ["tv"]}, **({"subscriptions": "all"} if newly == "rules" else {}))
    about = {"routing-id": member.routing_id, "routing-ids": ["tv"]}
    told = [each.heads() for each in everybody]
    assert [[fields["event"] for fields in heads] for heads in told] == [
        ["routing/subscribe/notify"],
        ["routing/subscribe/notification"],
        [],
    ]
    assert all(about.items() <= fields.items() for heads in told for fields in heads)
    member.connection.close()
    assert [each.names() for each in everybody] == [["routing/disconnect"], ["routing/disconnect"], []]


def test_a_member_of_this_dialect_is_never_told_of_itself() -> None:
    """Neither when it subscribes, nor when it does so again."""
    member = unjoined(Network())
    for _ in range(2):
        member.send({"event": "routing/subscribe", "subscriptions": ["*"]})
    assert member.names() == ["routing/subscribe/reply"] * 2


@each_row(("rules", "told"), [(["@routing/*"], 2), (["@routing/disconnect"], 1), (["text/*"], 0), ([], 0)])
def test_what_is_told_of_others_is_subject_to_the_rules(rules: list[str], told: int) -> None:
    """It is an event that is routed, not an answer."""
    network = Network()
    member = network.member(subscriptions=rules)
    network.member().connection.close()
    assert len(member.received()) == told


def test_whoever_changes_the_vocabulary_is_told_in_the_new_one() -> None:
    """The newest subscription says which words are understood."""
    network = Network()
    member = network.member(subscriptions="all")
    member.send({"event": "routing/subscribe", "receive_mode": "all"})
    member.received()
    network.member()
    assert member.names() == ["routing/subscribe/notify"]


@each_row("spelling", ["receive-mode", "receive_mode"])
def test_the_receive_mode_with_a_hyphen_means_the_same(spelling: str) -> None:
    """Events only, here."""
    sender, receiver = quiet_pair(Network(), **{spelling: "events_only"})
    sender.send({"type": "text/plain"}, b"x")
    sender.send({"event": "x"})
    assert receiver.names() == ["x"]


# Services and clients in the field.


@each_row("key", ["name", "service"])
@each_row("type_", [{}, {"type": "text/plain"}], ids=["typeless", "typed"])
@each_row("id_", [{}, {"id": "r-1"}], ids=["no id", "id"])
def test_a_service_that_never_registers_serves(key: str, type_: dict[str, str], id_: dict[str, str]) -> None:
    """It hears the request, and its reply finds the client by the first of the route, with a type or without."""
    network = Network()
    service = network.member(subscriptions=DEPLOYED_SERVICE)
    client = network.member(subscriptions=[["@services/reply", ["text/*"]], "!@routing/*"])
    drain([service, client])
    client.send({"event": "services/request", key: "tv", **id_})
    request = service.only_reply()
    assert (request[key], request["route"]) == ("tv", [client.routing_id, "hall"])
    reply = {"event": "services/reply", "in-reply-to": request["id"], "to": request["route"][0]}
    service.send({**reply, **type_}, b"on\0")
    # The service listens to services/*, but the reply is addressed to the client alone.
    assert service.received() == []
    ((fields, payload),) = client.received()
    assert (fields["in-reply-to"], "type" in fields, payload) == (id_.get("id", request["id"]), bool(type_), b"on\0")


def test_a_registered_service_goes_before_those_that_only_listen() -> None:
    """They observe the request; it is not lost on a listener when a provider is there."""
    network = Network()
    registered, listening = provider(network, "tv"), network.member(subscriptions=DEPLOYED_SERVICE)
    client = network.member(subscriptions=["@services/reply"])
    drain([registered, listening])
    client.send({"event": "services/request", "name": "tv"})
    assert (registered.names(), listening.names()) == (["services/request"], ["services/request"])
    assert client.received() == []


@each_row("held", [False, True], ids=["at once", "while the journal is slow"])
@each_row("cut", [False, True], ids=["one chunk", "byte by byte"])
def test_a_client_need_not_wait_for_its_subscription_reply(held: bool, cut: bool) -> None:
    """What comes right behind it, in the same chunk even, is served after it, in order."""
    network = Network()
    service = network.member(subscriptions=DEPLOYED_SERVICE)
    client = unjoined(network)
    chunk = (
        b'{"event":"routing/subscribe","subscriptions":["@services/reply"],"receive-mode":"all"}\0'
        b'{"event":"ping","id":"p"}\0'
        b'{"event":"services/request","name":"tv","id":"r","type":"a/b","size":3}\0\0\0\0'
        b'{"event":"services/register","name":"mine"}\0'
        b'{"event":"ping","id":"q"}\0'
    )
    if held:
        network.journal.hold()
    if cut:
        in_bytes(client.connection, chunk)
    else:
        client.connection.send_bytes(chunk)
    if held:
        assert (client.received(), service.received()) == ([], [])
        network.journal.release()
    answers = [(fields["event"], fields.get("in-reply-to")) for fields in client.heads()]
    expected = [("routing/subscribe/reply", None), ("pong", "p"), ("services/register/reply", None), ("pong", "q")]
    assert answers == expected
    assert [payload for fields, payload in service.received() if fields["event"] == "services/request"] == [b"\0\0\0"]


@each_row("fields", [b'"event":"x"', b'"type":"text/plain"', b'"natures":["a"]'])
def test_objects_without_an_id_are_fine(fields: bytes) -> None:
    """Each is routed, under a new id."""
    assert b'"id":"' in relayed(b"{%b}\0" % fields, subscriptions=["*"])


@each_row("sha1", [b"", b',"sha1":"not even one"'], ids=["absent", "present"])
def test_a_checksum_is_neither_added_nor_touched(sha1: bytes) -> None:
    """What others say of their payload is theirs."""
    got = relayed(b'{"type":"a/b","size":1%b}\0x' % sha1, subscriptions=["*"])
    assert (b"sha1" in got) == bool(sha1)
    assert sha1 in got


@each_row("event", ["abboe/close/notify", "Abboe/CLOSE/notify"])
def test_a_closing_notice_comes_from_servers_only(event: str) -> None:
    """Clients that know the word leave when they hear it."""
    sender, receiver = quiet_pair(Network(), subscriptions="all")
    sender.send({"event": event, "reason": "bye"})
    assert (receiver.received(), reasons(sender)) == ([], ["reserved-event"])


def test_what_servers_say_to_each_other_never_reaches_members() -> None:
    """A list of neighbors that a client makes up is refused."""
    sender, receiver = quiet_pair(Network(), subscriptions=["*"])
    sender.send({"event": "routing/announcement/neighbors", "neighbors": ["a", {"routing-id": "b"}]})
    assert (reasons(sender), receiver.received()) == (["reserved-event"], [])
