"""Wills: messages that the server publishes in the name of clients that it lost.

A will is kept in the spool while its client is connected, and until it is published. So the wills of the clients that a
crash cut off are published after the restart. All of them wait for :data:`GRACE` then: most clients come back, and
theirs are not published.

After a restart, a client without a durable session has no session any more. One is opened for it, publishes, and is
closed: the journal has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from bussrv.formats.mqtt.giving import Giving
from bussrv.plugin import Claim, Claims, Drop, IBus, Owner, Put, Session, Traffic, Unreachable
from bussrv.wire.mqtt.packets import Properties, Will

OWNER = "mqtt-will "
KIND = "will"

GRACE = 30.0
"""After a restart of the server its clients have at least so many seconds to come back."""

log = Logger()


class _Head(Struct, frozen=True, omit_defaults=True):
    """The part before the payload: JSON and a NUL."""

    topic: str
    qos: int
    retain: bool
    properties: Properties


_decode = msgspec.json.Decoder(_Head).decode
_encode = msgspec.json.Encoder().encode


class Wills:
    """The wills of all clients.

    :param session_of: finds the durable session of a client id, by its id in the registry.
    :param is_here: whether a client id is connected.
    """

    def __init__(
        self,
        bus: IBus,
        reactor: Any,
        giving: Giving,
        session_of: Callable[[str], str | None],
        is_here: Callable[[str], bool],
    ) -> None:
        self._bus = bus
        self._reactor = reactor
        self._giving = giving
        self._session_of = session_of
        self._is_here = is_here
        self._kept: set[str] = set()
        self._waiting: dict[str, tuple[Any, Callable[[], None]]] = {}

    def keep(self, client_id: str, will: Will, session: Session) -> Deferred[Any]:
        """A client has a will from now on.

        :returns: fires when it is durable; fails with :class:`bussrv.errors.Refused`.
        """
        self._kept.add(client_id)
        owner, head = OWNER + client_id, _Head(will.topic, will.qos, will.retain, will.properties)
        kept = Put(owner=owner, kind=KIND, key=KIND, payload=_encode(head) + b"\0" + will.payload)
        return self._bus.spool.write([Claim(owner=owner, address=session.peer, actor=session.actor), kept])

    def forget(self, client_id: str) -> None:
        """The will of a client is not to be published, or is published."""
        self.cancel(client_id)
        self._kept.discard(client_id)
        # The spool counts what fails. At worst the will is published after the next restart.
        self._bus.spool.write([Drop(owner=OWNER + client_id)]).addErrback(lambda _: None)

    def forget_former(self, client_id: str) -> None:
        """A client has no will now. It may have had one when it was here before."""
        if client_id in self._kept:
            self.forget(client_id)

    def cancel(self, client_id: str) -> None:
        """A client is back: its will does not wait any more."""
        waiting = self._waiting.pop(client_id, None)
        if waiting is not None and waiting[0].active():
            waiting[0].cancel()

    def publish(self, client_id: str, session_id: str, will: Will) -> None:
        """Publish the will of a client now."""
        self.forget(client_id)
        self._giving.give(session_id, will.topic, will)
        self._bus.flush()

    def publish_after(self, client_id: str, will: Will, seconds: float) -> None:
        """Publish the will of a client with a durable session in so many seconds, unless it comes back before."""

        def publish() -> None:
            session_id = self._session_of(client_id)
            if session_id is not None:
                self.publish(client_id, session_id, will)

        self._wait(client_id, seconds, publish)

    def session_ends(self, client_id: str) -> None:
        """The durable session of a client ends, or the time is over: its will does not wait any longer."""
        waiting = self._waiting.get(client_id)
        self.cancel(client_id)
        if waiting is not None:
            waiting[1]()

    def _wait(self, client_id: str, seconds: float, publish: Callable[[], None]) -> None:
        self.cancel(client_id)
        self._waiting[client_id] = self._reactor.callLater(seconds, self._is_due, client_id), publish

    def _is_due(self, client_id: str) -> None:
        # In slices: after a restart thousands may be due at once.
        self._bus.slices.do(lambda _: self._publish_due(client_id))

    def _publish_due(self, client_id: str) -> bool:
        """The time is over, unless the client has come back meanwhile. :returns: whether something is left."""
        waiting = self._waiting.get(client_id)
        if waiting is not None and not waiting[0].active():
            self.session_ends(client_id)
        return False

    # After a restart.

    def recover(self) -> None:
        """Wait for the clients of the last boot, and publish the wills of those that do not come back."""
        Deferred.fromCoroutine(self._recover()).addErrback(self._failed)

    def _failed(self, failure: Failure) -> None:
        why = failure.getErrorMessage()
        log.error("mqtt: wills of the last boot cannot be read: {why}", event="mqtt.wills-unread", why=why)

    async def _recover(self) -> None:
        after, spool = "", self._bus.spool
        while owners := await spool.owners(after=after):
            for each in owners:
                if each.startswith(OWNER):
                    await self._recover_one(each, each.removeprefix(OWNER))
            after = owners[-1]

    async def _recover_one(self, owner: str, client_id: str) -> None:
        entries = (await self._bus.spool.page(owner, KIND)).entries
        about = await self._bus.spool.owner(owner)
        if about is None or not entries or client_id in self._kept:
            return
        self._kept.add(client_id)
        if self._is_here(client_id):
            self.forget(client_id)
            return
        will = _unpacked(entries[0].payload)
        delay = max(GRACE, will.properties.will_delay_interval or 0)
        self._wait(client_id, delay, lambda: self._publish_late(client_id, about, will))

    def _publish_late(self, client_id: str, about: Owner, will: Will) -> None:
        session_id = self._session_of(client_id)
        if session_id is not None:
            self.publish(client_id, session_id, will)
        else:
            Deferred.fromCoroutine(self._publish_absent(client_id, about, will)).addErrback(self._failed)

    async def _publish_absent(self, client_id: str, about: Owner, will: Will) -> None:
        session = self._bus.open("mqtt", about.address, Unreachable(), actor=about.actor)
        try:
            await self._bus.registry.introduce(Claims(session_id=session.id, name=client_id))
            self.publish(client_id, session.id, will)
        finally:
            self._bus.close(session.id, "connection-lost", Traffic())


def _unpacked(packed: bytes) -> Will:
    head, _, payload = packed.partition(b"\0")
    found = _decode(head)
    return Will(found.topic, payload, found.qos, found.retain, found.properties)
