"""A server that is killed and started again, on the same journal and the same ports."""

from __future__ import annotations

from pathlib import Path

from tests.forked import ForkedServer


class RestartedServer:
    """A server, as a context manager.

    :param journal: its journal directory.
    :param names: the wire formats that have the same ports again.
    """

    def __init__(self, journal: Path, *names: str) -> None:
        self._journal = journal
        self._server = ForkedServer(journal, ["--websocket", "0"])
        self._options = [part for name in names for part in (f"--{name}", str(self.port(name)))]

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        return self._server.addresses

    def port(self, name: str) -> int:
        return self._server.port(name)

    def kill(self) -> None:
        """As ``kill -9`` does."""
        self._server.process.kill()
        self._server.wait()

    def start(self) -> None:
        self._server = ForkedServer(self._journal, self._options)

    def __enter__(self) -> RestartedServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
