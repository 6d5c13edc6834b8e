"""``bussrv audit --every``: rounds over what is new, until a signal comes."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bussrv.audit.job import CLEAN, NOT_JUDGED, main
from bussrv.journal.segment import list_segments
from tests.audit.commands import Ended, called
from tests.audit.conftest import without_patience, without_report
from tests.audit.journals import change_line, day, write_journal

PATIENCE = 120.0


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    with without_patience(), without_report():
        yield


class Rounds:
    """An audit in this process, every second, and what happens between its rounds."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = place
        done, taken = self._done, self._taken = threading.Semaphore(0), threading.Semaphore(0)
        is_over = self._is_over = threading.Event()
        self._failure: BaseException | None = None

        class Pause(threading.Event):
            def wait(self, _: float | None = None) -> bool:
                done.release()
                taken.acquire()
                return super().wait(PATIENCE if is_over.is_set() else 0)

        monkeypatch.setattr("bussrv.audit.live.Event", Pause)

    def run(self, spark: SparkSession | None, *steps: Callable[[], None], by: signal.Signals) -> Ended:
        """Audit, and take a step after each round; then end it."""
        thread = threading.Thread(target=self._take, args=(steps, by))
        thread.start()
        engine = "embedded" if spark is None else "spark"
        ended = called(spark, main, self.place, "hall", "--every", "1", "--engine", engine)
        thread.join()
        if self._failure is not None:
            raise self._failure
        return ended

    def _take(self, steps: tuple[Callable[[], None], ...], by: signal.Signals) -> None:
        try:
            for step in (*steps, self._is_over.set):
                assert self._done.acquire(timeout=PATIENCE)
                step()
                self._taken.release()
        except BaseException as error:
            self._failure = error
            self._taken.release()
        finally:
            os.kill(os.getpid(), by)

    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.place / "bussrv-audit" / "summary.json").read_text())
        return found


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_each_round_reads_what_is_new(
    by: signal.Signals, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By either engine. What is wrong is told, and so is a round that fails; the next one is made all the same."""
    rounds, records = Rounds(tmp_path, monkeypatch), day().records
    hall = write_journal(tmp_path / "hall", records[:4], records[4:])
    second = list_segments(hall)[1]
    text = second.read_bytes()
    second.unlink()
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    summaries = []

    def grow() -> None:
        summaries.append(rounds.summary())
        second.write_bytes(text)

    def tamper() -> None:
        summaries.append(rounds.summary())
        change_line(second, 3, lambda line: line.replace(b'"mono":', b'"mono":1'))

    def hide() -> None:
        summaries.append(rounds.summary())
        hall.rename(tmp_path / "hidden")

    def show() -> None:
        assert rounds.summary() == summaries[-1]
        (tmp_path / "hidden").rename(hall)

    ended = rounds.run(spark if by == signal.SIGINT else None, grow, tamper, hide, show, by=by)
    assert (ended.returncode, [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]) == (CLEAN, handlers)
    assert [each["integrity"] for each in summaries] == ["intact", "intact", "findings"]
    assert [each["records"] for each in summaries[:2]] == [4, len(records)]
    assert {each["every"] for each in summaries} == {1}
    lines = ended.stdout.splitlines()
    assert [line[29:].partition(":")[0] for line in lines] == ["JOURNAL INTACT"] * 2 + ["FINDINGS"] * 2
    assert lines[0].startswith(summaries[0]["audited"])
    (failed,) = ended.stderr.splitlines()
    assert "not judged, and tried again: cannot read the journal directory" in failed
    assert (tmp_path / "bussrv-audit-checkpoint" / "ledger.json").exists()


def test_a_first_round_that_fails_ends_it(tmp_path: Path) -> None:
    ended = called(None, main, tmp_path, "nowhere", "--every", "60", "--engine", "embedded")
    assert (ended.returncode, ended.stdout) == (NOT_JUDGED, "")
    assert ended.stderr == (
        f"bussrv audit: cannot read the journal directory {tmp_path / 'nowhere'}: No such file or directory\n"
    )


def test_a_signal_in_a_round_that_fails_is_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal interrupts the processes that read, too."""

    def interrupted(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        raise OSError(5, "Input/output error", "somewhere")

    monkeypatch.setattr("bussrv.audit.job.audit", interrupted)
    ended = called(None, main, tmp_path, "hall", "--every", "60", "--engine", "embedded")
    assert (ended.returncode, ended.stdout, ended.stderr) == (CLEAN, "", "")
