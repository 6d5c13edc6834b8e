"""Whatever others send, nothing is raised, and the server is told nothing that would end the link."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv.bus.interest.vocabulary import GAP, INTEREST
from bussrv.bus.links.advertisement_fields import ADVERTISEMENTS
from bussrv.bus.links.gaps import read_gap
from bussrv.bus.links.interest_fields import read_change
from bussrv.bus.links.paths import Paths
from bussrv.settings import Settings
from bussrv.uplink.crossing.checks import BETWEEN_NEIGHBOURS
from bussrv.uplink.crossing.directory import fold
from bussrv.uplink.crossing.frames import pack, pack_parts
from bussrv.uplink.crossing.node import Node
from bussrv.uplink.crossing.server_link import Limits
from bussrv.uplink.nats.subjects import Subjects
from bussrv.wire.objects import MAX_METADATA, BusObject, ObjectReader, encode
from tests.size import sized

SUBJECTS = Subjects("office")
NODE = "uplink/office"
KEPT = "kept"
LIMITS = Settings()

names = st.sampled_from(["a", "b", "hall", NODE, "", "x" * 255, "x" * 256, "ü\n", "bus/x", KEPT, "#", "#/a", "a/+"])
numbers = st.sampled_from([-1, 0, 1, 2, 3, (1 << 32) - 1, 1 << 53, (1 << 63) - 1, (1 << 64) - 1, 1 << 70])
leaves: Any = st.none() | st.booleans() | numbers | st.floats(allow_nan=False, allow_infinity=False) | names
values: Any = st.recursive(
    leaves, lambda each: st.lists(each, max_size=4) | st.dictionaries(names, each, max_size=3), max_leaves=6
)
events = st.sampled_from([*sorted(BETWEEN_NEIGHBOURS), "ping", "pong", "error", "services/request", "Services/Reply"])
KEYS = ["routing-id", "routing-ids", "role", "name", "names", "session", "left", "protocol", "answers", "directory"]
KEYS += [
    "route",
    "anew",
    "events",
    "types",
    "added",
    "removed",
    "from",
    "lost",
    "to",
    "id",
    "in-reply-to",
    "sender",
    "type",
]
many = st.builds(
    lambda name, count: [f"{number}{name}"[:255] for number in range(count)], names, st.sampled_from([2, 300])
)
told: Any = st.builds(
    lambda event, fields: fields | {"event": event},
    events,
    st.dictionaries(st.sampled_from(KEYS), values | many, max_size=6),
)
objects = told.map(lambda fields: json.dumps(fields).encode() + b"\0") | st.binary(max_size=30)
boots = st.sampled_from([b"12345678", bytes(8)])
entries = st.builds(
    lambda n, reset, whole, events, boot: json.dumps(
        {"boot": boot.hex(), "n": n, "reset": reset, "whole": whole, "events": events}
    ).encode(),
    numbers,
    st.booleans(),
    st.booleans(),
    st.lists(told, max_size=4),
    boots,
)
beats = st.builds(
    lambda n, left, boot: json.dumps({"boot": boot.hex(), "n": n, "left": left}).encode(), numbers, st.booleans(), boots
)
frames = st.builds(
    lambda origin, boot, number, objs: pack(origin, boot, number, objs),
    names.filter(lambda each: len(each) < 256),
    boots,
    numbers.filter(lambda each: 0 <= each < 1 << 64),
    st.lists(objects, max_size=3),
)
parts = st.builds(
    lambda obj, place: [*pack_parts("a", bytes(8), 1, obj + b" ", 60)][place % 2 - 1], objects, st.integers(0, 3)
)
kinds = st.sampled_from(["reg", "reg", "beat", "ask", "obj", "to", "pub", "seal", "x"])
ends = st.sampled_from(["a", "b", "hall", "%", "%FF", "%2", "tv", KEPT, "a.b", "uplink%2Foffice", "\ufffd"])
subjects = st.builds(lambda kind, end: f"bus.office.{kind}.{end}", kinds, ends)
messages = st.tuples(subjects, entries | entries | beats | frames | frames | parts | st.binary(max_size=60))


def node_of(server: str = "hall") -> Node:
    node = Node(
        server, NODE, b"own-boot", SUBJECTS, max_payload=1000, understood=frozenset(("interest", "gap", "names"))
    )
    node.keep([KEPT])
    return node


def check_told(node: Node) -> None:
    """The server takes all that it is told."""
    reader = ObjectReader(MAX_METADATA, 1000)
    reader.expect_server()
    for data in node.to_server:
        reader.feed(data)
    while (obj := reader.next_event()) is not None:
        assert isinstance(obj, BusObject)
        event, route = obj.head.event, obj.fields().get("route")
        if event in BETWEEN_NEIGHBOURS:
            assert isinstance(route, list)
            assert route[-1] == NODE
        if event in ADVERTISEMENTS:
            fold(Paths(), NODE, obj.fields())
        elif event == INTEREST:
            read_change(obj.fields(), LIMITS)
        elif event == GAP:
            read_gap(obj.fields())
    assert reader.is_empty
    node.to_server.clear()


@settings(max_examples=sized(150), deadline=None)
@given(st.lists(messages, min_size=1, max_size=12))
def test_nothing_that_comes_is_raised_or_ends_the_link(came):
    node = node_of()
    for number, (subject, data) in enumerate(came):
        node.came(subject, data, float(number))
        if subject == SUBJECTS.publication(KEPT):
            continue
        while node.tell():
            pass
        check_told(node)
    node.lapsed(100.0)
    node.tell()
    check_told(node)
    assert not node.peers
    assert not node.unknown


def entry(n: int, events: list[dict[str, Any]], **fields: Any) -> bytes:
    return json.dumps({"boot": "b", "n": n, "events": events, **fields}).encode()


def registered(service: str, server: str) -> dict[str, Any]:
    return {"event": "services/register", "name": service, "route": [f"{server}1", server]}


def test_what_is_too_long_for_the_server_is_not_told():
    node = node_of()
    ids = [f"{number:03}".ljust(255, "x") for number in range(256)]
    named = {"event": "routing/subscribe/notify", "routing-id": "c", "routing-ids": ids, "route": ["b" * 255]}
    names = {"event": INTEREST, "anew": True, "events": False, "types": [f"t/{n:0200}" for n in range(500)]}
    more = {"event": INTEREST, "added": ['"\\' * 120 + f"{n:03}" for n in range(1000)]}
    node.came(SUBJECTS.of("reg", "b"), entry(1, [named, names, more], reset=True), 0.0)
    for number in range(400):
        node.came(SUBJECTS.of("reg", f"{number:03}".ljust(255, "x")), entry(1, [], reset=True), 0.0)
    node.received([_object({"event": "routing/neighbors", "to": NODE, "route": ["hall.1", "hall"]})])
    while node.tell():
        pass
    check_told(node)
    assert node.counters["over-limit"]


def test_a_sender_that_is_lent_has_names_that_the_server_takes():
    node = node_of()
    for number, route in enumerate((["x" * 30_000, "b"], ["c", *map(str, range(9_000))], ["c", ""], ["c", "b"]), 1):
        obj = encode({"sender": "tv", "type": "x", "route": route})
        node.came(SUBJECTS.publication("tv"), pack("b", b"12345678", number, [obj]), 0.0)
    check_told(node)
    assert "c" in node.directory.others


@pytest.mark.parametrize(("limit", "most"), [("directory.MOST_OF_SERVER", 60), ("directory.MOST_OF_NET", 100)])
def test_of_one_server_and_of_all_no_more_is_known_than_said(limit, most, monkeypatch):
    monkeypatch.setattr(f"bussrv.uplink.crossing.{limit}", most)
    node = node_of()
    for server in "ab":
        for n in range(1, 20):
            some = [
                {"event": "services/register", "name": f"s{n}.{number}", "route": [f"{server}1", server]}
                for number in range(50)
            ]
            node.came(SUBJECTS.of("reg", server), entry(n, some, reset=n == 1, whole=n > 10), 0.0)
        assert node.directory.others.size(server) <= most + 1
    known = [node.directory.others, *(each.snapshot.sessions for each in node.peers.values() if each.snapshot)]
    assert sum(each.size_of_all for each in known) <= 2 * most + 2
    assert node.counters["over-limit"]


def test_of_servers_no_more_are_known_than_said(monkeypatch):
    monkeypatch.setattr("bussrv.uplink.crossing.node.MOST_SERVERS", 20)
    node = node_of()
    for number in range(100):
        node.came(SUBJECTS.of("beat", f"s{number}"), json.dumps({"boot": "b", "n": 1}).encode(), 0.0)
        node.came(SUBJECTS.of("reg", f"t{number}"), entry(1, [], reset=True), 0.0)
    assert len(node.unknown) == len(node.peers) == 20
    assert node.counters["over-limit"] == 160


def test_of_names_that_are_wanted_no_more_are_known_than_said(monkeypatch):
    monkeypatch.setattr("bussrv.uplink.crossing.interest.MOST_NAMES", 50)
    monkeypatch.setattr("bussrv.uplink.crossing.interest.MOST_NAMES_OF_NET", 60)
    node = node_of()

    def names(server):
        return node._wanted._of[server].services

    for server in "abc":
        wants = [
            {
                "event": INTEREST,
                "anew": True,
                "events": False,
                "types": "none",
                "added": [f"{server}{n}" for n in range(40)],
            }
        ]
        node.came(SUBJECTS.of("reg", server), entry(1, wants, reset=True), 0.0)
    assert len(names("a")) == 40
    assert not names("b")
    node.came(SUBJECTS.of("reg", "a"), entry(2, [{"event": INTEREST, "added": [f"a{n}" for n in range(40, 60)]}]), 0.0)
    assert not names("a")
    assert node.counters["over-limit"] == 3


def _object(fields: dict[str, Any]) -> BusObject:
    reader = ObjectReader()
    reader.feed(encode(fields))
    obj = reader.next_event()
    assert isinstance(obj, BusObject)
    return obj


def test_what_is_too_large_for_this_server_is_left_out():
    """Its limits may be lower than those of others; what is kept would come again and again."""
    node = Node("hall", NODE, b"own-boot", SUBJECTS, max_payload=5000, limits=Limits(metadata=300, payload=1000))
    sizes = [(10, 10), (10, 2000), (9000, 10), (10, 1000)]
    objs = [encode({"sender": "tv", "x": "y" * long, "route": ["c", "b"]}, bytes(size)) for long, size in sizes]
    node.came(SUBJECTS.publication("tv"), pack("b", b"12345678", 1, objs), 0.0)
    reader = ObjectReader(MAX_METADATA, 1000)
    reader.feed(b"".join(node.to_server))
    came = [*iter(reader.next_event, None)]
    assert [len(each.payload) for each in came if each.head.event is None] == [10, 1000]
    assert node.counters["bad-object"] == 2
