"""Keeps the registry in step with the paths: the sessions that other servers have are sessions of it, too.

A remote session is durable before anybody is told of it, as every change. It ends at once, unless it provides many
services: these end a slice at a time, and the session after them. Objects that follow the advertisement over the link
wait for both: see :meth:`RemoteSessions.all_durable`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from twisted.internet.defer import Deferred, DeferredList

from bussrv.bus.links.paths import Paths, RemoteSession
from bussrv.bus.sessions.ending import end_services_then
from bussrv.errors import Refused
from bussrv.registry.changes.registry import Registry
from bussrv.registry.state.session import Claims
from bussrv.turns.slices import Slices
from bussrv.values import Traffic

RETRY_DELAY = 1.0
"""Seconds until a session that could not be journaled is entered again."""

MOST_PENDING = 64
"""The most sessions, and services of one session, that are journaled in one go, because they are applied in one go.
The services of a session that provides more end in slices."""


class _Entry(Struct):
    """A remote session in the registry, or on its way there.

    :ivar remote: the session as the registry has it, or will have it once pending changes are durable.
    """

    session_id: str
    remote: RemoteSession


class _Bar(Struct):
    """A routing id that no remote session may have.

    :ivar holders: how many links have it, or are about to.
    :ivar waiting: fired when it is free.
    """

    holders: int = 0
    waiting: list[Deferred[None]] = []


class RemoteSessions:
    """The sessions of other servers. A session whose routing id is taken has to wait until it is free.

    A session is *pending* while changes of it are on their way to the journal, and while its services end. Changes of
    it wait meanwhile, the newest only.

    :param slices: end the services of a session in steps.
    :param reactor: calls again when the journal could not be written.
    """

    def __init__(self, registry: Registry, paths: Paths, slices: Slices, reactor: Any) -> None:
        self._registry = registry
        self._paths = paths
        self._slices = slices
        self._reactor = reactor
        self._entries: dict[str, _Entry] = {}
        self._waiting: dict[str, str] = {}
        self._barred: dict[str, _Bar] = {}
        self._pending: set[str] = set()
        self._queue: dict[str, None] = {}
        self._unsettled: list[tuple[set[str], Deferred[None]]] = []
        self._retry: Any = None
        self._is_stopped = False
        self._is_advancing = False

    def update(self, routing_id: str, reason: str) -> None:
        """Bring the registry in step with what is known of a session now.

        :param reason: why the session ends, if it does.
        """
        was_queued = routing_id in self._queue
        self._update(routing_id, reason)
        if was_queued and not self._is_awaited(routing_id):
            self._tell_durable(routing_id)

    def _update(self, routing_id: str, reason: str) -> None:
        self._waiting.pop(routing_id, None)
        self._queue.pop(routing_id, None)
        entry = self._entries.get(routing_id)
        if routing_id in self._pending:
            self._waiting[routing_id] = reason
            return
        remote = None if routing_id in self._barred else self._paths.best(routing_id)
        if entry is not None and (remote is None or _is_another(entry.remote, remote)):
            self._waiting[routing_id] = reason
            self._end(entry, reason, self._go_on)
            return
        if remote is None or (entry is None and self._is_stopped):
            return
        if entry is None and not self._registry.is_free(routing_id):
            self._waiting[routing_id] = reason
            return
        if self.is_crowded() and not _is_entered(entry, remote):
            self._waiting[routing_id] = reason
            self._queue[routing_id] = None
            return
        self._enter(entry, remote, reason)

    def _end(self, entry: _Entry, reason: str, then: Callable[[str], None]) -> None:
        """End a session and call ``then`` with its routing id: at once, unless it provides many services."""
        self._pending.add(entry.remote.routing_id)
        ended = partial(self._ended, entry, reason, then)
        if len(self._registry.state.provided_by(entry.session_id)) <= MOST_PENDING:
            ended()
        else:
            seconds = self._reactor.seconds
            self._slices.do(end_services_then(self._registry, entry.session_id, reason, seconds, ended))

    def _ended(self, entry: _Entry, reason: str, then: Callable[[str], None]) -> None:
        routing_id = entry.remote.routing_id
        self._pending.discard(routing_id)
        del self._entries[routing_id]
        self._registry.close_session(entry.session_id, reason, Traffic())
        then(routing_id)

    def _enter(self, entry: _Entry | None, remote: RemoteSession, reason: str) -> None:
        changes: list[Deferred[Any]] = []
        if entry is None:
            session_id, opened = self._registry.open_remote(
                remote.home, remote.protocol, remote.routing_id, self._peer(remote)
            )
            changes.append(opened)
            entry = self._entries[remote.routing_id] = _Entry(
                session_id, RemoteSession(routing_id=remote.routing_id, path=remote.path)
            )
        known, entry.remote = entry.remote, _next_step(entry.remote, remote)
        if entry.remote != remote:
            self._waiting[remote.routing_id] = reason
        if remote.is_member and not (
            known.is_member and (known.routing_ids, known.role) == (remote.routing_ids, remote.role)
        ):
            claims = Claims(
                session_id=entry.session_id,
                routing_id=remote.routing_id,
                routing_ids=remote.routing_ids,
                role=remote.role,
            )
            changes.append(self._registry.identify(claims, None))
        before, now = known.services, entry.remote.services
        if now != before:
            changes.append(self._registry.change_remote_services(entry.session_id, now - before, before - now))
        if changes:
            self._pending.add(remote.routing_id)
            done = DeferredList(changes, fireOnOneErrback=False, consumeErrors=True)
            done.addCallback(partial(self._written, entry))

    def _peer(self, remote: RemoteSession) -> str:
        """The address of the server that told of it."""
        session = self._registry.state.sessions.get(self._paths.link_to(remote.routing_id) or "")
        return session.peer if session is not None else ""

    def _written(self, entry: _Entry, results: list[tuple[bool, Any]]) -> None:
        refused = next((result for succeeded, result in results if not succeeded), None)
        if refused is not None:
            reason = refused.value.reason if isinstance(refused.value, Refused) else "internal-error"
            self._end(entry, reason, partial(self._enter_later, reason))
        else:
            self._pending.discard(entry.remote.routing_id)
            self._go_on(entry.remote.routing_id)

    def _go_on(self, routing_id: str) -> None:
        """A session is pending no longer: do what had to wait for that."""
        if routing_id in self._waiting:
            self.update(routing_id, self._waiting[routing_id])
        self._settle(routing_id)

    def _settle(self, routing_id: str) -> None:
        self._release(routing_id)
        if not self._is_awaited(routing_id):
            self._tell_durable(routing_id)
        self._advance()

    def _enter_later(self, reason: str, routing_id: str) -> None:
        """A session could not be journaled: enter it again later. A refusal by the registry is final."""
        self._waiting[routing_id] = reason
        if self._retry is None:
            self._retry = self._reactor.callLater(RETRY_DELAY, self._try_again)
        self._settle(routing_id)

    def _advance(self) -> None:
        """Enter sessions that had to wait for others."""
        if self._is_advancing:
            return
        self._is_advancing = True
        while self._queue and not self.is_crowded():
            routing_id = next(iter(self._queue))
            self.update(routing_id, self._waiting[routing_id])
        self._is_advancing = False

    def _is_awaited(self, routing_id: str) -> bool:
        return routing_id in self._pending or routing_id in self._queue

    def _try_again(self) -> None:
        """The journal may be written again."""
        self._retry = None
        for routing_id in sorted(self._waiting):
            self.freed(routing_id)

    def freed(self, routing_id: str) -> None:
        """A session gave up a routing id: somebody may have waited for it."""
        if routing_id in self._waiting:
            self.update(routing_id, self._waiting[routing_id])

    def all_durable(self) -> Deferred[None] | None:
        """Fires when all advertisements so far are in the registry; ``None``: they are."""
        if not self._pending and not self._queue:
            return None
        settled: Deferred[None] = Deferred()
        self._unsettled.append(({*self._pending, *self._queue}, settled))
        return settled

    def is_crowded(self) -> bool:
        """Whether as many sessions are on their way to the journal as may be."""
        return len(self._pending) >= MOST_PENDING

    def _tell_durable(self, routing_id: str) -> None:
        for pending, _ in self._unsettled:
            pending.discard(routing_id)
        done = [settled for pending, settled in self._unsettled if not pending]
        self._unsettled = [waiter for waiter in self._unsettled if waiter[0]]
        for settled in done:
            settled.callback(None)

    # A server that is linked with directly is a session of its own right.

    def reserve_id(self, routing_id: str) -> Deferred[None]:
        """Keep a routing id free of remote sessions. :returns: fires when it is."""
        freed: Deferred[None] = Deferred()
        barred = self._barred.setdefault(routing_id, _Bar())
        barred.holders += 1
        barred.waiting.append(freed)
        self.update(routing_id, "replaced")
        self._release(routing_id)
        return freed

    def barred(self) -> int:
        """How many routing ids links have, or are about to."""
        return len(self._barred)

    def release_id(self, routing_id: str) -> None:
        """A link no longer has that routing id, or did not come about: a remote session may have it again."""
        self._barred[routing_id].holders -= 1
        if not self._barred[routing_id].holders:
            del self._barred[routing_id]
            self.update(routing_id, "link-lost")

    def _release(self, routing_id: str) -> None:
        barred = self._barred.get(routing_id)
        if barred is None or routing_id in self._entries:
            return
        while barred.waiting:
            barred.waiting.pop().callback(None)

    def stop(self) -> None:
        """Enter nobody any more."""
        self._is_stopped = True
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None


def _is_entered(entry: _Entry | None, remote: RemoteSession) -> bool:
    """Whether the known state of a session can be taken over without a record in the journal."""
    return entry is not None and replace(entry.remote, path=remote.path) == remote


def _next_step(entered: RemoteSession, remote: RemoteSession) -> RemoteSession:
    """The known state of a session, with at most as many changes of its services as are made together."""
    changes = sorted(entered.services ^ remote.services)
    if len(changes) <= MOST_PENDING:
        return remote
    return replace(remote, services=entered.services ^ frozenset(changes[:MOST_PENDING]))


def _is_another(entered: RemoteSession, remote: RemoteSession) -> bool:
    """Whether the session cannot become this by saying who it is."""
    return (
        entered.home != remote.home
        or entered.protocol != remote.protocol
        or (entered.is_member and not remote.is_member)
    )
