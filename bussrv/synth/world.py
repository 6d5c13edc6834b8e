"""Days of a server that never ran: clients come and go, provide and want services, misbehave; servers link and crash.

What they do goes through a real registry, so whatever its rules forbid does not happen. Everything comes from one
random generator and a simulated clock: the same seed gives the same days.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from random import Random

from msgspec import UNSET
from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer

from bussrv import events as ev
from bussrv.errors import Refused
from bussrv.journal.interfaces import IJournal, Waiter
from bussrv.journal.record import Record, Stamped
from bussrv.registry.changes.registry import Registry
from bussrv.registry.state.session import SERVER_ROLE, Claims, Session
from bussrv.registry.state.state import RegistryState
from bussrv.synth.attacker import Attack
from bussrv.synth.attacks import Attacks
from bussrv.values import Interest, ModeInterest, RuleInterest, Traffic
from bussrv.version import VERSION

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

DAILY = 250_000
"""About how many events a server writes a day."""

UPTIME = 20.0 * HOUR

_EVENTS_PER_CLIENT = 9.0
_EXPIRY = 2 * HOUR
_FORMATS = {
    "business": "tcp 127.0.0.1:7891",
    "inbus": "udp 127.0.0.1:7222",
    "mqtt": "tcp 127.0.0.1:1883",
    "objects": "tcp 127.0.0.1:7890",
    "spp": "tcp 127.0.0.1:3002",
}
_INTERESTS: tuple[Interest, ...] = (
    ModeInterest(),
    ModeInterest("no_echo", ("text/*",)),
    RuleInterest(("*", "!image/*")),
)
_PLACES = ("hall", "cellar", "attic", "kitchen", "garden", "gate", "lab", "office")
_THINGS = ("tv", "radio", "door", "light", "clock", "meter", "camera", "lock")

Write = Callable[[Sequence[Stamped]], None]


class SimulatedClock:
    """Stands still until the world moves it. Microseconds."""

    def __init__(self, utc: int) -> None:
        self.now = utc
        self.booted = utc

    def utc(self) -> int:
        """UTC in microseconds since 1970."""
        return self.now

    def mono(self) -> int:
        """Microseconds since the server was booted."""
        return self.now - self.booted


@implementer(IJournal)
class _Journal:
    """Hands on what the registry writes. Everything is durable at once, and nothing is measured."""

    bytes_accepted = 0
    unavailable = None

    def __init__(self, write: Write) -> None:
        self._write = write

    def append_change(self, stamped: Sequence[Stamped], waiter: Waiter) -> None:
        self._write(stamped)
        waiter.callback([])

    def append(self, stamped: Sequence[Stamped]) -> Deferred[list[Record]]:
        self._write(stamped)
        return succeed([])

    def append_fact(self, stamped: Stamped) -> None:
        self._write([stamped])

    def refuse(self) -> None:
        """Nothing is refused."""

    def follow(self, follower: Callable[[list[Record]], None]) -> None:
        """Nobody follows."""

    def tell_between(self, begin: Callable[[], object], end: Callable[[], object]) -> None:
        """Nothing is sent by those who are told."""

    def close(self) -> Deferred[None]:
        return succeed(None)


class World:
    """A server, its clients and its time.

    :param begin: the time of the first boot, UTC microseconds.
    :param write: is called with the stamped events, in order.
    :param uptime: the median time until the server crashes, in microseconds.
    :param attacks: the kinds of :data:`bussrv.synth.scripts.KINDS` to include.
    :ivar boot: the id of the present boot, for records.
    :ivar written: how many events were written.
    :ivar registry: the registry of the present boot.
    :ivar state: the state of that registry.
    """

    def __init__(
        self,
        server: str,
        seed: int,
        begin: int,
        write: Write,
        uptime: float = UPTIME,
        attacks: Sequence[str] = (),
    ) -> None:
        self.server = server
        self.boot = ""
        self.written = 0
        self.clock = SimulatedClock(begin)
        self._seed = seed
        self._kinds = attacks
        self._attacks: Attacks | None = None
        self._random = Random(f"{server} {seed}")
        self._write_on = write
        self._uptime = uptime
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._ids = count(1)
        self.state = RegistryState()
        self.registry = Registry(_Journal(self._write), self.clock, self._new_id, server_id=server, boot="")
        self._services = [f"{thing}/{place}" for thing in _THINGS for place in _PLACES]
        self._users = [f"user{number:03d}" for number in range(120)]
        self._hosts = [f"10.0.{number // 200}.{number % 200 + 1}" for number in range(400)]

    def run(self, events: int) -> list[Attack]:
        """Live until there are so many events or a few more, and stop in an orderly way.

        :returns: the attacks that there were.
        """
        attacks = self._attacks = Attacks(self, self._kinds, events, self._seed) if self._kinds else None
        self._start()
        while self.written < events - len(self.state.sessions):
            due, _, action = heapq.heappop(self._due)
            # While the server was away or waited for its disk, some of it came to be due.
            self.clock.now = max(self.clock.now, due)
            action()
            if attacks is not None:
                attacks.look()
        self._stop()
        return [] if attacks is None else attacks.made

    # Time.

    def after(self, micros: float, action: Callable[[], None]) -> None:
        """Have something done so much later, unless the server crashes before."""
        heapq.heappush(self._due, (self.clock.now + max(1, int(micros)), next(self._order), action))

    def _soon(self) -> float:
        return self._random.expovariate(1.0) * 0.8 * SECOND

    def _lasting(self, median: float) -> float:
        """A duration: mostly near the median, sometimes very much longer."""
        return median * math.exp(self._random.gauss(0.0, 1.1))

    def _busyness(self) -> float:
        """From 0.25 at night to 1.75 in the early afternoon."""
        hour = (self.clock.now // HOUR) % 24
        return 1.0 + 0.75 * math.cos((hour - 14) / 24 * 2 * math.pi)

    # The server.

    def _write(self, stamped: Sequence[Stamped]) -> None:
        self.written += len(stamped)
        self._write_on(stamped)
        if self._attacks is not None:
            self._attacks.saw(stamped)

    def _new_id(self) -> str:
        return f"{next(self._ids):06x}{self._random.getrandbits(72):018x}"

    def _start(self) -> None:
        self.boot = f"{self._random.getrandbits(48):012x}"
        self.clock.booted = self.clock.now - self._random.randrange(HOUR)
        self._due.clear()
        self.registry = Registry(
            _Journal(self._write), self.clock, self._new_id, server_id=self.server, boot=self.boot, state=self.state
        )
        self.registry.note(ev.ServerStarted(version=VERSION, formats=_FORMATS))
        self.after(self._soon(), self._arrive)
        self.after(self._lasting(self._uptime), self.crash)
        self.after(self._lasting(3 * HOUR), self._degrade)
        self.after(self._lasting(2 * HOUR), self._link)
        self.after(self._lasting(MINUTE), self._stranger)

    def crash(self) -> None:
        """The server is gone without a word, and back a while later."""
        self.clock.now += int(self._lasting(40 * SECOND))
        lost = [each for each in self.state.sessions.values() if not each.persistent]
        self._start()
        self.registry.note(ev.ServerRecovered(sessions_closed=len(lost), torn_bytes=self._random.choice([0, 0, 117])))
        for session in lost:
            self.registry.close_session(session.id, "server-crashed", Traffic())
        for session in tuple(self.state.sessions.values()):
            if session.is_durable:
                self._go_away(session.id, "server-crashed")
                self._wait_for(session.id)
            else:
                self.after(self._lasting(30 * MINUTE), partial(self.expire, session.id))
        if self._attacks is not None:
            self._attacks.resume()

    def _stop(self) -> None:
        for session in tuple(self.state.sessions.values()):
            if session.is_durable:
                self._go_away(session.id, "server-stopped")
            elif not session.persistent:
                self.leave(session.id, "server-stopped")
        self.registry.note(ev.ServerStopped())

    def _degrade(self) -> None:
        """The disk fails for a moment; sessions that were lost meanwhile are journaled when it works again."""
        self.registry.note(ev.JournalDegraded(message="[Errno 28] No space left on device"))
        for session in self._random.sample(self._clients("objects"), min(3, len(self._clients("objects")))):
            self.leave(session.id, "client-closed")
        self.clock.now += int(self._lasting(5 * SECOND))
        self.registry.note(ev.JournalRestored(refused=self._random.randrange(20)))
        self.after(self._lasting(30 * HOUR), self._degrade)

    # Clients.

    def _arrive(self) -> None:
        kinds = (self._member, self._member, self._member, self._business, self._spp_client, self._device, self._phone)
        self._random.choice(kinds)()
        rate = DAILY / _EVENTS_PER_CLIENT / (24 * HOUR) * self._busyness()
        self.after(self._random.expovariate(rate), self._arrive)

    def _peer(self) -> str:
        return f"{self._random.choice(self._hosts)}:{self._random.randrange(32_768, 61_000)}"

    def _clients(self, protocol: str) -> list[Session]:
        return [each for each in self.state.sessions.values() if each.protocol == protocol and each.home is None]

    def _member(self, protocol: str = "objects") -> None:
        session = self.registry.open_session(protocol, self._peer())
        claimed = self._random.choice([None, self._random.choice(self._users)])
        interest = self._random.choice(_INTERESTS)
        name = self._random.choice(["screen", "script", "gateway", "panel"])
        claims = Claims(session_id=session.id, claimed=claimed, name=name, vocabulary=protocol)
        self.registry.identify(claims, interest)
        for service in self._random.sample(self._services, self._random.choice([0, 0, 1, 1, 2, 3])):
            self.after(self._soon(), partial(self._provide, session.id, service))
        self.after(self._lasting(15 * MINUTE), partial(self.leave, session.id, "client-closed"))

    def _business(self) -> None:
        self._member("business")

    def _provide(self, session_id: str, service: str) -> None:
        if session_id in self.state.sessions:
            self.registry.register_service(session_id, service)
            flaps = self._random.random() < 0.15
            self.after(
                self._lasting(MINUTE if flaps else 20 * MINUTE), partial(self._unprovide, session_id, service, flaps)
            )

    def _unprovide(self, session_id: str, service: str, flaps: bool) -> None:
        if service in self.state.provided_by(session_id):
            self.registry.unregister_service(session_id, service)
            if flaps:
                self.after(self._lasting(20 * SECOND), partial(self._provide, session_id, service))

    def _spp_client(self) -> None:
        session = self.registry.open_session("spp", self._peer())
        user = self._users[len(self.state.sessions) % len(self._users)]
        self.registry.note(ev.AuthSucceeded(**{**session.about(), "actor": user}, method="password"))
        for service in self._random.sample(self._services, self._random.randrange(1, 5)):
            self.after(self._soon(), partial(self._subscribe, session.id, service))
        self.after(self._lasting(25 * MINUTE), partial(self.leave, session.id, "client-closed"))

    def _subscribe(self, session_id: str, service: str) -> None:
        if session_id not in self.state.sessions:
            return
        if service in self.state.services:
            self.registry.subscribe(session_id, service)
        else:
            self.registry.refuse_subscription(session_id, service, "no-such-service")

    def _device(self) -> None:
        """An Inbus subscriber: it has no connection, renews its lease, and is one day heard of no more."""
        session = self.registry.open_session("inbus", self._peer(), persistent=True)
        service = self._random.choice(self._services)
        self.registry.subscribe(session.id, service, {"version": self._random.choice([1, 2])})
        self.after(15 * MINUTE, partial(self._renew, session.id, service))

    def _renew(self, session_id: str, service: str) -> None:
        if session_id not in self.state.sessions:
            return
        if self._random.random() < 0.2:
            self.after(HOUR, partial(self.expire, session_id))
            return
        self.registry.subscribe(session_id, service)
        self.after(15 * MINUTE, partial(self._renew, session_id, service))

    def expire(self, session_id: str) -> None:
        """A lease runs out, and with it the session."""
        for service in tuple(self.state.subscriptions.get(session_id, ())):
            self.registry.lose_subscription(session_id, str(service), "lease-expired")
        self.leave(session_id, "lease-expired")

    def _phone(self) -> None:
        """An MQTT client with a durable session: it goes and comes back, and one day it does not come back."""
        user, peer = self._random.choice(self._users), self._peer()
        own = self._connected(user, peer)
        session = self.registry.open_session("mqtt", peer, expiry=_EXPIRY, actor=user)
        self.registry.close_session(own.id, "joined-session", Traffic())
        for service in self._random.sample(self._services, self._random.randrange(1, 4)):
            self.after(self._soon(), partial(self._subscribe, session.id, service))
        self._stay(session.id)

    def _connected(self, user: str, peer: str) -> Session:
        """The session that a connection has before it goes on with a durable one."""
        own = self.registry.open_session("mqtt", peer)
        self.registry.note(ev.AuthSucceeded(**{**own.about(), "actor": user}, method="password"))
        return own

    def _stay(self, session_id: str) -> None:
        def go() -> None:
            session = self.state.sessions.get(session_id)
            if session is not None and not session.is_away:
                self._go_away(session_id, self._random.choice(["connection-lost", "client-closed"]))
                self._wait_for(session_id)

        self.after(self._lasting(25 * MINUTE), go)

    def _go_away(self, session_id: str, reason: str) -> None:
        if not self.state.sessions[session_id].is_away:
            self.registry.leave_session(session_id, reason, self.clock.now + _EXPIRY)

    def _wait_for(self, session_id: str) -> None:
        """The client of a session that is away comes back, or the session ends when it is time."""
        away = self.state.sessions[session_id].away
        assert away is not UNSET
        if self._random.random() < 0.6:
            self.after(self._lasting(10 * MINUTE), partial(self._come_back, session_id))
        self.after(away.until - self.clock.now, partial(self._end_away, session_id))

    def _come_back(self, session_id: str) -> None:
        session = self.state.sessions.get(session_id)
        if session is not None and session.is_away and session.actor is not None:
            peer = self._peer()
            own = self._connected(session.actor, peer)
            self.registry.resume_session(session_id, peer, _EXPIRY)
            self.registry.close_session(own.id, "joined-session", Traffic())
            self._stay(session_id)

    def _end_away(self, session_id: str) -> None:
        session = self.state.sessions.get(session_id)
        if session is not None and session.away is not UNSET and session.away.until <= self.clock.now:
            self.leave(session_id, "session-expired")

    def leave(self, session_id: str, reason: str) -> None:
        """A session ends, with whatever traffic it had."""
        draw = self._random.randrange
        objects_in, objects_out = draw(200), draw(3000)
        traffic = Traffic(objects_in, objects_out, objects_in * draw(80, 900), objects_out * draw(80, 900))
        session = self.state.sessions.get(session_id)
        is_far = session is not None and session.home is not None
        # The traffic of a remote session is counted at its home.
        self.registry.close_session(session_id, reason, Traffic() if is_far else traffic)

    def identify(self, session_id: str, routing_id: str | None, role: str | None = None) -> None:
        """A member of the object network says who it is, and wants everything."""
        claims = Claims(session_id=session_id, routing_id=routing_id, role=role, vocabulary="objects")
        asked = self.registry.identify(claims, ModeInterest())
        asked.addErrback(lambda failure: failure.trap(Refused) and None)

    # Strangers, and other servers.

    def _stranger(self) -> None:
        peer = self._peer()
        for _ in range(self._random.choice([1, 1, 2, 8])):
            session = self.registry.open_session("spp", peer)
            tried = {**session.about(), "claimed": self._random.choice(self._users)}
            self.registry.note_from_stranger(ev.AuthFailed(method="password", reason="bad-credentials", **tried))
            self.leave(session.id, "bad-credentials")
        if self._random.random() < 0.3:
            refused = ev.LimitReached(
                limit="max-sessions-per-address",
                value=20_000,
                protocol="objects",
                peer=peer,
                reason="too-many-sessions",
            )
            self.registry.note_from_stranger(refused)
        self.after(self._lasting(20 * MINUTE), self._stranger)

    def _link(self) -> None:
        """Another server is linked for a while, and its clients are known here."""
        session = self.registry.open_session("objects", self._peer())
        home = f"{self._random.choice(_PLACES)}-server"
        self.identify(session.id, home, SERVER_ROLE)
        known = list(self._known_over(home, session.peer))
        self.after(self._lasting(HOUR), partial(self._unlink, session.id, known))
        self.after(self._lasting(4 * HOUR), self._link)

    def _known_over(self, home: str, peer: str) -> Iterator[str]:
        for _ in range(self._random.randrange(2, 30)):
            neighbour_id, _ = self.registry.open_remote(home, "objects", self._new_id(), peer)
            self.registry.identify(Claims(session_id=neighbour_id), None)
            if self._random.random() < 0.5:
                self.registry.register_service(neighbour_id, self._random.choice(self._services))
            yield neighbour_id

    def _unlink(self, session_id: str, known: Sequence[str]) -> None:
        self.leave(session_id, "client-closed")
        for neighbour_id in known:
            self.registry.close_session(neighbour_id, "link-lost", Traffic())
