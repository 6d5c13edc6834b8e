"""A server in memory for one trial: its ports, its journal, and clients of any format that an adapter speaks for."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer

from bussrv.bus.bus import Bus
from bussrv.embedding.configuration import OWN_FORMATS
from bussrv.events import Event
from bussrv.interfaces import IDrainedListener, IWireFormat
from bussrv.policy.logins.checkers import Users
from bussrv.policy.logins.users import SecretHash
from bussrv.policy.permissions.file import parse_policy
from bussrv.registry.state.state import RegistryState
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
from bussrv.testing.conformance.seen import Seen
from bussrv.testing.journal import SteeredJournal
from bussrv.testing.memory import Device, MemoryServer

ANN = Login("ann", "s3cret-of-ann")
"""A user who may do what the policy of a trial lets her."""

BEN = Login("ben", "s3cret-of-ben")
"""A user who may do nothing, or nothing with the services of a trial."""

USERS = {each.user: SecretHash(b"salt", bytes(32), 2, 1, 1).made_of(each.secret.encode()) for each in (ANN, BEN)}
"""Hashes that cost nothing to check."""

MOST_ROUNDS = 1000
"""A server that is not at rest after so many rounds never will be."""


@implementer(ILogObserver)
class Lab:
    """A server in memory, whose clients read all that they are sent at once, unless they are told not to.

    :param adapters: those of the formats that it serves.
    :param installed: finds the plugin of a format by its name.
    :param policy: the rules of a policy file; ``None``: everybody may do everything.
    :param asks: whether clients have to say who they are.
    :param settings: options, by their names with ``_`` for ``-``.
    :ivar server: the server.
    :ivar failures: what the server or a format failed at, as tracebacks.
    :ivar log: every line that was logged.
    :ivar visitors: the clients that are connected.
    :ivar seen: what is seen of every client that ever came.
    """

    def __init__(
        self,
        adapters: Iterable[Adapter],
        installed: Callable[[str], IWireFormat],
        *,
        policy: str | None = None,
        asks: bool = False,
        **settings: Any,
    ) -> None:
        self.adapters = {each.name: each for each in adapters}
        self.failures: list[str] = []
        self.log: list[str] = []
        self.visitors: list[Visitor] = []
        self.seen: list[Seen] = []
        self._policy, self._asks, self._hosts = policy, asks, 0
        options = dict(ChainMap(settings, *(dict(each.settings) for each in self.adapters.values())))
        formats = [installed(name) for name in self.adapters]
        globalLogPublisher.addObserver(self)
        others = {each.name: "off" for each in OWN_FORMATS if each.name not in self.adapters}
        given = {name.replace("_", "-"): value for name, value in options.items()}
        foreign = [each for each in formats if each not in OWN_FORMATS]
        self.server = MemoryServer({"services": "off", **others, **given}, formats=foreign)
        self._begin()

    def _begin(self) -> None:
        bus = self.server.bus
        if self._asks:
            bus.identity.use([Users(USERS)])
            bus.access.asks = True
        if self._policy is not None:
            self.permit(self._policy)
        self.settle()

    def __call__(self, event: LogEvent) -> None:
        """Something is logged; see :class:`ILogObserver`."""
        self.log.append(formatEvent(event))
        if "log_failure" in event:
            self.failures.append(event["log_failure"].getTraceback())

    # What happens to the server.

    def permit(self, policy: str) -> None:
        """From now on these rules of a policy are in effect."""
        self._policy = policy
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
            self.server.settle()
            moved = [each.pull() for each in self.visitors]
            if not any(moved):
                self.visitors = [each for each in self.visitors if each.is_open]
                return
        raise Restless(f"the server is not at rest after {MOST_ROUNDS} rounds, although nothing happens to it")

    def forget(self) -> None:
        """Forget what is memory of the kit and not of the server: what clients were told, and what is durable."""
        for each in self.visitors:
            each.forget()
        self.journal.records.clear()

    def wait(self, seconds: float, step: float = 1.0) -> None:
        """Let time pass."""
        while seconds > 0:
            self.server.advance(min(step, seconds))
            seconds -= step
            self.settle()

    def restart(self) -> None:
        """Kill the server, and start it again: only what is durable is left of it."""
        self.server.crash()
        self.visitors.clear()
        self.server.restart()
        self._begin()

    def drain(self, name: str, seconds: float) -> bool:
        """Drain the port of a format. :returns: whether that is done a second later."""
        listener = self.server.listeners[name]
        draining = listener.drain(seconds) if IDrainedListener.providedBy(listener) else listener.stopService()
        return self._is_done(draining, seconds + 1)

    def close_port(self, name: str, seconds: float) -> bool:
        """Close the port of a format, as the server does at its end. :returns: whether that is done in time."""
        return self._is_done(self.server.listeners[name].stopService(), seconds)

    def _is_done(self, waited_for: Deferred[Any], seconds: float) -> bool:
        done: list[object] = []
        waited_for.addBoth(done.append)
        self.settle()
        while not done and seconds > 0:
            self.wait(0.1, 0.1)
            seconds -= 0.1
        return bool(done)

    # What can be seen of it.

    @property
    def bus(self) -> Bus:
        """The bus."""
        return self.server.bus

    @property
    def journal(self) -> SteeredJournal:
        """The journal."""
        return self.server.journal

    @property
    def state(self) -> RegistryState:
        """The registry."""
        return self.server.state

    @property
    def counters(self) -> Mapping[str, int]:
        """The counters of the server."""
        return self.server.counters

    def events(self, *kinds: type[Event]) -> list[Any]:
        """The durable events of some kinds."""
        return self.server.events(*kinds)

    def is_as_journaled(self) -> bool:
        """Whether the registry is what the journal says."""
        told = RegistryState()
        for each in self.journal.records:
            told.apply(each.event, each.time)
        told.in_effect = self.state.in_effect
        return told == self.state

    def calls(self) -> list[str]:
        """The timers, by the names of the functions that they call."""
        calls: list[Any] = list(self.server.clock.getDelayedCalls())
        return [getattr(each.func, "__qualname__", type(each.func).__qualname__) for each in calls]

    # Who comes.

    def visitor(self, name: str, login: Login | None = None, host: str = "") -> Visitor:
        """A new client of a format, which has not sent anything."""
        self._hosts += 1
        number = self._hosts
        seen = Seen(name, number)
        host = host or f"10.0.{number // 250}.{number % 250 + 1}"
        visitor = Visitor(self, self.adapters[name], login, host, seen)
        self.visitors.append(visitor)
        self.seen.append(seen)
        self.settle()
        return visitor

    def member(self, name: str, login: Login | None = None, host: str = "") -> Visitor:
        """A new client that has joined."""
        visitor = self.visitor(name, login, host)
        visitor.join()
        return visitor

    def close(self) -> None:
        """The trial is over."""
        globalLogPublisher.removeObserver(self)


class Restless(Exception):
    """The server never comes to rest."""


class Unreadable(Exception):
    """A client cannot understand what it is sent."""


class Visitor:
    """A client that the adapter speaks for, and its connection.

    :ivar wire: the connection; ``None``: the port does not take any.
    :ivar reads: whether it reads what it is sent.
    :ivar history: everything that it was told so far.
    """

    def __init__(self, lab: Lab, adapter: Adapter, login: Login | None, host: str, seen: Seen) -> None:
        self.adapter = adapter
        self.client: Client = seen.watch(adapter.client(login))
        self.history: list[Said] = []
        self.reads = True
        self.wire: Any = None
        self._lab, self._seen = lab, seen
        self._has_left = False
        self._arrived: list[bytes] = []
        if not adapter.can("stream"):
            self.wire = lab.server.device(adapter.name, host)
            self.client.address = self.wire.address
        else:
            with suppress(ValueError):
                self.wire = lab.server.connect(adapter.name, host)
            if self.wire is not None:
                peer = self.wire.pipe.getPeer()
                self.client.address = (peer.host, peer.port)

    @property
    def is_open(self) -> bool:
        """Whether its connection is there."""
        if self.wire is None or self._has_left:
            return False
        return isinstance(self.wire, Device) or bool(self.wire.pipe.is_open)

    @property
    def protocol(self) -> Any:
        """The server's end of its connection."""
        return self.wire.pipe.protocol

    def pull(self) -> bool:
        """Read what there is to read. :returns: whether there was anything."""
        if not self.reads or self.wire is None:
            return False
        taken = self.wire.take() if isinstance(self.wire, Device) else [self.wire.pipe.take()]
        data = list(filter(None, taken))
        for each in data:
            self._seen.receives(each)
        self._arrived += data
        return bool(data)

    def give(self, data: bytes) -> None:
        """Send bytes in one piece, and look at nothing else."""
        if data and self.is_open:
            self._seen.sends(data)
            self.wire.send(data)

    def give_each(self, pieces: Iterable[bytes]) -> None:
        """Send bytes in pieces, and look at nothing else."""
        for each in pieces:
            self.give(each)

    def send(self, data: bytes) -> None:
        """Send bytes in one piece, and let the server serve them."""
        self.give(data)
        self._lab.settle()

    def said(self) -> list[Said]:
        """What it was told since the last time; it reacts if the format wants that."""
        found: list[Said] = []
        self._lab.settle()
        while self._arrived:
            arrived, self._arrived = self._arrived, []
            for data in arrived if isinstance(self.wire, Device) else [b"".join(arrived)]:
                for each in self._read(data):
                    if isinstance(each, Reaction):
                        self.send(each.data)
                        continue
                    if isinstance(each, Refused):
                        self._seen.refused = each.why
                    found.append(each)
        self.history += found
        return found

    def _read(self, data: bytes) -> list[Said]:
        try:
            return list(self.client.read(data))
        except Exception as error:
            raise Unreadable(f"{type(error).__name__}: {error}; it was sent {shortened(data)}") from error

    def forget(self) -> None:
        """Forget what it was told."""
        self._arrived.clear()

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

    def lose(self) -> None:
        """The connection breaks."""
        self.wire.abort()
        self._lab.settle()

    def leave(self) -> None:
        """Close the connection."""
        if self.wire is not None:
            self._has_left = True
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


MOST_SHOWN = 80


def shortened(data: bytes) -> str:
    """Bytes for a sentence."""
    shown = repr(data[:MOST_SHOWN])
    return shown if len(data) <= MOST_SHOWN else f"{shown}... ({len(data)} bytes)"
