"""What is much: wildcard bombs, long lists, and floods of small things."""

from __future__ import annotations

from typing import Any

from tests.formats.objects.hostile.rows import (
    BUSINESS,
    ID,
    JOINED,
    MAX_NESTING,
    OBJECTS,
    Answered,
    Closed,
    Refused,
    Routed,
    Row,
    Vocabulary,
    obj,
    short_names,
    subscription,
)

BOMBS = ["*a" * stars + end for stars in range(1, 128) for end in ("b", "?")]
"""Patterns against which a careless matcher tries every way to cut a long text."""


def nested_rules(levels: int, rule: str = "!a") -> Any:
    """A rule inside so many arrays."""
    rules: Any = rule
    for _ in range(levels):
        rules = [rule, rules]
    return rules


def _resubscribing(times: int) -> Any:
    return lambda vocabulary: subscription()(vocabulary) * times


def _renaming(times: int) -> Any:
    """Subscriptions that name as many services as may be, each others than the one before it."""
    names = short_names(512)
    both = [subscription(services=some) for some in (names[:256], names[256:])]
    return lambda vocabulary: b"".join(both[number % 2](vocabulary) for number in range(times))


def _services(count: int, event: str = "services/register") -> bytes:
    return b"".join(obj(event=event, id=ID, name=name) for name in short_names(count))


def _probes(vocabulary: Vocabulary) -> bytes:
    return obj(event=vocabulary.probe, id=ID) * 1000


PATTERNS = (
    Row("wildcard bombs for types", subscription(types=BOMBS), Refused("bad-subscription"), False),
    Row("a wildcard bomb within the limit", subscription(types=["*a" * 60 + "b"]), JOINED, False),
    Row("a type of nothing but stars", subscription(types=["*" * 60_000]), JOINED, False),
    Row("a type of nothing but question marks", subscription(types=["?" * 60_000]), Refused("bad-subscription"), False),
    Row(
        "a wildcard bomb of sixty thousand bytes",
        subscription(types=["*a" * 30_000 + "b"]),
        Refused("bad-subscription"),
        False,
    ),
    Row("ten thousand types", subscription(types=["a"] * 10_000), Refused("bad-subscription"), False),
    Row("ten thousand services", subscription(services=["a"] * 10_000), Refused("bad-subscription"), False),
    Row("ten thousand types, of a member", subscription(types=["a"] * 10_000), Refused("bad-subscription")),
    Row("wildcard bombs for rules", subscription(subscriptions=BOMBS), JOINED, False, OBJECTS),
    Row(
        "wildcard bombs for deployed types",
        subscription(subscriptions=BOMBS),
        Refused("bad-subscription"),
        False,
        BUSINESS,
    ),
    Row("a rule of sixty thousand bytes", subscription(subscriptions=["*a" * 30_000]), JOINED, False, OBJECTS),
    Row("a rule of nothing but negations", subscription(subscriptions=["!" * 60_000]), JOINED, False, OBJECTS),
    Row(
        "ten thousand rules",
        subscription(subscriptions=["a"] * 10_000),
        Refused("bad-subscription"),
        False,
        OBJECTS,
    ),
    Row(
        "ten thousand deployed types",
        subscription(subscriptions=["a"] * 10_000),
        Refused("bad-subscription"),
        False,
        BUSINESS,
    ),
    Row("rules, as deep as may be", subscription(subscriptions=nested_rules(MAX_NESTING - 1)), JOINED, False, OBJECTS),
    Row("rules, too deep", subscription(subscriptions=nested_rules(MAX_NESTING)), Closed("nesting-too-deep"), False),
)

ADDRESSES = (
    Row("a thousand unknown recipients", lambda _: obj(event="x", to=short_names(1_000)), Routed(())),
    Row("one unknown recipient a thousand times", lambda _: obj(event="x", to=["?"] * 1_000), Routed(())),
    Row("one known recipient a thousand times", lambda _: obj(event="x", to=["b"] * 1_000), Routed(("b",))),
    Row(
        "ten thousand recipients",
        lambda _: obj(event="x", to=short_names(10_000), id=ID),
        Refused("too-many-addressees"),
    ),
    Row("known recipients in turn, a thousand", lambda _: obj(event="x", to=["o", "b"] * 500), Routed(("o", "b"))),
    Row(
        "known recipients among unknown ones",
        lambda _: obj(event="x", to=["?", "b", "!", "r"] * 250),
        Routed(("b", "r")),
    ),
    Row("ten thousand wrong recipients", lambda _: obj(event="x", to=[7] * 10_000, id=ID), Refused("bad-attribute")),
    Row("ten thousand routing ids", subscription(routing_ids=short_names(10_000)), Refused("bad-subscription"), False),
    Row(
        "ten thousand routing ids, of a member",
        subscription(routing_ids=short_names(10_000)),
        Refused("bad-subscription"),
    ),
    Row("all the routing ids that one may have", subscription(routing_ids=short_names(256)), JOINED, False),
    Row(
        "one routing id ten thousand times",
        subscription(routing_ids=["x"] * 10_000),
        Refused("bad-subscription"),
        False,
    ),
    Row(
        "the routing id of another ten thousand times",
        subscription(routing_ids=["b"] * 10_000),
        Refused("bad-subscription"),
        False,
    ),
    Row("ten thousand wrong routing ids", subscription(routing_ids=[7] * 10_000), Refused("bad-subscription"), False),
    Row(
        "ten thousand natures",
        lambda _: obj(event="x", id=ID, natures=["a"] * 10_000),
        Refused("bad-attribute"),
    ),
    Row("as many natures as there may be", lambda _: obj(event="x", natures=["a"] * 64), Routed()),
)

FLOODS = (
    Row(
        "a thousand refusals", obj(event="services/register", name="", id=ID) * 1000, Refused("bad-service-name", 1000)
    ),
    Row("a thousand wrong events", obj(event=7, id=ID) * 1000, Refused("bad-attribute", 1000)),
    Row("a thousand reserved events", obj(event="routing/disconnect", id=ID) * 1000, Refused("reserved-event", 1000)),
    Row(
        "a thousand services of others",
        obj(event="services/unregister", name="kitchen", id=ID) * 1000,
        Refused("not-registered", 1000),
    ),
    Row(
        "a thousand requests to nobody",
        obj(event="services/request", to="?", id=ID) * 1000,
        Refused("no-such-service", 1000),
    ),
    Row(
        "a thousand wrong subscriptions",
        lambda v: subscription(receive=7)(v) * 1000,
        Refused("bad-subscription", 1000),
        False,
    ),
    Row("a thousand questions", _probes, Answered("probed", 1000)),
    Row("a hundred subscriptions", _resubscribing(100), Answered("joined", 100, announced=True), False),
    Row("two hundred and fifty-six services, others each time", _renaming(30), Answered("joined", 30, announced=True)),
    # In the registry, in the plans of routing and in the figures of the hour, which are of bounded size.
    Row("two thousand services", lambda _: _services(2000), Answered("services/register/reply", 2000), holds=2 << 20),
    Row(
        "one service a thousand times",
        obj(event="services/register", name="x", id=ID) * 1000,
        Answered("services/register/reply", 1000),
    ),
    Row("a thousand empty objects", b"{}\0" * 1000, Routed()),
    Row(
        "a thousand kinds of objects",
        b"".join(obj(b"x", type=name) for name in short_names(1000)),
        Routed(),
        holds=1 << 20,  # Plans and figures of kinds, which have one bound for all sessions.
    ),
)

ROWS = (*PATTERNS, *ADDRESSES, *FLOODS)
