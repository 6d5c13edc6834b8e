r"""The checkpoints that a witness has cosigned, in a journal of its own: a directory of files that only grow.

::

    {"v":1,"prev":"<hash>","time":"2026-11-21T14:02:03.123456Z","note":"<the checkpoint, with its signatures>"}\n

Each line holds the hash of the one before (:mod:`bussrv.journal.chain`). A line is on the disk before anybody is told
of it, so what a crash cut off at the end was never told. Everything else that is not as it was written is damage, and a
witness does not begin with damage: it might go back.

When a file is large, the next one begins with the newest checkpoint of each log. The one before stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from bussrv.errors import JournalError
from bussrv.journal.chain import START, line_hash
from bussrv.journal.files import FILES, Files
from bussrv.journal.lock import JournalLock
from bussrv.journal.record import format_time
from bussrv.transparency.checkpoints import Checkpoint, parse_checkpoint
from bussrv.transparency.notes import Note, NoteError, parse_note

VERSION = 1

MOST_BYTES = 16 << 20
"""No file grows beyond this by more than a line."""

KEPT = 2
"""So many files stay."""

_SUFFIX = ".cosigned"


class _Line(Struct):
    v: int
    prev: str
    time: str
    note: str


class Cosigned(Struct, frozen=True):
    """The newest checkpoint of a log that was cosigned.

    :ivar note: with the signatures of the log that were checked, and those that were given.
    """

    checkpoint: Checkpoint
    note: Note


class WitnessMemory:
    """The checkpoints that were cosigned. Everything here waits for the disk.

    :param directory: is made if it is missing; no other process may use it meanwhile.
    :raises JournalError: another process uses it, or it is damaged.
    :raises OSError: it cannot be read or written.
    """

    def __init__(self, directory: Path, most_bytes: int = MOST_BYTES, files: Files = FILES) -> None:
        self._directory = directory
        self._most_bytes = most_bytes
        self._files = files
        self._newest: dict[str, Cosigned] = {}
        self._last = START
        self._lock = JournalLock(directory, files)
        self._number, self._descriptor, self._size = 0, -1, 0
        try:
            self._open()
        except BaseException:
            self._lock.release()
            raise

    def newest(self, origin: str) -> Cosigned | None:
        """The checkpoint of a log that was cosigned last."""
        return self._newest.get(origin)

    def add(self, cosigned: Cosigned, time: int) -> None:
        """Keep a checkpoint, larger than all before of that log. It is on the disk when this returns.

        :param time: UTC microseconds.
        :raises OSError: it cannot be written; then it is not kept.
        """
        if self._size > self._most_bytes:
            self._begin(time)
        self._append([_Line(VERSION, self._last, format_time(time), cosigned.note.encode())])
        self._newest[cosigned.checkpoint.origin] = cosigned

    def close(self) -> None:
        """Let another process use the directory."""
        self._files.close(self._descriptor)
        self._lock.release()

    def _open(self) -> None:
        for number, path in self._paths():
            self._read(path)
            self._number = number
        path = self._path(self._number)
        self._descriptor = self._files.open(path)
        self._files.sync_directory(self._directory)
        self._size = path.stat().st_size

    def _paths(self) -> list[tuple[int, Path]]:
        found = [each for each in self._directory.glob(f"*{_SUFFIX}") if each.stem.isdecimal()]
        return sorted((int(each.stem), each) for each in found)

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:08}{_SUFFIX}"

    def _read(self, path: Path) -> None:
        *lines, rest = path.read_bytes().split(b"\n")
        first = True
        for place, line in enumerate(lines, 1):
            try:
                found = msgspec.json.decode(line, type=_Line)
                note = parse_note(found.note.encode())
                checkpoint = parse_checkpoint(note.text)
            except (msgspec.DecodeError, NoteError, UnicodeDecodeError) as error:
                raise JournalError(f"{path}, line {place}: not a line of a witness: {error}") from error
            if found.v != VERSION or (found.prev != self._last and not (first and self._last == START)):
                raise JournalError(
                    f"{path}, line {place}: it does not follow the line before, or is of another version"
                )
            first = False
            self._last = line_hash(line)
            self._newest[checkpoint.origin] = Cosigned(checkpoint, note)
        if rest:
            descriptor = self._files.open(path)
            try:
                self._files.truncate(descriptor, path.stat().st_size - len(rest))
                self._files.sync(descriptor)
            finally:
                self._files.close(descriptor)

    def _begin(self, time: int) -> None:
        """Begin the next file."""
        former, number = self._descriptor, self._number + 1
        self._descriptor = self._files.create(self._path(number))
        self._size = 0
        self._append(list(self._again(time)))
        self._files.sync_directory(self._directory)
        self._number = number
        self._files.close(former)
        for _, path in self._paths()[:-KEPT]:
            self._files.remove(path)

    def _again(self, time: int) -> Iterator[_Line]:
        prev = self._last
        for each in self._newest.values():
            line = _Line(VERSION, prev, format_time(time), each.note.encode())
            prev = line_hash(msgspec.json.encode(line))
            yield line

    def _append(self, lines: list[_Line]) -> None:
        encoded = [msgspec.json.encode(each) for each in lines]
        data = b"".join(each + b"\n" for each in encoded)
        try:
            self._files.write(self._descriptor, data)
            self._files.sync(self._descriptor)
        except OSError:
            self._files.truncate(self._descriptor, self._size)
            raise
        self._size += len(data)
        self._last = line_hash(encoded[-1])
