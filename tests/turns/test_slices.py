"""Work in slices: whatever is asked of it, nothing starves, nothing is lost, and no reactor turn takes long."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.logger import Logger, LogPublisher

import bussrv.turns.slices
from bussrv.turns.slices import SLICES_A_TURN, Slices

SLICE = 1.0
STEP = 0.25
"""How long one step of work takes: work looks at the time after each."""


class Job:
    """Work that takes some steps."""

    def __init__(self, clock: Clock, name: str, steps: int, done: list[str]) -> None:
        self.clock = clock
        self.name = name
        self.steps = steps
        self.done = done
        self.slices = 0

    def __call__(self, until: float) -> bool:
        self.slices += 1
        while self.steps:
            self.steps -= 1
            self.clock.rightNow += STEP  # advance() would run what waits for the next turn
            if self.clock.seconds() >= until:
                break
        if not self.steps:
            self.done.append(self.name)
        return self.steps > 0


def reactor_turn(clock: Clock) -> None:
    """Call what was put off until now; ``advance`` would also call what that puts off."""
    for call in clock.getDelayedCalls():
        function, arguments = call.func, call.args
        call.cancel()
        function(*arguments)


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["", "a", "b"])), max_size=12), min_size=1, max_size=6
    )
)
def test_no_turn_is_long_and_nothing_starves(turns: list[list[tuple[int, str]]]) -> None:
    clock, done, counters = Clock(), [], Counter[str]()
    slices = Slices(clock, SLICE, counters)
    jobs: list[Job] = []
    pending = [*turns]
    while pending or clock.getDelayedCalls():
        left_before = [job for job in jobs if job.slices and job.steps]
        slices_before = [job.slices for job in left_before]
        begin = clock.seconds()
        reactor_turn(clock)
        for steps, address in pending.pop(0) if pending else ():
            jobs.append(Job(clock, f"{len(jobs)}", steps, done))
            slices.do(jobs[-1], address)
        if left_before:
            assert any(job.slices > before for job, before in zip(left_before, slices_before, strict=True))
        # One slice begins just before the turn is long enough, and one goes to what was left in any case.
        assert clock.seconds() - begin < (SLICES_A_TURN + 2) * SLICE
    assert sorted(done) == sorted(job.name for job in jobs)
    assert counters["slice-over"] == sum(job.slices - 1 for job in jobs)


def test_short_work_overtakes_long_work() -> None:
    clock, done = Clock(), []
    slices = Slices(clock, SLICE, Counter())
    for steps, name in ((400, "long"), (400, "as long"), (1, "short")):
        slices.do(Job(clock, name, steps, done))
    reactor_turn(clock)
    assert done == ["short"]


def test_addresses_take_turns() -> None:
    clock, done = Clock(), []
    slices = Slices(clock, SLICE, Counter())
    slices.do(Job(clock, "long", 400, done), "a")
    for name in ("a1", "a2", "a3", "b1", "a4", "b2", "c1"):
        slices.do(Job(clock, name, 1, done), name[0])
    reactor_turn(clock)
    assert done == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]


def test_of_what_is_left_each_address_gets_a_slice_in_turn() -> None:
    clock, done = Clock(), []
    slices = Slices(clock, SLICE, Counter())
    jobs = [Job(clock, name, 400, done) for name in ("a1", "a2", "a3", "a4", "a5", "a6", "b1")]
    for job in jobs:
        slices.do(job, job.name[0])
    for _ in range(8):
        reactor_turn(clock)
    assert jobs[-1].slices > 3 * max(job.slices for job in jobs[:-1])


def test_work_that_fails_ends_alone(monkeypatch) -> None:
    monkeypatch.setattr(bussrv.turns.slices, "log", Logger(observer=LogPublisher()))
    clock, done = Clock(), []
    slices = Slices(clock, SLICE, Counter())

    def fails(until: float) -> bool:
        raise ValueError

    slices.do(fails)
    slices.do(Job(clock, "next", 1, done))
    assert done == ["next"]


def test_short_turns_do_not_add_up_and_waiting_work_is_not_lost() -> None:
    clock, done = Clock(), []
    slices = Slices(clock, SLICE, Counter())
    for _ in range(3 * SLICES_A_TURN):
        slices.begin_turn()
        assert slices.is_free
        slices.spend(SLICE)
    slices.spend(SLICES_A_TURN * SLICE)
    slices.do(Job(clock, "late", 1, done))
    slices.begin_turn()
    slices.do(Job(clock, "later", 1, done))
    assert done == []
    reactor_turn(clock)
    assert done == ["late", "later"]
    assert slices.is_free
