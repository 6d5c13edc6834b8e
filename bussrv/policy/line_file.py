"""Files of lines that say who clients are: users, and tokens. Read with a check of who may write them, and rewritten.

Empty lines, and those that begin with ``#``, are skipped.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bussrv.errors import ConfigError
from bussrv.journal.regular import read_regular

MOST = 64 << 20
"""The most bytes of a file."""


def read_lines(path: Path, what: str) -> list[tuple[int, str]]:
    """The lines that say something, each with its number.

    :param what: what they are, for errors: ``users``.
    :raises ConfigError: the file cannot be read, or others may write it.
    """
    return [(number, line) for number, line in enumerate(_read(path, what), 1) if says_something(line)]


def says_something(line: str) -> bool:
    """Whether a line is not skipped."""
    return bool(line.strip()) and not line.startswith("#")


def _read(path: Path, what: str) -> list[str]:
    try:
        with read_regular(path) as file:
            _check_owner(path, os.fstat(file.fileno()), what)
            data = file.read(MOST + 1)
    except OSError as error:
        raise ConfigError(f"cannot read the {what} in {path}: {error.strerror}") from error
    if len(data) > MOST:
        raise ConfigError(f"the {what} in {path} are more than {MOST} bytes")
    try:
        return data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise ConfigError(f"the {what} in {path} are not UTF-8") from error


def _check_owner(path: Path, status: os.stat_result, what: str) -> None:
    """Check the permissions of the file: its writers decide who clients are."""
    if status.st_uid not in (os.geteuid(), 0):
        raise ConfigError(f"the {what} in {path} belong to another user: chown the file to the user of the server")
    if status.st_mode & 0o022:
        raise ConfigError(f"the {what} in {path} may be changed by others: chmod go-w {path}")


def rewrite(path: Path, what: str, change: Callable[[list[str]], list[str]]) -> None:
    """Change the lines of a file, or make it. A reader sees all of the old ones or all of the new ones.

    Only the owner may read and write the file after that. Its owner stays the same.

    :raises ConfigError: it cannot be read or written.
    """
    path = Path(os.path.realpath(path))
    try:
        with _locked(path.parent):
            lines, owner = ([], None)
            if path.exists():
                lines, owner = _read(path, what), path.stat()
            _replace(path, "".join(f"{line}\n" for line in change(lines)), owner)
    except OSError as error:
        raise ConfigError(f"cannot write the {what} in {path}: {error.strerror}") from error


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Nobody else rewrites a file of a directory meanwhile."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace(path: Path, text: str, owner: os.stat_result | None) -> None:
    # It is made with mode 0600.
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    made = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            if owner is not None and (owner.st_uid, owner.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        made.replace(path)
    except BaseException:
        made.unlink()
        raise
