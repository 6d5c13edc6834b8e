"""The framing that Object System and Business Object share: one test for each thing that is said of it."""

import json
from typing import Any

from bussrv import events as ev
from bussrv.errors import REASONS
from tests.docs.pages import rows
from tests.formats.network import Network, drain
from tests.formats.objects.support import (
    JOIN,
    VOCABULARIES,
    in_bytes,
    join,
    keys,
    metadata_of,
    pairs,
    quiet_pair,
    reasons,
    relayed,
    unjoined,
)
from tests.tables import each_row

both = each_row("vocabulary", VOCABULARIES)


@each_row("size", [b"", b',"size":0', b',"size":-0'], ids=["absent", "zero", "minus zero"])
def test_without_a_size_or_with_zero_there_is_no_payload(size: bytes) -> None:
    """The next object begins right behind the NUL."""
    sender, receiver = quiet_pair(Network())
    sender.connection.send_bytes(b'{"event":"one"%b}\0{"event":"two"}\0' % size)
    assert [(fields["event"], payload) for fields, payload in receiver.received()] == [("one", b""), ("two", b"")]


def test_a_payload_is_exactly_as_long_as_size_says() -> None:
    """Neither a byte of it is missing, nor is one of the next object taken; however the bytes are cut into chunks."""
    sender, receiver = quiet_pair(Network())
    in_bytes(sender.connection, b'{"type":"text/plain","size":5,"x":"\xc3\xa9"}\0h\0l\xff\0{"event":"next"}\0')
    (first, payload), (second, _) = receiver.received()
    assert (first["x"], payload, second["event"]) == ("é", b"h\0l\xff\0", "next")


@both
@each_row(("settings", "limit"), [({}, 64 << 10), ({"max_metadata": 100}, 100)])
def test_metadata_has_a_limit(vocabulary: str, settings: dict[str, int], limit: int) -> None:
    """64 KiB unless it is set otherwise; as much as that is still fine."""
    network = Network(**settings)
    member = join(network, vocabulary)
    member.connection.send_bytes(b'{"event":"x"}'.ljust(limit) + b"\0")
    assert member.names() == ["x"]
    member.connection.send_bytes(b'{"event":"x"}'.ljust(limit + 1))
    assert (reasons(member), member.connection.is_open) == (["metadata-too-large"], False)


@both
@each_row(("settings", "limit"), [({}, 16 << 20), ({"max_payload": 10}, 10)])
def test_a_payload_has_a_limit(vocabulary: str, settings: dict[str, int], limit: int) -> None:
    """16 MiB unless it is set otherwise; what is larger is refused before it comes."""
    network = Network(**settings)
    modest, greedy = join(network, vocabulary), join(network, vocabulary)
    drain([modest, greedy])
    modest.connection.send_bytes(b'{"type":"a/b","size":%d}\0' % limit)
    assert (modest.received(), modest.connection.is_open) == ([], True)
    greedy.connection.send_bytes(b'{"type":"a/b","size":%d}\0' % (limit + 1))
    assert (reasons(greedy), greedy.connection.is_open) == (["payload-too-large"], False)


AS_WRITTEN = [
    b'"n":1.0',
    b'"n":1e3',
    b'"n":1E400',
    b'"n":-1E-400',
    b'"n":-0',
    b'"n":0.10',
    b'"n":%d' % 2**70,
    b'"n":3.14159265358979323846264338327950288',
    '"text":"naïve – 日本語 😀"'.encode(),
    b'"text":"na\\u00efve \\/ \\ud83d\\ude00 \\u0000\\n"',
    '"Ünknown":null,"":true,"b":1,"a":[{"z":{},"y":[]}]'.encode(),
    b'"inner":{"id":1.0,"route":["x"],"to":"y","size":7}',
    b'"sha1":"da39a3ee","sender":"ann","natures":["a"],"EVENT":7,"Route":[1]',
]


@each_row("attributes", AS_WRITTEN, ids=lambda each: each.decode())
def test_what_passes_through_keeps_every_attribute_as_written(attributes: bytes) -> None:
    """Not a byte of it changes, and what the server adds comes behind it."""
    with_id = metadata_of(relayed(b'{"event":"x","id":"1",%b}\0' % attributes))
    assert with_id == b'{"event":"x","id":"1",%b,"route":["boot-1","hall"]}' % attributes
    without = metadata_of(relayed(b'{%b,"event":"x"}\0' % attributes))
    assert without.startswith(b'{%b,"event":"x","id":"' % attributes)
    assert without.endswith(b'","route":["boot-1","hall"]}')


