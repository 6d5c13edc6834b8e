"""Opening regular files only.

To open a FIFO waits until somebody opens its other end, and a device may never end. Whoever can put one into a journal
directory must not be able to stop a server, or a check of the journal. A symbolic link to a regular file is followed.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


class NotRegular(OSError):
    """A FIFO, socket or device stands where a file should be."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EINVAL, "it is not a regular file", str(path))


def open_regular(path: Path, flags: int, mode: int = 0o600) -> int:
    """Open a file as :func:`os.open` does, without waiting.

    :returns: a descriptor.
    :raises NotRegular: it is not a regular file.
    :raises OSError: it cannot be opened.
    """
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, mode)
    except OSError as error:
        # A socket, or a FIFO that nobody reads.
        if error.errno in (errno.ENXIO, errno.ENODEV):
            raise NotRegular(path) from error
        raise
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    raise (
        IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if stat.S_ISDIR(mode)
        else NotRegular(path)
    )


def read_regular(path: Path) -> BinaryIO:
    """Open a file for reading.

    :raises NotRegular: it is not a regular file.
    :raises OSError: it cannot be opened.
    """
    return os.fdopen(open_regular(path, os.O_RDONLY), "rb")
