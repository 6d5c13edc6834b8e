"""Reading files that decide what clients may do: nobody but their owner may write them."""

from __future__ import annotations

import os
from pathlib import Path

from bussrv.errors import ConfigError
from bussrv.journal.regular import read_regular

_OTHERS_WRITE = 0o022


def read_trusted(path: Path, most: int) -> str:
    """The text of a file that only the user of the server, or root, may have written.

    :param most: the most bytes that it may have.
    :raises ConfigError: it cannot be read, is too large, cut or no UTF-8, or others may write it.
    """
    try:
        with read_regular(path) as file:
            _check(path, os.fstat(file.fileno()))
            content = file.read(most + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
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
