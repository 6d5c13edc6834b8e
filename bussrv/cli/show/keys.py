"""Keys that a person presses while a command shows a screen: read one by one, without Enter, in a thread."""

from __future__ import annotations

import os
import select
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def pressed(take: Callable[[str], None]) -> Iterator[None]:
    """Give each key to ``take``, in a thread, until the end of the block. Without a terminal there are no keys.

    Ctrl-C interrupts as always. The terminal is afterwards as it was before.
    """
    if not sys.stdin.isatty():
        yield
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    ended, end = os.pipe()
    thread = threading.Thread(target=_read, args=(terminal, ended, take), daemon=True)
    try:
        tty.setcbreak(terminal)
        thread.start()
        yield
    finally:
        os.close(end)
        thread.join()
        os.close(ended)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _read(terminal: int, ended: int, take: Callable[[str], None]) -> None:
    while True:
        ready, _, _ = select.select([terminal, ended], [], [])
        found = os.read(terminal, 1) if ended not in ready else b""
        if not found:
            return
        take(found.decode("ascii", "replace"))
