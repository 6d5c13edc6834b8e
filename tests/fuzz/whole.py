"""A whole server in memory, among clients of every wire format that speak half right, several at a time.

The bytes of the fuzzer say who connects, what each says, in which pieces it arrives, who reads, when time passes, when
the disk is slow or full, and when limits, users and the policy change. These have to hold, whatever they say:

1. Nothing fails: no ``internal-error`` is counted, nothing is logged with a traceback.
2. Whatever a client is sent can be read by one.
3. An observer that behaves gets what it sends itself, at once and in order.
4. The server takes less than a tenth of a second of CPU for one chunk, or for one turn of the reactor. That is looked
   at again with a clock that goes, if it was not so with one that stands: then nothing is done a slice at a time.
5. What waits for clients, and what they have not finished, stays within the limits.
6. No secret that a client said is in the log, in the journal, or in what anybody is sent.
7. When all have left, and leases and time-outs are over, everything is as it was: the registry, timers and memory.
   Every session that was opened was closed once, and the journal says what the registry says. Nothing in the server
   knows the id of a session that ended.
"""

from __future__ import annotations

import gc
import ssl
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from ipaddress import ip_network
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType, ModuleType
from typing import Any

from twisted.internet import task
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress
from twisted.logger import LogEvent, Logger, formatEvent, globalLogPublisher

from bussrv import events as ev
from bussrv.bus.groups.fanout import Group
from bussrv.journal.record import encode_event
from bussrv.policy.logins.checkers import Tokens, Users
from bussrv.policy.logins.identity import Identity
from bussrv.policy.logins.tokens import TokenUse, digest
from bussrv.policy.logins.users import SecretHash
from bussrv.policy.permissions.file import parse_policy
from bussrv.policy.permissions.rules import Rules
from bussrv.registry.state.fold import RegistryFold
from bussrv.server.running.identity import Checkers
from bussrv.settings import Settings
from bussrv.wire.objects import BusObject, ObjectReader, encode
from bussrv.wire.spp import SppReader
from tests.equality.arena import Arena, Pipe
from tests.fuzz.draw import NAMES, SECRETS, TOKEN, Draw
from tests.net.tls.tls_clients import Place, Port

MOST_CLIENTS = 12
MOST_CPU = 0.1 if "atheris" not in sys.modules else 1.0
"""Seconds. Code that tells which of it was executed takes several times as long."""

CHUNK = 1 << 14
"""The most bytes that arrive at once. What comes of them for the observer is less than may wait for it."""

MARKED = b"MARKED"
"""In every secret."""

ECHO = "application/x-observer"
FORMATS = ("objects", "objects", "business", "spp", "link", "tls")
PEERS: tuple[IAddress, ...] = (
    IPv4Address("TCP", "10.0.0.1", 4711),
    IPv4Address("TCP", "10.0.0.2", 4711),
    IPv6Address("TCP", "2001:db8::1", 4711),
    UNIXAddress(b"/socket"),
)
NEIGHBOUR = IPv4Address("TCP", "127.0.0.1", 4711)
OBSERVER = IPv4Address("TCP", "10.9.9.9", 4711)
SOURCES = ("10.0.0.1", "10.0.0.2", "127.0.0.1", "2001:db8::1")
PASSING = (0.0, 0.01, 0.5, 3.0, 31.0, 61.0, 400.0)
"""Seconds that pass at a time."""

LONG = 8000.0
"""Seconds after which every lease and time-out is over."""

LIMITS: dict[str, Any] = {
    "link_allow": (ip_network("127.0.0.0/8"),),
    "inbus_allow": (ip_network("10.0.0.0/24"),),
    "max_metadata": 5000,
    "max_payload": 20_000,
    "max_nesting": 10,
    "max_packet": 5000,
    "max_outbound": 200_000,
    "max_outbound_total": 400_000,
    "max_inbound_total": 60_000,
    "max_last_values": 20_000,
    "max_last_value": 4000,
    "inbus_lease": 300,
    "request_timeout": 60,
}

TIGHT: tuple[dict[str, Any], ...] = (
    {},
    {"max_services": 2, "max_subscriptions": 2, "max_services_total": 3},
    {"max_patterns": 1, "max_wildcard_characters": 3, "max_routing_ids": 1, "max_held_ids": 1},
    {"max_requests": 3, "max_requests_per_asker": 2, "max_seen": 2, "strict": True},
    {"max_links": 1, "max_linked": 2, "max_remote_sessions": 2, "link_allow": ()},
    {"max_sessions": 4, "inbus_max_sessions": 2, "spp_max_silent": 1, "spp_max_silent_per_address": 1},
    {"inbus_max_rate": 1, "inbus_max_host_rate": 1, "routing_id_hold": 0.0},
)
"""Limits that a reload may set."""


