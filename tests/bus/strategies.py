"""What members of the object network subscribe with, and the objects that they send."""

from hypothesis import strategies as st

from tests.bus.harness import SERVER

SERVICES = ["tv", "lamp", "ääni"]
SHARED = ["living-room", "kitchen"]
EVENTS = ["lamp/on", "services/request", "Services/Request", "services/reply", "error", "routing/x", "Ping"]
TYPES = ["text/plain", "Text/Plain; charset=UTF-8", "image/png"]
IDS = ["a", "b", 1, 1.0, True, None]

subscriptions = st.one_of(
    st.fixed_dictionaries(
        {"receive": st.sampled_from(["all", "all", "no_echo", "no_echo", "events_only", "none"])},
        optional={"types": st.sampled_from(["all", "none", ["text/*"], ["*/png", "text/html"], ["application/*"], []])},
    ),
    st.sampled_from(
        [
            {"subscriptions": "all"},
            {"subscriptions": "*, !@routing/*,text/plain"},
            {"subscriptions": ["*", "!@routing/*"]},
            {"subscriptions": ["@services/*", "@ping"]},
            {"subscriptions": ["text/*", "!#spam"]},
            {"subscriptions": [["!@services/*"], "*"]},
        ]
    ),
)


def naming(subscriptions, services):
    """Subscriptions; a few of them name some of these services."""
    names = st.one_of(st.none(), st.lists(st.sampled_from(services), max_size=3))
    return st.builds(
        lambda subscription, named: subscription if named is None else {**subscription, "services": named},
        subscriptions,
        names,
    )


payloads = st.sampled_from([b"", b"", b"x", b"\0\xff\0", "höyhen".encode()])
addresses = st.sampled_from(["r1", "r2", "r3", "mine", *SHARED, "nobody", SERVER])
anything = {
    "event": st.sampled_from(EVENTS),
    "type": st.sampled_from(TYPES),
    "natures": st.sampled_from([["spam"], ["Message", "n"], []]),
    "sender": st.sampled_from([*SERVICES, "somebody"]),
    "id": st.sampled_from(IDS),
    "name": st.sampled_from([*SERVICES, "unknown", None, 7]),
    "service": st.sampled_from(SERVICES),
    "in-reply-to": st.sampled_from(IDS),
    "to": st.one_of(addresses, st.lists(addresses, max_size=3), st.none()),
    "app-type": st.sampled_from([0, 7, -1, "x", 1.0]),
    "route": st.just(["forged"]),
    "x": st.sampled_from([1.0, "é", {"route": []}]),
}


replies = st.sampled_from(["services/reply", "services/reply", "SERVICES/reply", "error"])


def objects_with(**given):
    """Objects with these attributes for certain, and perhaps with a few others."""
    few = {key: anything[key] for key in ("type", "id", "app-type", "route", "x") if key not in given}
    return st.fixed_dictionaries(given, optional=few)


objects = st.one_of(
    objects_with(type=anything["type"]),
    objects_with(type=anything["type"], natures=anything["natures"]),
    objects_with(type=anything["type"], sender=anything["sender"]),
    objects_with(event=anything["event"]),
    objects_with(event=st.just("services/request"), name=st.sampled_from(SERVICES), id=anything["id"]),
    objects_with(**{"event": replies, "in-reply-to": anything["in-reply-to"]}),
    objects_with(to=anything["to"]),
    st.fixed_dictionaries({}, optional=anything),
)
