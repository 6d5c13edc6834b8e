"""Inbus on real sockets: addresses of both versions of IP, and those that nobody listens at."""

import select
import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor as the_reactor
from twisted.internet.interfaces import IReactorFDSet
from twisted.internet.task import Clock, deferLater

from bussrv import events as ev
from bussrv.bus.bus import Bus
from bussrv.formats.inbus import intake as inbus_intake
from bussrv.formats.inbus import server as inbus
from bussrv.formats.inbus.subscribers import UNREACHABLE_GRACE, LedgerEntry
from bussrv.net.transport import icmp
from bussrv.registry.changes.registry import Registry
from bussrv.settings import Settings
from bussrv.testing.journal import SteeredJournal
from bussrv.turns.clock import SystemClock
from bussrv.wire import inbus as wire

reactor: Any = the_reactor
PATIENCE = 10.0
LOOPBACKS = ["127.0.0.1", "::1"]

needs_error_queue = pytest.mark.skipif(
    not IReactorFDSet.providedBy(reactor) or not hasattr(socket, "MSG_ERRQUEUE"), reason="no ICMP errors on this system"
)


class Port:
    """A server that listens."""

    def __init__(self, interface: str, **settings: Any) -> None:
        self.journal = SteeredJournal()
        made = iter(range(1, 10_000))
        clock = SystemClock()

        def new_id() -> str:
            return f"id-{next(made)}"

        self.registry = Registry(self.journal, clock, new_id, server_id="hall", boot="boot")
        self.bus = Bus(self.registry, Settings(**settings), "hall", new_id, clock, reactor)
        escaped = interface.replace(":", "\\:")
        self.listener = inbus.listen(self.bus, f"udp:0:interface={escaped}", reactor)
        self.server: inbus.InbusServer = self.listener._protocol
        self.listener.startService()
        self.number = int(self.listener.address.rpartition(":")[2])

    def ledger(self) -> list[LedgerEntry]:
        return self.server.ledger(1000)

    def ports(self) -> list[int]:
        return [int(entry.address.rpartition(":")[2]) for entry in self.ledger()]


@asynccontextmanager
async def listening(interface: str, **settings: Any) -> AsyncIterator[Port]:
    port = Port(interface, **settings)
    try:
        yield port
    finally:
        await port.listener.stopService()
    assert port.server.transport is None


class Device:
    """A socket on loopback that subscribes its own address; ``told`` is how it is spelled."""

    def __init__(self, server: tuple[str, int], told: str | None = None) -> None:
        family = socket.AF_INET6 if ":" in server[0] else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.bind((server[0], 0))
        self.socket.setblocking(False)
        self.server = server
        self.address = (told or server[0], self.socket.getsockname()[1])

    def subscribe(self, app_key: str = "a") -> None:
        self.socket.sendto(wire.subscribe(app_key, *self.address), self.server)

    def publish(self, payload: bytes, app_key: str = "a") -> None:
        self.socket.sendto(wire.publish(app_key, 1, payload), self.server)

    def received(self) -> list[bytes]:
        found = []
        while select.select([self.socket], [], [], 0)[0]:
            found.append(wire.decode(self.socket.recv(1 << 16)).payload)
        return found

    def close(self) -> None:
        self.socket.close()


def pause() -> Awaitable[None]:
    return deferLater(reactor, 0.01)


async def until(condition: Callable[[], Any]) -> None:
    deadline = reactor.seconds() + PATIENCE
    while not condition():
        assert reactor.seconds() < deadline, "it did not come about"
        await pause()


@pytest.mark.parametrize("host", LOOPBACKS)
@pytest_twisted.ensureDeferred
async def test_subscribing_and_publishing(host: str) -> None:
    async with listening(host) as port:
        device = Device((host, port.number))
        device.subscribe()
        await until(port.ledger)
        device.publish(b"x")
        got: list[bytes] = []
        await until(lambda: got.extend(device.received()) or got)
        assert got == [b"x"]
        device.close()


@pytest.mark.parametrize("interface", ["::", ""])
@pytest_twisted.ensureDeferred
async def test_an_address_of_ipv4_is_the_same_on_a_port_for_both(interface: str) -> None:
    """However the subscriber writes it, and however the system does; all of it is one subscriber."""
    async with listening(interface) as port:
        server = ("127.0.0.1", port.number)
        device = Device(server)
        mapped = f"::ffff:{device.address[0]}"
        device.subscribe()
        device.socket.sendto(wire.subscribe("b", mapped, device.address[1]), server)
        await until(lambda: [entry.app_keys for entry in port.ledger()] == [("a", "b")])
        (entry,) = port.ledger()
        assert entry.address == f"127.0.0.1:{device.address[1]}"
        device.publish(b"x", "b")
        got: list[bytes] = []
        await until(lambda: got.extend(device.received()) or got)
        assert got == [b"x"]
        assert port.bus.counters == {}
        assert {event.event.peer for event in port.journal.records} == {entry.address, "127.0.0.1"}
        device.close()


