"""Jobs in steps: one job after the other, some steps in each slice."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from bussrv.counts.throttle import Throttle
from bussrv.turns.slices import Slices

MOST_STEPS = 32
"""The most steps in one slice."""

log = Logger()


class Jobs:
    """Does jobs in order. A job is an iterator; each item that it yields ends a step.

    :param complaints: limits how often the log says that a job failed.
    """

    def __init__(self, slices: Slices, complaints: Throttle) -> None:
        self._complaints = complaints
        self._slices = slices
        self._jobs: deque[Iterator[None]] = deque()
        self._is_working = False
        self._waiting: list[Deferred[None]] = []

    def add(self, job: Iterator[None]) -> None:
        """Do a job, after those added before."""
        self._jobs.append(job)
        if not self._is_working:
            self._is_working = True
            self._slices.do(self._slice)

    def done(self) -> Deferred[None] | None:
        """Fires when all jobs added so far are done; ``None``: they are."""
        if not self._jobs:
            return None
        done: Deferred[None] = Deferred()
        self._waiting.append(done)
        return done

    def _slice(self, until: float) -> bool:
        steps = 0
        while self._jobs and steps < MOST_STEPS and not self._slices.is_over(until):
            self._step()
            steps += 1
        self._is_working = bool(self._jobs)
        if not self._jobs:
            waiting, self._waiting = self._waiting, []
            for done in waiting:
                done.callback(None)
        return self._is_working

    def _step(self) -> None:
        job = self._jobs[0]
        try:
            is_done = next(job, self) is self
        except Exception:
            suppressed = self._complaints.admit("jobs")
            if suppressed is not None:
                log.failure(
                    "a job failed; others go on ({suppressed} more not logged)",
                    event="job.failed",
                    suppressed=suppressed,
                )
            is_done = True
        if is_done:
            self._jobs.popleft()
