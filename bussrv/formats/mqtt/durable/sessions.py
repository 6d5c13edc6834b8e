"""Every durable session: begun, left, resumed, and ended when it is time.

The registry has a durable session from its beginning to its end, whether its client is connected or not. When the
server starts, the sessions that the journal knows are there again, and what waits for them is in the spool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

from msgspec import UNSET
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from bussrv.formats.mqtt.durable.link import DurableLink
from bussrv.formats.mqtt.durable.queue import Queue
from bussrv.formats.mqtt.durable.session import OWNER, TAKEN, DurableSession, KeptBegun, entry_of, numbers_in
from bussrv.formats.mqtt.encoding import Encodings
from bussrv.plugin import (
    Claim,
    Drop,
    DropsTold,
    IBus,
    IRegistryObserver,
    Kinds,
    OverLimit,
    Refused,
    Rounds,
    Session,
    SessionClosed,
    SessionLeft,
    Stamped,
    Traffic,
    address_key,
    by_steps,
    is_exempt,
)

FORMAT = "mqtt"

SECOND = 1_000_000

log = Logger()


@implementer(IRegistryObserver)
class DurableSessions:
    """The durable sessions of one server.

    :param before_end: is called with the client id of a session that is about to end.
    """

    KINDS: ClassVar[Kinds] = frozenset({SessionLeft, SessionClosed})

    def __init__(
        self,
        bus: IBus,
        reactor: Any,
        encodings: Encodings,
        rounds: Rounds,
        before_end: Callable[[str], object],
    ) -> None:
        self._bus = bus
        self._reactor = reactor
        self._encodings = encodings
        self._rounds = rounds
        self._before_end = before_end
        self._by_client_id: dict[str, DurableSession] = {}
        self._by_id: dict[str, DurableSession] = {}
        self._by_address: Counter[str] = Counter()
        self._addresses: dict[str, str] = {}
        bus.registry.observe(self, self.KINDS)
        bus.spool.damage_observers.append(self._spool_is_lost)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._by_id)

    def of(self, client_id: str) -> DurableSession | None:
        """The durable session of a client id; ``None``: there is none."""
        return self._by_client_id.get(client_id)

    def recover(self) -> None:
        """At the start of the server: the sessions that the journal knows are there again."""
        for session in tuple(self._bus.registry.state.sessions.values()):
            if session.protocol != FORMAT or session.expiry is UNSET:
                continue
            if session.name is None or session.name in self._by_client_id:
                # The server crashed before its client was answered.
                self._bus.close(session.id, "server-crashed", Traffic())
                continue
            found = self._note(session, session.name, self._link(session.name, is_known=False), session.expiry)
            self._bus.resume(session.id, found.link)
            if session.away is not UNSET:
                self._end_at(found, session.away.until)
        Deferred.fromCoroutine(self._drop_orphans()).addErrback(self._not_dropped)

    async def _drop_orphans(self) -> None:
        """Remove what is kept of sessions that ended when nothing could be removed."""
        after = ""
        while owners := await self._bus.spool.owners(after=after):
            gone = [each for each in owners if each.startswith(OWNER) and each.removeprefix(OWNER) not in self._by_id]
            after = owners[-1]
            if gone:
                await self._bus.spool.write([Drop(owner=each) for each in gone])

    def _spool_is_lost(self) -> None:
        """The spool was damaged and is begun anew: keep a place for each session again."""
        self._bus.slices.do(by_steps(self._keep_again(), self._reactor.seconds))

    def _keep_again(self) -> Iterator[None]:
        for session in tuple(self._by_id.values()):
            about = self._bus.registry.state.sessions.get(session.id)
            if about is not None:
                begun = entry_of(session.owner) if session.begun is None else session.begun.entry
                # The spool counts what fails. The next connection tries again.
                self._bus.spool.write([_claim(session.owner, about.peer, about.actor), begun]).addErrback(
                    lambda _: None
                )
                session.link.queue.lost()
            yield

    def _not_dropped(self, failure: Failure) -> None:
        why = failure.getErrorMessage()
        log.error("mqtt: what ended sessions left cannot be removed: {why}", event="mqtt.leftovers", why=why)

    def _link(self, client_id: str, *, is_known: bool) -> DurableLink:
        queue = Queue(self._bus, self._rounds, is_known=is_known)
        return DurableLink(self._encodings, queue, partial(self._ended, client_id))

    def _note(self, session: Session, client_id: str, link: DurableLink, expiry: int) -> DurableSession:
        made = DurableSession(session.id, client_id, link, expiry)
        link.opened(session.id, made.owner)
        self._by_client_id[client_id] = self._by_id[session.id] = made
        self._addresses[session.id] = key = address_key(session.peer)
        self._by_address[key] += 1
        return made

    # The life of a session.

    async def begin(self, client_id: str, peer: str, actor: str | None, expiry: int) -> DurableSession:
        """Begin a session, and keep a place for what it must not lose.

        :raises Refused: ``too-many-durable-sessions``, ``spool-full`` or ``spool-unavailable``.
        """
        self._check_room(peer)
        link = self._link(client_id, is_known=True)
        session = self._note(self._bus.open(FORMAT, peer, link, expiry=expiry, actor=actor), client_id, link, expiry)
        session.begun = KeptBegun(session, self._rounds)
        try:
            await self._bus.spool.write([_claim(session.owner, peer, actor), entry_of(session.owner)])
        except Refused as refusal:
            self.end(session, refusal.reason)
            raise
        return session

    def _check_room(self, peer: str) -> None:
        settings = self._bus.settings
        most, key = settings.mqtt_max_durable, address_key(peer)
        if len(self._by_id) >= most:
            raise _too_many("durable sessions", "mqtt-max-durable", most)
        most = settings.mqtt_max_durable_per_address
        if self._by_address[key] >= most and not is_exempt(peer, settings.trusted_network):
            raise _too_many(f"durable sessions from {key}", "mqtt-max-durable-per-address", most)

    async def resume(
        self, session: DurableSession, peer: str, actor: str | None, expiry: int, check_there: Callable[[], None]
    ) -> None:
        """The client of a session is back.

        :param check_there: raises :class:`Refused` if it has gone again, so that nothing has happened.
        :raises Refused: ``spool-full`` or ``spool-unavailable``; or ``session-closed``: it ended meanwhile.
        """
        registry, spool, owner = self._bus.registry, self._bus.spool, session.owner
        await registry.spending.ready(registry.state.sessions.get(session.id))
        check_there()
        await spool.write([_claim(owner, peer, actor)])
        if session.begun is None:
            entries = (await spool.page(owner, TAKEN)).entries
            numbers = numbers_in(entries[0].payload) if entries else ()
            session.begun = KeptBegun(session, self._rounds, numbers)
        kept = await spool.owner(owner)
        session.dropped = 0 if kept is None else kept.dropped
        if session.id not in self._by_id:
            raise Refused("session-closed", "the durable session of the client has just ended")
        check_there()
        self._stay(session)
        session.expiry = expiry
        registry.resume_session(session.id, peer, expiry)

    def told_of_drops(self, session: DurableSession) -> None:
        """The client was told how many messages were dropped."""
        if session.dropped:
            self._rounds.change(session.id, DropsTold(owner=session.owner, count=session.dropped))
            session.dropped = 0

    def leave(self, session: DurableSession, reason: str) -> None:
        """The client of a session has gone. The session ends now if it does not outlive its connection."""
        session.link.disconnect()
        if session.expiry:
            self._bus.leave(session.id, reason, self._bus.utc() + session.expiry)
        else:
            self.end(session, reason)

    def end(self, session: DurableSession, reason: str) -> None:
        """End a session for good."""
        if session.id in self._by_id:
            session.link.disconnect()
            self._before_end(session.client_id)
            self._bus.close(session.id, reason, session.link.traffic)

    def _ended(self, client_id: str, reason: str) -> None:
        """Somebody ends the session of a client that is away."""
        session = self._by_client_id.get(client_id)
        if session is not None:
            self.end(session, reason)

    def registry_changed(self, stamped: Stamped) -> None:
        """A session was left, or is closed; see :class:`IRegistryObserver`."""
        event = stamped.event
        session = self._by_id.get(event.session or "")
        if session is None:
            return
        if isinstance(event, SessionLeft):
            self._end_at(session, event.until)
        else:
            self._forget(session)

    def _end_at(self, session: DurableSession, until: int) -> None:
        self._stay(session)
        seconds = max(0.0, (until - self._bus.utc()) / SECOND)
        session.end_call = self._reactor.callLater(seconds, self._expired, session)

    def _expired(self, session: DurableSession) -> None:
        # In slices: after a restart the time of thousands may be over at once.
        session.end_call = None
        self._bus.slices.do(lambda _: self._end_expired(session))

    def _end_expired(self, session: DurableSession) -> bool:
        """End a session, unless its client has come back meanwhile. :returns: whether something is left to do."""
        about = self._bus.registry.state.sessions.get(session.id)
        if about is not None and about.is_away and session.end_call is None:
            self.end(session, "session-expired")
        return False

    def _stay(self, session: DurableSession) -> None:
        if session.end_call is not None:
            session.end_call.cancel()
            session.end_call = None

    def _forget(self, session: DurableSession) -> None:
        self._stay(session)
        del self._by_id[session.id]
        key = self._addresses.pop(session.id)
        self._by_address[key] -= 1
        if not self._by_address[key]:
            del self._by_address[key]
        if self._by_client_id.get(session.client_id) is session:
            del self._by_client_id[session.client_id]
        # The spool counts what fails. It is tried again after a restart.
        self._bus.spool.write([Drop(owner=session.owner)]).addErrback(lambda _: None)


def _claim(owner: str, address: str, actor: str | None) -> Claim:
    return Claim(owner=owner, address=address, actor=actor, drops_oldest=True)


def _too_many(what: str, limit: str, most: int) -> OverLimit:
    return OverLimit("too-many-durable-sessions", f"more than {most} {what}", limit, most)