@needs_error_queue
@pytest.mark.parametrize("host", [*LOOPBACKS, "::ffff:127.0.0.1"])
@pytest_twisted.ensureDeferred
async def test_the_lease_is_cut_when_nobody_listens_at_the_address(host: str) -> None:
    """It renews, and has all of it again. The port goes on: to the reactor an error looks like its end."""
    async with listening("::" if "ffff" in host else host) as port:
        ghost, alive = Device((host, port.number)), Device((host, port.number))
        ghost.subscribe()
        alive.subscribe()
        await until(lambda: len(port.ledger()) == 2)
        ghost.close()
        alive.publish(b"1")
        await until(lambda: port.ledger()[0].unreachables)
        first, second = port.ledger()
        assert (first.address.rpartition(":")[2], first.unreachables) == (str(ghost.address[1]), 1)
        assert first.lease_left is not None
        assert first.lease_left <= UNREACHABLE_GRACE
        assert second.lease_left is not None
        assert (second.lease_left > 3500, second.unreachables) == (True, 0)
        assert port.bus.counters["inbus-unreachable"] == 1

        alive.socket.sendto(wire.subscribe("a", *ghost.address), alive.server)
        await until(lambda: all(entry.lease_left > 3500 for entry in port.ledger()))
        alive.close()


@needs_error_queue
@pytest_twisted.ensureDeferred
async def test_those_who_listen_miss_nothing_for_those_who_do_not() -> None:
    """The system says of the next datagram what befell the one before it."""
    async with listening("127.0.0.1") as port:
        devices = [Device(("127.0.0.1", port.number)) for _ in range(8)]
        for device in devices:
            device.subscribe()
            await until(lambda device=device: device.address[1] in port.ports())
        for ghost in devices[::2]:
            ghost.close()
        alive = devices[1::2]
        for number in range(20):
            alive[0].publish(b"%d" % number)
        got: dict[int, list[bytes]] = {device.address[1]: [] for device in alive}

        def all_of_it() -> bool:
            for device in alive:
                got[device.address[1]] += device.received()
            return all(len(each) == 20 for each in got.values())

        await until(all_of_it)
        assert all(each == [b"%d" % number for number in range(20)] for each in got.values())
        assert port.bus.counters["inbus-send-failed"] == 0
        for device in alive:
            device.close()


@needs_error_queue
@pytest_twisted.ensureDeferred
async def test_a_ghost_goes_before_its_lease_is_over() -> None:
    async with listening("127.0.0.1") as port:
        device = Device(("127.0.0.1", port.number))
        device.subscribe()
        await until(port.ledger)
        device.close()
        publisher = Device(("127.0.0.1", port.number))
        publisher.publish(b"x")
        await until(lambda: port.ledger()[0].unreachables)
        subscribers = port.server._subscribers
        clock = Clock()
        clock.advance(reactor.seconds() + UNREACHABLE_GRACE - 5)
        subscribers._reactor = clock
        deque(subscribers.sweep())
        assert len(port.ledger()) == 1
        clock.advance(10)
        deque(subscribers.sweep())
        assert port.ledger() == []
        events = [record.event for record in port.journal.records]
        reasons = {type(event): event.reason for event in events if event.reason is not None}
        assert reasons == {ev.SubscriptionRemoved: "inbus-unreachable", ev.SessionClosed: "inbus-unreachable"}
        publisher.close()


@pytest.mark.parametrize("missing", ["the option", "epoll", "the queue"])
@pytest_twisted.ensureDeferred
async def test_without_such_errors_all_else_works(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    def refuse(*_: object) -> None:
        raise OSError(92, "Protocol not available")

    if missing == "the option":
        monkeypatch.setattr(icmp, "_ask_for_errors", refuse)
    elif missing == "epoll":
        monkeypatch.setattr(icmp.select, "epoll", refuse)
    else:
        monkeypatch.setattr(icmp.sys, "platform", "plan9")
    async with listening("127.0.0.1") as port:
        monkeypatch.undo()
        ghost, device = Device(("127.0.0.1", port.number)), Device(("127.0.0.1", port.number))
        ghost.subscribe()
        device.subscribe()
        await until(lambda: len(port.ledger()) == 2)
        ghost.close()
        got: list[bytes] = []
        for _ in range(2):
            device.publish(b"x")
        await until(lambda: got.extend(device.received()) or len(got) == 2)
        assert [entry.unreachables for entry in port.ledger()] == [0, 0]
        device.close()


@pytest.mark.parametrize(
    ("interface", "host"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("", "127.0.0.1"),
        ("", "127.0.0.2"),
        ("::1", "::1"),
        ("::", "::1"),
        ("::", "127.0.0.1"),
    ],
)
@pytest_twisted.ensureDeferred
async def test_the_server_is_not_subscribed_to_itself(interface: str, host: str) -> None:
    """By whichever of its addresses; what it sends to another port of the same machine is no harm."""
    async with listening(interface) as port:
        device = Device((host, port.number))
        device.socket.sendto(wire.subscribe("a", host, port.number), device.server)
        device.subscribe()
        await until(port.ledger)
        assert port.bus.counters == {"own-address": 1}
        assert port.ports() == [device.address[1]]
        device.close()


@pytest.mark.parametrize("host", LOOPBACKS)
@pytest_twisted.ensureDeferred
async def test_many_datagrams_are_read_a_slice_at_a_time(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first datagram of a turn begins the slice, and the next one that is late ends it."""
    monkeypatch.setattr(inbus_intake, "SLICE", 0.0)
    reads: list[int] = []
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as device:
        device.bind((host, 0))
        async with listening(host) as port:
            transport, publishers = port.server.transport, port.server._publishers._by_host
            read = transport.doRead

            def received() -> int:
                return publishers[host].link.traffic.objects_in if host in publishers else 0

            def counted() -> None:
                before = received()
                read()
                reads.append(received() - before)

            transport.doRead = counted
            for number in range(200):
                app_key = f"k{number % 20}"
                device.sendto(wire.publish(app_key, 1, b"x", 2), (host, port.number))
            await until(lambda: received() == 200)
    assert 1 <= max(reads) <= 2
