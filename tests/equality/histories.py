"""What clients say, in a history: objects, requests to the server, packets, and now and then something malformed."""

from typing import Any

from hypothesis import strategies as st

from tests.bus.strategies import SERVICES, SHARED, anything, objects, payloads, subscriptions
from tests.equality.words import packet

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
joins = st.tuples(
    st.just("join"),
    st.fixed_dictionaries(
        {
            "subscription": st.one_of(popular, subscriptions),
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
mistakes = st.tuples(
    st.just("object"),
    st.tuples(
        st.one_of(
            asks("services/register", name=st.sampled_from(["", 7, "bus/x"])),
            asks("services/unregister", name=st.sampled_from(["unknown", None])),
            asks("routing/disconnect"),
            asks("routing/subscribe", types=st.just(7)),
            asks("client/register", receive=st.just("some")),
            st.fixed_dictionaries({"type": st.just(7), "id": st.just("a")}),
            st.fixed_dictionaries({"event": st.just(["x"])}),
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

subscribing = st.builds(lambda service: ("bytes", packet(1, service)), services)
unsubscribing = st.builds(lambda service: ("bytes", packet(2, service)), services)
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
from_watchers: st.SearchStrategy[list[Item]] = st.lists(
    st.one_of(*[subscribing] * 6, *[unsubscribing] * 3, strange_packets), min_size=1, max_size=4
)

devices = st.sampled_from(["10.0.0.2", "10.0.0.3"])
