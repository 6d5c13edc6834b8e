"""What clients say, in a history: objects, requests to the server, packets, and now and then something malformed."""

from typing import Any

from hypothesis import strategies as st

from tests.bus.strategies import SERVICES, SHARED, anything, naming, objects, payloads, subscriptions
from tests.equality.words import packet
from tests.formats.network import SERVER

Item = tuple[str, Any]

services = st.sampled_from(SERVICES)
ids = st.sampled_from([{"id": "a"}, {"id": 1}, {"id": 1.0}, {"id": None}, {}])


def asks(event: str, **given: Any) -> st.SearchStrategy[dict[str, Any]]:
    """A request to the server itself."""
    about = st.fixed_dictionaries({"event": st.just(event), **given})
    return st.builds(lambda fields, identity: {**fields, **identity}, about, ids)


# Many members want the same: they are served together, and one who joins or leaves makes a difference.
popular = st.sampled_from(
    [
        {"receive": "all"},
        {"receive": "no_echo"},
        {"receive": "all", "types": ["application/*"]},
        {"subscriptions": "all"},
        {"subscriptions": ["*", "!#spam"]},
    ]
)
FAR_SERVICES = ["radio", "news"]
PATTERNS = ["unknown", "+", "#", "tv/#", "bus/+"]
"""What only sessions of other servers provide."""

joins = st.tuples(
    st.just("join"),
    st.fixed_dictionaries(
        {
            "subscription": naming(st.one_of(popular, subscriptions), [*SERVICES, *FAR_SERVICES, *PATTERNS]),
            "shared": st.lists(st.sampled_from([*SHARED, "mine"]), max_size=2),
            "wanted": st.sampled_from([None, None, None, "mine", SHARED[0]]),
            "spelling": st.integers(0, 2),
        }
    ),
)
contents: st.SearchStrategy[Item] = st.tuples(st.just("object"), st.tuples(objects, payloads))
untyped = st.tuples(st.just("object"), st.tuples(st.sampled_from([{"id": "a"}, {"x": 1.0}]), payloads))
publications = st.tuples(
    st.just("object"),
    st.tuples(st.fixed_dictionaries({"type": anything["type"], "sender": services}), payloads.filter(bool)),
)
questions = st.tuples(
    st.just("object"),
    st.tuples(
        st.one_of(
            asks("services/register", name=services),
            asks("services/register", name=services),
            asks("services/unregister", name=services),
            asks("services/unregister"),
            asks("services/discovery", name=st.sampled_from([*SERVICES, "unknown"])),
            asks("services/discovery"),
            asks("services/list"),
            asks("ping"),
        ),
        st.just(b""),
    ),
)
wrong: list[st.SearchStrategy[dict[str, Any]]] = [
    st.fixed_dictionaries({"type": st.just(7), "id": st.just("a")}),
    st.fixed_dictionaries({"event": st.just(["x"])}),
]
mistakes = st.tuples(
    st.just("object"),
    st.tuples(
        st.one_of(
            asks("services/register", name=st.sampled_from(["", 7, "bus/x"])),
            asks("services/unregister", name=st.sampled_from(["unknown", None])),
            asks("routing/disconnect"),
            asks("Abboe/Close/Notify"),
            asks("services/register/REPLY", name=services),
            asks("routing/subscribe", types=st.just(7)),
            asks("routing/subscribe", services=st.sampled_from(["tv", ["tv", 7], {}, ["tv", ""], ["#/tv"]])),
            asks("client/register", receive=st.just("some")),
            *wrong,
        ),
        st.just(b""),
    ),
)
malformed = st.tuples(
    st.just("bytes"), st.sampled_from([b"[]\0", b'{"a":}\0', b'{"event":"\xff"}\0', b'{"size":-1}\0', b"\0"])
)
mixed: st.SearchStrategy[list[Item]] = st.lists(
    st.one_of(
        *[contents] * 6,
        *[publications] * 4,
        *[questions] * 4,
        untyped,
        joins,
        st.one_of(mistakes, mistakes, joins, malformed),
    ),
    min_size=1,
    max_size=5,
)
rejoining = st.tuples(contents, joins, contents).map(list)
from_members = st.one_of(mixed, mixed, mixed, rejoining)

