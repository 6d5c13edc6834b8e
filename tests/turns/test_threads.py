"""Threads that compute, on a real reactor."""

from __future__ import annotations

import threading

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import CancelledError, DeferredList

from bussrv.turns.threads import Threads


def names() -> set[str]:
    return {each.name for each in threading.enumerate() if each.name.startswith("PoolThread-made-up")}


def triggers() -> int:
    return len(reactor._eventTriggers["shutdown"].during)


@pytest_twisted.ensureDeferred
async def test_threads_are_there_while_something_is_computed() -> None:
    before, threads, go_on = triggers(), Threads(reactor, "made-up", 2), threading.Event()
    for _ in range(3):
        go_on.clear()
        computed = [threads(go_on.wait, 20) for _ in range(4)]
        assert 1 <= len(names()) <= 2
        assert triggers() == before + 1
        go_on.set()
        await DeferredList(computed)
        assert names() == set()
        assert triggers() == before


@pytest_twisted.ensureDeferred
async def test_nobody_waits_for_what_was_cancelled() -> None:
    """The reactor is not held up, and what is computed meanwhile is nobody's."""
    threads, go_on = Threads(reactor, "made-up", 1), threading.Event()
    cancelled, later = threads(go_on.wait, 20), threads(lambda: "later")
    cancelled.cancel()
    with pytest.raises(CancelledError):
        await cancelled
    assert names()
    go_on.set()
    assert await later == "later"
    assert names() == set()


@pytest_twisted.ensureDeferred
async def test_a_failure_in_a_thread_is_that_of_the_call() -> None:
    threads = Threads(reactor, "made-up", 1)
    with pytest.raises(ZeroDivisionError):
        await threads(lambda: 1 / 0)
    assert names() == set()
