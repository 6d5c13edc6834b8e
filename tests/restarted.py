"""A server that is killed and started again, on the same journal and the same ports."""

from __future__ import annotations

from pathlib import Path

from tests.end_to_end.cables import reserve_port
from tests.forked import ForkedServer


class RestartedServer:
    """A server, as a context manager.

    :param journal: its journal directory.
    :param names: the wire formats that have the same ports again.
    """

    def __init__(self, journal: Path, *names: str) -> None:
        self._journal = journal
        # Without that, somebody else may be given one of these ports while no server runs.
        self._held = {name: reserve_port() for name in names if name != "inbus"}
        ports = {"websocket": 0, **{name: held.getsockname()[1] for name, held in self._held.items()}}
        self._options = [part for name, port in ports.items() for part in (f"--{name}", str(port))]
        self.start()
        if "inbus" in names:
            self._options += ["--inbus", str(self.port("inbus"))]

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
        for held in self._held.values():
            held.close()