subscribable = st.one_of(services, services, st.sampled_from(FAR_SERVICES))
subscribing = st.builds(lambda service: ("bytes", packet(1, service)), subscribable)
unsubscribing = st.builds(lambda service: ("bytes", packet(2, service)), subscribable)
strange_packets = st.tuples(
    st.just("bytes"),
    st.sampled_from(
        [
            packet(1, "unknown"),
            packet(0, "x"),
            packet(7, "tv"),
            packet(16, "tv"),
            packet(40, "tv"),
            b"\0\0\0\1\0\0\0\2\0\0",
            b"\0\0\0\1\0\0\0\4\0\0\0\1",
            b"\0\0\0\1\0\0\0\5\0\0\0\1\xff",
            b"\0\0\0\x07\xff\0\0\0",
        ]
    ),
)
from_spp_clients: st.SearchStrategy[list[Item]] = st.lists(
    st.one_of(*[subscribing] * 6, *[unsubscribing] * 3, strange_packets), min_size=1, max_size=4
)

# Who sent it and over which servers it came; who passes it on is "me", and another server "you".
ROUTES: list[Any] = [
    *(
        ["ann", "me"],
        ["far-me", "me"],
        ["far-me", "me"],
        ["ann", "barn"],
        ["far-you", "you", "me"],
        ["ann", "you", "me"],
    ),
    *(["bob", "me"], ["far-me"], [], ["ann", SERVER, "me"], ["ann", *(f"s{number}" for number in range(15)), "me"]),
    *(["ann", *(f"s{number}" for number in range(14)), "me"], 7, [7], None, ["äiti", "me"]),
]
far_contents = st.one_of(
    objects,
    st.fixed_dictionaries({"type": anything["type"]}),
    st.fixed_dictionaries({"type": anything["type"], "sender": st.sampled_from([*FAR_SERVICES, *SERVICES])}),
    st.fixed_dictionaries({"event": st.sampled_from(["ping", "lamp/on", "services/request"])}),
)


def passed_on(fields: st.SearchStrategy[dict[str, Any]], routes: st.SearchStrategy[Any]) -> st.SearchStrategy[Item]:
    """What another server passes on: its route is written last, first or with white space; most have an own id."""
    about = {"fields": fields, "payload": payloads, "route": routes, "has_own_id": st.sampled_from([True, True, False])}
    written = st.sampled_from(["last", "last", "last", "first", "spaced", "missing"])
    return st.tuples(st.just("passed on"), st.fixed_dictionaries({**about, "written": written}))


again = st.tuples(st.just("again"), st.integers(0, 9))
# What a linked server wants, as differences.
_named = st.lists(st.sampled_from([*SERVICES, *FAR_SERVICES, *PATTERNS]), max_size=3, unique=True)
interests = st.fixed_dictionaries(
    {"anew": st.sampled_from([True, True, False])},
    optional={
        "events": st.booleans(),
        "types": st.sampled_from(["all", "none", "none", "none", ["text/*"], ["application/*", "a*b"]]),
        "added": _named,
        "removed": _named,
    },
)
advertisements = st.tuples(
    st.just("advertisement"),
    st.fixed_dictionaries(
        {
            "event": st.sampled_from(["services/register", "services/register", "services/unregister"]),
            "name": st.sampled_from(FAR_SERVICES),
        }
    ),
)
mixed_from_servers: st.SearchStrategy[list[Item]] = st.lists(
    st.one_of(
        *[passed_on(far_contents, st.sampled_from(ROUTES))] * 6,
        *[passed_on(far_contents, st.just(["ann", "me"]))] * 4,
        *[again] * 4,
        *[advertisements] * 2,
        st.one_of(*[st.tuples(st.just("object"), st.tuples(each, st.just(b""))) for each in wrong], malformed),
    ),
    min_size=1,
    max_size=6,
)
# Where only one thing tells one object from the next, that thing is what counts.
alike_from_servers = st.lists(
    st.one_of(
        *[passed_on(st.just({"type": "text/plain"}), st.sampled_from([["ann", "me"], ["ann", "you", "me"]]))] * 3, again
    ),
    min_size=2,
    max_size=8,
)
# What goes its own way stands between what came by the same way.
parted_from_servers = st.lists(
    st.one_of(
        passed_on(
            st.sampled_from([{"type": "text/plain"}, {"type": "text/plain", "to": SERVER}]), st.just(["far-me", "me"])
        ),
        advertisements,
    ),
    min_size=2,
    max_size=6,
)
from_servers = st.one_of(mixed_from_servers, alike_from_servers, parted_from_servers)

# The server of who sends it serves this itself; what came from far away it passes on.
served = st.sampled_from([{"event": "ping"}, {"event": "services/list"}])
served_from_servers = st.lists(passed_on(served, st.sampled_from([["ann", "me"], []])), min_size=1, max_size=3)
served_from_members = st.lists(st.tuples(st.just("object"), st.tuples(served, st.just(b""))), min_size=1, max_size=3)

devices = st.sampled_from(["10.0.0.2", "10.0.0.3"])
