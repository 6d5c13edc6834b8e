"""Opening a journal directory: take the lock, replay what is there, set a torn tail aside."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from bussrv.errors import JournalError
from bussrv.events import Event, ServerStopped
from bussrv.journal.segment import list_segments, read_segment, set_torn_tail_aside, sync_directory

Apply = Callable[[Event, int], None]


class Recovered(Struct, frozen=True):
    """What a journal directory held when it was opened.

    :ivar last_seq: the last record's number, 0 in a new journal.
    :ivar server: the server id of the last record.
    :ivar stopped: whether the last boot ended in an orderly way.
    :ivar torn_bytes: the size of an unfinished record that was set aside.
    """

    last_seq: int = 0
    server: str | None = None
    stopped: bool = True
    torn_bytes: int = 0


class JournalLock:
    """Keeps a second server off a journal directory for as long as this process lives or until it is released."""

    def __init__(self, directory: Path) -> None:
        """Take the lock, making the directory if it is missing.

        :raises JournalError: if another process holds it or the directory cannot be written.
        """
        try:
            missing = [each for each in (directory, *directory.parents) if not each.exists()]
            directory.mkdir(parents=True, exist_ok=True)
            for each in missing:
                sync_directory(each.parent)
            self._descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise JournalError(f"cannot write the journal directory {directory}: {error.strerror}") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            if isinstance(error, BlockingIOError):
                raise JournalError(f"another server is using the journal directory {directory}") from error
            raise JournalError(f"cannot lock the journal directory {directory}: {error.strerror}") from error

    def release(self) -> None:
        """Let another server have the directory."""
        os.close(self._descriptor)


def recover(directory: Path, apply: Apply) -> Recovered:
    """Replay every record of a locked journal directory through ``apply``, in constant memory.

    :raises JournalError: if a record is damaged or missing anywhere but at the very end, and names segment and line;
        or if the directory or a file in it cannot be read.
    """
    try:
        segments = list_segments(directory)
        torn_bytes = set_torn_tail_aside(segments[-1]) if segments else 0
        recovered = Recovered(torn_bytes=torn_bytes)
        for path in segments:
            recovered = _replay_segment(path, recovered, apply)
    except OSError as error:
        raise JournalError(f"cannot read the journal directory {directory}: {error}") from error
    return recovered


def _replay_segment(path: Path, before: Recovered, apply: Apply) -> Recovered:
    expected = before.last_seq + 1 if before.last_seq else int(path.stem)
    record = None
    for record in read_segment(path):
        if record.seq != expected:
            raise JournalError(
                f"{path}: record {expected} should stand where record {record.seq} stands; records are missing or "
                "repeated. Restore the journal from a copy, or start with another directory."
            )
        apply(record.event, record.time)
        expected += 1
    if record is None:
        return before
    return Recovered(record.seq, record.server, isinstance(record.event, ServerStopped), before.torn_bytes)
