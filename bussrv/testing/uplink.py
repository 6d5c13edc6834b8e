"""A real uplink in a process of its own, started as ``bussrv uplink``."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from types import TracebackType

COMMAND = (sys.executable, "-c", "import sys; from bussrv.cli.main import main; sys.exit(main())", "uplink")
PATIENCE = 30.0


class RunningUplink:
    """``bussrv uplink``, as a context manager that kills it if it still runs.

    :param arguments: those of the command.
    :ivar lines: the lines that it has logged so far.
    """

    def __init__(self, *arguments: str) -> None:
        self.lines: list[str] = []
        self._said = threading.Condition()
        self.process = self._spawn(arguments)
        self._reading = threading.Thread(target=self._read, name="uplink-log", daemon=True)
        self._reading.start()

    def _spawn(self, arguments: Sequence[str]) -> subprocess.Popen[str]:
        return subprocess.Popen([*COMMAND, *arguments], stderr=subprocess.PIPE, text=True)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._said:
                self.lines.append(line.rstrip("\n"))
                self._said.notify_all()

    def wait_for(self, words: str, after: int = 0) -> str:
        """The first line with these words.

        :param after: how many lines before it do not count.
        :raises RuntimeError: it does not come in time.
        """

        def found() -> str | None:
            return next((line for line in self.lines[after:] if words in line), None)

        with self._said:
            line = self._said.wait_for(found, PATIENCE)
        if line is None:
            raise RuntimeError(f"the uplink did not say {words!r}:\n" + "\n".join(self.lines))
        return line

    def kill(self) -> None:
        """End it as ``kill -9`` does."""
        self.process.kill()
        self.wait()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and wait. :returns: the exit status."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Wait for the end of the process. :returns: its exit status."""
        status = self.process.wait(PATIENCE)
        self._reading.join(PATIENCE)
        return status

    def __enter__(self) -> RunningUplink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()
