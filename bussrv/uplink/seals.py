"""The last seal of each segment, read from a manifest while the server adds to it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from bussrv.errors import JournalError
from bussrv.journal.bounds import MANIFEST_LINE
from bussrv.journal.evidence.manifest import EntryJudge
from bussrv.journal.manifest import MANIFEST_NAME, Seal
from bussrv.journal.regular import read_regular

_Look = tuple[int, int, int, int]


class Seals:
    """The seals of a journal directory.

    :ivar newest: the number of the segment that was sealed last; 0: none.
    :ivar newest_line: the newest seal as it stands in the manifest, signed; empty: there is none.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / MANIFEST_NAME
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._judge = EntryJudge()
        self._size = 0
        self._seen: _Look | None = None
        self.newest = 0
        self.newest_line = b""

    def of(self, segment: int) -> Seal | None:
        """The last seal of a segment."""
        return self._judge.found.seals.get(segment)

    def look(self) -> bool:
        """Read what was added since the last call. A line that is not complete waits for its end.

        :returns: whether there is anything new.
        :raises JournalError: the manifest cannot be read, or is damaged.
        """
        try:
            found = self._path.stat()
            now = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
            if now == self._seen:
                return False
            if self._seen is not None and (now[:2] != self._seen[:2] or found.st_size < self._size):
                # The server begins another manifest if a program changed this one.
                self._begin_anew()
            with read_regular(self._path) as file:
                self._read(file)
        except FileNotFoundError:
            is_gone = self._seen is not None
            self._begin_anew()
            return is_gone
        except OSError as error:
            raise JournalError(f"cannot read the manifest {self._path}: {error.strerror}") from error
        self._seen = now
        return True

    def _read(self, file: BinaryIO) -> None:
        file.seek(self._size, os.SEEK_SET)
        judge = self._judge
        while (line := file.readline(MANIFEST_LINE)).endswith(b"\n"):
            judge.pass_line(line[:-1])
            if judge.found.findings:
                wrong = judge.found.findings[0]
                raise JournalError(f"{self._path}, line {wrong.line}: {wrong.message}")
            self._size += len(line)
            # Only the last seal of each segment is wanted here. The others would take memory without a bound.
            for entry in judge.found.entries:
                if isinstance(entry.body, Seal):
                    self.newest, self.newest_line = entry.body.segment, line[:-1]
            judge.found.entries.clear()
            judge.found.lines.clear()
            judge.found.all_seals.clear()
        if len(line) == MANIFEST_LINE:
            raise JournalError(f"{self._path}, line {judge.lines + 1}: the line is longer than {MANIFEST_LINE} bytes")
