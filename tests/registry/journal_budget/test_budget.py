"""The budget of journal bytes: what one may spend, what all may spend, and that it is shared fairly."""

from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.registry.journal_budget.budget import LEAST_SHARE, RESERVE, Budget, Limits, Payer
from tests.size import sized

TICKS = sized(2000) // 5 * 5
"""How often who always waits is asked, five times a second."""

MOST = 500
"""No change is larger, in bytes."""


class Scene:
    """Addresses that spend. ``spent`` has when each spent how much."""

    def __init__(self, **limits):
        self.limits = Limits(**{"rate": 10**9, "burst": 10**9, "total_rate": 1000, "total_burst": 160_000, **limits})
        self.now = 0.0
        self.budget = Budget(self.limits, lambda: self.now)
        self.spent = defaultdict(list)

    def ask(self, address, size, session=None, **more):
        """Spend, unless that has to wait. :returns: how long."""
        payer = Payer(session or f"{address}.1", address, **more)
        is_plenty = self.budget.is_plenty(payer)
        wait = self.budget.wait(payer)
        assert not (is_plenty and wait)
        if not wait:
            self.budget.charge(payer, size)
            self.spent[address].append((self.now, size))
        return wait

    def total(self, address=None, since=0.0):
        which = self.spent.values() if address is None else [self.spent[address]]
        return sum(size for each in which for when, size in each if when >= since)


steps = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from("12"), st.integers(1, MOST), st.integers(0, 8)), max_size=150
)


@given(steps, st.integers(50, 2000), st.integers(1, 5000))
def test_nobody_spends_more_than_rate_and_burst_or_waits_in_vain(steps, rate, burst):
    scene = Scene(rate=rate, burst=burst, total_rate=10**9, total_burst=10**9)
    by_session = defaultdict(list)
    for address, session, size, pause in steps:
        scene.now += pause / 8
        payer = Payer(f"{address}.{session}", address)
        wait = scene.ask(address, size, payer.session)
        if wait:
            scene.now += wait + 1e-6
            assert scene.ask(address, size, payer.session) == 0
        by_session[payer.session].append((scene.now, size))
    for spent in [*scene.spent.values(), *by_session.values()]:
        for first, (start, _) in enumerate(spent):
            for last in range(first, len(spent)):
                sizes = sum(size for _, size in spent[first : last + 1])
                assert sizes <= burst + MOST + (spent[last][0] - start) * rate + 1e-3


@given(steps, st.integers(50, 2000), st.integers(1, 30_000))
def test_any_number_together_spend_no_more_than_the_total(steps, rate, burst):
    scene = Scene(total_rate=rate, total_burst=burst)
    for number, (_, _, size, pause) in enumerate(steps):
        scene.now += pause / 8
        scene.ask(f"address {number}", size)
        assert scene.total() <= burst + MOST + scene.now * rate + 1e-3


def test_what_nobody_needs_is_for_who_asks():
    scene = Scene()
    while not scene.ask("a", MOST):
        pass
    assert scene.total() == pytest.approx(150_000, abs=2 * MOST)
    scene.now += 100
    before = scene.total()
    while not scene.ask("a", MOST):
        pass
    assert scene.total() - before == pytest.approx(100_000, abs=LEAST_SHARE + 2 * MOST)


@given(
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(1, MOST), st.integers(0, 3)), min_size=5, max_size=60),
    st.integers(0, 200),
)
def test_under_its_fair_share_an_address_never_waits_for_others(greedy, light, begin):
    """Whatever it asks for, and when: as long as that is less than its share would be if all of them were greedy."""
    scene = Scene(total_burst=RESERVE * LEAST_SHARE * 8)
    share = scene.limits.total_rate / (greedy + 1)
    due, asked = begin / 10, 0.0
    todo = iter(light)
    size, pause = next(todo)
    ticks = 0
    while ticks < 6000:
        ticks += 1
        scene.now = ticks / 10
        for each in range(greedy):
            while not scene.ask(f"greedy {each}", MOST):
                pass
        if scene.now >= due:
            assert scene.ask("light", size) == 0
            asked += size
            # Not before its share has earned what it spent.
            due = scene.now + size / share + pause
            size, pause = next(todo, (0, 0))
            if not size:
                return


@given(st.integers(2, 6), st.lists(st.integers(50, MOST), min_size=6, max_size=6))
def test_who_always_waits_gets_the_same_as_the_others(count, sizes):
    """Whether it asks for little at a time, or for much."""
    scene = Scene(total_burst=RESERVE * LEAST_SHARE * 8)
    for tick in range(TICKS):
        scene.now = tick / 5
        for each in range(count):
            while not scene.ask(f"greedy {each}", sizes[each]):
                pass
    # What was there at the beginning went to whoever asked first.
    got = [scene.total(f"greedy {each}", since=1.0) for each in range(count)]
    assert max(got) - min(got) <= LEAST_SHARE + 2 * MOST
    assert sum(got) == pytest.approx((TICKS // 5 - 1) * 1000, abs=count * (LEAST_SHARE + MOST))


def test_who_is_authenticated_does_not_wait_for_strangers():
    scene = Scene(rate=100, burst=1000)
    for number in range(400):
        scene.ask(f"stranger {number}", MOST)
    assert scene.ask("stranger", MOST) > 0
    assert scene.ask("friend", MOST, is_authenticated=True) == 0
    assert [scene.ask("friend", MOST, is_authenticated=True) > 0 for _ in range(3)] == [False, False, True]


def test_whoever_cannot_wait_leaves_half_the_reserve_to_others():
    scene = Scene()
    number = 0
    while not scene.budget.wait(Payer(None, f"false {number}"), can_wait=False):
        scene.budget.charge(Payer(None, f"false {number}"), MOST)
        number += 1
    assert 160_000 - number * MOST == pytest.approx(5000, abs=MOST)
    for number in range(9):
        assert scene.ask(f"true {number}", MOST) == 0


def test_what_is_charged_without_asking_counts():
    scene = Scene(rate=100, burst=1000)
    scene.budget.charge(Payer("a.1", "a"), 3000)
    assert scene.ask("a", 1) == pytest.approx(20)
    assert scene.ask("a", 1, "a.2") == pytest.approx(20)
    assert scene.ask("b", 1) == 0


def test_a_clock_that_goes_back_gives_nothing_and_costs_nothing():
    scene = Scene(rate=100, burst=1000)
    scene.budget.charge(Payer("a.1", "a"), 3000)
    scene.now = -1000.0
    assert scene.ask("a", 1) == pytest.approx(20)
    scene.now = 20.5
    assert scene.ask("a", 1) == 0


def test_addresses_and_sessions_that_owe_nothing_are_forgotten():
    scene = Scene(rate=1000, burst=1000)
    for number in range(1000):
        scene.now += 2
        assert scene.ask(f"address {number}", MOST) == 0
        scene.budget.forget(f"address {number}.1")
    assert len(scene.budget._accounts) < 10
    assert not scene.budget._sessions
    assert len(scene.budget._counted) < 10


def test_it_goes_on_while_some_get_back_what_they_spent():
    scene = Scene()
    for number in range(50):
        scene.ask(f"address {number}", 100)
        scene.now += 0.01
    scene.now += 1000
    assert [scene.ask(address, 100) for address in ("address 0", "new")] == [0, 0]
    assert all(before <= after for before, after in pairwise(sorted(each for each, _ in scene.budget._counted)))
