"""The reactor goes by the monotonic clock, and what waited already waits no longer and no shorter for that."""

import time

import pytest
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.selectreactor import SelectReactor

from bussrv.server.running.process import run_on_monotonic_clock


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
