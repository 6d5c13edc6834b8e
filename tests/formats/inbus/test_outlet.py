"""Inbus, the way out on real sockets: what is sent in udp_batches is what is sent one by one."""

from __future__ import annotations

import errno
import select
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import IReactorFDSet, ISystemHandle
from twisted.internet.task import Clock
from zope.interface import implementer

from bussrv.formats.inbus.drops import Drops
from bussrv.formats.inbus.outlet import InbusLink, Outlet
from bussrv.memory.bundle import Bundle
from bussrv.net.transport.udp_batches import MOST_SEGMENTS
from bussrv.wire.inbus import MAX_DATAGRAM
from tests.formats.network import Network
from tests.tables import each_row

PATIENCE = 5.0
RATE = 150
TOO_LARGE = 65_528
"""For UDP over either version of IP."""

HOSTS = [
    {"host": "127.0.0.1", "to": "127.0.0.1"},
    {"host": "::1", "to": "::1"},
    {"host": "::", "to": "127.0.0.1"},
]
"""Of the server and of devices; in the last case IPv4 on a port that serves both."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has segments")


@implementer(IReactorFDSet)
class Reactor(Clock):
    """A clock that has nothing to read."""

    def addReader(self, reader: Any) -> None:
        self.reader = reader

    def removeReader(self, reader: Any) -> None:
        del self.reader


@implementer(ISystemHandle)
class Port:
    """A socket, as Twisted has it."""

    def __init__(self, host: str) -> None:
        self.socket = bound(host)
        self.socket.setblocking(False)

    def getHandle(self) -> Any:
        return self.socket

    def getHost(self) -> IPv4Address:
        return IPv4Address("UDP", *self.socket.getsockname()[:2])

    def stopReading(self) -> None:
        """It is not read."""


def bound(host: str) -> socket.socket:
    own = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    own.bind((host, 0))
    return own


class Unwilling:
    """A socket that takes no udp_batches, or no datagrams of some numbers."""

    def __init__(self, real: socket.socket, udp_batches: int = 0, refused: Sequence[int] = ()) -> None:
        self.udp_batches = udp_batches
        self._real = real
        self._refused = refused
        self._sent = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def sendmsg(self, *_: object) -> int:
        raise OSError(self.udp_batches, "no")

    def sendto(self, datagram: bytes, address: Any) -> int:
        self._sent += 1
        if self._sent in self._refused:
            raise BlockingIOError(errno.EAGAIN, "full")
        return self._real.sendto(datagram, address)


class Counting:
    """A socket; ``calls`` is what was called to send."""

    def __init__(self, real: socket.socket) -> None:
        self.calls: list[str] = []
        self._real = real

    def __getattr__(self, name: str) -> Any:
        if name.startswith("send"):
            self.calls.append(name)
        return getattr(self._real, name)


class Hall:
    """The way out, and some devices at the other end."""

    def __init__(self, devices: int, *, in_runs: bool, host: str = "127.0.0.1", to: str = "127.0.0.1") -> None:
        self.reactor = Reactor()
        self.bus = Network(reactor=self.reactor, inbus_max_rate=RATE).bus
        self.unreached: list[tuple[str, int]] = []
        self.port = Port(host)
        self.outlet = Outlet(self.bus, self.reactor, Drops(self.bus, self.reactor.seconds))
        self.outlet.open(self.port)
        self.outlet.watch(lambda address, nobody_listens: self.unreached.append(address))
        errors = self.outlet._errors
        assert errors is not None
        self.errors: Any = errors
        self.can_segment = errors.can_segment
        errors.can_segment = errors.can_segment and in_runs
        self.devices = [bound(to) for _ in range(devices)]
        self.links = [InbusLink(self.outlet, (to, device.getsockname()[1])) for device in self.devices]
        self.got: list[list[bytes]] = [[] for _ in range(devices)]

    def send(self, frames: Sequence[bytes]) -> None:
        bundle = Bundle(frames)
        for link in self.links:
            link.send(bundle)
        self.receive()

    def receive(self) -> None:
        """All that the system took for those who listen."""
        for device, link, got in zip(self.devices, self.links, self.got, strict=True):
            while device.fileno() >= 0 and len(got) < link.traffic.objects_out:
                assert select.select([device], [], [], PATIENCE)[0], "something is missing"
                got.append(device.recv(1 << 16))

    def is_silent(self) -> bool:
        return not select.select([device for device in self.devices if device.fileno() >= 0], [], [], 0)[0]

    def counted(self) -> list[Any]:
        """What is known of each subscriber and of all of them; but not how often it was said that nobody listens."""
        each = [(link.traffic, link.send_errors, link.over_rate) for link in self.links]
        return [each, +self.bus.counters]

    def close(self) -> None:
        self.outlet.unwatch()
        for each in (self.port.socket, *self.devices):
            each.close()


@contextmanager
def hall(devices: int = 1, *, in_runs: bool = True, **hosts: str) -> Iterator[Hall]:
    made = Hall(devices, in_runs=in_runs, **hosts)
    try:
        if in_runs and not made.can_segment:
            pytest.skip("this system knows of no segments")
        yield made
    finally:
        made.close()


def numbered(lengths: Sequence[int]) -> list[bytes]:
    return [(b"%d;" % number).ljust(length, b"x")[: max(length, 4)] for number, length in enumerate(lengths)]


lengths = st.one_of(
    st.lists(st.sampled_from([40, 40, 40, 44, 36]), max_size=40),
    st.integers(1, 4 * MOST_SEGMENTS).map(lambda times: [50] * times),
    st.lists(st.sampled_from([4, 1400, 9000, TOO_LARGE]), max_size=4),
    st.sampled_from([[MAX_DATAGRAM], [9000, MAX_DATAGRAM], [40_000, 40_000]]),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), lengths),
        st.tuples(st.just("send"), lengths),
        st.tuples(st.just("wait"), st.sampled_from([0.05, 1.0])),
        st.tuples(st.just("close"), st.integers(0, 2)),
    ),
    max_size=8,
)


@given(hosts=st.sampled_from(HOSTS), story=steps)
def test_in_runs_or_one_by_one_subscribers_are_sent_the_same(hosts: dict[str, str], story: list[Any]) -> None:
    """Some of them are over their rate, or gone; some datagrams are too large."""
    with hall(3, in_runs=True, **hosts) as one, hall(3, in_runs=False, **hosts) as other:
        for what, about in story:
            for each in (one, other):
                if what == "send":
                    each.send(numbered(about))
                elif what == "wait":
                    each.reactor.advance(about)
                else:
                    each.devices[about].close()
        assert one.got == other.got
        assert one.counted() == other.counted()
        assert one.is_silent()
        assert other.is_silent()


@each_row("hosts", HOSTS, ids=["IPv4", "IPv6", "mapped"])
def test_datagrams_that_are_alike_go_in_one_call(hosts: dict[str, str]) -> None:
    with hall(2, **hosts) as out:
        out.errors._socket = counting = Counting(out.port.socket)
        frames = numbered([40] * 20)
        out.send(frames)
        assert out.got == [frames, frames]
        assert counting.calls == ["sendmsg"] * 2


def test_one_datagram_goes_as_it_is_and_many_go_in_several_calls() -> None:
    with hall() as out:
        out.errors._socket = counting = Counting(out.port.socket)
        out.send(numbered([40]))
        out.send(numbered([40] * (2 * MOST_SEGMENTS + 1)))
        assert counting.calls == ["sendto", "sendmsg", "sendmsg", "sendto"]


@each_row("number", [errno.EINVAL, errno.EIO, errno.EMSGSIZE, errno.EAGAIN, errno.ECONNREFUSED])
def test_what_is_not_taken_in_one_piece_goes_one_by_one(number: int) -> None:
    with hall() as out:
        out.errors._socket = Unwilling(out.port.socket, number)
        frames = numbered([40, 40, 40, 30])
        out.send(frames)
        assert out.got == [frames]
        assert not +out.bus.counters


def test_what_a_full_socket_refuses_is_counted_and_the_rest_sent() -> None:
    with hall() as out:
        out.errors._socket = Unwilling(out.port.socket, errno.EAGAIN, refused=[2, 3])
        frames = numbered([40, 40, 40, 40])
        out.send(frames)
        assert out.got == [[frames[0], frames[3]]]
        assert (out.links[0].send_errors, out.links[0].traffic.bytes_out) == (2, 80)
        assert +out.bus.counters == {"inbus-send-failed": 2}


def test_a_run_that_meets_the_error_of_another_one_is_sent_again() -> None:
    with hall(2) as out:
        ghost = out.devices[0].getsockname()[1]
        out.devices[0].close()
        frames = numbered([40] * 10)
        for _ in range(5):
            out.send(frames)
        assert out.got[1] == frames * 5
        out.errors._take_errors()
        assert set(out.unreached) == {("127.0.0.1", ghost)}
        assert not +out.bus.counters


def test_more_than_the_rate_is_cut_off_at_the_end() -> None:
    with ExitStack() as stack:
        halls = [stack.enter_context(hall(in_runs=in_runs)) for in_runs in (True, False)]
        frames = numbered([40] * 100)
        for each in halls:
            each.send(frames)
            each.send(frames)
            assert each.got == [frames + frames[:50]]
            assert each.links[0].over_rate == 50
            assert each.bus.counters == {"inbus-rate": 50}
