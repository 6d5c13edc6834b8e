"""Files that decide who clients are and what they may do: nobody but their owner may write them.

Users and tokens are files of lines, which are rewritten, too. Empty lines, and those that begin with ``#``, are
skipped. A file whose last line has no end is refused.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

from bussrv.errors import ConfigError, os_errors_as
from bussrv.journal.regular import read_regular

Key = TypeVar("Key")
Value = TypeVar("Value")

MOST = 64 << 20
"""The most bytes of a file of lines."""

_OTHERS_WRITE = 0o022


def read_trusted(path: Path, most: int) -> str:
    """The text of a file that only the user of the server, or root, may have written.

    :param most: the most bytes that it may have.
    :raises ConfigError: it cannot be read, is too large, cut or no UTF-8, or others may write it.
    """
    with os_errors_as(ConfigError, f"{path}: cannot be read"), read_regular(path) as file:
        _check(path, os.fstat(file.fileno()))
        content = file.read(most + 1)
    if len(content) > most:
        raise ConfigError(f"{path}: has more than {most} bytes, the most there can be")
    check_ended(path, content)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8: {error}") from error


def check_ended(path: Path, content: bytes) -> None:
    """Check that the last line of a file has its end. A line that was cut off may say something else.

    :raises ConfigError: it has none.
    """
    if content and not content.endswith(b"\n"):
        raise ConfigError(f"{path} ends in the middle of a line: the file was cut off, or is half written")


def _check(path: Path, status: os.stat_result) -> None:
    if status.st_uid not in (os.geteuid(), 0):
        raise ConfigError(f"{path}: belongs to another user: chown the file to the user of the server")
    if status.st_mode & _OTHERS_WRITE:
        raise ConfigError(f"{path}: may be changed by others: chmod go-w {path}")


class LineFile(Generic[Key, Value]):
    """One kind of files of lines.

    :param what: the noun for the lines, for errors: ``users``.
    :param parse: makes a key and a value of a line; raises :class:`ValueError`.
    :param ends_user: the text that ends the name of the user in a line.
    :param repeated: the fault of a line whose key has a line already.
    :param maker: the command that makes lines.
    """

    def __init__(
        self, what: str, parse: Callable[[str], tuple[Key, Value]], *, ends_user: str, repeated: str, maker: str
    ) -> None:
        self._what = what
        self._parse = parse
        self._ends_user = ends_user
        self._repeated = repeated
        self._maker = maker

    def read(self, path: Path) -> dict[Key, Value]:
        """Every value of a file, by its key.

        :raises ConfigError: it cannot be read, others may write it, or a line of it makes no sense.
        """
        found: dict[Key, Value] = {}
        for number, line in enumerate(_read(path, self._what), 1):
            if not _says_something(line):
                continue
            key, value = self._read_line(path, number, line)
            if key in found:
                raise self._wrong(path, number, self._repeated)
            found[key] = value
        return found

    def _read_line(self, path: Path, number: int, line: str) -> tuple[Key, Value]:
        try:
            return self._parse(line)
        except ValueError as error:
            raise self._wrong(path, number, error) from error

    def _wrong(self, path: Path, number: int, fault: object) -> ConfigError:
        return ConfigError(f"{path}, line {number}: {fault}; make lines with: bussrv {self._maker} {path} USER")

    def is_of(self, line: str, user: str) -> bool:
        """Whether a line is one of a user."""
        return _says_something(line) and line.rpartition(self._ends_user)[0] == user

    def rewrite(self, path: Path, change: Callable[[list[str]], list[str] | None]) -> None:
        """Change the lines of a file, or make it. A file of something else stays as it is.

        :param change: makes the new lines of those that are there; ``None``: the file is removed.
        :raises ConfigError: it cannot be read or written, or a line of it makes no sense.
        """

        def checked(lines: list[str]) -> list[str] | None:
            changed = change(lines)
            for number, line in enumerate(changed or (), 1):
                if _says_something(line):
                    self._read_line(path, number, line)
            return changed

        _rewrite(path, self._what, checked)

    def delete(self, path: Path, user: str) -> int:
        """Delete all lines of a user from a file. :returns: how many there were.

        :raises ConfigError: the file cannot be used.
        """
        found: list[str] = []

        def without(lines: list[str]) -> list[str]:
            found.extend(line for line in lines if self.is_of(line, user))
            return [line for line in lines if not self.is_of(line, user)]

        _rewrite(path, self._what, without)
        return len(found)


def _says_something(line: str) -> bool:
    """Whether a line is not skipped."""
    return bool(line.strip()) and not line.startswith("#")


def _read(path: Path, what: str) -> list[str]:
    with os_errors_as(ConfigError, f"cannot read the {what} in {path}"), read_regular(path) as file:
        _check_owner(path, os.fstat(file.fileno()), what)
        data = file.read(MOST + 1)
    if len(data) > MOST:
        raise ConfigError(f"the {what} in {path} are more than {MOST} bytes")
    check_ended(path, data)
    try:
        return data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise ConfigError(f"the {what} in {path} are not UTF-8") from error


def _check_owner(path: Path, status: os.stat_result, what: str) -> None:
    """Check the permissions of the file: its writers decide who clients are."""
    if status.st_uid not in (os.geteuid(), 0):
        raise ConfigError(f"the {what} in {path} belong to another user: chown the file to the user of the server")
    if status.st_mode & _OTHERS_WRITE:
        raise ConfigError(f"the {what} in {path} may be changed by others: chmod go-w {path}")


def _rewrite(path: Path, what: str, change: Callable[[list[str]], list[str] | None]) -> None:
    """Change the lines of a file, make it, or remove it. A reader sees all of the old ones or all of the new ones.

    Only the owner may read and write the file after that. Its owner stays the same.

    :raises ConfigError: it cannot be read or written.
    """
    path = Path(os.path.realpath(path))
    with os_errors_as(ConfigError, f"cannot write the {what} in {path}"), _locked(path.parent):
        lines, owner = ([], None)
        if path.exists():
            lines, owner = _read(path, what), path.stat()
        changed = change(lines)
        if changed is None:
            path.unlink()
        else:
            _replace(path, "".join(f"{line}\n" for line in changed), owner)


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
