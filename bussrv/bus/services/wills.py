"""Wills: what the server publishes in the name of clients of a wire format that it lost.

A will is kept in the spool while its client is connected, and until it is published. So the wills of the clients that a
crash cut off are published after the restart. All of them wait for :data:`GRACE` then: most clients come back, and
theirs are not published.

After a restart, a client without a durable session has no session any more. One is opened for it, publishes, and is
closed: the journal has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from bussrv.bus.interfaces import IBus
from bussrv.bus.sessions.durable import DurableSessions
from bussrv.bus.sessions.unreachable import Unreachable
from bussrv.registry.state.session import Claims, Session
from bussrv.spool.entries import Claim, Drop, Owner, Put
from bussrv.values import Traffic

log = Logger()

KIND = "will"

GRACE = 30.0
"""After a restart of the server its clients have at least so many seconds to come back."""

Will = TypeVar("Will")


class Wills(Generic[Will]):
    """The wills of all clients of a wire format, each by the name of its client.

    :param format_name: the name of the wire format. Their owners in the spool begin with ``FORMAT-will``.
    :param kind: the type of a will, which :mod:`msgspec` can encode for the spool.
    :param give: publishes a will in the name of a session.
    :param delay_of: how many seconds a will waits for its client.
    :param sessions: their durable sessions, which say who is connected.
    """

    def __init__(
        self,
        bus: IBus,
        reactor: Any,
        format_name: str,
        kind: type[Will],
        *,
        give: Callable[[str, Will], object],
        delay_of: Callable[[Will], float],
        sessions: DurableSessions[Any],
    ) -> None:
        self._bus = bus
        self._format = format_name
        self._owner = f"{format_name}-will "
        self._give = give
        self._decode = msgspec.msgpack.Decoder(kind).decode
        self._delay_of = delay_of
        self._sessions = sessions
        self._reactor = reactor
        self._kept: set[str] = set()
        self._waiting: dict[str, tuple[Any, Callable[[], None]]] = {}
        sessions.end_observers.append(self.session_ends)

    def _unread(self, failure: Failure) -> None:
        why, name = failure.getErrorMessage(), self._format
        log.error(
            "{name}: wills of the last boot cannot be read: {why}", event="spool.wills-unread", name=name, why=why
        )

    # While the server runs.

    def keep(self, client: str, will: Will, session: Session) -> Deferred[Any]:
        """A client has a will from now on.

        :returns: fires when it is durable; fails with :class:`bussrv.errors.Refused`.
        """
        self._kept.add(client)
        owner = self._owner + client
        kept = Put(owner=owner, kind=KIND, key=KIND, payload=msgspec.msgpack.encode(will))
        return self._bus.spool.write([Claim(owner=owner, address=session.peer, actor=session.actor), kept])

    def forget(self, client: str) -> None:
        """The will of a client is not to be published, or is published."""
        self.cancel(client)
        self._kept.discard(client)
        # The spool counts what fails. At worst the will is published after the next restart.
        self._bus.spool.write([Drop(owner=self._owner + client)]).addErrback(lambda _: None)

    def forget_former(self, client: str) -> None:
        """A client has no will now. It may have had one when it was here before."""
        if client in self._kept:
            self.forget(client)

    def cancel(self, client: str) -> None:
        """A client is back: its will does not wait any more."""
        waiting = self._waiting.pop(client, None)
        if waiting is not None and waiting[0].active():
            waiting[0].cancel()

    def publish(self, client: str, session_id: str, will: Will) -> None:
        """Publish the will of a client now."""
        self.forget(client)
        self._give(session_id, will)
        self._bus.flush()

    def publish_after(self, client: str, will: Will, seconds: float) -> None:
        """Publish the will of a client with a durable session in so many seconds, unless it comes back before."""

        def publish() -> None:
            session_id = self._sessions.id_of(client)
            if session_id is not None:
                self.publish(client, session_id, will)

        self._wait(client, seconds, publish)

    def session_ends(self, client: str) -> None:
        """The durable session of a client ends, or the time is over: its will does not wait any longer."""
        waiting = self._waiting.get(client)
        self.cancel(client)
        if waiting is not None:
            waiting[1]()

    def _wait(self, client: str, seconds: float, publish: Callable[[], None]) -> None:
        self.cancel(client)
        self._waiting[client] = self._reactor.callLater(seconds, self._is_due, client), publish

    def _is_due(self, client: str) -> None:
        # In slices: after a restart thousands may be due at once.
        self._bus.slices.do(lambda _: self._publish_due(client))

    def _publish_due(self, client: str) -> bool:
        """The time is over, unless the client has come back meanwhile. :returns: whether something is left."""
        waiting = self._waiting.get(client)
        if waiting is not None and not waiting[0].active():
            self.session_ends(client)
        return False

    # After a restart.

    def recover(self) -> None:
        """Wait for the clients of the last boot, and publish the wills of those that do not come back."""
        Deferred.fromCoroutine(self._recover()).addErrback(self._unread)

    async def _recover(self) -> None:
        after, spool = "", self._bus.spool
        while owners := await spool.owners(after=after):
            for each in owners:
                if each.startswith(self._owner):
                    await self._recover_one(each, each.removeprefix(self._owner))
            after = owners[-1]

    async def _recover_one(self, owner: str, client: str) -> None:
        entries = (await self._bus.spool.page(owner, KIND)).entries
        about = await self._bus.spool.owner(owner)
        if about is None or not entries or client in self._kept:
            return
        self._kept.add(client)
        if client in self._sessions.connected:
            self.forget(client)
            return
        will = self._decode(entries[0].payload)
        self._wait(client, max(GRACE, self._delay_of(will)), lambda: self._publish_late(client, about, will))

    def _publish_late(self, client: str, about: Owner, will: Will) -> None:
        session_id = self._sessions.id_of(client)
        if session_id is not None:
            self.publish(client, session_id, will)
        else:
            Deferred.fromCoroutine(self._publish_absent(client, about, will)).addErrback(self._unread)

    async def _publish_absent(self, client: str, about: Owner, will: Will) -> None:
        session = self._bus.open(self._format, about.address, Unreachable(), actor=about.actor)
        try:
            await self._bus.registry.introduce(Claims(session_id=session.id, name=client))
            self.publish(client, session.id, will)
        finally:
            self._bus.close(session.id, "connection-lost", Traffic())
