"""Rounds: what is in them, in which order, and when that is told."""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.errors import SpoolUnavailable
from bussrv.spool import merging
from bussrv.spool.entries import Append, Change, Claim, Written
from bussrv.spool.interfaces import SpoolWaiter
from bussrv.spool.merging import ToAll
from bussrv.spool.rounds import A_TURN, MOST_CHANGES, Rounds
from tests.formats.network import Network


def rounds_of(network: Network) -> Rounds:
    bus = network.bus
    return Rounds(
        bus.spool,
        bus.slices,
        network.reactor,
        flush=bus.flush,
        caught_up=bus.caught_up,
        address_of=lambda writer: writer[0],
        failed=lambda: pytest.fail("a taker failed"),
    )


def entry(payload: bytes) -> Append:
    return Append(owner="ann", kind="queue", payload=payload, or_drop=True)


@pytest.mark.parametrize("is_refused", [False, True])
def test_whoever_waits_for_a_round_waits_for_all_before_it(is_refused: bool) -> None:
    """Also for one without changes, and for one that is refused at once since too much waits."""
    network = Network()
    spool = network.bus.spool
    told: list[object] = []
    spool.write([Claim(owner="ann", address="10.0.0.1")])
    network.reactor.advance(0)
    rounds = rounds_of(network)
    spool.delay = 1.0  # type: ignore[attr-defined]
    rounds.append("a", entry(b"first"), told.append)
    network.reactor.advance(0)
    done = rounds.durable("a")
    if is_refused:
        rounds.append("a", entry(b"second"), told.append)
        refuse = SpoolUnavailable("too much waits")
        spool.append_changes = lambda changes, waiter: waiter.errback(refuse)  # type: ignore[method-assign]
    done.addBoth(lambda outcome: told.append(outcome and outcome.type))
    network.reactor.advance(0)
    assert told == []
    network.reactor.advance(1)
    network.reactor.advance(0)
    assert told == ([1, 0, SpoolUnavailable] if is_refused else [1, None])


class SlowSpool:
    """A spool that tells when it is asked to."""

    def __init__(self) -> None:
        self.given: list[tuple[list[Change], SpoolWaiter]] = []
        self.number = 0

    def append_changes(self, changes: list[Change], waiter: SpoolWaiter) -> None:
        self.given.append((changes, waiter))

    def settle(self) -> list[Change]:
        changes, waiter = self.given.pop(0)
        begin, self.number = self.number + 1, self.number + len(changes)
        waiter.callback(Written(tuple(range(begin, self.number + 1))))
        return changes


class Scene:
    """Rounds of a slow spool. Each payload is a writer and a count."""

    def __init__(self) -> None:
        self.spool = SlowSpool()
        self.network = Network()
        self.network.bus.spool = self.spool  # type: ignore[assignment]
        self.rounds = rounds_of(self.network)
        self.made: dict[str, int] = {}
        self.wholes: dict[tuple[str, int], int] = {}  # the changes that go into one round, each with the first of them
        self.told: list[tuple[str, int]] = []

    def change(self, writer: str, count: int, *, is_whole: bool) -> None:
        if is_whole:
            self.rounds.cut(writer)
        first = self.made.get(writer, 0)
        for number in range(first, first + count):
            self.rounds.append(writer, entry(b"%s %d" % (writer.encode(), number)), partial(self.tell, writer, number))
            if is_whole:
                self.wholes[writer, number] = first
        self.made[writer] = first + count
        if is_whole:
            self.rounds.change_with_all(writer, entry(b""))
            self.rounds.cut(writer)
        self.rounds.durable(writer).addCallback(lambda _: self.told.append((writer, -first - count)))

    def tell(self, writer: str, number: int, _: int) -> None:
        self.told.append((writer, number))

    def settle(self) -> list[tuple[str, int]]:
        """The entries of the next round."""
        payloads = [each.payload for each in self.spool.settle() if isinstance(each, Append) and each.payload]
        self.network.reactor.pump([0] * 3)
        return [(writer.decode(), int(number)) for writer, number in map(bytes.split, payloads)]


WRITERS = ("a1", "a2", "b1")
STEPS = st.tuples(st.sampled_from(WRITERS), st.sampled_from([1, 3, 40, 500]), st.booleans(), st.booleans())


