"""``/api/v1/server``: which server this is, and what the caller may do."""

from __future__ import annotations

import platform

import twisted
from msgspec import Struct

from bussrv.admin.http.routes import Call
from bussrv.journal.record import format_time
from bussrv.version import VERSION


class Permitted(Struct, frozen=True):
    """The permissions of the caller."""

    read: bool
    write: bool


class ServerView(Struct, frozen=True):
    """The server.

    :ivar identity: whether clients have to prove who they are.
    :ivar policy: whether there is a policy.
    :ivar clients: the sessions that a drain would end.
    :ivar drain_seconds: the time in which it would end them.
    :ivar actor: the user that the caller is.
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
    )
