"""The tasks of the fold, done in this process, or in a few that it starts."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

import pyarrow as pa

from bussrv.audit.fold.segments import SegmentSource
from bussrv.audit.fold.tasks import STRIPE, BorderJoin, Done, Stripe, Task, perform
from bussrv.audit.progress import Progress
from bussrv.audit.reading.sources import only_spark
from bussrv.audit.reading.stripes import JOINED_AT_ONCE


class ProcessWorkers:
    """See :class:`bussrv.audit.reading.stripes.Workers`.

    :param workers: how many processes do tasks; by default one for each processor, but none for small journals.
    :param progress: is told of the tasks.
    """

    keep_memory = False
    directory = staticmethod(only_spark)

    def __init__(self, workers: int | None = None, progress: Progress | None = None) -> None:
        self._workers = workers
        self._progress = progress or Progress()
        self._pool: ProcessPoolExecutor | None = None

    def start(self, size: int) -> None:
        """Start the processes before there are tasks: they import meanwhile what they need.

        :param size: about how many bytes will be read, at least.
        """
        workers = self._useful(size)
        if workers > 1:
            self._pool = _pool(workers)
            for _ in range(workers):
                self._pool.submit(_import)

    def perform(self, tasks: Sequence[Task]) -> Iterator[Done]:
        """Do tasks."""
        self._progress.tell(0, len(tasks))
        for number, done in enumerate(self._done(tasks), 1):
            self._progress.tell(number, len(tasks))
            yield done

    def _done(self, tasks: Sequence[Task]) -> Iterator[Done]:
        workers = self._useful(size_of(tasks))
        if min(workers, len(tasks)) < 2:
            yield from (perform(task, {}) for task in tasks)
            return
        if self._pool is None:
            self._pool = _pool(workers)
        # The largest first, so that no process does a large one while the others have nothing left.
        in_order = sorted(tasks, key=_size, reverse=True)
        for each in as_completed([self._pool.submit(perform, task, {}) for task in in_order]):
            yield each.result()

    def _useful(self, size: int) -> int:
        """How many processes are worth it to read so many bytes."""
        # To start a process takes longer than to fold a few megabytes.
        return min(1 + size // STRIPE, os.cpu_count() or 1) if self._workers is None else self._workers

    def bring(self, source: SegmentSource) -> SegmentSource:
        """Every process here can read all of them."""
        return source

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown()


def _pool(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))


def _import() -> None:
    """Have a process import what its tasks need: PyArrow imports Pandas for its first array, if it is installed."""
    pa.array([""])


def size_of(tasks: Sequence[Task]) -> int:
    """About how many bytes tasks read."""
    return sum(map(_size, tasks))


def _size(task: Task) -> int:
    if isinstance(task, BorderJoin):
        return JOINED_AT_ONCE
    return sum(each.size for each in (task.sources if isinstance(task, Stripe) else [task.source]))
