"""Keeps the registry in step with the paths: the sessions that other servers have are sessions of it, too.

What appears is durable before anybody is told of it, as every change; what is gone is gone at once. Objects behind what
a link said wait for that: see :meth:`FarSessions.settled`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import Struct
from twisted.internet.defer import Deferred, DeferredList
from twisted.python.failure import Failure

from bussrv.bus.paths import Far, Paths
from bussrv.errors import Refused
from bussrv.registry.registry import Identity, Registry
from bussrv.values import Traffic

RETRY_DELAY = 1.0
"""After how many seconds a session is entered again that could not be written down."""


class _Entry(Struct):
    """A far session in the registry, or on its way there.

    :ivar far: what is known of it there, or will be once pending changes are durable.
    """

    session_id: str
    far: Far


class _Bar(Struct):
    """A routing id that no far session may have.

    :ivar holders: how many links have it, or are about to.
    :ivar waiting: told when it is free.
    """

    holders: int = 0
    waiting: list[Deferred[None]] = []


class FarSessions:
    """The sessions of other servers, as far as routing ids allow: where one is taken already, that session stays.

    :param reactor: calls again when the journal could not be written.
    """

    def __init__(self, registry: Registry, paths: Paths, reactor: Any) -> None:
        self._registry = registry
        self._paths = paths
        self._reactor = reactor
        self._entries: dict[str, _Entry] = {}
        self._waiting: dict[str, str] = {}
        self._barred: dict[str, _Bar] = {}
        self._pending: set[str] = set()
        self._unsettled: list[tuple[set[str], Deferred[None]]] = []
        self._retry: Any = None
        self._is_stopped = False

    def update(self, routing_id: str, reason: str) -> None:
        """Something else is known of a session now.

        :param reason: why it is gone, if it is.
        """
        self._waiting.pop(routing_id, None)
        entry = self._entries.get(routing_id)
        if routing_id in self._pending:
            self._waiting[routing_id] = reason
            return
        far = None if routing_id in self._barred else self._paths.best(routing_id)
        if entry is not None and (far is None or _is_another(entry.far, far)):
            self._close(entry, reason)
            entry = None
        if far is None or (entry is None and self._is_stopped):
            return
        if entry is None and not self._registry.is_free(routing_id):
            self._waiting[routing_id] = reason
            return
        self._enter(entry, far)

    def _close(self, entry: _Entry, reason: str) -> None:
        del self._entries[entry.far.routing_id]
        self._registry.close_session(entry.session_id, reason, Traffic())

    def _enter(self, entry: _Entry | None, far: Far) -> None:
        changes: list[Deferred[Any]] = []
        if entry is None:
            session_id, opened = self._registry.open_far(far.home, far.protocol, far.routing_id, self._peer(far))
            changes.append(opened)
            entry = self._entries[far.routing_id] = _Entry(session_id, Far(routing_id=far.routing_id, path=far.path))
        known, entry.far = entry.far, far
        if far.is_member and not (known.is_member and _says_the_same(known, far)):
            identity = Identity(
                session_id=entry.session_id, routing_id=far.routing_id, routing_ids=far.routing_ids, role=far.role
            )
            changes.append(self._registry.identify(identity, None))
        before, now = known.services, far.services
        changes += [self._registry.register_service(entry.session_id, name) for name in sorted(now - before)]
        changes += [self._registry.unregister_service(entry.session_id, name) for name in sorted(before - now)]
        if changes:
            self._await(entry, changes)

    def _peer(self, far: Far) -> str:
        """The address of the server that told of it."""
        session = self._registry.state.sessions.get(self._paths.link_to(far.routing_id) or "")
        return session.peer if session is not None else ""

    def _await(self, entry: _Entry, changes: list[Deferred[Any]]) -> None:
        self._pending.add(entry.far.routing_id)
        done = DeferredList(changes, fireOnOneErrback=False, consumeErrors=True)
        done.addCallback(partial(self._written, entry))

    def _written(self, entry: _Entry, results: list[tuple[bool, Any]]) -> None:
        routing_id = entry.far.routing_id
        self._pending.discard(routing_id)
        refused = next((result for succeeded, result in results if not succeeded), None)
        if refused is not None:
            self._undo(entry, refused)
        elif routing_id in self._waiting:
            self.update(routing_id, self._waiting[routing_id])
        self._release(routing_id)
        if routing_id not in self._pending:
            self._tell_settled(routing_id)

    def _undo(self, entry: _Entry, failure: Failure) -> None:
        """It could not be written down: begin anew, later. What the registry refuses for good stays refused."""
        reason = failure.value.reason if isinstance(failure.value, Refused) else "internal-error"
        self._close(entry, reason)
        self._waiting[entry.far.routing_id] = reason
        if self._retry is None:
            self._retry = self._reactor.callLater(RETRY_DELAY, self._try_again)

    def _try_again(self) -> None:
        """The journal may be written again."""
        self._retry = None
        for routing_id in sorted(self._waiting):
            self.freed(routing_id)

    def freed(self, routing_id: str) -> None:
        """A session gave up a routing id: somebody may have waited for it."""
        if routing_id in self._waiting:
            self.update(routing_id, self._waiting[routing_id])

    def settled(self) -> Deferred[None] | None:
        """When everything that was told so far is in the registry; ``None``: it is."""
        if not self._pending:
            return None
        settled: Deferred[None] = Deferred()
        self._unsettled.append((set(self._pending), settled))
        return settled

    def _tell_settled(self, routing_id: str) -> None:
        for pending, _ in self._unsettled:
            pending.discard(routing_id)
        done = [settled for pending, settled in self._unsettled if not pending]
        self._unsettled = [waiter for waiter in self._unsettled if waiter[0]]
        for settled in done:
            settled.callback(None)

    # A server that is linked with directly is a session of its own right.

    def bar(self, routing_id: str) -> Deferred[None]:
        """Keep a routing id free of far sessions. :returns: fires when it is."""
        freed: Deferred[None] = Deferred()
        barred = self._barred.setdefault(routing_id, _Bar())
        barred.holders += 1
        barred.waiting.append(freed)
        self.update(routing_id, "replaced")
        self._release(routing_id)
        return freed

    def unbar(self, routing_id: str) -> None:
        """A link has that routing id no longer, or did not come about: a far session may have it again."""
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


def _says_the_same(known: Far, far: Far) -> bool:
    return (known.routing_ids, known.role) == (far.routing_ids, far.role)


def _is_another(entered: Far, far: Far) -> bool:
    """Whether the session cannot become this by saying who it is."""
    return entered.home != far.home or entered.protocol != far.protocol or (entered.is_member and not far.is_member)
