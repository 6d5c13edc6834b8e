"""Sessions of a wire format that outlive their connections, and restarts of the server.

The registry has a durable session from its beginning to its end, whether its client is connected or not. When the
server starts, the sessions that the journal knows are there again, and what waits for them is in the spool. Each has an
owner there: a word of its format and its id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from msgspec import UNSET
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from bussrv.addresses import address_key, is_exempt
from bussrv.bus.interfaces import IBus
from bussrv.bus.sessions.named import NamedClients
from bussrv.errors import OverLimit, Refused
from bussrv.events import SessionClosed, SessionLeft
from bussrv.journal.record import Stamped
from bussrv.registry.changes.observers import Kinds
from bussrv.registry.interfaces import IRegistryObserver
from bussrv.registry.state.session import Session
from bussrv.spool.entries import Change, Claim, Drop
from bussrv.spool.rounds import Rounds
from bussrv.turns.slices import by_steps
from bussrv.values import Traffic

log = Logger()

SECOND = 1_000_000


class DurableSessionLink(Protocol):
    """The link to a durable session: an :class:`ISessionLink` for as long as the session is there.

    :ivar traffic: the counts of the session over all its connections.
    """

    traffic: Traffic

    def opened(self, session_id: str, owner: str) -> None:
        """The session is open. ``owner`` is the one that it has in the spool."""

    def disconnect(self) -> None:
        """The client has gone, if it was there."""


AnyLink = TypeVar("AnyLink", bound=DurableSessionLink)


class DurableSession(Generic[AnyLink]):
    """One session.

    :ivar id: of the registry.
    :ivar name: the one by which its client comes back to it.
    :ivar owner: in the spool.
    :ivar link: see :class:`DurableSessionLink`.
    :ivar expiry: it ends so many microseconds after it lost its client.
    :ivar is_new: whether its client has not come back to it so far.
    :ivar address: its client counts for this one.
    :ivar end_call: ends it when it is time, while its client is away.
    """

    __slots__ = ("address", "end_call", "expiry", "id", "is_new", "link", "name", "owner")

    def __init__(self, session: Session, owner: str, name: str, link: AnyLink, expiry: int) -> None:
        self.id = session.id
        self.name = name
        self.owner = owner
        self.link = link
        self.expiry = expiry
        self.is_new = True
        self.address = address_key(session.peer)
        self.end_call: Any = None


AnySession = TypeVar("AnySession", bound=DurableSession[Any])


@implementer(IRegistryObserver)
class DurableSessions(Generic[AnySession]):
    """The durable sessions of one wire format. It overrides the hooks.

    :cvar FORMAT: the name of the wire format.
    :cvar OWNER: what the owners of its sessions in the spool begin with.
    :cvar LIMITS: the options for the most sessions, and the most of one address.
    :ivar connected: the clients that are connected, with durable sessions or without, by their names.
    :ivar end_observers: are called with the name of a session that is about to end.
    :ivar rounds: what is kept for them in the spool, by the sessions that it comes from.
    """

    KINDS: ClassVar[Kinds] = frozenset({SessionLeft, SessionClosed})
    FORMAT: ClassVar[str]
    OWNER: ClassVar[str]
    LIMITS: ClassVar[tuple[str, str]]

    def __init__(self, bus: IBus, reactor: Any) -> None:
        self.bus = bus
        self._reactor = reactor
        self._by_name: dict[str, AnySession] = {}
        self._by_id: dict[str, AnySession] = {}
        self._by_address: Counter[str] = Counter()
        self.connected = NamedClients(bus, self.id_of)
        self.end_observers: list[Callable[[str], object]] = []
        self._has_complained = False
        self.rounds = Rounds(
            bus.spool,
            bus.slices,
            reactor,
            flush=bus.flush,
            caught_up=bus.caught_up,
            address_of=self._address_of,
            failed=self._not_sent,
        )
        bus.registry.observe(self, self.KINDS)
        bus.spool.damage_observers.append(self._spool_is_lost)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._by_id)

    def of(self, name: str) -> AnySession | None:
        """The durable session with a name; ``None``: there is none."""
        return self._by_name.get(name)

    def id_of(self, name: str) -> str | None:
        """The id of that session."""
        session = self.of(name)
        return None if session is None else session.id

    def _address_of(self, session_id: str) -> str:
        session = self.bus.registry.state.sessions.get(session_id)
        return "" if session is None else address_key(session.peer)

    def _not_sent(self) -> None:
        self.bus.counters["internal-error"] += 1
        if not self._has_complained:
            self._has_complained = True
            log.failure("{name}: a message cannot be sent from a queue", event="spool.not-sent", name=self.FORMAT)

    # Hooks.

    def make(self, session: Session, name: str, link: Any, expiry: int) -> AnySession:
        """A session of this wire format."""
        raise NotImplementedError

    def make_link(self, name: str, *, is_new: bool) -> Any:
        """The link to a session, a :class:`DurableSessionLink`.

        :param is_new: whether nothing can be in the spool yet.
        """
        raise NotImplementedError

    def kept(self, session: AnySession) -> Sequence[Change]:
        """Entries with keys that the spool has for a session from its beginning on, besides messages."""
        return ()

    async def read(self, session: AnySession) -> None:
        """The client of a session is back: read what is in the spool for it, unless that is known.

        :raises Refused: ``spool-unavailable``.
        """

    def lost(self, session: AnySession) -> None:
        """Everything that was in the spool for a session is lost."""

    # After a restart of the server, or of its spool.

    def recover(self) -> None:
        """At the start of the server: the sessions that the journal knows are there again."""
        for session in tuple(self.bus.registry.state.sessions.values()):
            if session.protocol != self.FORMAT or session.expiry is UNSET:
                continue
            if session.name is None or session.name in self._by_name:
                # The server crashed before its client was answered.
                self.bus.close(session.id, "server-crashed", Traffic())
                continue
            link = self.make_link(session.name, is_new=False)
            found = self._note(session, session.name, link, session.expiry)
            self.bus.resume(session.id, link)
            if session.away is not UNSET:
                self._end_at(found, session.away.until)
        Deferred.fromCoroutine(self._drop_orphans()).addErrback(self._not_dropped)

    def _not_dropped(self, failure: Failure) -> None:
        why, name = failure.getErrorMessage(), self.FORMAT
        log.error("{name}: what ended sessions left stays: {why}", event="spool.leftovers", name=name, why=why)

    async def _drop_orphans(self) -> None:
        """Remove what is kept of sessions that ended when nothing could be removed."""
        after = ""
        while owners := await self.bus.spool.owners(after=after):
            ours = [each for each in owners if each.startswith(self.OWNER)]
            gone = [each for each in ours if each.removeprefix(self.OWNER) not in self._by_id]
            after = owners[-1]
            if gone:
                await self.bus.spool.write([Drop(owner=each) for each in gone])

    def _spool_is_lost(self) -> None:
        """The spool was damaged and is begun anew: keep a place for each session again."""
        self.bus.slices.do(by_steps(self._keep_again(), self._reactor.seconds))

    def _keep_again(self) -> Iterator[None]:
        for session in tuple(self._by_id.values()):
            about = self.bus.registry.state.sessions.get(session.id)
            if about is not None:
                # The spool counts what fails. The next connection tries again.
                self._claim(session, about.peer, about.actor, *self.kept(session)).addErrback(lambda _: None)
                self.lost(session)
            yield

    def _claim(self, session: AnySession, address: str, actor: str | None, *further: Change) -> Deferred[Any]:
        claim = Claim(owner=session.owner, address=address, actor=actor, drops_oldest=True)
        return self.bus.spool.write([claim, *further])

    # The life of a session.

    async def begin(self, name: str, peer: str, actor: str | None, expiry: int) -> AnySession:
        """Begin a session, and keep a place for what it must not lose.

        :raises Refused: ``too-many-durable-sessions``, ``spool-full`` or ``spool-unavailable``.
        """
        self._check_room(peer)
        link = self.make_link(name, is_new=True)
        session = self._note(self.bus.open(self.FORMAT, peer, link, expiry=expiry, actor=actor), name, link, expiry)
        try:
            await self._claim(session, peer, actor, *self.kept(session))
        except Refused as refusal:
            self.end(session, refusal.reason)
            raise
        return session

    def _note(self, session: Session, name: str, link: Any, expiry: int) -> AnySession:
        made = self.make(session, name, link, expiry)
        link.opened(session.id, made.owner)
        self._by_name[name] = self._by_id[session.id] = made
        self._by_address[made.address] += 1
        self.bus.queued[session.id] = partial(self._queued, made)
        return made

    def _queued(self, session: AnySession) -> int:
        return max(0, self.bus.spool.entries_of(session.owner) - len(self.kept(session)))

    def _check_room(self, peer: str) -> None:
        settings, key = self.bus.settings, address_key(peer)
        most, most_of_address = (getattr(settings, each.replace("-", "_")) for each in self.LIMITS)
        if len(self._by_id) >= most:
            raise _too_many("durable sessions", self.LIMITS[0], most)
        if self._by_address[key] >= most_of_address and not is_exempt(peer, settings.trusted_network):
            raise _too_many(f"durable sessions from {key}", self.LIMITS[1], most_of_address)

    async def resume(
        self, session: AnySession, peer: str, actor: str | None, expiry: int, check_there: Callable[[], None]
    ) -> None:
        """The client of a session is back.

        :param check_there: raises :class:`Refused` if it has gone again, so that nothing has happened.
        :raises Refused: ``spool-full`` or ``spool-unavailable``; or ``session-closed``: it ended meanwhile.
        """
        registry = self.bus.registry
        await registry.spending.ready(registry.state.sessions.get(session.id))
        check_there()
        await self._claim(session, peer, actor)
        await self.read(session)
        if session.id not in self._by_id:
            raise Refused("session-closed", "the durable session of the client has just ended")
        check_there()
        self._stay(session)
        session.expiry, session.is_new = expiry, False
        registry.resume_session(session.id, peer, expiry)

    async def take_up(
        self, name: str, own: Session, expiry: int, check_there: Callable[[], None], *, anew: bool
    ) -> AnySession | None:
        """A client says what session it wants. :returns: a session that it has now; ``None``: none.

        :param own: the session of its connection.
        :param expiry: its session outlives the connection by so many microseconds.
        :param check_there: see :meth:`resume`.
        :param anew: whether the session that it had ends.
        :raises Refused: as :meth:`begin` and :meth:`resume` do.
        """
        found = self.of(name)
        if found is not None and anew:
            self.end(found, "session-replaced")
        elif found is not None:
            await self.resume(found, own.peer, own.actor, expiry, check_there)
            return found
        return await self.begin(name, own.peer, own.actor, expiry) if expiry else None

    def abandon(self, session: AnySession, reason: str) -> None:
        """The client is not let in after all: its session goes on without it, or has never been."""
        (self.end if session.is_new else self.leave)(session, reason)

    def leave(self, session: AnySession, reason: str) -> None:
        """The client of a session has gone. The session ends now if it does not outlive its connection."""
        session.link.disconnect()
        if session.expiry:
            self.bus.leave(session.id, reason, self.bus.utc() + session.expiry)
        else:
            self.end(session, reason)

    def end(self, session: AnySession, reason: str) -> None:
        """End a session for good."""
        if session.id in self._by_id:
            session.link.disconnect()
            for tell in self.end_observers:
                tell(session.name)
            self.bus.close(session.id, reason, session.link.traffic)

    def end_named(self, name: str, reason: str) -> None:
        """Somebody else than its client ends the session with a name, if there is one."""
        session = self.of(name)
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

    def _end_at(self, session: AnySession, until: int) -> None:
        self._stay(session)
        seconds = max(0.0, (until - self.bus.utc()) / SECOND)
        session.end_call = self._reactor.callLater(seconds, self._expired, session)

    def _expired(self, session: AnySession) -> None:
        # In slices: after a restart the time of thousands may be over at once.
        session.end_call = None
        self.bus.slices.do(lambda _: self._end_expired(session))

    def _end_expired(self, session: AnySession) -> bool:
        """End a session, unless its client has come back meanwhile. :returns: whether something is left to do."""
        about = self.bus.registry.state.sessions.get(session.id)
        if about is not None and about.is_away and session.end_call is None:
            self.end(session, "session-expired")
        return False

    def _stay(self, session: AnySession) -> None:
        if session.end_call is not None:
            session.end_call.cancel()
            session.end_call = None

    def _forget(self, session: AnySession) -> None:
        self._stay(session)
        del self._by_id[session.id], self.bus.queued[session.id]
        self._by_address[session.address] -= 1
        if not self._by_address[session.address]:
            del self._by_address[session.address]
        if self._by_name.get(session.name) is session:
            del self._by_name[session.name]
        # The spool counts what fails. It is tried again after a restart.
        self.bus.spool.write([Drop(owner=session.owner)]).addErrback(lambda _: None)


def _too_many(what: str, limit: str, most: int) -> OverLimit:
    return OverLimit("too-many-durable-sessions", f"more than {most} {what}", limit, most)
