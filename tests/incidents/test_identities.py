"""The ids of a running server: as exact as a list of all sessions, in tables that stay small."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv.incidents import identities as tables
from bussrv.incidents.identities import MOST_EXACT, Identities
from bussrv.incidents.judging import Incident
from bussrv.incidents.tally import QUIET
from tests.size import sized

SECOND = 1_000_000
MICROSECONDS = QUIET * SECOND

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.sampled_from("ab"), st.integers(0, 9)),
        st.tuples(st.just("take"), st.sampled_from("ab"), st.integers(0, 9)),
        st.tuples(st.just("move"), st.sampled_from("ab"), st.integers(0, 9)),
        st.tuples(st.just("close"), st.integers(0, 3), st.integers(0, 9)),
    ),
    min_size=20,
    max_size=60,
)


class Model:
    """All sessions, kept in a list: their ids, openings and ends."""

    def __init__(self) -> None:
        self.over: list[Incident] = []
        self.not_kept: Counter[str] = Counter()
        self.ids = Identities("hall", self.not_kept, self.over.append)
        self.sessions: list[dict[str, Any]] = []
        self.now = 0

    def take(self, routing_id: str, ago: int = 0) -> dict[str, Any]:
        """A session, opened a while ago, takes an id."""
        self.now += 1
        made = {"id": routing_id, "opened": max(0, self.now - ago), "session": f"s{len(self.sessions):05}"}
        self.sessions.append({**made, "closed": None})
        self.ids.take(routing_id, made["opened"], made["session"])
        return self.sessions[-1]

    def move(self, routing_id: str, number: int) -> None:
        """A session takes another id."""
        still = [each for each in self.sessions if each["closed"] is None and each["id"] != routing_id]
        if still:
            moved = still[number % len(still)]
            self.ids.leave(moved["id"], moved["opened"], moved["session"])
            moved["id"] = routing_id
            self.ids.take(routing_id, moved["opened"], moved["session"])

    def close(self, number: int, pause: int = 1) -> None:
        """A session ends, perhaps at the same moment as something else."""
        self.now += pause
        still = [each for each in self.sessions if each["closed"] is None]
        if still:
            closed = still[number % len(still)]
            closed["closed"] = self.now
            self.ids.close(closed["id"], closed["opened"], closed["session"], self.now)

    def rows(self) -> dict[str | None, tuple[Any, ...]]:
        return {each.subject: (each.number, each.others, each.begin, each.end) for each in self.ids.rows()}

    def expected(self) -> dict[str | None, tuple[Any, ...]]:
        found: dict[str | None, tuple[Any, ...]] = {}
        for routing_id in "ab":
            those = [each for each in self.sessions if each["id"] == routing_id]
            those.sort(key=lambda each: (each["opened"], each["session"]))
            number = sum(one["closed"] is None or one["closed"] > two["opened"] for one, two in pairwise(those))
            times = [moment for each in those for moment in (each["opened"], each["closed"]) if moment is not None]
            if number:
                found[routing_id] = (number, len(those), min(each["opened"] for each in those), max(times))
        return found


@settings(max_examples=sized(300))
@given(STEPS)
def test_ids_are_judged_as_a_list_of_all_sessions_would(steps: list[tuple[Any, ...]]) -> None:
    model = Model()
    for name, *how in steps:
        getattr(model, name)(*how)
    assert model.rows() == model.expected()


@given(st.lists(st.booleans(), min_size=MOST_EXACT, max_size=5 * MOST_EXACT))
@settings(max_examples=sized(50))
def test_clients_that_come_and_go_in_turn_are_all_counted(overlap: list[bool]) -> None:
    """The next client takes the id at once, and was there before if the histories overlap: far more than are exact."""
    model = Model()
    model.take("a")
    for is_there in overlap:
        if is_there:
            model.take("a")
            model.close(0)
        else:
            model.close(0)
            model.take("a")
    assert model.rows() == model.expected()
    assert len(model.ids._ids["a"].held) <= MOST_EXACT


def test_a_contested_id_ends_when_one_client_alone_has_it() -> None:
    model = Model()
    model.take("a")
    model.take("a")
    end = model.now + MICROSECONDS
    model.ids.forget(end)
    assert model.rows() == {"a": (1, 2, 1, 2)}
    model.close(0)
    model.ids.forget(model.now)
    assert (model.rows(), model.over) == ({"a": (1, 2, 1, 3)}, [])
    model.ids.forget(model.now + 1)
    assert (model.rows(), [each.number for each in model.over]) == ({}, [1])
    # Whoever is left is contested again by the next one.
    model.take("a")
    assert model.rows() == {"a": (1, 2, 2, 4)}


def test_ids_that_nobody_has_make_room_before_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """One address claims thousands of ids; the door, which is there for long, is followed nevertheless."""
    monkeypatch.setattr(tables, "MOST_IDS", 100)
    model = Model()
    door = model.take("door")
    for number in range(1_000):
        model.take(f"made-up-{number}")
        model.close(1)
    assert model.not_kept == {"ids": 901}
    model.take("door", ago=5)
    assert model.rows() == {"door": (1, 2, door["opened"], model.now - 5)}


def test_a_client_that_says_another_id_each_time_takes_no_room() -> None:
    model = Model()
    model.take("a")
    for number in range(10_000):
        model.move(f"made-up-{number}", 0)
    assert (len(model.ids._ids), model.ids._held, model.not_kept) == (1, 1, {})


@pytest.mark.dear
def test_ids_take_little_memory_under_attack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of ids, each of them contested again and again, cannot hold more than their share."""
    monkeypatch.setattr(tables, "MOST_IDS", 1_000)
    monkeypatch.setattr(tables, "MOST_HELD", 2_000)
    ids = Identities("hall", not_kept := Counter[str](), lambda row: None)
    tracemalloc.start()
    for number in range(sized(60_000, 3)):
        # A made-up id is contested by two, who go.
        name = f"{number % 3_000}"
        for which in (0, 1):
            ids.take(name, number, f"s{number}.{which}")
        ids.close(name, number, f"s{number}.{number % 2}", number + 1)
        if number % 3:
            ids.close(name, number, f"s{number}.{1 - number % 2}", number + 1)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert ids._held == sum(len(each.held) for each in ids._ids.values()) <= 2_000
    assert len(ids._ids) <= 1_000
    assert not_kept["ids"] > 1_000
    assert size < 1 << 20


def test_a_storm_of_contested_ids_is_bounded_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look has to look at each of them."""
    monkeypatch.setattr(tables, "MOST_CONTESTED", 10)
    model = Model()
    for number in range(30):
        model.take(f"id-{number}")
        model.take(f"id-{number}")
    assert [each.subject for each in model.ids.rows()] == [f"id-{number}" for number in range(20, 30)]
    assert [each.subject for each in model.over] == [f"id-{number}" for number in range(20)]
    assert model.not_kept == {"contested": 20}


def test_a_clock_that_is_set_back_leaves_no_incident_for_ever() -> None:
    model = Model()
    model.now = 100 * MICROSECONDS
    model.take("a")
    model.take("a")
    model.close(0)
    model.ids.forget(50 * MICROSECONDS)
    assert (model.rows(), [each.number for each in model.over]) == ({}, [1])
