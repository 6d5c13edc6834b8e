"""Pauses between attempts end when the program is told to stop, however it is told."""

from __future__ import annotations

import asyncio

import pytest

from bussrv.client.settings import Backoff
from bussrv.uplink.figures import Figures
from bussrv.uplink.lines import Lines
from bussrv.uplink.retry import Retry
from bussrv.uplink.stopping import or_stopped


class Away:
    """Another side that is never reached.

    :ivar tried: is set after the first attempt.
    """

    def __init__(self, stop: asyncio.Event) -> None:
        self.tried = asyncio.Event()
        failures = Figures().counter("failures", "Failed attempts.")
        self._retry = Retry(Lines(False), "server", failures, stop, Backoff(60.0, 60.0))

    async def reach(self) -> None:
        """Try for ever."""
        while True:
            self.tried.set()
            await self._retry.failed("it is away")


@pytest.mark.timeout(30)
def test_a_stop_ends_attempts_that_never_succeed() -> None:
    async def program() -> None:
        stop = asyncio.Event()
        away = Away(stop)
        running = asyncio.ensure_future(or_stopped(away.reach(), stop))
        await away.tried.wait()
        stop.set()
        done, _ = await asyncio.wait([running], timeout=10)
        assert done

    asyncio.run(program())
