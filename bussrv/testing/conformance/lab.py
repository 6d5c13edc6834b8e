"""A server in memory for one trial: its ports, its journal, and clients of any format that an adapter speaks for."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer

from bussrv.bus.bus import Bus
from bussrv.bus.sessions.left_open import settle_left_open
from bussrv.bus.sessions.membership import MembershipAnnouncer
from bussrv.errors import JournalUnavailable
from bussrv.events import Event
from bussrv.interfaces import IDrainedListener, IListener, IWireFormat
from bussrv.journal.interfaces import Waiter
from bussrv.journal.memory import MemoryJournal
from bussrv.journal.record import Record, Stamped
from bussrv.policy.logins.checkers import Users
from bussrv.policy.logins.identity import Identity
from bussrv.policy.logins.users import SecretHash
from bussrv.policy.permissions.file import parse_policy
from bussrv.registry.changes.registry import Registry
from bussrv.registry.state.state import RegistryState
from bussrv.settings import Settings
from bussrv.testing.conformance.adapter import (
    Adapter,
    Answered,
    Asked,
    Client,
    Confirmed,
    Login,
    Published,
    Reaction,
    Refused,
    Said,
)
from bussrv.testing.conformance.wires import DatagramPort, DatagramWire, LabReactor, Wire

ANN = Login("ann", "s3cret-of-ann")
"""A user who may do what the policy of a trial lets her."""

BEN = Login("ben", "s3cret-of-ben")
"""A user who may do nothing, or nothing with the services of a trial."""

USERS = {each.user: SecretHash(b"salt", bytes(32), 2, 1, 1).made_of(each.secret.encode()) for each in (ANN, BEN)}
"""Hashes that cost nothing to check."""

MOST_ROUNDS = 10_000
"""A server that is not at rest after so many rounds never will be."""


class LabClock:
    """The time of day of a reactor that is moved by hand."""

    def __init__(self, reactor: Clock) -> None:
        self._reactor = reactor

    def utc(self) -> int:
        """Microseconds since 1970."""
        return 1_700_000_000_000_000 + self.mono()

    def mono(self) -> int:
        """Microseconds since the reactor began."""
        return int(self._reactor.seconds() * 1_000_000)


class LabJournal(MemoryJournal):
    """A journal in memory that keeps its records. The trial decides when a change is durable, and when the disk fails.

    :ivar records: what is durable.
    """

    def __init__(self, server: str, boot: str, records: Sequence[Record] = ()) -> None:
        super().__init__(server, boot)
        self.records = list(records)
        self._next_seq = len(self.records) + 1
        self.follow(self.records.extend)
        self._held: deque[tuple[Sequence[Stamped], Waiter | None]] | None = None

    def append_change(self, stamped: Sequence[Stamped], waiter: Waiter) -> None:
        """Make a change durable, or hold it."""
        if self.unavailable is not None:
            waiter.errback(self.unavailable)
        elif self._held is not None:
            self._held.append((stamped, waiter))
        else:
            waiter.callback(self.number(stamped))

    def append_fact(self, stamped: Stamped) -> None:
        """Make a fact durable, after what is held."""
        if self._held is not None:
            self._held.append(([stamped], None))
        else:
            self.number([stamped])

    def hold(self) -> None:
        """From now on nothing becomes durable."""
        self._held = deque()

    @property
    def held(self) -> int:
        """How many changes that clients wait for are on their way to the disk."""
        return sum(waiter is not None for _, waiter in self._held or ())

    def release(self) -> None:
        """Make everything durable that is held, and hold no more."""
        held, self._held = self._held or deque(), None
        for stamped, waiter in held:
            records = self.number(stamped)
            if waiter is not None:
                waiter.callback(records)

    def fail(self, message: str | None) -> None:
        """Refuse changes from now on, as a full disk would; ``None`` ends that."""
        self.unavailable = None if message is None else JournalUnavailable(message)


@implementer(ILogObserver)
class Lab:
    """A server, on a clock that stands still unless :meth:`wait` moves it.

    :param adapters: those of the formats that it serves.
    :param installed: finds the plugin of a format by its name.
    :param policy: the rules of a policy file; ``None``: everybody may do everything.
    :param asks: whether clients have to say who they are.
    :ivar failures: what the server or a format failed at, as tracebacks.
    :ivar log: every line that was logged.
    """

    def __init__(
        self,
        adapters: Iterable[Adapter],
        installed: Callable[[str], IWireFormat],
        *,
        policy: str | None = None,
        asks: bool = False,
        before: Lab | None = None,
        **settings: Any,
    ) -> None:
        self.adapters = {each.name: each for each in adapters}
        self.failures: list[str] = []
        self.log: list[str] = []
        self.visitors: list[Visitor] = []
        self._installed, self._policy, self._asks, self._given = installed, policy, asks, settings
        self._boot: int = 1 if before is None else before._boot + 1
        self._made = self._hosts = 0
        self.reactor = LabReactor()
        if before is not None:
            self.reactor.advance(before.reactor.seconds())
        globalLogPublisher.addObserver(self)
        self._start([] if before is None else before.journal.records)

    def _start(self, records: Sequence[Record]) -> None:
        adapters = self.adapters.values()
        options: dict[str, Any] = {}
        for each in adapters:
            options.update(each.settings)
        settings = Settings(**{**options, **self._given})
        clock = LabClock(self.reactor)
        boot = f"boot{self._boot}"
        self.journal: LabJournal = LabJournal("lab", boot, records)
        state = folded(records) if records else None
        self.registry = Registry(
            self.journal, clock, self._new_id, server_id="lab", boot=boot, state=state, settings=settings
        )
        self.bus = Bus(self.registry, settings, "lab", self._new_id, clock, self.reactor)
        self.bus.identity = Identity(self.reactor, _at_once)
        if self._asks:
            self.bus.identity.use([Users(USERS)])
            self.bus.access.asks = True
        self.registry.observe(MembershipAnnouncer(self.bus), MembershipAnnouncer.KINDS)
        if self._policy is not None:
            self.permit(self._policy)
        self.listeners: dict[str, IListener] = {}
        self._ports: dict[str, Any] = {}
        for each in adapters:
            wire_format = self._installed(each.name)
            endpoint = "udp:7000" if wire_format.default_endpoint.startswith("udp") else "tcp:7000"
            self.listeners[each.name] = listener = wire_format.listen(self.bus, endpoint, self.reactor)
            listener.startService()
            self._ports[each.name] = self.reactor.ports[-1]
        settle_left_open(self.bus, self.listeners)
        self.settle()

    def _new_id(self) -> str:
        self._made += 1
        return f"{self._boot}-{self._made}"

    def __call__(self, event: LogEvent) -> None:
        """Something is logged; see :class:`ILogObserver`."""
        self.log.append(formatEvent(event))
        if "log_failure" in event:
            self.failures.append(event["log_failure"].getTraceback())

    # What happens to the server.

    def permit(self, policy: str) -> None:
        """From now on these rules of a policy are in effect."""
        self.bus.access.policy = parse_policy(policy, Path("policy.toml"), list(self.adapters))
        self.bus.policy_changed()
        self.settle()

    def hold(self) -> None:
        """From now on nothing becomes durable."""
        self.journal.hold()

    def release(self) -> None:
        """What was held becomes durable."""
        self.journal.release()
        self.settle()

    def settle(self) -> None:
        """Let everything happen that is due, and every client read what it is sent, until nothing moves."""
        for _ in range(MOST_ROUNDS):
            self.reactor.advance(0)
            moved = [each.wire.take() for each in self.visitors]
            self.visitors = [each for each in self.visitors if each.is_open]
            now = self.reactor.seconds()
            if not any(moved) and not any(call.getTime() <= now for call in self.reactor.getDelayedCalls()):
                return
        raise Restless(f"the server is not at rest after {MOST_ROUNDS} rounds, although nothing happens to it")

    def wait(self, seconds: float, step: float = 1.0) -> None:
        """Let time pass."""
        while seconds > 0:
            self.reactor.advance(min(step, seconds))
            seconds -= step
            self.settle()

    def restarted(self) -> Lab:
        """The server after a crash: only what is durable is left of it."""
        for each in self.visitors:
            each.wire.is_open = False
        return Lab(
            self.adapters.values(), self._installed, policy=self._policy, asks=self._asks, before=self, **self._given
        )

    def stop(self, seconds: float = 30.0) -> bool:
        """Stop all ports, as the server does at its end. :returns: whether they are closed in time."""
        stopping = [each.stopService() for each in self.listeners.values()]
        return self._until_done(stopping, seconds)

    def drain(self, name: str, seconds: float) -> bool:
        """Drain the port of a format. :returns: whether that is done a second later."""
        listener = self.listeners[name]
        if not IDrainedListener.providedBy(listener):
            return self._until_done([listener.stopService()], seconds)
        return self._until_done([listener.drain(seconds)], seconds + 1)

    def _until_done(self, waits: Sequence[Deferred[Any] | None], seconds: float) -> bool:
        done: list[object] = []
        pending = [each for each in waits if isinstance(each, Deferred)]
        for each in pending:
            each.addBoth(done.append)
        self.settle()
        while len(done) < len(pending) and seconds > 0:
            self.wait(0.1, 0.1)
            seconds -= 0.1
        return len(done) == len(pending)

    # What can be seen of it.

    @property
    def state(self) -> RegistryState:
        """The registry."""
        return self.registry.state

    @property
    def counters(self) -> Counter[str]:
        """The counters of the server."""
        return self.bus.counters

    def events(self, *kinds: type[Event]) -> list[Any]:
        """The durable events of some kinds."""
        return [record.event for record in self.journal.records if isinstance(record.event, kinds)]

    def calls(self) -> list[str]:
        """The timers, by the names of the functions that they call."""
        calls: list[Any] = list(self.reactor.getDelayedCalls())
        return [getattr(each.func, "__qualname__", type(each.func).__qualname__) for each in calls]

    # Who comes.

    def visitor(self, name: str, login: Login | None = None, host: str = "") -> Visitor:
        """A new client of a format, which has not sent anything."""
        self._hosts += 1
        number = self._hosts
        address = host or f"10.0.{number // 250}.{number % 250 + 1}"
        visitor = Visitor(self, self.adapters[name], self._connect(name, (address, 40_000 + number)), login)
        visitor.client.address = (address, 40_000 + number)
        self.visitors.append(visitor)
        self.settle()
        return visitor

    def _connect(self, name: str, address: tuple[str, int]) -> Wire | DatagramWire:
        port = self._ports[name]
        if isinstance(port, DatagramPort):
            return DatagramWire(port, address)
        peer = IPv4Address("TCP", *address)
        wire = Wire(self.reactor, peer)
        if not port.is_open:
            wire.is_open = False
            return wire
        wire.protocol = port.factory.buildProtocol(peer)
        if wire.protocol is None:
            wire.is_open = False
        else:
            wire.protocol.makeConnection(wire)
        return wire

    def member(self, name: str, login: Login | None = None, host: str = "") -> Visitor:
        """A new client that has joined."""
        visitor = self.visitor(name, login, host)
        visitor.join()
        visitor.said()
        return visitor

    def close(self) -> None:
        """The trial is over."""
        globalLogPublisher.removeObserver(self)

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Restless(Exception):
    """The server never comes to rest."""


class Unreadable(Exception):
    """A client cannot understand what it is sent."""


class Visitor:
    """A client that the adapter speaks for, and its connection.

    :ivar history: everything that it was told so far.
    """

    def __init__(self, lab: Lab, adapter: Adapter, wire: Wire | DatagramWire, login: Login | None) -> None:
        self.adapter = adapter
        self.wire: Any = wire
        self.client: Client = adapter.client(login)
        self.history: list[Said] = []
        self._lab = lab

    @property
    def is_open(self) -> bool:
        """Whether its connection is there."""
        return bool(self.wire.is_open)

    def send(self, data: bytes) -> None:
        """Send bytes in one piece."""
        self.wire.send(data)
        self._lab.settle()

    def said(self) -> list[Said]:
        """What it was told since the last time; it reacts if the format wants that."""
        found: list[Said] = []
        while True:
            arrived, self.wire.arrived = self.wire.arrived, type(self.wire.arrived)()
            if not arrived:
                self.history += found
                return found
            for data in [arrived] if isinstance(arrived, bytes) else arrived:
                for each in self._read(data):
                    if isinstance(each, Reaction):
                        self.send(each.data)
                    else:
                        found.append(each)

    def _read(self, data: bytes) -> list[Said]:
        try:
            return list(self.client.read(data))
        except Exception as error:
            raise Unreadable(f"{type(error).__name__}: {error}; it was sent {shortened(data)}") from error

    def tell(self, data: bytes) -> list[Said]:
        """Send a message, and read what comes."""
        self.send(data)
        return self.said()

    def join(self) -> list[Said]:
        """Send the first message."""
        return self.tell(self.client.join())

    def subscribe(self, service: str) -> list[Said]:
        """Subscribe to a service."""
        return self.tell(self.client.subscribe(service))

    def provide(self, service: str) -> list[Said]:
        """Provide a service, unless publishing on it is enough."""
        return self.tell(self.client.provide(service)) if self.adapter.can("provide") else []

    def publish(self, service: str, payload: bytes) -> list[Said]:
        """Publish on a service."""
        return self.tell(self.client.publish(service, payload))

    def published(self) -> list[tuple[str, bytes]]:
        """The publications that it was given since the last time."""
        return [(each.service, each.payload) for each in self.said() if isinstance(each, Published)]

    def leave(self) -> None:
        """Close the connection."""
        self.wire.close()
        self._lab.settle()


def confirmed(said: Iterable[Said]) -> list[str]:
    """The positive answers."""
    return [each.what for each in said if isinstance(each, Confirmed)]


def refusals(said: Iterable[Said]) -> list[str]:
    """The refusals, in the words of the format."""
    return [each.why for each in said if isinstance(each, Refused)]


def payloads(said: Iterable[Said], service: str) -> list[bytes]:
    """The payloads of publications on a service."""
    return [each.payload for each in said if isinstance(each, Published) and each.service == service]


def requests(said: Iterable[Said]) -> list[Asked]:
    """The requests."""
    return [each for each in said if isinstance(each, Asked)]


def replies(said: Iterable[Said]) -> list[bytes]:
    """The payloads of replies."""
    return [each.payload for each in said if isinstance(each, Answered)]


def folded(records: Iterable[Record]) -> RegistryState:
    """The registry that records say."""
    state = RegistryState()
    for record in records:
        state.apply(record.event, record.time)
    return state


MOST_SHOWN = 80


def shortened(data: bytes) -> str:
    """Bytes for a sentence."""
    shown = repr(data[:MOST_SHOWN])
    return shown if len(data) <= MOST_SHOWN else f"{shown}... ({len(data)} bytes)"


def _at_once(function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
    return succeed(function(*arguments))