EVERYTHING = "".join(
    f'{action} = ["*"]\n'
    for action in ("provide", "publish", "watch", "request", "send", "observe", "address", "link", "tell")
)
"""Of a rule."""

OBSERVED = f"""
[[rule]]
users = ["observer"]
{EVERYTHING}
"""

RULES = (
    f"""
    [[rule]]
    users = ["*"]
    {EVERYTHING}
    """,
    """
    [[rule]]
    users = ["ann"]
    provide = ["tv", "bob"]
    publish = "t*"
    send = "text/*"
    observe = ["@*", "text/*"]

    [[rule]]
    formats = ["spp", "inbus"]
    watch = ["!door", "*"]
    publish = ["tv", "d*"]
    """,
    f"""
    [[rule]]
    users = ["anonymous"]
    {EVERYTHING}

    [[rule]]
    users = ["bob"]
    request = ["tv"]
    """,
    """
    [[rule]]
    networks = ["10.0.0.2", "unix"]
    provide = "*"
    watch = "*"
    address = ["ann", "!bob"]
    send = ["@note"]

    [[rule]]
    networks = ["127.0.0.1"]
    link = ["cellar"]
    tell = ["ann", "attic"]
    provide = ["tv"]
    observe = "*"
    """,
)

POLICIES = tuple(
    parse_policy(OBSERVED + text, Path("policy"), ("objects", "business", "spp", "inbus")) for text in RULES
)
"""In all of them the observer may do everything."""

DEVICES = ((ip_network("10.0.0.0/31"), "ann"), (ip_network("127.0.0.0/8"), "bob"))
"""Users of Inbus, by network."""

KNOWN = {
    name: SecretHash(b"salt", bytes(32), 2, 1, 1).made_of(SECRETS[0].encode()) for name in (*NAMES[:3], "observer")
}


class Clock(task.Clock):
    """A clock that is moved by hand, and whose turns are those of a reactor: what is due when they begin is done.

    :param goes: whether it moves by itself, too, while this thread computes.
    """

    def __init__(self, goes: bool) -> None:
        super().__init__()
        self._goes = goes
        self._begun = time.thread_time()

    def seconds(self) -> float:
        now: float = super().seconds()
        return now + time.thread_time() - self._begun if self._goes else now

    def is_due(self) -> bool:
        return any(call.getTime() <= self.seconds() for call in self.calls)

    def turn(self) -> None:
        now = self.seconds()
        for call in [each for each in self.calls if each.getTime() <= now]:
            if call.active():
                self.calls.remove(call)
                call.called = 1
                call.func(*call.args, **call.kw)


class Stranger(Pipe):
    """A connection of a client that may say and do anything.

    :ivar pending: what it has sent, and has not arrived yet.
    :ivar is_clean: whether everything that it said was framed well.
    """

    def __init__(self, arena: Arena, kind: str, peer: IAddress, factory: Any = None) -> None:
        super().__init__(arena.reactor, arena.cut)
        self.kind = kind
        self.pending = b""
        self.is_clean = True
        self._peer = peer
        self._input_ended = False
        self._reader: Any = SppReader("server") if kind == "spp" else ObjectReader()
        if kind != "spp":
            self._reader.expect_server()
        made = arena.factory("objects" if kind == "link" else kind) if factory is None else factory
        self.connect(made.buildProtocol(peer))

    def drawn(self, draw: Draw) -> bytes:
        """The bytes of its next message."""
        return draw.packet() if self.kind == "spp" else draw.object(self.kind)

    def say(self, data: bytes) -> None:
        """Send something. It arrives later."""
        self.pending += data

    def getPeer(self) -> Any:
        return self._peer

    def arrive(self, size: int) -> None:
        """Some of what it has sent arrives. As a transport does, this one reads nothing while the server does not."""
        chunk, self.pending = self.pending[:size], self.pending[size:]
        if self.connected and chunk and not self._input_ended:
            self.protocol.dataReceived(chunk)

    @property
    def may_arrive(self) -> bool:
        return bool(self.is_read and self.pending and self.connected and not self._input_ended)

    def end_input(self) -> None:
        if self.connected and not self._input_ended:
            self._input_ended = True
            super().end_input()

    def read(self) -> list[Any]:
        """What it was sent since the last time."""
        assert MARKED not in self.delivered, "somebody is sent a secret"
        self._reader.feed(self.delivered)
        self.delivered = b""
        found = []
        while (event := self._reader.next_event()) is not None:
            if self.kind != "spp":
                assert isinstance(event, BusObject), event
            found.append(event)
        return found


