"""``/api/v1/server``: which server this is, and what the caller may do."""

from __future__ import annotations

import platform
from typing import Any

import twisted
from msgspec import Struct

from bussrv.admin.http.routes import Call
from bussrv.bus.interfaces import IBus
from bussrv.journal.record import format_time
from bussrv.options import rows
from bussrv.settings import Settings
from bussrv.version import VERSION


class Permitted(Struct, frozen=True):
    """The permissions of the caller."""

    read: bool
    write: bool


class CertificateView(Struct, frozen=True):
    """A certificate of this server.

    :ivar name: the port that shows it.
    :ivar days_left: the days until it expires, less than 0 afterwards; ``None``: it is not known.
    """

    name: str
    file: str
    days_left: int | None


class ServerView(Struct, frozen=True):
    """The server.

    :ivar identity: whether clients have to prove who they are.
    :ivar policy: whether there is a policy.
    :ivar clients: the sessions that a drain would end.
    :ivar drain_seconds: the time in which it would end them.
    :ivar actor: the user that the caller is.
    :ivar certificates: of all ports with TLS.
    :ivar configuration: the settings that differ from their defaults, by option.
    """

    server: str
    version: str
    boot: str
    started: str
    python: str
    twisted: str
    formats: dict[str, str]
    identity: bool
    policy: bool
    draining: bool
    clients: int
    drain_seconds: float
    log_level: str
    seq: int
    permissions: Permitted
    actor: str | None
    certificates: list[CertificateView]
    configuration: dict[str, Any]


def _certificates(bus: IBus) -> list[CertificateView]:
    found = sorted(bus.streams.certificates.items())
    return [CertificateView(name, str(each.file), each.days_left()) for name, each in found]


def _configuration(settings: Settings) -> dict[str, Any]:
    values = ((each, getattr(settings, each.sets)) for each in rows(Settings))
    return {each.name: value for each, value in values if value != each.default and _is_plain(value)}


def _is_plain(value: object) -> bool:
    items = value if isinstance(value, (tuple, list)) else (value,)
    return all(isinstance(each, (bool, int, float, str)) for each in items)


async def show(call: Call) -> ServerView:
    """Which server this is, and what the caller may do."""
    server, access = call.server, call.server.bus.access
    return ServerView(
        server=server.bus.server_id,
        version=VERSION,
        boot=server.boot,
        started=format_time(server.started),
        python=platform.python_version(),
        twisted=twisted.__version__,
        formats=dict(server.formats()),
        identity=access.asks,
        policy=access.policy is not None,
        draining=server.is_draining(),
        clients=server.clients(),
        drain_seconds=server.bus.settings.drain_seconds,
        log_level=server.log_level(),
        seq=call.shared.seq,
        permissions=Permitted("read" in call.caller.may, "write" in call.caller.may),
        actor=call.caller.actor,
        certificates=_certificates(server.bus),
        configuration=_configuration(server.bus.settings),
    )
