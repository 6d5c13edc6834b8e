"""The end of an uplink: its parts stop together, and none of them waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from bussrv.errors import BussrvError

STOP_SECONDS = 10.0
"""The time that the parts have to finish what they are doing when the program is told to stop."""


class UplinkError(BussrvError):
    """The uplink cannot go on: one sentence, for an operator."""


class TakenOver(UplinkError):
    """Another uplink of the same server does what this one did. If both went on, they would take turns for ever."""


Job = Callable[[], Awaitable[None]]
Result = TypeVar("Result")


async def or_stopped(work: Coroutine[Any, Any, Result], stop: asyncio.Event) -> Result | None:
    """Wait for work, but no longer than until ``stop`` is set. Then the work is cancelled.

    :returns: ``None`` if it was.
    """
    task, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        for each in (task, stopping):
            each.cancel()
        await asyncio.gather(task, stopping, return_exceptions=True)


async def run_jobs(jobs: Sequence[Job], stop: asyncio.Event, patience: float = STOP_SECONDS) -> None:
    """Run jobs until one of them ends, or ``stop`` is set. Then the others have to end, too.

    :param patience: the seconds that they have. Then they are cancelled.
    :raises Exception: the error of the first job that failed.
    """
    tasks = [asyncio.ensure_future(job()) for job in jobs]
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        await asyncio.wait(tasks, timeout=patience)
    finally:
        for task in (*tasks, stopping):
            task.cancel()
        outcomes = await asyncio.gather(*tasks, stopping, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
