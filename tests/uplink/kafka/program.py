"""``bussrv uplink`` as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).parents[3]
PATIENCE = 30.0


class Uplink:
    """The process, which is killed at the end if it still runs.

    :param arguments: those after ``bussrv uplink``.
    :ivar lines: the lines that it has logged so far.
    """

    def __init__(self, *arguments: str) -> None:
        program = "import sys; from bussrv.cli.main import main; sys.exit(main())"
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, "uplink", *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._said = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            with self._said:
                self.lines.append(line.rstrip("\n"))
                self._said.notify_all()

    def wait_for(self, words: str) -> str:
        """Wait for a line with these words."""

        def found() -> str | None:
            return next((line for line in self.lines if words in line), None)

        with self._said:
            line = self._said.wait_for(found, PATIENCE)
        assert line, self.lines
        return line

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self._process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Wait for its end. :returns: the exit status."""
        status = self._process.wait(PATIENCE)
        self._thread.join(PATIENCE)
        return status

    def __enter__(self) -> Uplink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.kill()
        self._thread.join(PATIENCE)
        if self._process.stderr is not None:
            self._process.stderr.close()


def until(is_so: Callable[[], bool], patience: float = PATIENCE) -> None:
    """Wait until something is so."""
    pause = threading.Event()
    for _ in range(int(patience / 0.05)):
        if is_so():
            return
        pause.wait(0.05)
    raise AssertionError("it did not become so")
