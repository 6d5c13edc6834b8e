"""The file of the history: whole or not there, whatever happens to the machine."""

from __future__ import annotations

import os
import signal
import zlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bussrv.admin.history.levels import Level
from bussrv.admin.history.storing import Mark, StoredHistory, read_history, write_history
from bussrv.journal.files import Files
from tests.admin.history.making import sample
from tests.size import sized


def stored(number: int = 0, points: int = 20) -> StoredHistory:
    level = Level(1, 600)
    for second in range(points):
        level.take(sample(second, total=second * number))
    return StoredHistory(levels=[level.store()], busiest={}, marks=[Mark(number, "started")])


def test_what_was_written_is_read_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.history"
    assert read_history(path) is None
    write_history(path, stored(1))
    write_history(path, stored(2))
    assert read_history(path) == stored(2)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@settings(max_examples=sized(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_file_is_refused(tmp_path: Path, data: st.DataObject) -> None:
    """Torn anywhere, or with any byte changed, it is not taken for a history."""
    path = tmp_path / "h"
    write_history(path, stored(3))
    whole = path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    damaged = data.draw(
        st.sampled_from([whole[:place], whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]])
    )
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match=r"."):
        read_history(path)


def test_a_file_that_unpacks_without_an_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "h"
    data = zlib.compress(msgspec.msgpack.encode({"levels": b"\0" * (64 << 20)}))
    path.write_bytes(b"bussrv-history 2 %08x\n" % zlib.crc32(data) + data)
    with pytest.raises(ValueError, match=r"."):
        read_history(path)


@pytest.mark.parametrize("fails", ["create", "write", "sync", "rename"])
def test_a_disk_that_fails_leaves_the_file_from_before(tmp_path: Path, fails: str) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path, broken = tmp_path / "h", Files()
    write_history(path, stored(1))
    setattr(broken, fails, fail)
    with pytest.raises(OSError, match="No space"):
        write_history(path, stored(2), broken)
    assert read_history(path) == stored(1)


@pytest.mark.processes
def test_a_process_that_is_killed_leaves_a_whole_file(tmp_path: Path) -> None:
    """It writes one history after the other; each is whole, whenever it is killed."""
    path = tmp_path / "h"
    for wait in range(1, 6):
        begun, tell = os.pipe()
        child = os.fork()
        if child == 0:
            for number in range(1_000_000):
                write_history(path, stored(number % 3, points=200))
                os.write(tell, b".")
        # So many were written, and the next one is being written.
        for _ in range(wait):
            os.read(begun, 1)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(begun)
        os.close(tell)
        assert read_history(path) in [stored(number, points=200) for number in range(3)]
