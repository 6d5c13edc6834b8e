"""Tries again after failures, with growing pauses. A failure is logged once, and so is its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from prometheus_client import Counter

from bussrv.client.settings import Backoff
from bussrv.uplink.lines import Lines

PAUSES = Backoff(0.2, 30.0)
SLOW_SECONDS = 5.0
"""Work that takes longer may wait for another side that is away."""

Result = TypeVar("Result")


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
        self._note(error)
        pause = self._pauses.pause(self._attempts - 1)
        # Not asyncio.wait_for: before Python 3.12 it swallows a cancellation that comes together with the stop.
        stopping = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait([stopping], timeout=pause)
        finally:
            stopping.cancel()

    async def watch(self, work: Coroutine[Any, Any, Result], check: Callable[[], Awaitable[None]]) -> Result:
        """Wait for work that a library tries again by itself, for as long as it takes.

        :param check: raises an error if the other side is away. It is asked when the work takes long.
        """
        task = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait([task], timeout=SLOW_SECONDS))[0]:
                await self._note_if_away(check)
        finally:
            task.cancel()
        self.worked()
        return task.result()

    async def _note_if_away(self, check: Callable[[], Awaitable[None]]) -> None:
        try:
            await check()
        except Exception as error:
            self._note(error)

    def _note(self, error: object) -> None:
        self._failures.inc()
        if not self._attempts:
            self._log.warn(
                "uplink: {whom} is lost, and tried again after pauses: {error}",
                event="uplink.lost",
                whom=self._whom,
                error=error,
            )
        self._attempts += 1

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
