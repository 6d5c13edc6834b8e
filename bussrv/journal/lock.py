"""One journal directory, one server.

Two locks of ``flock(2)``: on a file that stays, and on the directory itself. If somebody removes the file, the server
still holds the directory. Where a directory cannot be locked, such as on a file system of another machine, the
file alone counts.
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from threading import Lock

from bussrv.errors import JournalError, os_errors_as
from bussrv.journal.files import FILES, PRIVATE, Files
from bussrv.journal.outside_changes import identity
from bussrv.journal.regular import open_regular

LOCK = "lock"

DIRECTORY_MODE = 0o750
"""The mode of a new journal directory: for its owner, and the group of those who check it."""


class Locked(JournalError):
    """Another process has the lock."""


class DirectoryGone(JournalError):
    """The journal directory was removed or moved away, and cannot be made again."""


class JournalLock:
    """Keeps a second server off a journal directory for as long as this process lives or until it is released.

    The thread of the journal may renew it while the reactor's thread releases it. The number of a closed descriptor may
    belong to something else a moment later, so neither happens during the other, and a released lock is not renewed.
    """

    def __init__(self, directory: Path, files: Files = FILES) -> None:
        """Take the lock, making the directory if it is missing.

        :raises Locked: if another process holds it.
        :raises JournalError: if the directory cannot be written.
        """
        self._directory = directory
        self._files = files
        self._turn = Lock()
        self._is_held = True
        with os_errors_as(JournalError, f"cannot write the journal directory {directory}"):
            missing = [each for each in (directory, *directory.parents) if not each.exists()]
            directory.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
            for each in missing:
                files.sync_directory(each.parent)
            self._whole = _take_directory(directory)
            try:
                self._descriptor = _take(directory)
            except BaseException:
                os.close(self._whole)
                raise

    def renew(self) -> bool:
        """Take the lock again if another program removed it, or the directory: the old one holds nobody off.

        :returns: whether the directory was missing, and was made again.
        :raises OSError, JournalError: if that cannot be done.
        :raises Locked: if another process was faster.
        """
        with self._turn:
            if not self._is_held:
                return False
            is_missing = not self._directory.exists()
            if is_missing:
                self._make_again()
            if not self._is_at(self._whole, self._directory):
                self._whole = _instead_of(self._whole, _take_directory(self._directory))
            if not self._is_at(self._descriptor, self._directory / LOCK):
                self._descriptor = _instead_of(self._descriptor, _take(self._directory))
            return is_missing

    def _make_again(self) -> None:
        """Make the directory, with the mode of the one that was there."""
        directory, parent = self._directory, self._directory.parent
        try:
            directory.mkdir()
            directory.chmod(stat.S_IMODE(self._files.status(self._whole).st_mode))
            self._files.sync_directory(parent)
        except OSError as error:
            # Only an operator knows where the journal was to be kept: perhaps a volume is not mounted.
            why = error.strerror if parent.exists() else f"{parent}, which it was in, is gone as well"
            raise DirectoryGone(
                f"the journal directory {directory} was removed or moved away, and cannot be made again: {why}"
            ) from error

    def release(self) -> None:
        """Let another server have the directory."""
        with self._turn:
            self._is_held = False
            os.close(self._descriptor)
            os.close(self._whole)

    def _is_at(self, descriptor: int, path: Path) -> bool:
        with suppress(FileNotFoundError, NotADirectoryError):
            found = self._files.look(str(path))
            return identity(descriptor, self._files) == (found.st_dev, found.st_ino)
        return False


def _instead_of(before: int, descriptor: int) -> int:
    os.close(before)
    return descriptor


def _take_directory(directory: Path) -> int:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise _locked(directory) from error
    except OSError:
        # The file says whether locks work at all.
        pass
    return descriptor


def _take(directory: Path) -> int:
    descriptor = open_regular(directory / LOCK, os.O_RDWR | os.O_CREAT, PRIVATE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise _locked(directory) from error
        raise JournalError(f"cannot lock the journal directory {directory}: {error.strerror}") from error
    return descriptor


def _locked(directory: Path) -> Locked:
    return Locked(f"another server is using the journal directory {directory}")
