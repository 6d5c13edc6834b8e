"""One journal directory, one server."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from bussrv.errors import JournalError
from bussrv.journal.files import FILES, PRIVATE, Files
from bussrv.journal.regular import open_regular

LOCK = "lock"

DIRECTORY_MODE = 0o750
"""The mode of a new journal directory: for its owner, and the group of those who check it."""


class Locked(JournalError):
    """Another process has the lock."""


class JournalLock:
    """Keeps a second server off a journal directory for as long as this process lives or until it is released."""

    def __init__(self, directory: Path, files: Files = FILES) -> None:
        """Take the lock, making the directory if it is missing.

        :raises Locked: if another process holds it.
        :raises JournalError: if the directory cannot be written.
        """
        self._directory = directory
        try:
            missing = [each for each in (directory, *directory.parents) if not each.exists()]
            directory.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
            for each in missing:
                files.sync_directory(each.parent)
            self._descriptor = _take(directory)
        except OSError as error:
            raise JournalError(f"cannot write the journal directory {directory}: {error.strerror}") from error

    def renew(self) -> None:
        """Take the lock again if somebody removed the directory and made it anew, since the old one holds nobody off.

        :raises OSError: if that cannot be done.
        :raises Locked: if another process was faster.
        """
        if os.fstat(self._descriptor).st_nlink:
            return
        descriptor = _take(self._directory)
        os.close(self._descriptor)
        self._descriptor = descriptor

    def release(self) -> None:
        """Let another server have the directory."""
        os.close(self._descriptor)


def _take(directory: Path) -> int:
    descriptor = open_regular(directory / LOCK, os.O_RDWR | os.O_CREAT, PRIVATE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise Locked(f"another server is using the journal directory {directory}") from error
        raise JournalError(f"cannot lock the journal directory {directory}: {error.strerror}") from error
    return descriptor
