"""The actions of operators that change something. Each is durable in the journal before it is done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct
from twisted.internet.task import deferLater

from bussrv import events as ev
from bussrv.admin.http.answers import Answer, Problem
from bussrv.admin.http.login import PROTOCOL
from bussrv.admin.http.routes import Call
from bussrv.admin.interfaces import Reloaded
from bussrv.admin.journal.view import SealView, seal_view
from bussrv.admin.registry.collections import in_steps
from bussrv.admin.registry.sessions import find
from bussrv.bus.interfaces import IBus
from bussrv.bus.sessions.withdrawal import BY_OPERATOR
from bussrv.errors import BadValue, JournalError, JournalUnavailable
from bussrv.registry.state.naming import OWN_PROTOCOL
from bussrv.registry.state.session import Session

DONE = Answer(b"", status=204)

SEAL_SECONDS = 10.0
"""The longest time in seconds that sealing the journal may take."""

LOOK = 0.1
"""Seconds between two checks whether the journal is sealed."""


class LogLevel(Struct, frozen=True):
    """A level of the log.

    :ivar part: a part of the server; ``None``: all parts without a level of their own.
    """

    level: Literal["debug", "info", "warn", "error"]
    part: str | None = None


class LogLevels(Struct, frozen=True):
    """The levels of the log, in the form of ``--log-level``."""

    log_level: str


class Draining(Struct, frozen=True):
    """The server is about to stop.

    :ivar sessions: the sessions that end one after the other.
    :ivar seconds: the time in which they end.
    """

    draining: bool
    sessions: int
    seconds: float


async def journal(call: Call, action: str, target: str | None = None) -> None:
    """Journal an action before it is done.

    :raises Problem: ``journal-unavailable``: then it must not be done.
    """
    caller = call.caller
    event = ev.AdminAction(protocol=PROTOCOL, actor=caller.actor, peer=caller.peer, action=action, target=target)
    try:
        await call.server.write(event)
    except JournalUnavailable as error:
        raise Problem("journal-unavailable", error.message, {"Retry-After": "5"}) from error


async def close_session(call: Call) -> Answer:
    """Close a session.

    :raises Problem: ``no-such-session`` or ``not-here``.
    """
    session = find(call)
    if session.home is not None or session.protocol == OWN_PROTOCOL:
        raise Problem("not-here", "the session belongs to another server, or to this server itself")
    await journal(call, "close-session", session.id)
    bus = call.server.bus
    link = bus.link_of(session.id)
    if link is not None:
        link.close(BY_OPERATOR)
    # A session without a connection ends when it has nothing left.
    await in_steps(_take_everything(bus, session), bus.slices)
    return DONE


def _take_everything(bus: IBus, session: Session) -> Iterator[None]:
    state = bus.registry.state
    for name in tuple(state.provided_by(session.id)):
        bus.registry.lose_service(session.id, name, BY_OPERATOR)
        yield
    for service in tuple(state.subscriptions.get(session.id, ())):
        if service is not None:
            bus.registry.lose_subscription(session.id, service, BY_OPERATOR)
            yield


async def drop_subscription(call: Call) -> Answer:
    """Drop the subscription of a session to a service, such as a lease of Inbus.

    :raises Problem: ``no-such-session``, ``not-here`` or ``no-such-subscription``.
    """
    session, service = find(call), call.path["service"]
    registry = call.server.bus.registry
    if registry.state.subscription(session.id, service) is None:
        raise Problem("no-such-subscription")
    if session.home is not None:
        raise Problem("not-here", "the session belongs to another server")
    await journal(call, "drop-subscription", f"{session.id} {service}")
    registry.lose_subscription(session.id, service, BY_OPERATOR)
    return DONE


async def forget_link(call: Call) -> Answer:
    """Forget a lost link to the server of this routing id: it is not missed any more.

    :raises Problem: ``no-such-link`` or ``link-wanted``.
    """
    server, server_id = call.server, call.path["server"]
    missing = {each.server_id for each in server.bus.links.missing()}
    if server_id in server.bus.links.neighbors():
        raise Problem("link-wanted", "the link is up; a session is closed by its id")
    if server_id in server.bus.settings.expect_link or any(each.server == server_id for each in server.dialed()):
        raise Problem("link-wanted", "--link or --expect-link asks for it: change the configuration, and reload")
    if server_id not in missing:
        raise Problem("no-such-link")
    await journal(call, "forget-link", server_id)
    server.bus.links.forget(server_id)
    return DONE


async def seal(call: Call) -> SealView:
    """Seal the journal up to its present end. Answers when it is done.

    :raises Problem: ``no-journal`` or ``seal-late``.
    """
    server, place = call.server, call.journal
    await journal(call, "seal")
    try:
        place.ask_for_seal()
    except JournalError as error:
        raise Problem("seal-late", str(error)) from error
    end = server.reactor.seconds() + SEAL_SECONDS
    while place.is_asked_for_seal():
        if server.reactor.seconds() >= end:
            raise Problem("seal-late")
        await deferLater(server.reactor, LOOK)
    sealed = seal_view(place.last_seal())
    if sealed is None:
        raise Problem("seal-late")
    return sealed


async def reload(call: Call) -> Reloaded:
    """Read the configuration again.

    :raises Problem: ``reload-failed``: nothing changed.
    """
    await journal(call, "reload")
    outcome = await call.server.reload()
    if outcome is None:
        raise Problem("reload-failed", "the server is about to stop")
    if outcome.faults:
        raise Problem("reload-failed", "; ".join(outcome.faults))
    return outcome


async def drain(call: Call) -> Draining:
    """Stop the server: sessions end one after the other."""
    server = call.server
    if not server.is_draining():
        await journal(call, "drain")
        server.reactor.callLater(0, server.drain)
    return Draining(True, server.clients(), server.bus.settings.drain_seconds)


async def log_level(call: Call) -> LogLevels:
    """Log another least level, until a reload or a restart.

    :raises Problem: ``no-such-part``.
    """
    wanted: LogLevel = call.body
    try:
        use = call.server.prepare_log_level(wanted.level, wanted.part)
    except BadValue as error:
        raise Problem("no-such-part", str(error)) from error
    await journal(call, "log-level", wanted.level if wanted.part is None else f"{wanted.part}={wanted.level}")
    use()
    return LogLevels(call.server.log_level())