class Secured(Stranger):
    """The same over TLS. Until its handshake is done, what it says waits."""

    def __init__(self, arena: Arena, peer: IAddress, port: Port) -> None:
        self._unsaid = b""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = _place().context().wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        super().__init__(arena, "tls", peer, port.factory)

    def say(self, data: bytes) -> None:
        self._unsaid += data
        self._look()

    def _look(self) -> None:
        with suppress(ssl.SSLError):
            self._tls.do_handshake()
            while self._unsaid:
                self._unsaid = self._unsaid[self._tls.write(self._unsaid) :]
        self.pending += self._outgoing.read()

    def deliver(self, most: int | None = None) -> bool:
        moved = super().deliver(most)
        self._incoming.write(self.delivered)
        self.delivered = b""
        self._look()
        with suppress(ssl.SSLError):
            while piece := self._tls.read(1 << 16):
                self.delivered += piece
        return moved


@cache
def _scratch() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="bussrv-fuzz-")


@cache
def _place() -> Place:
    """Certificates for all servers of this process."""
    return Place(Path(_scratch().name))


class Observer:
    """Two clients that behave: one says things to itself, one is subscribed to a service that the first provides."""

    def __init__(self, whole: Whole) -> None:
        self._whole = whole
        self.member = Stranger(whole.arena, "objects", OBSERVER)
        self._number = 0
        joining = {"event": "routing/subscribe", "routing-id": "observer", "types": [ECHO]}
        self._say({**joining, "user": "observer", "secret": SECRETS[0]})
        self._say({"event": "services/register", "name": "observed"})

    def _say(self, fields: dict[str, Any], payload: bytes = b"") -> None:
        self.member.pending += encode(fields, payload)
        while self.member.may_arrive:
            self.member.arrive(CHUNK)
            self._whole.end_turn()
        if "secret" in fields:
            self._whole.wait(1.0)

    def look(self) -> None:
        """What it says comes back to it."""
        self._number += 1
        self._say({"type": ECHO, "number": self._number, "to": "observer"}, b"echo")
        assert self.member.connected, "the observer lost its connection"
        heads = [each.fields() for each in self.member.read()]
        numbers = [each.get("number") for each in heads if each.get("type") == ECHO and "number" in each]
        assert self._number in numbers, "the observer did not get its echo"


