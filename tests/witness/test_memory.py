"""What a witness keeps: over crashes at every byte, with failing disks, within bounds; damage is named."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from bussrv.errors import JournalError
from bussrv.journal.files import Files
from bussrv.transparency.checkpoints import parse_checkpoint
from bussrv.witness.memory import KEPT, Cosigned, WitnessMemory
from tests.witness.logs import Log

HALL, BARN = Log("hall.example", [b"x"] * 9), Log("barn.example", [b"y"] * 9, seed=2)


def cosigned(log: Log, size: int) -> Cosigned:
    note = log.checkpoint(size)
    return Cosigned(parse_checkpoint(note.text), note)


def sizes(place: Path) -> tuple[int, ...]:
    memory = WitnessMemory(place)
    try:
        found = [memory.newest(each.origin) for each in (HALL, BARN)]
        return tuple(0 if each is None else each.checkpoint.size for each in found)
    finally:
        memory.close()


def test_what_was_added_is_there_whatever_byte_a_crash_comes_at(tmp_path: Path) -> None:
    memory = WitnessMemory(tmp_path / "all")
    added, ends = [(HALL, 1), (BARN, 4), (HALL, 2)], [0]
    (file,) = (tmp_path / "all").glob("*.cosigned")
    for log, size in added:
        memory.add(cosigned(log, size), 1)
        ends.append(file.stat().st_size)
    memory.close()
    whole = file.read_bytes()
    for end in [*range(0, len(whole), 97), *ends, *(each - 1 for each in ends[1:])]:
        place = tmp_path / str(end)
        place.mkdir(exist_ok=True)
        (place / file.name).write_bytes(whole[:end])
        told = sum(each <= end for each in ends) - 1
        wanted = [(0, 0), (1, 0), (1, 4), (2, 4)][told]
        assert sizes(place) == wanted
        # It goes on where the crash was.
        memory = WitnessMemory(place)
        memory.add(cosigned(HALL, 9), 2)
        memory.close()
        assert sizes(place) == (9, wanted[1])


def test_damage_is_named_with_its_line(tmp_path: Path) -> None:
    memory = WitnessMemory(tmp_path)
    for size in range(1, 5):
        memory.add(cosigned(HALL, size), size)
    memory.close()
    (file,) = tmp_path.glob("*.cosigned")
    lines = file.read_bytes().splitlines(keepends=True)
    for damaged, place in (
        ([*lines[:1], *lines[2:]], 2),
        ([*lines[:2], lines[3], lines[2]], 3),
        ([lines[0], lines[1].replace(b"1970", b"1971"), *lines[2:]], 3),
        ([lines[0], b"{}\n", *lines[2:]], 2),
        ([lines[0], lines[1].replace(b'"v":1', b'"v":2'), *lines[2:]], 2),
        ([lines[0], b"\xff\n", *lines[2:]], 2),
    ):
        file.write_bytes(b"".join(damaged))
        with pytest.raises(JournalError, match=rf"{file.name}, line {place}: "):
            WitnessMemory(tmp_path)
    file.write_bytes(b"".join(lines))
    assert sizes(tmp_path) == (4, 0)


def test_files_are_bounded_and_the_newest_of_each_log_stays(tmp_path: Path) -> None:
    memory = WitnessMemory(tmp_path, most_bytes=1000)
    memory.add(cosigned(BARN, 3), 1)
    for number in range(40):
        memory.add(cosigned(HALL, 1 + number % 9), number)
    memory.close()
    files = sorted(tmp_path.glob("*.cosigned"))
    assert len(files) == KEPT
    assert files[0].name > "00000003"
    assert all(each.stat().st_size < 2000 for each in files)
    assert sizes(tmp_path) == (1 + 39 % 9, 3)


class Full(Files):
    """A disk that is full after so many writes, in the middle of one."""

    left = 1

    def write(self, descriptor: int, data: bytes) -> None:
        if not self.left:
            super().write(descriptor, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        self.left -= 1
        super().write(descriptor, data)


def test_what_cannot_be_written_is_not_kept(tmp_path: Path) -> None:
    files = Full()
    memory = WitnessMemory(tmp_path, files=files)
    memory.add(cosigned(HALL, 1), 1)
    with pytest.raises(OSError, match="No space"):
        memory.add(cosigned(HALL, 2), 2)
    known = memory.newest(HALL.origin)
    assert known is not None
    assert known.checkpoint.size == 1
    files.left = 1
    memory.add(cosigned(HALL, 3), 3)
    memory.close()
    assert sizes(tmp_path) == (3, 0)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    memory = WitnessMemory(tmp_path)
    with pytest.raises(JournalError):
        WitnessMemory(tmp_path)
    memory.close()
    WitnessMemory(tmp_path).close()
