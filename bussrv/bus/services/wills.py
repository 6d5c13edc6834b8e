"""Wills: what the server publishes in the name of clients of a wire format that it lost.

A will is kept in the spool while its client is connected, and until it is published. So the wills of the clients that a
crash cut off are published after the restart. All of them wait for :data:`GRACE` then: most clients come back, and
theirs are not published.

After a restart, a client without a durable session has no session any more. One is opened for it, publishes, and is
closed: the journal has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from bussrv.bus.interfaces import IBus
from bussrv.bus.sessions.unreachable import Unreachable
from bussrv.registry.state.session import Claims, Session
from bussrv.spool.entries import Claim, Drop, Owner, Put
from bussrv.values import Traffic

KIND = "will"

GRACE = 30.0
"""After a restart of the server its clients have at least so many seconds to come back."""

Will = TypeVar("Will")


class Wills(Generic[Will]):
    """The wills of all clients of a wire format, each by the name of its client. It overrides the hooks.

    :cvar FORMAT: the name of the wire format.
    :cvar OWNER: what their owners in the spool begin with.
    :param session_of: finds the durable session of a client, by its id.
    :param is_here: whether a client is connected.
    """

    FORMAT: ClassVar[str]
    OWNER: ClassVar[str]

    def __init__(
        self, bus: IBus, reactor: Any, *, session_of: Callable[[str], str | None], is_here: Callable[[str], bool]
    ) -> None:
        self.bus = bus
        self._session_of = session_of
        self._is_here = is_here
        self._reactor = reactor
        self._kept: set[str] = set()
        self._waiting: dict[str, tuple[Any, Callable[[], None]]] = {}

    # Hooks.

    def give(self, session_id: str, will: Will) -> None:
        """Publish a will in the name of a session."""
        raise NotImplementedError

    def packed(self, will: Will) -> bytes:
        """A will as the spool has it."""
        raise NotImplementedError

    def unpacked(self, packed: bytes) -> Will:
        """A will of an earlier boot."""
        raise NotImplementedError

    def delay_of(self, will: Will) -> float:
        """How many seconds a will waits for its client."""
        return 0.0

    def unread(self, failure: Failure) -> None:
        """The wills of the last boot cannot be read."""

    # While the server runs.

    def keep(self, client: str, will: Will, session: Session) -> Deferred[Any]:
        """A client has a will from now on.

        :returns: fires when it is durable; fails with :class:`bussrv.errors.Refused`.
        """
        self._kept.add(client)
        owner = self.OWNER + client
        kept = Put(owner=owner, kind=KIND, key=KIND, payload=self.packed(will))
        return self.bus.spool.write([Claim(owner=owner, address=session.peer, actor=session.actor), kept])

    def forget(self, client: str) -> None:
        """The will of a client is not to be published, or is published."""
        self.cancel(client)
        self._kept.discard(client)
        # The spool counts what fails. At worst the will is published after the next restart.
        self.bus.spool.write([Drop(owner=self.OWNER + client)]).addErrback(lambda _: None)

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
        self.give(session_id, will)
        self.bus.flush()

    def publish_after(self, client: str, will: Will, seconds: float) -> None:
        """Publish the will of a client with a durable session in so many seconds, unless it comes back before."""

        def publish() -> None:
            session_id = self._session_of(client)
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
        self.bus.slices.do(lambda _: self._publish_due(client))

    def _publish_due(self, client: str) -> bool:
        """The time is over, unless the client has come back meanwhile. :returns: whether something is left."""
        waiting = self._waiting.get(client)
        if waiting is not None and not waiting[0].active():
            self.session_ends(client)
        return False

    # After a restart.

    def recover(self) -> None:
        """Wait for the clients of the last boot, and publish the wills of those that do not come back."""
        Deferred.fromCoroutine(self._recover()).addErrback(self.unread)

    async def _recover(self) -> None:
        after, spool = "", self.bus.spool
        while owners := await spool.owners(after=after):
            for each in owners:
                if each.startswith(self.OWNER):
                    await self._recover_one(each, each.removeprefix(self.OWNER))
            after = owners[-1]

    async def _recover_one(self, owner: str, client: str) -> None:
        entries = (await self.bus.spool.page(owner, KIND)).entries
        about = await self.bus.spool.owner(owner)
        if about is None or not entries or client in self._kept:
            return
        self._kept.add(client)
        if self._is_here(client):
            self.forget(client)
            return
        will = self.unpacked(entries[0].payload)
        self._wait(client, max(GRACE, self.delay_of(will)), lambda: self._publish_late(client, about, will))

    def _publish_late(self, client: str, about: Owner, will: Will) -> None:
        session_id = self._session_of(client)
        if session_id is not None:
            self.publish(client, session_id, will)
        else:
            Deferred.fromCoroutine(self._publish_absent(client, about, will)).addErrback(self.unread)

    async def _publish_absent(self, client: str, about: Owner, will: Will) -> None:
        session = self.bus.open(self.FORMAT, about.address, Unreachable(), actor=about.actor)
        try:
            await self.bus.registry.introduce(Claims(session_id=session.id, name=client))
            self.publish(client, session.id, will)
        finally:
            self.bus.close(session.id, "connection-lost", Traffic())