@given(st.lists(STEPS, max_size=12))
def test_changes_are_in_order_and_what_is_one_stays_one(steps: list[tuple[str, int, bool, bool]]) -> None:
    scene = Scene()
    written: list[list[tuple[str, int]]] = []
    for writer, count, is_whole, ends_turn in steps:
        scene.change(writer, count, is_whole=is_whole)
        if ends_turn:
            scene.network.reactor.advance(0)
            if scene.spool.given:
                written.append(scene.settle())
    scene.network.reactor.advance(0)
    while scene.spool.given:
        written.append(scene.settle())
    together = [
        {(writer, scene.wholes[writer, number]) for writer, number in each if (writer, number) in scene.wholes}
        for each in written
    ]
    assert sum(map(len, together)) == len(set().union(*together)), "a whole is in one round"
    flat = [each for some in written for each in some]
    for writer in WRITERS:
        made = [*range(scene.made.get(writer, 0))]
        assert [number for each, number in flat if each == writer] == made
        told = [number for each, number in scene.told if each == writer]
        assert [each for each in told if each >= 0] == made
        for place, each in enumerate(told):
            assert each >= 0 or {*range(-each)} <= {*told[:place]}, "told when all before is durable"


class Receiver:
    """:ivar told: the numbers of its entries, and what they are."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.sent: list[bytes] = []
        self.told: list[tuple[int, bytes]] = []

    def written(self, each: ToAll, number: int) -> None:
        self.told.append((number, each.head + each.payload))


SENDS = st.tuples(
    st.sampled_from("ab"), st.integers(0, 2), st.booleans(), st.lists(st.integers(0, 39), unique=True), st.booleans()
)


@given(st.lists(st.tuples(SENDS, st.sampled_from(["", "turn", "cut"])), max_size=20), st.integers(1, 30))
def test_entries_in_common_are_those_that_each_was_sent(sends: list[Any], most: int) -> None:
    """In order for each owner, whatever is merged. The writers have payloads and heads that are the same or not."""
    network, payloads = Network(), [bytes([number]) * 300 for number in range(3)]
    receivers = [Receiver(str(number)) for number in range(40)]
    network.bus.spool.write([Claim(owner=each.owner, address="10.0.0.1") for each in receivers])
    rounds = rounds_of(network)
    with patch.object(merging, "MOST_OWNERS", 16 + most):
        for (writer, payload, is_same, numbers, is_all), then in sends:
            chosen = receivers if is_all else [receivers[number] for number in numbers]
            if writer == "b":  # Another writer's are in order among themselves only.
                chosen = chosen[20:]
            else:
                chosen = chosen[:20] if is_all else [each for each in chosen if int(each.owner) < 20]
            head = b"<%d>" % (0 if is_same else len(chosen))
            rounds.append_to_all(writer, ToAll("queue", head, payloads[payload], [*chosen]))
            for each in chosen:
                each.sent.append(head + payloads[payload])
            if then == "turn":
                network.reactor.advance(0)
            elif then == "cut":
                rounds.cut(writer)
        network.reactor.pump([0] * 50)
    store = network.bus.spool.store  # type: ignore[attr-defined]
    for each in receivers:
        kept = [(entry.number, entry.payload) for entry in store.page(each.owner, "queue", 0, 1000, 1 << 20).entries]
        assert [payload for _, payload in kept] == each.sent
        assert sorted(each.told) == kept


def test_those_with_little_do_not_wait_for_those_with_much() -> None:
    scene = Scene()
    for number in range(50):
        scene.change(f"a{number}", 1000, is_whole=False)
        scene.change(f"c{number}", 1000, is_whole=False)
    scene.network.reactor.advance(0)
    scene.change("b1", 1, is_whole=False)
    scene.network.reactor.advance(0)
    rounds = [scene.settle() for _ in range(3)]
    assert [("b1", 0) in each for each in rounds].index(True) <= 2
    assert all(len(each) > A_TURN for each in rounds if ("b1", 0) not in each), "nor do these wait for ever"


def test_much_of_one_address_lets_others_wait_for_two_rounds() -> None:
    scene = Scene()
    for number in range(50):
        scene.change(f"a{number}", 1000, is_whole=False)
    scene.network.reactor.advance(0)
    scene.change("b1", 1, is_whole=False)
    scene.network.reactor.advance(0)
    rounds = [scene.settle() for _ in range(3)]
    assert ("b1", 0) in rounds[2] or ("b1", 0) in rounds[1]
    assert all(len(each) <= MOST_CHANGES + A_TURN for each in rounds)
    answered: list[None] = []
    scene.rounds.durable("c1").addCallback(answered.append)
    scene.network.reactor.pump([0] * 3)
    assert answered == [None], "who has nothing in it waits for nobody"
