"""The progress of an audit: the duration of each phase, and a bar for it on a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERY = 0.25


class Progress:
    """Shows nothing, but keeps the durations.

    :ivar phases: the name and the duration of each phase in seconds, in order.
    """

    def __init__(self) -> None:
        self.phases: list[tuple[str, float]] = []

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A part of the audit, with a name for people, such as "reading the segments"."""
        begun = time.monotonic()
        try:
            with self._shown(name):
                yield
        finally:
            self.phases.append((name, time.monotonic() - begun))

    def tell(self, done: int, total: int) -> None:
        """So many tasks of the phase are done, of all."""

    @contextmanager
    def _shown(self, name: str) -> Iterator[None]:
        yield


class Counted(Progress):
    """Shows each phase on the standard error, with the tasks that it is told of."""

    def __init__(self) -> None:
        super().__init__()
        self._bar: Any = None

    def tell(self, done: int, total: int) -> None:
        """So many tasks of the phase are done, of all."""
        self._bar.n, self._bar.total = done, total
        self._bar.refresh()

    @contextmanager
    def _shown(self, name: str) -> Iterator[None]:
        with _bar(name) as self._bar:
            yield


class Bars(Progress):
    """Shows each phase on the standard error, with the share of Spark's tasks that are done."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__()
        self._tracker = _tracker(spark)

    @contextmanager
    def _shown(self, name: str) -> Iterator[None]:
        with _bar(name) as bar:
            ended = threading.Event()
            watching = threading.Thread(target=self._watch, args=(bar, ended), daemon=True)
            watching.start()
            try:
                yield
            finally:
                ended.set()
                watching.join()

    def _watch(self, bar: Any, ended: threading.Event) -> None:
        while not ended.wait(_EVERY):
            done, total = self._tasks()
            bar.n, bar.total = done, total or None
            bar.refresh()

    def _tasks(self) -> tuple[int, int]:
        """The tasks done and all tasks of the running stages; 0 if Spark is remote."""
        done = total = 0
        # A stage may end between the two calls.
        with suppress(Exception):
            for stage in self._tracker.getActiveStageIds() if self._tracker is not None else ():
                info = self._tracker.getStageInfo(stage)
                if info is not None:
                    done, total = done + info.numCompletedTasks, total + info.numTasks
        return done, total


def _bar(name: str) -> Any:
    from tqdm import tqdm

    return tqdm(desc=name, unit="task", file=sys.stderr, leave=False, dynamic_ncols=True)


def _tracker(spark: SparkSession) -> Any:
    with suppress(Exception):
        return spark.sparkContext.statusTracker()
    return None
