"""Killed in the middle of its work, again and again, a journal still holds everything that was acknowledged."""

import subprocess
import sys
from pathlib import Path

import pytest

from bussrv.journal.lock import JournalLock
from bussrv.journal.reading import read_header
from bussrv.journal.recovery import recover
from bussrv.journal.segment import list_segments
from bussrv.registry.state.fold import RegistryFold
from tests.journal.support import every_record, fold
from tests.size import sized

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]
KILLS = sized(10)


def run_and_kill(directory, boot, after):
    """What a writer acknowledged, by number, when it is killed some time after ``after`` records were."""
    command = [sys.executable, "-m", "tests.journal.load", str(directory), boot]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        lines = [process.stdout.readline() for _ in range(after)]
        process.kill()
        lines += process.stdout.read().splitlines(keepends=True)
    assert process.returncode == -9
    # The last line may be cut short.
    return {int(seq): service for seq, service in (line.split() for line in lines if line.endswith("\n"))}


def test_what_was_acknowledged_is_in_the_journal_after_kill_9(tmp_path):
    acknowledged = {}
    for number in range(KILLS):
        # A spread of moments; when exactly the signal arrives is up to the machine.
        acknowledged.update(run_and_kill(tmp_path, f"boot{number}", after=2 + number * number * 7))
        lock = JournalLock(tmp_path)
        found = RegistryFold()
        recovered = recover(tmp_path, found)
        lock.release()
        assert recovered.next_seq > max(acknowledged)
        assert found.state == fold(every_record(tmp_path))
    records = every_record(tmp_path)
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    written = {record.seq: record.event.service for record in records}
    assert {seq: written[seq] for seq in acknowledged} == acknowledged
    assert len(acknowledged) > KILLS
    assert not any(read_header(path).salvaged for path in list_segments(tmp_path))
    assert {record.boot for record in records} == {f"boot{number}" for number in range(KILLS)}
