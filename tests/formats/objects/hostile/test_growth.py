"""What hostile inputs cost: work that grows with their size and no faster, and a journal and a memory that stay small.

Work is counted in function calls, so that a busy machine changes nothing.
"""

from __future__ import annotations

import gc
import timeit
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from bussrv import events as ev
from bussrv.counts.throttle import STRANGER_BURST
from bussrv.testing.conformance.work import steps
from bussrv.wire.objects import MAX_ADDED, ObjectReader
from tests.formats.objects.hostile.cases_floods import nested_rules
from tests.formats.objects.hostile.rows import (
    BUSINESS,
    ID,
    MAX_METADATA,
    OBJECTS,
    VOCABULARIES,
    Build,
    Vocabulary,
    obj,
    short_names,
    subscription,
    text,
)
from tests.formats.objects.hostile.scene import Intruder, Scene
from tests.size import sized
from tests.tables import each_row

pytestmark = pytest.mark.usefixtures("quick_collections")

FOLD = 4
GROWTH = 5.0
"""How many times the calls may become when an input grows four times: five is linear, with something to spare."""

MAX_KEPT = 1 << 20
"""The most bytes that may stay in memory for a session that is gone."""

Make = Callable[[int], Build]


def _then(build: Build, data: bytes) -> Build:
    return lambda vocabulary: build(vocabulary) + data


def _bombed(pattern: Callable[[int], str], key: str) -> Make:
    """Patterns of some size, then content of a type for which a careless matcher takes very long."""

    def make(size: int) -> Build:
        content = obj(b"x", type="a" * size)
        subscribed = subscription(**{key: [pattern(size)] * 8})
        return lambda vocabulary: subscribed(vocabulary) + content

    return make


def _services(size: int) -> bytes:
    return b"".join(obj(event="services/register", name=name) for name in short_names(size))


def _natures(size: int) -> Build:
    rules = subscription(subscriptions=[f"#{name}" for name in short_names(size)])
    return _then(rules, obj(event="x", natures=["x"] * size))


