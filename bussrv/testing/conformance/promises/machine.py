"""Promises that take a server in a process of its own, on real sockets: signals, kill -9, and what the journal says."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from subprocess import TimeoutExpired
from tempfile import TemporaryDirectory
from typing import Any

from bussrv import events as ev
from bussrv.errors import JournalError
from bussrv.journal.reading import read_journal
from bussrv.journal.verify import verify
from bussrv.testing.conformance.adapter import Adapter, Client, Published, Reaction, Refused, Said
from bussrv.testing.conformance.formats.objects import ObjectsAdapter
from bussrv.testing.conformance.promises.oddities import odd_inputs
from bussrv.testing.conformance.seen import Seen
from bussrv.testing.conformance.trial import OWN, SERVICE, Promise, Trial, promise
from bussrv.testing.server import RunningServer

PAUSE = 0.2
"""Seconds after which what has not come is asked for again."""

MOST_READ = 1 << 16

MOST_GROWTH = 8 << 20
"""Bytes of resident memory that a server may take more when everything odd comes again."""


class SocketClient:
    """A client on a real socket."""

    def __init__(self, adapter: Adapter, address: tuple[str, int], seen: Seen, *, joins: bool = True) -> None:
        kind = socket.SOCK_STREAM if adapter.can("stream") else socket.SOCK_DGRAM
        self.client: Client = seen.watch(adapter.client())
        self._seen = seen
        self._socket = socket.socket(socket.AF_INET, kind)
        self._socket.connect(address)
        self.client.address = self._socket.getsockname()
        self.is_open = True
        if joins:
            self.send(self.client.join())

    def send(self, data: bytes) -> None:
        """Send a message."""
        if data:
            self._seen.sends(data)
            with suppress(OSError):
                self._socket.sendall(data)

    def said(self, seconds: float) -> list[Said]:
        """What it is told within some time; at most until something comes."""
        self._socket.settimeout(seconds)
        try:
            data = self._socket.recv(MOST_READ)
        except TimeoutError:
            return []
        except OSError:
            data = b""
        if not data:
            self.is_open = False
            return []
        self._seen.receives(data)
        found: list[Said] = []
        for each in self.client.read(data):
            if isinstance(each, Reaction):
                self.send(each.data)
                continue
            if isinstance(each, Refused):
                self._seen.refused = each.why
            found.append(each)
        return found

    def say_last(self, data: bytes, patience: float) -> None:
        """Send bytes and no more, and read until the server closes the connection."""
        self.send(data)
        if self._socket.type is not socket.SOCK_STREAM:
            return
        # A connection that the server ends with bytes unread is reset.
        with suppress(OSError):
            self._socket.settimeout(patience)
            self._socket.shutdown(socket.SHUT_WR)
            while self._socket.recv(MOST_READ):
                pass

    def ends_within(self, seconds: float) -> bool:
        """Whether the server closes the connection in time."""
        end = time.monotonic() + seconds
        while self.is_open and time.monotonic() < end:
            self.said(PAUSE)
        return not self.is_open

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class Machine:
    """A directory for a journal, and servers that are started there one after the other."""

    def __init__(self, trial: Trial, place: Path) -> None:
        self.journal = place / "journal"
        self._trial = trial
        self._clients: list[SocketClient] = []
        self._numbers = count()
        self._provider: SocketClient

    @contextmanager
    def server(self, after: str = "") -> Iterator[RunningServer]:
        """Start the server, with the judged format and Object System.

        :param after: what was before, for the sentence.
        :raises Broken: it does not start.
        """
        name = self._trial.name
        others = [each for each in ("business", "inbus", "spp") if each != name]
        options = [part for each in others for part in (f"--{each}", "off")]
        options += [f"--{name}", "0", "--admin", "off", "--drain-seconds", "2"]
        for option, value in self._trial.adapter.settings.items():
            options += [f"--{option.replace('_', '-')}", str(value)]
        try:
            started = self._trial.start(self.journal, options)
        except RuntimeError as error:
            self._trial.broken(f"the server does not start{after}: {str(error).strip().splitlines()[-1]}")
        with started as server:
            try:
                yield server
            finally:
                for each in self._clients:
                    each.close()
                self._clients.clear()

    def client(self, server: RunningServer, adapter: Adapter, *, joins: bool = True) -> SocketClient:
        """A client that has joined, unless it is told not to."""
        seen = Seen(adapter.name, len(self._trial.on_sockets) + 1)
        self._trial.on_sockets.append(seen)
        made = SocketClient(adapter, server.addresses[adapter.name], seen, joins=joins)
        self._clients.append(made)
        return made

    def forget_last(self) -> None:
        """The last client is done."""
        self._clients.pop().close()

    def subscriber(self, server: RunningServer, service: str = SERVICE) -> SocketClient:
        """A client of the judged format that is subscribed: it was given a publication.

        :raises Broken: it never is.
        """
        self._provider = self.client(server, ObjectsAdapter())
        self._provider.send(self._provider.client.provide(service))
        subscriber = self.client(server, self._trial.adapter)
        self._publish_to(subscriber, service, "over a real socket", subscribes=True)
        return subscriber

    def check_served(self, subscriber: SocketClient, after: str) -> None:
        """What is published reaches the subscriber.

        :raises Broken: it does not.
        """
        self._publish_to(subscriber, SERVICE, f"after the server {after}", subscribes=False)

    def _publish_to(self, subscriber: SocketClient, service: str, when: str, *, subscribes: bool) -> None:
        end, subscribed_at = time.monotonic() + self._trial.patience, 0.0
        sent: set[bytes] = set()
        while time.monotonic() < end and subscriber.is_open:
            if subscribes and time.monotonic() - subscribed_at > 1:
                subscriber.send(subscriber.client.subscribe(service))
                subscribed_at = time.monotonic()
            payload = b"%d" % next(self._numbers)
            sent.add(payload)
            self._provider.send(self._provider.client.publish(service, payload))
            if any(isinstance(each, Published) and each.payload in sent for each in subscriber.said(PAUSE)):
                return
        self._trial.broken(f"{when}, a client is given no publication within {self._trial.patience:g} seconds")

    def events(self, *kinds: type[ev.Event]) -> list[Any]:
        """What the journal holds of these kinds."""
        return [each.event for each in read_journal(self.journal) if isinstance(each.event, kinds)]

    def check_end(self, server: RunningServer, when: str) -> None:
        """The server ends in time, and well."""
        try:
            status = server.process.wait(self._trial.patience)
        except TimeoutExpired:
            self._trial.broken(f"{when}, the server has not ended within {self._trial.patience:g} seconds")
        self._trial.require(status == 0, f"{when}, the server ends with status {status}")

    def check_journal(self, when: str, *, to_the_end: bool) -> None:
        """The journal is whole, and an audit finds nothing.

        :param to_the_end: whether all of it has to be sealed.
        """
        trial = self._trial
        try:
            faults: Sequence[Any] = verify(self.journal, to_the_end=to_the_end).faults
        except JournalError as error:
            trial.broken(f"{when}, the journal cannot be verified: {error}")
        trial.require(not faults, f"{when}, the journal has a fault: {faults and faults[0].message}")
        with suppress(ImportError):  # The packages of the audit are an extra.
            from bussrv.audit.job import audit

            found = audit(None, [self.journal], self.journal.parent / "audit")
            trial.require(found.is_intact, f"{when}, the audit has findings: {found.summary['severities']}")


@contextmanager
def _machine(trial: Trial) -> Iterator[Machine]:
    with TemporaryDirectory(prefix="bussrv-conformance-") as place:
        yield Machine(trial, Path(place))


@promise(is_real=True)
def a_kill_loses_nothing(trial: Trial) -> None:
    """After kill -9 the journal is whole and has every subscription and service; the next boot serves clients again."""
    with _machine(trial) as machine:
        with machine.server() as server:
            machine.subscriber(server)
            if trial.adapter.can("publish"):
                publisher = machine.client(server, trial.adapter)
                if trial.adapter.can("provide"):
                    publisher.send(publisher.client.provide(OWN))
                publisher.send(publisher.client.publish(OWN, b"on"))
                end = time.monotonic() + trial.patience
                while OWN not in [each.service for each in machine.events(ev.ServiceRegistered)]:
                    trial.require(time.monotonic() < end, "a service is not in the journal of a real server")
                    publisher.said(PAUSE)
            server.stop(signal.SIGKILL)
        subscribed = [each for each in machine.events(ev.SubscriptionAdded) if each.protocol == trial.name]
        trial.require(subscribed, "after kill -9, the journal lacks a subscription that was in effect")
        with machine.server(" after kill -9") as server:
            machine.subscriber(server)
            server.process.send_signal(signal.SIGINT)
            machine.check_end(server, "after kill -9, a restart and SIGINT")
        machine.check_journal("after kill -9, a restart and a stop", to_the_end=True)


@promise(is_real=True)
def a_signal_ends_sessions_in_time(trial: Trial) -> None:
    """After SIGTERM all sessions end in time, the server exits with status 0, and journal and audit are clean."""
    with _machine(trial) as machine:
        with machine.server() as server:
            subscriber = machine.subscriber(server)
            server.process.send_signal(signal.SIGTERM)
            if trial.adapter.can("stream"):
                trial.require(
                    subscriber.ends_within(trial.patience),
                    f"{trial.patience:g} seconds after SIGTERM, a client is still connected",
                )
            machine.check_end(server, "after SIGTERM")
        machine.check_journal("after SIGTERM", to_the_end=True)


@promise(is_real=True)
def odd_input_lets_no_server_grow(trial: Trial) -> None:
    """A server that was sent everything odd takes no more memory when it comes again, and serves others meanwhile."""
    adapter, after = trial.adapter, []
    with _machine(trial) as machine, machine.server() as server:
        subscriber = machine.subscriber(server)
        for _ in range(2):
            for odd in odd_inputs(trial):
                if not odd.asks:
                    machine.client(server, adapter, joins=odd.joins).say_last(odd.build(), trial.patience)
                    machine.forget_last()
            machine.check_served(subscriber, "was sent everything odd")
            after.append(_resident(server))
        grown = after[1] - after[0]
        trial.require(
            grown <= MOST_GROWTH, f"a server that is sent everything odd again takes {grown} bytes of memory more"
        )


def _resident(server: RunningServer) -> int:
    """The bytes of resident memory of a server; 0: the system does not tell."""
    with suppress(OSError):
        for line in Path(f"/proc/{server.process.pid}/status").read_text("utf-8").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) << 10
    return 0


PROMISES: tuple[Promise, ...] = (
    a_kill_loses_nothing,
    a_signal_ends_sessions_in_time,
    odd_input_lets_no_server_grow,
)
