"""Tries again after failures, with growing pauses. A failure is logged once, and so is its end."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from prometheus_client import Counter

from bussrv.client.settings import Backoff
from bussrv.uplink.lines import Lines

PAUSES = Backoff(0.2, 30.0)


class Retry:
    """The failures in a row of one connection.

    :param whom: the other side, for people.
    :param failures: counts the failures.
    :param stop: is set when the program is to stop: pauses end then.
    """

    def __init__(self, log: Lines, whom: str, failures: Counter, stop: asyncio.Event, pauses: Backoff = PAUSES) -> None:
        self._log = log
        self._whom = whom
        self._failures = failures
        self._stop = stop
        self._pauses = pauses
        self._attempts = 0

    async def failed(self, error: object) -> None:
        """Log the first failure, and wait before the next attempt. Pauses are jittered, and grow to half a minute."""
        self._failures.inc()
        if not self._attempts:
            self._log.warn(
                "uplink: {whom} is lost, and tried again after pauses: {error}",
                event="uplink.lost",
                whom=self._whom,
                error=error,
            )
        pause = self._pauses.pause(self._attempts)
        self._attempts += 1
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._stop.wait(), pause)

    def worked(self) -> None:
        """It works. Log so if it had failed."""
        if self._attempts:
            self._log.info(
                "uplink: {whom} is back after {attempts} attempts",
                event="uplink.back",
                whom=self._whom,
                attempts=self._attempts,
            )
        self._attempts = 0
