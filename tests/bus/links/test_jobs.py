"""Jobs, step by step."""

from collections import Counter
from itertools import pairwise

import pytest
from twisted.internet.task import Clock
from twisted.logger import Logger, LogPublisher

import bussrv.bus.links.jobs
from bussrv.bus.links.jobs import MOST_STEPS, Jobs
from bussrv.counts.throttle import LOG_BURST, LOG_RATE, Throttle
from bussrv.turns.slices import Slices


@pytest.fixture
def reactor():
    return Clock()


def make_jobs(reactor):
    return Jobs(Slices(reactor, 1.0, Counter()), Throttle(LOG_RATE, LOG_BURST, reactor.seconds))


def job(name, steps, log):
    for number in range(steps):
        log.append((name, number))
        yield


def test_a_short_job_is_done_at_once(reactor):
    log = []
    jobs = make_jobs(reactor)
    jobs.add(job("a", MOST_STEPS - 1, log))
    assert len(log) == MOST_STEPS - 1
    assert (jobs.done(), reactor.getDelayedCalls()) == (None, [])


def test_a_long_job_is_done_bit_by_bit_and_others_behind_it(reactor):
    log, lengths = [], []
    jobs = make_jobs(reactor)
    jobs.add(job("a", 3 * MOST_STEPS, log))
    jobs.add(job("b", MOST_STEPS, log))
    done = jobs.done()
    assert done is not None
    while not done.called:
        lengths.append(len(log))
        reactor.advance(0)
    assert log == [
        *(("a", number) for number in range(3 * MOST_STEPS)),
        *(("b", number) for number in range(MOST_STEPS)),
    ]
    assert all(now - before <= MOST_STEPS for before, now in pairwise(lengths))
    assert jobs.done() is None


def test_a_broken_job_does_not_keep_others_from_being_done(reactor, monkeypatch):
    monkeypatch.setattr(bussrv.bus.links.jobs, "log", Logger(observer=LogPublisher()))

    def broken():
        yield
        raise ValueError("broken")

    log = []
    jobs = make_jobs(reactor)
    jobs.add(job("a", MOST_STEPS, log))
    jobs.add(broken())
    jobs.add(job("b", 2, log))
    reactor.advance(0)
    assert log[-2:] == [("b", 0), ("b", 1)]
    assert jobs.done() is None


def test_a_job_may_begin_another_one(reactor):
    log = []

    def begins():
        log.append("first")
        jobs.add(job("b", 1, log))
        log.append("not yet")
        yield

    jobs = make_jobs(reactor)
    jobs.add(begins())
    assert log == ["first", "not yet", ("b", 0)]
