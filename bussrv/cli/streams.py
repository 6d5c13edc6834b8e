"""Standard input, output and error of this process. A failure to write is told from every other error.

Commands catch :class:`OSError` where they read files and talk to servers. :class:`OutputError` is none, so it reaches
:func:`bussrv.cli.main.main` from everywhere.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any, TextIO


class OutputError(Exception):
    """Standard output or standard error takes nothing.

    :ivar reader_ended: whether the reader of a pipe has ended, as with ``| head``.
    """

    def __init__(self, descriptor: int, error: OSError) -> None:
        super().__init__(f"the output cannot be written: {error.strerror or error}")
        self.reader_ended = error.errno == errno.EPIPE
        self._descriptor = descriptor

    def drop_rest(self) -> None:
        """Write nothing that still waits. The interpreter would try again at its exit, and complain."""
        os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), self._descriptor)


class _Output(io.FileIO):
    """A descriptor that text is written to."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OutputError(self.fileno(), error) from error


def prepare() -> bool:
    """Let failures to write raise :class:`OutputError`. Closed standard input and error become empty.

    Streams that a caller of Python put in the place of those of the process stay.

    :returns: whether there is a standard output.
    """
    if sys.stdout is None:
        return False
    for name, mode in (("stdin", "r"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115
    if sys.stdout is sys.__stdout__:
        sys.stdout = _watched(sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _watched(sys.stderr)
    return True


def _watched(stream: Any) -> TextIO:
    """The same stream. Characters that a terminal cannot show are escaped."""
    stream.flush()
    raw: Any = _Output(stream.fileno(), "w", closefd=False)
    # With PYTHONUNBUFFERED there is no buffer.
    buffer = raw if stream.write_through else io.BufferedWriter(raw)
    return io.TextIOWrapper(
        buffer,
        stream.encoding,
        "backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
