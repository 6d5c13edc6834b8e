"""A server and its uplink, as processes of their own."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

from bussrv.client.aio import Bus, connect
from tests.end_to_end.cables import reserve_port
from tests.forked import ForkedServer
from tests.forked_uplink import ForkedUplink


class Site:
    """A server with an uplink to NATS. Both can be killed and started again.

    :param name: the routing id of the server.
    :param urls: those of NATS.
    :param options: further ones of the uplink.
    """

    def __init__(self, directory: Path, name: str, urls: Sequence[str], net: str, options: Sequence[str] = ()) -> None:
        self.name, self.net = name, net
        self.net = net
        self._directory = directory / name
        self._directory.mkdir()
        hosts = ",".join(url.removeprefix("nats://") for url in urls)
        self._options = [f"nats://{hosts}", "--net", net, "--state", str(self._directory / "state"), *options]
        # Without that, somebody else may be given the port while no server runs.
        self._held = reserve_port()
        self._port = self._held.getsockname()[1]
        self.start_server()
        self.start_uplink()

    def start_server(self) -> None:
        """Each time on the same port."""
        ports = ["--objects", str(self._port)]
        names = ["--server-id", self.name, "--servers", "0", "--link-allow", "127.0.0.1"]
        self.server = ForkedServer(self._directory / "journal", [*names, *ports, "--mqtt", "0", "--admin", "off"])

    def start_uplink(self, *further: str) -> None:
        self.uplink = ForkedUplink(*self._options, *further, "--bus", f"bus://127.0.0.1:{self.server.port('servers')}")

    def client(self) -> Bus:
        """A client of the server, for ``async with``; it comes back when the server does."""
        return connect(f"bus://127.0.0.1:{self._port}")

    def __enter__(self) -> Site:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self.uplink, self.server, self._held:
            pass


@contextmanager
def joined(
    directory: Path, names: str, urls: Sequence[Sequence[str]] | Sequence[str], options: Sequence[str] = ()
) -> Iterator[list[Site]]:
    """Some servers on a net of their own, which know each other.

    :param urls: of NATS for all of them, or for each its own.
    """
    net = secrets.token_hex(4)
    with ExitStack() as stack:
        sites: list[Site] = []
        for number, name in enumerate(names):
            own = urls if isinstance(urls[0], str) else urls[number]
            sites.append(stack.enter_context(Site(directory, name, own, net, options)))  # type: ignore[arg-type]
        for site in sites:
            for other in sites:
                if other is not site:
                    site.uplink.wait_for(f"server {other.name} has joined")
        yield sites
