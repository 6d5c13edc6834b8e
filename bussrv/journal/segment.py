"""Segments: the files of a journal directory.

A segment is named by the ``seq`` of its first record, in 20 digits, so that names sort as records do::

    bussrv-journal/
        lock                             held by the running server
        00000000000000000001.jsonl       records 1 to 812
        00000000000000000813.jsonl       records 813 on
        00000000000000000813.jsonl.torn  an unfinished record that a crash left behind, kept aside

Only the last segment may end in an unfinished record.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from bussrv.errors import JournalError
from bussrv.journal import record
from bussrv.journal.record import Record

SUFFIX = ".jsonl"
TORN_SUFFIX = ".torn"


def segment_name(first_seq: int) -> str:
    """The file name of the segment that begins with record ``first_seq``."""
    return f"{first_seq:020d}{SUFFIX}"


def list_segments(directory: Path) -> list[Path]:
    """The segments of a journal directory, oldest first.

    :raises JournalError: if the directory cannot be read.
    """
    try:
        names = sorted(entry.name for entry in directory.iterdir())
    except OSError as error:
        raise JournalError(f"cannot read the journal directory {directory}: {error.strerror}") from error
    return [directory / name for name in names if name.endswith(SUFFIX) and name[: -len(SUFFIX)].isdecimal()]


def read_segment(path: Path) -> Iterator[Record]:
    """The records of a segment, in order; an unfinished last line is not a record and is left out.

    :raises JournalError: names the segment and the line of the first one that is not a record.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            yield decode_line(line, path, number)


def decode_line(line: bytes, path: Path, number: int) -> Record:
    """The record that line ``number`` of a segment holds.

    :raises JournalError: names the segment and the line, if it is none.
    """
    try:
        return record.decode(line)
    except JournalError as error:
        raise JournalError(f"{path}, line {number}: {error}") from error


def torn_tail(path: Path) -> bytes:
    """What stands behind the last newline of a segment: the beginning of a record that was never finished."""
    block = 1 << 16
    tail = b""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0 and b"\n" not in tail:
            start = max(0, end - block)
            file.seek(start)
            tail = file.read(end - start) + tail
            end = start
    return tail.rpartition(b"\n")[2]


def set_torn_tail_aside(path: Path) -> int:
    """Cut the unfinished record off the end of a segment and keep it beside it; return its size in bytes."""
    tail = torn_tail(path)
    if tail:
        aside = path.with_name(path.name + TORN_SUFFIX)
        aside.write_bytes(tail)
        sync_file(aside)
        os.truncate(path, path.stat().st_size - len(tail))
        sync_file(path)
        sync_directory(path.parent)
    return len(tail)


def sync_file(path: Path) -> None:
    """Make the content of a file durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    sync_file(directory)


class SegmentFile:
    """A segment that is being written: it only grows, and knows how much of it is known to be good.

    An empty file of its name, left by a crash or by a disk that failed before the first record was written, is used.

    :ivar size: its size in bytes.
    :raises OSError: if it cannot be made, or if there is one of that name that holds records.
    """

    def __init__(self, directory: Path, first_seq: int) -> None:
        self.path = directory / segment_name(first_seq)
        self.size = 0
        self._good = 0
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        try:
            if os.fstat(self._descriptor).st_size:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self.path))
            sync_directory(directory)
        except OSError:
            os.close(self._descriptor)
            raise

    def write(self, data: bytes) -> None:
        """Append all of ``data``; on an error the file may end in a part of it."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]
        self.size += len(data)

    def sync(self) -> None:
        """Return when everything written is on the disk."""
        os.fdatasync(self._descriptor)

    def mark_good(self) -> None:
        """What has been written so far is to stay."""
        self._good = self.size

    def close(self) -> None:
        """Write no more."""
        os.close(self._descriptor)

    def abandon(self) -> None:
        """Write no more, and cut off what was not marked good; an empty segment is removed."""
        try:
            os.ftruncate(self._descriptor, self._good)
        finally:
            os.close(self._descriptor)
            if self._good == 0:
                self.path.unlink(missing_ok=True)
