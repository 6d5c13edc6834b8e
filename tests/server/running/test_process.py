"""The process of a server: its clock, its garbage collector, and the file descriptors that it may have."""

import json
import resource
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.selectreactor import SelectReactor

from bussrv.server.running import process
from bussrv.server.running.process import (
    RESERVE,
    YOUNG,
    fitting,
    most_connections,
    most_sessions,
    raise_limit,
    run_on_monotonic_clock,
    warn_of_fewer,
)
from bussrv.settings import Settings

# The clock.


@pytest.fixture(params=[EPollReactor, SelectReactor])
def reactor(request):
    made = request.param()
    yield made
    for reader in made.removeAll():
        reader.connectionLost(None)


@pytest.mark.parametrize("wall", [0.0, 1_800_000_000.0])
def test_calls_that_wait_already_keep_what_is_left_of_their_wait(reactor, monkeypatch, wall):
    reactor.seconds = lambda: wall
    called = []
    for delay in (1000.0, 5.0, 0.0, 300.0):
        reactor.callLater(delay, called.append, delay)
    reactor.callLater(1.0, called.append, "cancelled").cancel()
    reactor.iterate(0)  # Some are in the heap now, some come later.
    reactor.callLater(7.0, called.append, 7.0)
    mono = 123.0
    monkeypatch.setattr(time, "monotonic", lambda: mono)
    run_on_monotonic_clock(reactor)
    run_on_monotonic_clock(reactor)
    for mono in (123.5, 127.9, 128.5, 131.0, 424.0, 1124.0):  # noqa: B007 - the clock reads it
        reactor.iterate(0)
    assert called == [0.0, 5.0, 7.0, 300.0, 1000.0]
    assert reactor.timeout() is None
    later = reactor.callLater(3.0, called.append, "later")
    assert reactor.timeout() == pytest.approx(3.0)
    later.reset(1.0)
    assert reactor.timeout() == pytest.approx(1.0)


# The garbage collector.

PROGRAM = """
import gc, json
from bussrv.server.running.process import tune_collector

tune_collector()
looked_at = []

def collecting(phase, about):
    if phase == "start":
        looked_at.append(sum(len(gc.get_objects(each)) for each in range(about["generation"] + 1)))

gc.callbacks.append(collecting)
kept = [[] for _ in range(400_000)]
print(json.dumps(looked_at))
"""


@pytest.mark.processes
@pytest.mark.skipif(sys.version_info >= (3, 14), reason="collects a part of the older objects at a time")
def test_no_collection_looks_at_many_objects_while_more_come() -> None:
    answer = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True).stdout
    looked_at = json.loads(answer)
    assert len(looked_at) >= 19
    assert max(looked_at) < 3.1 * YOUNG


# File descriptors.


@given(st.integers(1, 100_000), st.integers(1, 200_000))
def test_something_is_left_for_the_rest_for_any_system_limit(wanted: int, limit: int) -> None:
    sessions, connections = most_sessions(wanted, limit), most_connections(limit)
    assert 1 <= sessions <= wanted
    assert sessions <= connections <= max(1, limit)
    if limit >= 2 * RESERVE:
        assert sessions == min(wanted, limit - RESERVE)
        assert connections <= limit - RESERVE // 2


INFINITY = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("limits", "wanted", "expected", "set_to"),
    [
        ((1024, 4096), 500, 1024, None),
        ((1024, 4096), 2000, 2000 + RESERVE, (2000 + RESERVE, 4096)),
        ((1024, 4096), 50_000, 4096, (4096, 4096)),
        ((1024, INFINITY), 2000, 2000 + RESERVE, (2000 + RESERVE, INFINITY)),
        ((INFINITY, INFINITY), 2000, 2000 + RESERVE, None),
    ],
)
def test_the_limit_is_raised_as_far_as_is_needed_and_allowed(
    monkeypatch: pytest.MonkeyPatch,
    limits: tuple[int, int],
    wanted: int,
    expected: int,
    set_to: tuple[int, int] | None,
) -> None:
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(process.resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(process.resource, "setrlimit", lambda _, pair: given.append(pair))
    assert raise_limit(wanted) == expected
    assert given == ([] if set_to is None else [set_to])


def test_the_log_says_once_that_there_may_be_fewer_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(process.log, "warn", lambda text, **_: said.append(text))
    wanted = replace(Settings(), max_sessions=50_000)
    fits = fitting(wanted, 1024)
    assert fits.settings.max_sessions == 1024 - RESERVE
    warn_of_fewer(fits.settings, fits)
    assert not said
    warn_of_fewer(wanted, fits)
    assert len(said) == 1