@each_row("attributes", AS_WRITTEN, ids=lambda each: each.decode())
@each_row("id_", [b"", b'"id":1e3,'], ids=["without an id", "with an id"])
def test_what_passes_through_keeps_attributes_beside_forged_ones(attributes: bytes, id_: bytes) -> None:
    """The same attributes in the same order with the same values, whatever had to be replaced among them."""
    sent = b'{"route":["king"], %b %b , "event":"x"}' % (id_, attributes)
    got = metadata_of(relayed(sent + b"\0"))
    passed_on = [(key, value) for key, value in pairs(got) if key != "route" and (key != "id" or id_)]
    assert passed_on == pairs(sent)[1:]
    for escape in (b"\\u00ef", b"\\/", b"\\ud83d"):
        assert (escape in got) == (escape in attributes)


@each_row(
    ("sent", "added"),
    [
        ('{"event":"x"}', ["id", "route"]),
        ('{"event":"x","id":null}', ["route"]),
        ('{"event":"x","id":"a"}', ["route"]),
        ('{"event":"x","id":""}', ["route"]),
        ('{"event":"x","id":0}', ["route"]),
        ('{"event":"x","id":false}', ["route"]),
        ('{"type":"a/b","size":0}', ["id", "route"]),
        ("{}", ["id", "route"]),
    ],
)
def test_the_server_adds_only_the_route_and_a_missing_id(sent: str, added: list[str]) -> None:
    """An id that is null is a missing one; every other is kept."""
    got = metadata_of(relayed(sent.encode() + b"\0"))
    before, after = json.loads(sent), json.loads(got)
    assert keys(got) == [*before, *added]
    assert after.pop("route") == ["boot-1", "hall"]
    given = after.pop("id")
    assert given == before.pop("id") if before.get("id") is not None else isinstance(given, str) and given
    assert {**after} == {key: value for key, value in before.items() if key != "id"}


def test_ids_that_the_server_adds_differ() -> None:
    """Every object without one gets its own."""
    sender, receiver = quiet_pair(Network())
    for _ in range(5):
        sender.send({"event": "x"})
    assert len({fields["id"] for fields in receiver.heads()}) == 5


@both
@each_row(
    "route",
    [
        b'"route":["king","hall"]',
        b'"route":[]',
        b'"route":"king"',
        b'"route":null',
        b'"route":{"a":1E400}',
        b'"r\\u006fute":["king"]',
        b'"route":["a"],"route":["b"]',
        b'"route":["a"],"rout\\u0065":["b"]',
    ],
    ids=bytes.decode,
)
def test_the_route_that_a_client_sends_is_replaced(vocabulary: str, route: bytes) -> None:
    """Nobody can pass for somebody else: whatever stands there, receivers find one route, the true one."""
    network = Network()
    sender, receiver = join(network, vocabulary), network.member()
    drain([sender, receiver])
    sender.connection.send_bytes(b'{"event":"x",%b}\0' % route)
    got = metadata_of(receiver.connection.take())
    assert keys(got).count("route") == 1
    assert json.loads(got)["route"] == [sender.routing_id, "hall"]


TWICE = {
    "to": (b'{"event":"x","to":"nobody","to":"two"}\0', "two"),
    "id": (b'{"event":"x","id":"a","id":"b"}\0', "b"),
    "size": (b'{"type":"a/b","size":0,"size":16}\0{"event":"bad"}\0', 16),
    "type": (b'{"type":"a/b","type":"c/d"}\0', "c/d"),
    "event": (b'{"event":"x","event":"y"}\0', "y"),
    "natures": (b'{"natures":["x"],"natures":["y"]}\0', ["y"]),
}


@each_row("key", TWICE)
def test_of_an_attribute_that_is_given_twice_the_last_counts(key: str) -> None:
    """For the server as for those who read what it passes on."""
    data, last = TWICE[key]
    sender, receiver = quiet_pair(Network(), **{"routing-id": "two"})
    sender.connection.send_bytes(data)
    ((fields, _),) = receiver.received()
    assert fields[key] == last


@each_row("key", TWICE)
def test_an_attribute_that_routing_reads_goes_on_once(key: str) -> None:
    """Otherwise one client could frame, or address, an object for some readers other than for the server."""
    assert keys(metadata_of(relayed(TWICE[key][0], **{"routing-id": "two"}))).count(key) == 1


MALFORMED = [
    (b'{"event":"\xff"}\0', "bad-utf8", "at byte 10"),
    (b'{"event":"\\ud800"}\0', "bad-utf8", "at byte 10"),
    (b'{"event":}\0', "bad-json", "at byte 9"),
    (b'{"event":"x"\0', "bad-json", "at byte 12"),
    (b'\xef\xbb\xbf{"event":"x"}\0', "bad-json", "at byte 0"),
    (b'{"event":NaN}\0', "bad-json", "at byte"),
    (b"\0", "bad-json", "at byte 0"),
    (b"[]\0", "not-an-object", "an array"),
    (b'"x"\0', "not-an-object", "a string"),
    (b"null\0", "not-an-object", "null"),
    (b'{"size":-1}\0', "bad-size", "size is -1"),
    (b'{"size":101}\0', "payload-too-large", "size is 101, the most is 100"),
    (b" " * 201, "metadata-too-large", "200 bytes"),
    (b'{"a":' + b"[" * 9 + b"]" * 9 + b"}\0", "nesting-too-deep", "at byte 12"),
]


