"""What is well framed, but has an attribute of the wrong kind, or one that says what it may not say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.formats.objects.hostile.rows import (
    BUSINESS,
    ID,
    JOINED,
    OBJECTS,
    SERVICE,
    Answered,
    Closed,
    Dropped,
    Outcome,
    Refused,
    Routed,
    Row,
    Vocabulary,
    obj,
    subscription,
    text,
    with_value,
)

KINDS: dict[str, Any] = {
    "a number": 7,
    "a fraction": 0.5,
    "a boolean": True,
    "an array": [],
    "an array of numbers": [7],
    "an object": {"x": 1},
    "null": None,
    "a string": "x",
    "an array with null": ["x", None],
    "an array of arrays": [["x"]],
    "an empty string": "",
    "a string of 256 bytes": "é" * 128,
}
NO_STRINGS = ("a number", "a fraction", "a boolean", "an array", "an array of numbers", "an object")
NO_LISTS = (
    "a number",
    "a fraction",
    "a boolean",
    "an array of numbers",
    "an object",
    "an array with null",
    "an array of arrays",
)


def _objects(key: str, kinds: Iterable[str], outcome: Outcome, **fields: Any) -> tuple[Row, ...]:
    """Objects whose attribute ``key`` is of these kinds, with a payload that has to be read past."""
    return tuple(
        Row(f"{key} is {kind}", obj(b"payload\0", **{"id": ID, **fields, key: KINDS[kind]}), outcome) for kind in kinds
    )


def _subscriptions(key: str, kinds: Iterable[str], outcome: Outcome, only: Vocabulary | None = None) -> tuple[Row, ...]:
    """Subscriptions, before joining and as a member, whose attribute ``key`` is of these kinds."""
    return tuple(
        Row(f"{key} of a subscription is {kind}{when}", subscription(**{key: KINDS[kind]}), outcome, member, only)
        for kind in kinds
        for member, when in ((False, ""), (True, ", of a member"))
    )


WRONG_ATTRIBUTES = (
    *_objects("event", NO_STRINGS, Refused("bad-attribute")),
    *_objects("type", NO_STRINGS, Refused("bad-attribute")),
    *_objects("to", NO_LISTS, Refused("bad-attribute")),
    *_objects("natures", NO_LISTS, Refused("bad-attribute")),
    *_objects("id", ("an array", "an array of numbers", "an object"), Refused("bad-attribute", in_reply_to=None)),
    Row("id is beyond every double", with_value("id", "1e400", event="x"), Refused("bad-attribute", in_reply_to=None)),
    Row("id has 5,000 digits", with_value("id", "9" * 5000, event="x"), Refused("bad-attribute", in_reply_to=None)),
    Row("a wrong event without an id", obj(event=7), Refused("bad-attribute", in_reply_to=None)),
    Row("a wrong event with an id of null", obj(event=7, id=None), Refused("bad-attribute", in_reply_to=None)),
    Row("everything is wrong", obj(event=[], type={}, to=7, natures=False, id=ID), Refused("bad-attribute")),
    Row("an event twice, of which the last is wrong", b'{"id":"h","event":"x","event":7}\0', Refused("bad-attribute")),
    Row("a wrong event in escapes", rb'{"id":"h","\u0065vent":7}' + b"\0", Refused("bad-attribute")),
)

ODD_ATTRIBUTES = (
    *_objects("event", ("null", "an empty string"), Routed()),
    *_objects("type", ("null", "an empty string", "a string of 256 bytes"), Routed()),
    *_objects("natures", ("null", "a string", "an array", "an empty string"), Routed(), type="text/plain"),
    *_objects("sender", (*NO_STRINGS, "null"), Routed(), type="text/plain"),
    *_objects("name", (*NO_STRINGS, "null"), Routed(), event="services/request"),
    *_objects("service", (*NO_STRINGS, "null"), Routed(), event="services/request"),
    *_objects("in-reply-to", (*NO_STRINGS, "null", "a string"), Dropped(), event="services/reply"),
    *_objects("id", ("null", "an empty string", "a fraction", "a boolean"), Routed(), event="services/request"),
    *_objects("app-type", (*NO_STRINGS, "null"), Routed(), type="text/plain"),
    Row("the sender is somebody else's service", obj(b"x", type="text/plain", sender=SERVICE), Routed()),
    Row("a reply to a request that nobody made", obj(event="services/reply", in_reply_to="?", id=ID), Dropped()),
    Row("in-reply-to has 400 digits", with_value("in-reply-to", "9" * 400, event="services/reply"), Dropped()),
    Row("in-reply-to has 5,000 digits", with_value("in-reply-to", "9" * 5000, event="services/reply"), Dropped()),
    Row("in-reply-to is beyond every double", with_value("in-reply-to", "-1e999", event="services/reply"), Dropped()),
    Row("a number beyond every double in a request", with_value("x", "1e400", event="services/request"), Routed()),
    Row("a number beyond every double in a reply", with_value("x", "1e400", event="services/reply"), Dropped()),
    Row("an event in which NUL is escaped", obj(event="routing/disconnect\0"), Routed()),
    Row("a type in which NUL is escaped", obj(b"x", type="text/plain\0; charset=UTF-8"), Routed()),
    Row("an event with a huge name", lambda _: obj(event="x" * 60_000), Routed()),
    Row("a type with a huge name", lambda _: obj(b"x", type="x" * 60_000), Routed()),
    Row("a sender with a huge name", lambda _: obj(b"x", type="x/y", sender="x" * 60_000), Routed()),
    Row("nobody takes a request", obj(event="services/request", name="x", to="?", id=ID), Refused("no-such-service")),
)

IDS = {
    "is an empty string": ("", '""'),
    "is a fraction": (1.5, "1.5"),
    "is a boolean": (True, "true"),
    "has 400 digits": (10**400, str(10**400)),
    "is below 64 bits": (-(2**63) - 1, str(-(2**63) - 1)),
    "holds NUL, escaped": ("\0", r'"\u0000"'),
    "holds a line end and quotation marks": ('\n"', r'"\n\""'),
}


def _asked_with(identifier: str) -> Any:
    return lambda vocabulary: with_value("id", identifier, event=vocabulary.probe)


ODD_IDS = tuple(
    Row(f"an id that {what} is quoted", _asked_with(written), Answered("probed", in_reply_to=value))
    for what, (value, written) in IDS.items()
)

FORGERIES = (
    *(
        Row(f"an event that only servers send: {event}", obj(event=event, id=ID), Refused("reserved-event"))
        for event in (
            "routing/subscribe/reply",
            "routing/subscribe/notify",
            "routing/subscribe/notification",
            "routing/disconnect",
            "routing/announcement/neighbors",
            "routing/announcement/interest",
            "routing/announcement/gap",
            "services/gap",
        )
    ),
    Row(
        "the last of two events is reserved",
        b'{"id":"h","event":"x","event":"routing/disconnect"}\0',
        Refused("reserved-event"),
    ),
    Row(
        "a reserved event in escapes",
        rb'{"id":"h","event":"routing\/\u0064isconnect"}' + b"\0",
        Refused("reserved-event"),
    ),
    Row("a reserved event for one member", obj(event="routing/disconnect", to="o", id=ID), Refused("reserved-event")),
    Row("a reserved event with a payload", obj(b"{}\0", event="routing/disconnect", id=ID), Refused("reserved-event")),
    *(
        Row(f"a forged route: {what}", with_value("route", value, event="x"), Routed())
        for what, value in {
            "a string": '"hall"',
            "a number": "7",
            "numbers": "[1,2,3]",
            "an object": '{"0":"hall"}',
            "null": "null",
            "other members": '["o","hall"]',
            "nested": "[[[[]]]]",
            "15,000 ids": text(["a"] * 15_000).decode(),
        }.items()
    ),
    Row("a forged route in escapes", rb'{"event":"x","r\u006fute":["o","hall"]}' + b"\0", Routed()),
    Row("two forged routes", b'{"route":["o"],"event":"x","route":["b"]}\0', Routed()),
    Row("an answer of the server, forged", obj(event="error", to="b", in_reply_to=1, reason="bad-json"), Dropped()),
    Row("an answer of the server, forged in capitals", obj(event="ERROR", to="b", in_reply_to=1), Dropped()),
    Row(
        "a reply to a subscription, forged",
        obj(event="client/register/reply", to="b", id=ID),
        Refused("reserved-event"),
    ),
    Row("a notification, forged in capitals", obj(event="ROUTING/Subscribe/NOTIFY", id=ID), Refused("reserved-event")),
    Row("a recipient that does not exist", obj(to="?", event="x"), Routed(())),
    Row("an empty recipient", obj(to="", event="x"), Routed(())),
    Row("no recipients", obj(to=[], event="x"), Routed(())),
    Row("the same recipient twice", obj(to=["b", "b"], event="x"), Routed(("b",))),
    Row("the server for a recipient", obj(to=["hall"], event="x"), Routed(())),
)


def _named(event: str, names: dict[str, Any], outcome: Outcome) -> tuple[Row, ...]:
    return tuple(Row(f"{event}: {what}", obj(event=event, id=ID, name=name), outcome) for what, name in names.items())


BAD_NAMES = {
    "an empty name": "",
    "a name of 256 bytes": "x" * 256,
    "a name of 256 bytes in 128 characters": "é" * 128,
    "a name with a line end": "a\nb",
    "a name with NUL": "a\0b",
    "a name that clears the screen": "\x1b[2J",
    "a name with DEL": "a\x7f",
    "a name with a control character of C1": "a\x85b",
    "a name with a line separator": "a\u2028b",
    "a name that is turned around": "\u202ereten",
    "a name with something unseen": "a\u200bb",
    "a name with a byte order mark": "\ufeffa",
    "a name of blanks": "   ",
    "a name that ends with a blank": "a\u3000",
} | {f"a name that is {kind}": KINDS[kind] for kind in (*NO_STRINGS, "null")}

SERVICES = (
    *_named("services/register", BAD_NAMES, Refused("bad-service-name")),
    *_named("services/unregister", BAD_NAMES, Refused("bad-service-name")),
    Row(
        "services/register: a number beyond every double beside the name",
        with_value("x", "-1e400", event="services/register", id=ID, name="x"),
        Answered("services/register/reply"),
    ),
    Row("services/register: no name", obj(event="services/register", id=ID), Refused("bad-service-name")),
    Row(
        "services/register: a huge name",
        lambda _: obj(event="services/register", id=ID, name="x" * 65_000),
        Refused("bad-service-name"),
    ),
    *_named(
        "services/register",
        {name: name for name in ("bus/registry", "bus/", "bus/x", "BUS/x", "\uff42us\u2044x")},
        Refused("reserved-name"),
    ),
    *_named(
        "services/unregister",
        {"somebody else's": SERVICE, "nobody's": "x", "the server's": "bus/registry"},
        Refused("not-registered"),
    ),
    *_named(
        "services/register",
        {"somebody else's": SERVICE, "a name of 255 bytes": "x" * 255},
        Answered("services/register/reply"),
    ),
    Row(
        "services/register: a name with joined emoji",
        obj(event="services/register", id=ID, name="\U0001f468\u200d\U0001f469\u200d\U0001f467"),
        Answered("services/register/reply"),
    ),
    Row(
        "services/unregister: all of none",
        obj(event="services/unregister", id=ID),
        Answered("services/unregister/reply"),
    ),
)

SUBSCRIPTIONS = (
    *_subscriptions("receive", (*NO_STRINGS, "a string", "an empty string"), Refused("bad-subscription")),
    *_subscriptions("types", (*NO_LISTS, "a string", "an empty string"), Refused("bad-subscription")),
    *_subscriptions("own_id", (*NO_STRINGS, "an empty string", "a string of 256 bytes"), Refused("bad-subscription")),
    *_subscriptions("routing-ids", (*NO_LISTS[:5], "an array of arrays"), Refused("bad-subscription")),
    *_subscriptions("services", (*NO_LISTS, "a string", "an empty string"), Refused("bad-subscription")),
    *_subscriptions("services", ("an array", "null"), JOINED),
    Row("a service without a name", subscription(services=["x", ""]), Refused("bad-service-name"), False),
    Row("a service with NUL", subscription(services=["a\0b"]), Refused("bad-service-name")),
    Row("services that the server hosts, or may", subscription(services=["bus/registry", "bus/x"]), JOINED),
    Row("the same service many times", subscription(services=["x"] * 256), JOINED),
    *_subscriptions("subscriptions", (*NO_LISTS[:3], "an object"), Refused("bad-subscription")),
    *_subscriptions("user", (*NO_STRINGS, "null", "a string of 256 bytes"), JOINED),
    *_subscriptions("name", (*NO_STRINGS, "null", "a string of 256 bytes"), JOINED),
    *_subscriptions("role", (*NO_STRINGS, "null", "a string"), JOINED, OBJECTS),
    *_subscriptions("route", NO_STRINGS, JOINED),
    Row(
        "a number beyond every double in a subscription",
        lambda vocabulary: with_value("x", "1e400", **vocabulary.join()),
        JOINED,
        False,
    ),
    Row("somebody else's routing id", subscription(own_id="o"), JOINED, False),
    Row("the server's routing id", subscription(own_id="hall"), JOINED, False),
    Row("a routing id with NUL", subscription(own_id="a\0b"), Refused("bad-subscription"), False),
    Row("routing ids with NUL", subscription(routing_ids=["x", "a\0b"]), Refused("bad-subscription"), False),
    Row("a routing id that is turned around", subscription(own_id="a\u2067b"), Refused("bad-subscription"), False),
    Row("a routing id that begins with a blank", subscription(own_id=" a"), Refused("bad-subscription"), False),
    Row("a routing id with joiners", subscription(own_id="a\u200c\u200db"), JOINED, False),
    Row("the routing ids of all others", subscription(routing_ids=["o", "b", "r", "hall"]), JOINED, False),
    Row("a user and a name with NUL", subscription(user="\0", name="\0\n\x1b[2J"), JOINED, False),
    Row(
        "half of a pair in a routing id",
        b'{"event":"routing/subscribe","routing-id":"\\ud800"}\0',
        Closed("bad-utf8"),
        False,
    ),
)

IN_ONE_VOCABULARY = (
    *_subscriptions(
        "subscriptions", ("an array of numbers", "an array with null"), Refused("bad-subscription"), OBJECTS
    ),
    Row(
        "rules with a wrong one deep inside",
        subscription(subscriptions=["*", [["a", [None]]]]),
        Refused("bad-subscription"),
        False,
        OBJECTS,
    ),
    Row(
        "rules with NUL",
        subscription(subscriptions=["*", "!\0", "#\0", "@\0", "!!", "#", "@", "!"]),
        JOINED,
        False,
        OBJECTS,
    ),
    Row(
        "a nested array instead of a type",
        subscription(subscriptions=["*", ["a"]]),
        Refused("bad-subscription"),
        False,
        BUSINESS,
    ),
    *(
        Row(
            f"services/discovery: a name that is {kind}",
            obj(event="services/discovery", name=KINDS[kind], id=ID),
            Routed(),
            True,
            OBJECTS,
        )
        for kind in NO_STRINGS
    ),
    Row("ping to the server and to another", obj(event="ping", to=["hall", "o"], id=ID), Routed(("o",)), True, OBJECTS),
    Row("ping to nobody", obj(event="ping", to=[], id=ID), Routed(()), True, OBJECTS),
    Row("ping with a wrong recipient", obj(event="ping", to={}, id=ID), Refused("bad-attribute"), True, OBJECTS),
    Row("the other vocabulary's subscription", obj(event="client/register", id=ID), Routed(), True, OBJECTS),
    Row("the other vocabulary's subscription, back", obj(event="routing/subscribe", id=ID), Routed(), True, BUSINESS),
    Row(
        "both spellings",
        obj(event="clients/register", subscribe=7, subscriptions="all", id=ID),
        Refused("bad-subscription"),
        False,
        BUSINESS,
    ),
)

ROWS = (
    *WRONG_ATTRIBUTES,
    *ODD_ATTRIBUTES,
    *ODD_IDS,
    *FORGERIES,
    *SERVICES,
    *SUBSCRIPTIONS,
    *IN_ONE_VOCABULARY,
)