SHARED: dict[str, tuple[int, Make]] = {
    "wildcard bombs for types": (60, _bombed(lambda size: "*a" * (size // 2 - 1) + "b", "types")),
    "question marks and stars": (60, _bombed(lambda size: "?*" * (size // 2 - 1) + "b", "types")),
    "stars": (60, _bombed(lambda size: "*" * size, "types")),
    "brackets without end": (15_000, lambda size: lambda _: b'{"x":' + b"[" * size + b"\0"),
    "strings full of brackets": (2000, lambda size: lambda _: text(["[{"] * size) + b"\0"),
    "backslashes": (15_000, lambda size: lambda _: b'{"x":"' + b"[\\" * size + b"\0"),
    "digits": (15_000, lambda size: lambda _: b'{"id":%b}\0' % (b"9" * size)),
    "keys": (1500, lambda size: lambda _: text(dict.fromkeys(short_names(size), 7)) + b"\0"),
    "wrong recipients": (2500, lambda size: lambda _: obj(to=[7] * size)),
    "unknown recipients": (2500, lambda size: lambda _: obj(event="x", to=short_names(size))),
    "known recipients": (2500, lambda size: lambda _: obj(event="x", to=["o", "b"] * (size // 2))),
    "routing ids": (2500, lambda size: subscription(routing_ids=short_names(size))),
    "natures": (2500, lambda size: lambda _: obj(event="x", natures=short_names(size))),
    "small objects": (250, lambda size: lambda _: b"{}\0" * size),
    "refusals": (250, lambda size: lambda _: obj(event=7) * size),
    "services": (250, lambda size: lambda _: _services(size)),
    "subscriptions": (25, lambda size: lambda vocabulary: subscription()(vocabulary) * size),
}

OF_OBJECTS: dict[str, tuple[int, Make]] = {
    "wildcard bombs for rules": (60, _bombed(lambda size: "*a" * (size // 2) + "*", "subscriptions")),
    "rules": (2000, lambda size: _then(subscription(subscriptions=["a"] * size), obj(b"x", type="a"))),
    "nested rules": (15, lambda size: _then(subscription(subscriptions=nested_rules(size)), obj(b"x", type="b"))),
    "rules for natures": (100, _natures),
}


def _growing() -> list[Any]:
    tables = [(OBJECTS, SHARED), (BUSINESS, SHARED), (OBJECTS, OF_OBJECTS)]
    return [
        pytest.param(
            vocabulary,
            *case,
            id=f"{vocabulary.name}: {name}",
        )
        for vocabulary, table in tables
        for name, case in table.items()
    ]


def _calls(intruder: Intruder, data: bytes) -> int:
    """How many functions are called to handle an input."""
    return steps(lambda: intruder.connection.send_bytes(data))


@pytest.mark.dear
@each_row(("vocabulary", "size", "make"), _growing())
def test_the_work_grows_with_the_size_of_the_input_and_no_faster(vocabulary: Vocabulary, size: int, make: Make) -> None:
    small = _calls(Scene().intruder(vocabulary), make(size)(vocabulary))
    large = _calls(Scene().intruder(vocabulary), make(size * FOLD)(vocabulary))
    assert large <= GROWTH * small


@each_row(
    ("vocabulary", "question"),
    [(OBJECTS, "services/discovery"), (BUSINESS, "services/list")],
    ids=["objects", "business"],
)
def test_questions_without_reading_cost_nothing_past_the_limit(vocabulary: Vocabulary, question: str) -> None:
    def cost(questions: int) -> int:
        intruder = Scene(max_outbound=10_000).intruder(vocabulary)
        intruder.connection.send_bytes(_services(200))
        intruder.connection.protocol.link.pauseProducing()
        return _calls(intruder, obj(event=question) * questions)

    assert cost(200) <= 1.5 * cost(50)


@pytest.mark.dear
def test_objects_cost_the_same_for_any_number_of_services() -> None:
    def seconds(services: int) -> float:
        intruder = Scene().intruder(OBJECTS)
        intruder.connection.send_bytes(_services(services))
        return min(timeit.repeat(lambda: intruder.connection.send_bytes(b"{}\0" * 100), number=1, repeat=5))

    assert seconds(16_000) <= 4 * seconds(100)


def test_a_flood_of_connections_does_not_fill_the_journal() -> None:
    network = Scene().network
    before, joined = len(network.journal.records), len(network.events(ev.SessionOpened))
    for _ in range(500):
        network.connect("objects").send_bytes(b"[]\0")
    assert len(network.journal.records) - before <= 2 * STRANGER_BURST
    network.reactor.advance(60)
    network.connect("objects")
    opened = network.events(ev.SessionOpened)[joined:]
    assert sum(1 + (each.suppressed or 0) for each in opened) == 501


def _kept(vocabulary: Vocabulary, data: list[bytes]) -> int:
    """How many bytes stay in memory when the session that sent that is gone."""
    scene = Scene()
    intruder = scene.intruder(vocabulary)
    gc.collect()
    tracemalloc.start()
    try:
        for each in data:
            intruder.connection.send_bytes(each)
            for bystander in scene.bystanders.values():
                bystander.connection.take()
            intruder.connection.take()
        intruder.connection.close()
        scene.expect_farewell(joined=True)
        scene.network.journal.records.clear()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def _long(number: int) -> str:
    return f"{number:x}" * 10_000


@pytest.mark.dear
@each_row("vocabulary", VOCABULARIES, ids=lambda vocabulary: vocabulary.name)
@each_row(
    "make",
    [
        pytest.param(lambda number: obj(event=_long(number)), id="events"),
        pytest.param(lambda number: obj(b"x", type=_long(number)), id="types"),
        pytest.param(lambda number: obj(event="x", natures=[_long(number)]), id="natures"),
        pytest.param(lambda number: obj(event="x", to=_long(number)), id="recipients"),
        pytest.param(lambda number: obj(event="services/reply", in_reply_to=_long(number)), id="replies"),
        pytest.param(lambda number: obj(event="services/register", name=_long(number)), id="names of services"),
        pytest.param(lambda number: obj(b"x" * 50_000, type="a/b", sender=_long(number)), id="payloads"),
        pytest.param(
            lambda number: obj(event="services/request", name="x", id=_long(number)),
            id="requests",
        ),
    ],
)
def test_little_of_long_values_is_kept_of_a_session_once_gone(
    vocabulary: Vocabulary, make: Callable[[int], bytes]
) -> None:
    assert _kept(vocabulary, [make(number) for number in range(256, 256 + sized(200))]) <= MAX_KEPT


def _at_limit(head: bytes, tail: bytes = b'"}') -> bytes:
    return head + b"a" * (MAX_METADATA - len(head) - len(tail)) + tail + b"\0"


SENT_BACK: dict[str, Build] = {
    "an object": lambda _: _at_limit(b'{"x":"'),
    "an id": lambda vocabulary: _at_limit(b'{"event":"%b","id":"' % vocabulary.probe.encode()),
    "further routing ids": subscription(routing_ids=short_names(10_905)),
    "a receive mode": subscription(receive="\ue000" * 21_000),
    "a name in a request to nobody": lambda _: obj(event="services/request", to="?", name="\ue000" * 21_000, id=ID),
}


@each_row("vocabulary", VOCABULARIES, ids=lambda vocabulary: vocabulary.name)
@each_row("build", SENT_BACK.values(), ids=SENT_BACK.keys())
def test_nothing_sent_has_more_metadata_than_clients_must_take(vocabulary: Vocabulary, build: Build) -> None:
    data = build(vocabulary)
    assert len(data) <= MAX_METADATA + 1
    scene = Scene()
    intruder = scene.intruder(vocabulary)
    intruder.connection.send_bytes(data)
    for member in (intruder, *scene.bystanders.values()):
        reader = ObjectReader(MAX_METADATA + MAX_ADDED)
        reader.feed(member.connection.take())
        while reader.next_event() is not None:
            pass