@both
@each_row("joined", [True, False], ids=["member", "unjoined"])
@each_row(("data", "reason", "where"), MALFORMED, ids=[repr(data[:20]) for data, _, _ in MALFORMED])
def test_malformed_input_gets_one_error_and_ends_the_connection(
    vocabulary: str, joined: bool, data: bytes, reason: str, where: str
) -> None:
    """The error says what was wrong and where. What came before is served, what comes after is not looked at."""
    network = Network(max_metadata=200, max_payload=100, max_nesting=8)
    member = join(network, vocabulary) if joined else unjoined(network, vocabulary)
    other = network.member()
    drain([member, other])
    member.connection.send_bytes(b'{"event":"before"}\0' + data + b'{"event":"after"}\0')
    *before, error = member.heads()
    assert len(before) == joined
    assert (error.pop("event"), error.pop("reason")) == ("error", reason)
    assert where in error.pop("message")
    assert error == {}
    assert not member.connection.is_open
    assert other.names() == (["before", "routing/disconnect"] if joined else [])
    (closed,) = network.events(ev.SessionClosed)
    assert (closed.reason, network.bus.counters[reason]) == (reason, 1)


@both
@each_row(
    ("fields", "reason"),
    [
        ({"event": "JOIN", "routing-ids": 7}, "bad-subscription"),
        ({"event": "JOIN", "types": 7, "subscribe": 7}, "bad-subscription"),
        ({"event": "JOIN", "receive_mode": "some", "receive": "some"}, "bad-subscription"),
        ({"event": "services/register", "name": 7}, "bad-service-name"),
        ({"event": "services/register"}, "bad-service-name"),
        ({"event": "services/unregister", "name": "nobody's"}, "not-registered"),
        ({"event": "services/request", "name": "nobody's", "to": "nobody"}, "no-such-service"),
        ({"event": ["x"]}, "bad-attribute"),
        ({"event": "x", "type": 7}, "bad-attribute"),
        ({"event": "x", "to": [7]}, "bad-attribute"),
        ({"event": "x", "natures": {"a": 1}}, "bad-attribute"),
        ({"event": "x", "natures": ["n"] * 65}, "bad-attribute"),
    ],
)
def test_wrong_input_in_good_frames_ends_no_connection(vocabulary: str, fields: dict[str, Any], reason: str) -> None:
    """The error says in reply to what, with a stable code and a sentence; the payload is read past."""
    network = Network()
    member = join(network, vocabulary)
    event = JOIN[vocabulary] if fields["event"] == "JOIN" else fields["event"]
    member.send({"id": "1", **fields, "event": event}, b'{"event":"payload"}\0')
    error = member.only_reply()
    assert list(error) == ["event", "in-reply-to", "reason", "message"]
    assert (error["event"], error["in-reply-to"], error["reason"]) == ("error", "1", reason)
    assert (list(fields)[-1] if reason == "bad-attribute" else " ") in error["message"]
    member.send({"event": "fine"})
    assert member.names() == ["fine"]


def test_the_codes_are_one_documented_table() -> None:
    """Every code that is told of here stands in it; that the page has them all, the tests of the documentation say."""
    documented = {cell.strip("`") for row in rows("docs/errors.md") for cell in row}
    told = {reason for _, reason, _ in MALFORMED} | {"bad-attribute", "bad-subscription", "missing-type"}
    assert told <= set(REASONS) & documented


@both
def test_a_payload_without_a_type_is_routed_and_counted(vocabulary: str) -> None:
    """It is taken for application/octet-stream by those who name types; its metadata stays without one."""
    network = Network()
    sender = join(network, vocabulary)
    wanting, not_wanting = network.member(types=["application/octet-stream"]), network.member(types=["text/*"])
    office = network.business(subscribe=["application/*"])
    drain([wanting, not_wanting, office])
    sender.send({"is": "typeless"}, b"x")
    for receiver in (wanting, office):
        ((fields, payload),) = receiver.received()
        assert ("type" in fields, payload) == (False, b"x")
    assert not_wanting.received() == []
    assert network.bus.counters["missing-type"] == 1


@both
def test_a_strict_server_refuses_a_payload_without_a_type(vocabulary: str) -> None:
    """The connection lives on, and objects without a payload need no type."""
    network = Network(strict=True)
    sender, receiver = join(network, vocabulary), network.member()
    drain([sender, receiver])
    sender.send({"id": "1"}, b"x")
    sender.send({"event": "services/request", "name": "tv", "id": "2"}, b"x")
    assert (reasons(sender), receiver.received()) == (["missing-type"] * 2, [])
    sender.send({"event": "fine"})
    sender.send({"type": "a/b"}, b"x")
    assert receiver.names() == ["fine", "a/b"]
