"""Everything that the journal does to the disk, in one place, so that tests can use a disk that fails."""

from __future__ import annotations

import os
from pathlib import Path

from bussrv.journal.regular import open_regular

PRIVATE = 0o640
SEALED = 0o440


class Files:
    """The files of the operating system. Every method raises :class:`OSError` as the system does.

    What is not a regular file is not opened: see :mod:`bussrv.journal.regular`.
    """

    def create(self, path: Path, mode: int = PRIVATE) -> int:
        """Make an empty file, in the place of what stands there; a symbolic link is not followed.

        :returns: a descriptor to append with.
        """
        return open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW, mode)

    def open(self, path: Path, mode: int = PRIVATE) -> int:
        """Open a file to append to, and make it if it is not there. :returns: a descriptor."""
        return open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, mode)

    def reopen(self, path: Path) -> int:
        """Open a file that is there to append to. :returns: a descriptor."""
        return open_regular(path, os.O_WRONLY | os.O_APPEND)

    def write(self, descriptor: int, data: bytes) -> None:
        """Append all of ``data``; on an error a part of it may be there."""
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]

    def sync(self, descriptor: int) -> None:
        """Return when everything written is on the disk."""
        os.fdatasync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut a file off after ``size`` bytes."""
        os.ftruncate(descriptor, size)

    def status(self, descriptor: int) -> os.stat_result:
        """The status of an open file."""
        return os.fstat(descriptor)

    def look(self, path: str) -> os.stat_result:
        """The status of the file at a path."""
        return os.stat(path)  # noqa: PTH116 - a path would cost more than the call

    def close(self, descriptor: int) -> None:
        """Give a descriptor back."""
        os.close(descriptor)

    def rename(self, path: Path, target: Path) -> None:
        """Give a file another name; what had that name is gone."""
        path.rename(target)

    def remove(self, path: Path) -> None:
        """Remove a file; it may be missing."""
        path.unlink(missing_ok=True)

    def set_mode(self, path: Path, mode: int) -> None:
        """Say who may do what with a file."""
        path.chmod(mode)

    def free(self, directory: Path) -> tuple[int, int]:
        """How many bytes of the volume are free for this process, and how large the volume is."""
        found = os.statvfs(directory)
        return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize

    def sync_directory(self, directory: Path) -> None:
        """Make the names in a directory durable."""
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


FILES = Files()
"""The files of this machine."""