class Whole:
    """A server, its clients, and what has to hold.

    :param is_timed: whether time passes while something is done.
    :ivar slowest: the most seconds of CPU that something took at once.
    """

    def __init__(self, is_timed: bool) -> None:
        self._clock = Clock(is_timed)
        self.arena = Arena(reactor=self._clock, **LIMITS)
        bus = self.arena.bus
        self._identity = Identity(self._clock, self._in_thread)
        self._checkers = Checkers(self._identity, bus, self._clock)
        self._identity.changed += bus.identity.changed
        bus.identity = self._identity
        self._permit(None, True, KNOWN)
        self.failures: list[str] = []
        self.slowest = 0.0
        self._clients: list[Stranger] = []
        self._port: Port | None = None
        self._observer = Observer(self)
        self._before = self.arena.registry.state.copy()
        self._calls = len(self.arena.reactor.getDelayedCalls())

    def hear(self, event: LogEvent) -> None:
        """Something was logged."""
        if MARKED.decode() in formatEvent(event):
            self.failures.append("a secret is logged")
        if "log_failure" in event:
            self.failures.append(f"{formatEvent(event)}: {event['log_failure'].getTraceback()}")

    # What happens.

    def play(self, draw: Draw) -> None:
        """Do what the bytes say, then let all leave."""
        ways = (
            *(self._say,) * 6,
            *(self._connect,) * 3,
            *(self._datagram,) * 2,
            self._hold_back,
            self._arrive,
            self._turn,
            self._read,
            self._leave,
            self._pass,
            self._disk,
            self._limit,
            self._change_permission,
        )
        while not draw.is_over:
            draw.one(ways)(draw)
            self._look()
        self._end()

    def _client(self, draw: Draw) -> Stranger | None:
        self._clients = [each for each in self._clients if each.connected]
        return draw.one(self._clients) if self._clients else None

    def _connect(self, draw: Draw) -> None:
        kind, peer = draw.one(FORMATS), draw.one(PEERS)
        if len(self._clients) >= MOST_CLIENTS:
            return
        if kind == "tls":
            self._port = Port(self.arena, _place().port) if self._port is None else self._port
            client: Stranger = self._timed(Secured, self.arena, peer, self._port)
        else:
            client = self._timed(Stranger, self.arena, kind, NEIGHBOUR if kind == "link" else peer)
        self._clients.append(client)
        if kind == "link":
            server = draw.one(("cellar", "attic"))
            fields = {"event": "routing/subscribe", "role": "server", "routing-id": server, "subscriptions": ["*"]}
            client.say(encode({**fields, "directory": draw.chance(128)}))

    def _hold_back(self, draw: Draw) -> Stranger | None:
        """A client says something that does not arrive yet."""
        client = self._client(draw)
        if client is not None and len(client.pending) < 100_000:
            draw.may_prove = client.is_clean
            client.say(client.drawn(draw))
            client.is_clean &= not draw.is_spoiled
            if client.kind == "tls":
                client.pending = draw.spoiled(client.pending)
                client.deliver()
                client.read()
        return client

    def _say(self, draw: Draw) -> None:
        client = self._hold_back(draw)
        if client is not None:
            self._deliver(client, CHUNK)

    def _arrive(self, draw: Draw) -> None:
        """Some bytes of what was said arrive."""
        client = self._client(draw)
        if client is not None:
            self._deliver(client, 1 + draw.byte())

    def _deliver(self, client: Stranger, size: int) -> None:
        if client.may_arrive:
            self._timed(client.arrive, size)
            self._observer.member.deliver()

    def _datagram(self, draw: Draw) -> None:
        source = draw.one(SOURCES)
        self._timed(self.arena.udp.receive, draw.datagram(), source)
        self.arena.udp.taken()

    def _turn(self, draw: Draw) -> None:
        for client in self._clients:
            self._deliver(client, CHUNK)
        self.end_turn()

    def _read(self, draw: Draw) -> None:
        """A client reads some of what waits for it; only so many bytes, or all."""
        client = self._client(draw)
        if client is not None:
            self._timed(client.deliver, draw.one((None, 1, 7, 100, 5000)))
            client.read()

    def _leave(self, draw: Draw) -> None:
        client = self._client(draw)
        if client is not None:
            self._timed(draw.one((client.leave, client.abortConnection, client.end_input)))

    def _pass(self, draw: Draw) -> None:
        """Time passes, in several turns."""
        seconds = draw.one(PASSING)
        for _ in range(4):
            self.wait(seconds / 4)

    def _disk(self, draw: Draw) -> None:
        """The disk becomes slow, writes something, fails, or works again."""
        journal = self.arena.journal
        way = draw.byte() % 5
        if way == 0 and not journal.held:
            journal.hold()
        elif way == 1:
            self._timed(journal.release, 1 + draw.byte() % 3)
        elif way == 2:
            self._timed(journal.fail, "disk full")
        else:
            self._mend()

    def _mend(self) -> None:
        self._timed(self.arena.journal.fail, None)
        self._timed(self.arena.journal.release)

    def _limit(self, draw: Draw) -> None:
        """The configuration is read again."""
        self._set(draw.one(TIGHT))

    def _set(self, limits: dict[str, Any]) -> None:
        bus = self.arena.bus
        uses = [each.prepare() for each in bus.reloadables]
        bus.settings.reload(Settings(**{**LIMITS, **limits}))
        for use in uses:
            self._timed(use)

    def _change_permission(self, draw: Draw) -> None:
        """Users come and go, the policy changes, or clients are not asked any more."""
        users = {name: KNOWN[name] for name in KNOWN if name == "observer" or draw.chance(200)}
        self._permit(draw.one((None, *POLICIES)), draw.chance(128), users)

    def _permit(self, policy: Rules | None, asks: bool, users: dict[str, SecretHash]) -> None:
        """As a reload does; see :class:`bussrv.server.running.identity.Checkers`."""
        bus = self.arena.bus
        asked, bus.access.asks, bus.access.policy = bus.access.asks, asks, policy
        tokens = Tokens({digest(TOKEN): TokenUse("cy")})
        self._identity.use([Users(users), *([tokens] if "cy" in users else ())], (), {"inbus": DEVICES})
        served = [] if asked or not asks else list(self._checkers._connections())
        self._clock.callLater(0, self._checkers._judge, served, Deferred())
        bus.policy_changed()

    def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        """Threads take a moment."""
        done: Deferred[Any] = Deferred()
        self._clock.callLater(0.01, lambda: done.callback(function(*arguments)))
        return done

    # What has to hold.

    def wait(self, seconds: float) -> None:
        """Some time passes."""
        self._clock.rightNow += seconds
        self.end_turn()

    def end_turn(self) -> None:
        """Do what is due, and let the observer read."""
        moved = True
        while moved or self._clock.is_due():
            self._timed(self._clock.turn)
            moved = hasattr(self, "_observer") and self._observer.member.deliver()

    def _timed(self, do: Callable[..., Any], *arguments: Any) -> Any:
        begun = time.thread_time()
        done = do(*arguments)
        self.slowest = max(self.slowest, time.thread_time() - begun)
        return done

    def _look(self) -> None:
        assert not self.failures, self.failures[0]
        bus = self.arena.bus
        assert not bus.counters["internal-error"]
        assert bus.streams.outbound.total <= LIMITS["max_outbound_total"]
        assert bus.streams.inbound.total <= LIMITS["max_inbound_total"]

    def _end(self) -> None:
        """All leave, and time passes until nothing is left of them."""
        self._mend()
        self._set({})
        self._permit(None, False, KNOWN)
        self._observer.look()
        for client in self._clients:
            client.deliver()
            client.read()
            client.leave()
        self._observer.look()
        self.wait(LONG)
        self._observer.look()
        self._look()
        self._look_at_what_is_left()

    def _look_at_what_is_left(self) -> None:
        arena = self.arena
        assert arena.registry.state == self._before, "something is left in the registry"
        folded = RegistryFold()
        opened, closed = Counter[str | None](), Counter[str | None]()
        for record in arena.journal.records:
            assert MARKED not in encode_event(record.event), "a secret is journaled"
            folded.apply(record.event, record.time)
            opened[record.event.session] += isinstance(record.event, ev.SessionOpened)
            closed[record.event.session] += isinstance(record.event, ev.SessionClosed)
        assert folded.state == arena.registry.state, "the journal says something else than the registry"
        left = {session for session in opened if opened[session] != closed[session]}
        assert left == set(arena.registry.state.sessions), "a session was not closed, or more than once"
        assert max(opened.values()) == 1
        ended = set(map(str, closed)) - set(arena.registry.state.sessions)
        for kept in (arena.journal.records, arena.cut, self._clients):
            kept.clear()
        assert not ended & set(strings(arena)), "the id of a session that ended is remembered"
        assert arena.bus.streams.outbound.total == arena.bus.streams.inbound.total == 0
        assert len(arena.reactor.getDelayedCalls()) <= self._calls, arena.reactor.getDelayedCalls()


