"""The journals that are audited: made up once, kept, and read into the memory of the system before each measurement."""

from __future__ import annotations

import json
import os
import shutil
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from bussrv.journal.segment import list_segments
from bussrv.synth.journal import write_journal

SERVERS = 4

_CHUNK = 4 << 20
_MADE = "made.json"


@dataclass(frozen=True)
class Made:
    """Journals of several servers, about as many records in each.

    :ivar seconds: how long it took to make them up.
    """

    directories: list[str]
    seconds: float
    bytes: int


def make_journals(work: Path, events: int, seed: int = 0) -> Made:
    """The journals of so many events, or a few more; those of an earlier run if there are some in ``work``."""
    place = work / f"journals-{events}-{seed}"
    made = place / _MADE
    if made.exists():
        return Made(**json.loads(made.read_text()))
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    directories = [place / f"server{number}" for number in range(SERVERS)]
    begin = time.perf_counter()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for waiting in [pool.submit(_make, directory, events // SERVERS, seed) for directory in directories]:
            waiting.result()
    seconds = time.perf_counter() - begin
    size = sum(path.stat().st_size for path in segments_of(directories))
    result = Made([str(each) for each in directories], seconds, size)
    made.write_text(json.dumps(asdict(result)))
    return result


def _make(directory: Path, events: int, seed: int) -> None:
    write_journal(directory, events=events, seed=seed, server=directory.name)


def segments_of(directories: list[Path]) -> list[Path]:
    """The segments of journals, those of each in order."""
    return [path for directory in directories for path in list_segments(directory)]


def warm(directories: list[Path]) -> float:
    """Read everything, so that the system has it in memory.

    :returns: bytes a second.
    """
    size, begin = 0, time.perf_counter()
    for path in segments_of(directories):
        with path.open("rb", buffering=0) as file:
            while chunk := file.read(_CHUNK):
                size += len(chunk)
    return size / (time.perf_counter() - begin)


def cool(directories: list[Path]) -> None:
    """Have the system forget what it has of the journals in memory, as far as it does that."""
    for path in segments_of(directories):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
