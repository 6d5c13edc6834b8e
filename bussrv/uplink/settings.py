"""The settings of an uplink."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bussrv.client.tls import Tls
from bussrv.wire.objects import MAX_PAYLOAD

DEFAULT_NET = "bussrv"

BEAT = 1.0
"""Seconds between two heartbeats."""

LAPSE = 5.0
"""Seconds without a heartbeat until a server counts as gone."""


@dataclass(frozen=True)
class Place:
    """The place of the server of an uplink.

    :ivar host: its host; of a UNIX socket, its path.
    :ivar port: ``None``: it is a UNIX socket.
    :ivar tls: how its certificate is checked; ``None``: there is no TLS.
    """

    host: str
    port: int | None
    tls: Tls | None = None

    def __str__(self) -> str:
        scheme = "bus" if self.tls is None else "buss"
        return f"unix:{self.host}" if self.port is None else f"{scheme}://{self.host}:{self.port}"


@dataclass(frozen=True)
class Settings:
    """What an uplink is told.

    :ivar urls: the servers of the engine.
    :ivar bus: the server that it links.
    :ivar net: the name of the net. All servers of one net see each other.
    :ivar token_file: a file with the token that the server is shown; ``None``: it is shown none.
    :ivar keep: the services of which the engine keeps what is published.
    :ivar keep_age: for how many seconds.
    :ivar keep_size: how many bytes of each, at most.
    :ivar state: the directory that says how far this server is in what is kept.
    :ivar lapse: seconds without a heartbeat until a server counts as gone.
    :ivar max_payload: the most bytes of the payload of an object.
    :ivar tls: the certificates for the engine; ``None``: those of the system, if its URL asks for TLS.
    :ivar credentials: a file of credentials for the engine.
    """

    urls: tuple[str, ...]
    bus: Place
    net: str = DEFAULT_NET
    token_file: Path | None = None
    keep: tuple[str, ...] = ()
    keep_age: float = 3600.0
    keep_size: int = 64 << 20
    state: Path = Path("bussrv-uplink")
    lapse: float = LAPSE
    max_payload: int = MAX_PAYLOAD
    tls: Tls | None = None
    credentials: Path | None = None

    @property
    def node(self) -> str:
        """The routing id of the net, as a linked server."""
        return f"uplink/{self.net}"
