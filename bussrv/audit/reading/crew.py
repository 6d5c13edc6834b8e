"""The tasks of the fold, done in this process, or in a few that it starts."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from bussrv.audit.fold.segments import Source
from bussrv.audit.fold.tasks import STRIPE, Done, Stripe, Task, perform
from bussrv.audit.progress import Progress


class Crew:
    """See :class:`bussrv.audit.reading.gather.Crew`.

    :param workers: how many processes do tasks; by default one for each processor, but none for small journals.
    :param progress: is told of the tasks.
    """

    def __init__(self, workers: int | None = None, progress: Progress | None = None) -> None:
        self._workers = workers
        self._progress = progress or Progress()

    def perform(self, tasks: Sequence[Task]) -> Iterator[Done]:
        """Do tasks."""
        self._progress.tell(0, len(tasks))
        for number, done in enumerate(self._done(tasks), 1):
            self._progress.tell(number, len(tasks))
            yield done

    def _done(self, tasks: Sequence[Task]) -> Iterator[Done]:
        workers = min(_useful(tasks) if self._workers is None else self._workers, len(tasks))
        if workers < 2:
            yield from (perform(task, {}) for task in tasks)
            return
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
            for each in as_completed([pool.submit(perform, task, {}) for task in tasks]):
                yield each.result()

    def bring(self, source: Source) -> Source:
        """Every process here can read all of them."""
        return source


def _useful(tasks: Sequence[Task]) -> int:
    # To start a process takes longer than to fold a few megabytes.
    size = sum(source.size for task in tasks if isinstance(task, Stripe) for source in task.sources)
    return min(1 + size // STRIPE, os.cpu_count() or 1)
