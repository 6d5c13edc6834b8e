"""Changes by other programs of a file that only the server writes to, noticed before a seal or an answer gets wrong.

A log rotation cuts the file (``copytruncate``), a backup moves the directory, a shell appends a line. The descriptor of
the file still works then, but what is written to it is lost, or does not fit what is there. So the file at the path has
to be the one that the server made, and as long as the server left it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from msgspec import Struct

from bussrv.journal.files import FILES, Files

CHANGED_SUFFIX = ".changed"
"""The end of the name under which a file that another program changed is kept."""

Identity = tuple[int, int]
"""Device and inode of a file."""


class OutsideChange(Struct, frozen=True):
    """A change of a file by another program.

    :ivar what: a sentence about it without its end.
    :ivar left: so many bytes of its beginning may still be those that were written.
    """

    what: str
    left: int = 0


class Changed(OSError):
    """Another program changed a file of the journal."""

    def __init__(self, path: Path, change: OutsideChange) -> None:
        super().__init__(f"another program changed {path}: {change.what}")


def identity(descriptor: int, files: Files = FILES) -> Identity:
    """Which file a descriptor is of."""
    found = files.status(descriptor)
    return found.st_dev, found.st_ino


def change(
    path: str, known: Identity | None, least: int, most: int, files: Files = FILES, doubtful: int = 0
) -> OutsideChange | None:
    """Compare the file at a path with the file as it was left.

    :param known: which file it was; ``None``: there was none.
    :param least: how many bytes it has at least; ``most``: at most.
    :param doubtful: so many of them were written since it was last compared, maybe after it was changed.
    :returns: ``None`` if it is the same.
    :raises OSError: if the disk fails.
    """
    try:
        found = files.look(path)
    except (FileNotFoundError, NotADirectoryError):
        return None if known is None else OutsideChange("it was removed or moved away")
    # The number of a file that was removed may be that of a directory by now.
    if (found.st_dev, found.st_ino) != known or not stat.S_ISREG(found.st_mode):
        return OutsideChange("another file was put in its place")
    return sized(found, least, most, doubtful)


def sized(found: os.stat_result, least: int, most: int, doubtful: int = 0) -> OutsideChange | None:
    """Compare only the size of a file with the size that it was left with."""
    if found.st_size < least:
        left = max(0, found.st_size - doubtful)
        return OutsideChange(f"it was cut to {left} of {least - doubtful} bytes", left)
    if found.st_size > most:
        return OutsideChange(f"{found.st_size - most} bytes were added to it", most)
    return None


def set_aside(path: Path, files: Files = FILES) -> Path | None:
    """Give a file that another program changed another name, so that nothing of it is lost.

    :returns: the path with that name; ``None``: there is no such file.
    :raises OSError: if the disk fails.
    """
    target, number = path.with_name(path.name + CHANGED_SUFFIX), 1
    while os.path.lexists(target):
        number += 1
        target = path.with_name(f"{path.name}{CHANGED_SUFFIX}.{number}")
    try:
        files.rename(path, target)
    except FileNotFoundError:
        return None
    return target
