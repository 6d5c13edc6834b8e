"""How far a long audit is: a bar for each of its phases, on a terminal, and how long each of them took."""

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
    """Tells nobody, but keeps the times.

    :ivar phases: how long each phase took, in seconds, in their order.
    """

    def __init__(self) -> None:
        self.phases: list[tuple[str, float]] = []

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A part of the audit, named for people: "reading the segments"."""
        begun = time.monotonic()
        try:
            with self._shown(name):
                yield
        finally:
            self.phases.append((name, time.monotonic() - begun))

    @contextmanager
    def _shown(self, name: str) -> Iterator[None]:
        yield


class Bars(Progress):
    """Shows each phase on the standard error, with as much of it as Spark says is done."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__()
        self._tracker = _tracker(spark)

    @contextmanager
    def _shown(self, name: str) -> Iterator[None]:
        from tqdm import tqdm

        with tqdm(desc=name, unit="task", file=sys.stderr, leave=False, dynamic_ncols=True) as bar:
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
        """How many tasks of the stages that run are done, and how many these have; nothing where Spark is remote."""
        done = total = 0
        # A stage may be over by the time that it is asked for.
        with suppress(Exception):
            for stage in self._tracker.getActiveStageIds() if self._tracker is not None else ():
                info = self._tracker.getStageInfo(stage)
                if info is not None:
                    done, total = done + info.numCompletedTasks, total + info.numTasks
        return done, total


def _tracker(spark: SparkSession) -> Any:
    with suppress(Exception):
        return spark.sparkContext.statusTracker()
    return None