def strings(root: object) -> Iterator[str]:
    """Every string that can be reached from an object, not going through modules, classes and functions.

    A group whose members have left says whom its last frames were not for, until a route plan that has it is made anew.
    """
    seen, waiting = {id(root)}, [root]
    while waiting:
        holder = waiting.pop()
        # The collector does not look at keys that are strings.
        keys = list(holder) if isinstance(holder, dict) else []
        for each in (*gc.get_referents(holder), *keys):
            if isinstance(each, str):
                if not isinstance(holder, Group):
                    yield each
            elif id(each) not in seen and not isinstance(each, (ModuleType, type, FunctionType, Logger)):
                seen.add(id(each))
                waiting.append(each)


def server(data: bytes) -> None:
    """A whole server."""
    if play(data, is_timed=False) < MOST_CPU:
        return
    slowest = play(data, is_timed=True)
    assert slowest < MOST_CPU, f"{slowest:.3f} s of CPU at once"


def play(data: bytes, *, is_timed: bool) -> float:
    """Let happen what the bytes say. :returns: the most seconds of CPU that something took at once."""
    whole = Whole(is_timed)
    globalLogPublisher.addObserver(whole.hear)
    # Garbage of other tests is not the server's.
    gc.disable()
    try:
        whole.play(Draw(data))
    finally:
        gc.enable()
        globalLogPublisher.removeObserver(whole.hear)
    return whole.slowest
