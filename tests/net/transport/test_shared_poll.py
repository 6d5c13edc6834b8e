"""Connections that are polled together, held against those that the reactor polls one by one."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import Protocol
from twisted.python.failure import Failure
from zope.interface import implementer

from bussrv.net.transport.losing import Losses
from bussrv.net.transport.shared_poll import SharedPoll, can_share
from bussrv.net.transport.tcp import PromptServer

epollreactor = pytest.importorskip("twisted.internet.epollreactor", reason="only Linux has epoll")

CONNECTIONS = 3
ABORT, LOSE, PAUSE, FAIL = b"alpf"


class Noting(Protocol):
    """Notes what happens, and does to others what the other end says: a letter and a number."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.seen: list[Any] = []

    def dataReceived(self, data: bytes) -> None:
        if not self.seen or not isinstance(self.seen[-1], bytes):
            self.seen.append(b"")
        self.seen[-1] += data
        if len(data) == 2:
            self.obey(data[0], self.scene.ours[data[1] % CONNECTIONS])

    def obey(self, letter: int, other: Any) -> None:
        if letter == ABORT:
            other.abortConnection()
        elif letter == LOSE:
            other.loseConnection()
        elif letter == PAUSE:
            other.pauseProducing()
        elif letter == FAIL:
            raise ZeroDivisionError

    def connectionLost(self, reason: Failure = Failure(Exception())) -> None:  # noqa: B008
        self.seen.append(reason.type)


@implementer(IHalfCloseableProtocol)
class NotingHalves(Noting):
    def readConnectionLost(self) -> None:
        self.seen.append("sends no more")

    def writeConnectionLost(self) -> None:
        self.seen.append("reads no more")


@pytest.fixture(scope="module")
def reactor() -> Iterator[Any]:
    made = epollreactor.EPollReactor()
    yield made
    for each in made.removeAll():
        each.connectionLost(Failure(Exception()))
    made._poller.close()


class Scene:
    """Some connections of real sockets, in a reactor that the test runs."""

    def __init__(self, reactor: Any, is_shared: bool, can_half_close: bool) -> None:
        self.reactor = reactor
        self.turns = self.ended = 0
        self.poll = SharedPoll(reactor, self._begin_turn, self._end_turn, Losses(reactor)) if is_shared else None
        port = SimpleNamespace(shared_poll=self.poll, _realPortNumber=0)
        self.ours: list[Any] = []
        self.theirs: list[socket.socket] = []
        self.protocols: list[Noting] = []
        for number in range(CONNECTIONS):
            ours, theirs = socket.socketpair()  # What one end does is there at the other one immediately.
            for each in (ours, theirs):
                each.setblocking(False)
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            protocol = NotingHalves(self) if can_half_close else Noting(self)
            transport = PromptServer(ours, protocol, ("there", 1), port, number, reactor)
            protocol.makeConnection(transport)
            self.ours.append(transport)
            self.theirs.append(theirs)
            self.protocols.append(protocol)

    def _begin_turn(self) -> None:
        assert self.turns == self.ended
        self.turns += 1

    def _end_turn(self) -> None:
        self.ended += 1
        raise ZeroDivisionError  # That ends no connection.

    def settle(self) -> None:
        for _ in range(4):
            self.reactor.runUntilCurrent()
            self.reactor.doIteration(0)

    def do(self, step: str, number: int, size: int) -> None:
        ours, theirs = self.ours[number], self.theirs[number]
        with contextlib.suppress(OSError):
            if step == "send":
                theirs.send(b"x" * size)
            elif step in "alpf":
                theirs.send(bytes([ord(step), size % 256]))
            elif step == "half":
                theirs.shutdown(socket.SHUT_WR)
            elif step == "take":
                theirs.recv(size)
            elif step == "close":
                theirs.close()  # A reset, if bytes wait there that were not taken.
            elif step == "write":
                ours.write(b"y" * size)
            elif ours.connected:
                getattr(ours, step)()

    def finish(self) -> list[list[Any]]:
        """What each connection has seen. All of them end."""
        seen = [list(each.seen) for each in self.protocols]
        for each in self.ours:
            if each.connected:
                each.abortConnection()
        self.settle()
        for theirs in self.theirs:
            theirs.close()
        return seen


STEPS = ("send", "send", "half", "take", "close", "write", "write", *"alpf")
OURS = (
    "pauseProducing",
    "resumeProducing",
    "resumeProducing",
    "loseConnection",
    "abortConnection",
    "loseWriteConnection",
)
steps = st.tuples(
    st.sampled_from((*STEPS, *OURS)), st.integers(0, CONNECTIONS - 1), st.sampled_from([1, 2, 5000, 300_000])
)


def lived(reactor: Any, history: list[tuple[str, int, int]], is_shared: bool, can_half_close: bool) -> list[list[Any]]:
    scene = Scene(reactor, is_shared, can_half_close)
    for step in history:
        scene.do(*step)
        scene.settle()
    seen = scene.finish()
    for each in scene.protocols:
        assert isinstance(each.seen[-1], type), "each connection is lost in the end"
        assert sum(isinstance(event, type) for event in each.seen) == 1, "and only once"
    assert scene.poll is None or scene.poll.is_empty
    return seen


@given(st.lists(steps, max_size=14), st.booleans())
@example([("write", 0, 300_000), ("send", 0, 5000), ("half", 0, 1), ("take", 0, 300_000), ("take", 0, 300_000)], True)
@example([("write", 0, 300_000), ("half", 0, 1), ("close", 0, 1)], True)
@example([("pauseProducing", 1, 1), ("send", 1, 5000), ("close", 1, 1), ("resumeProducing", 1, 1)], False)
@example([("write", 2, 300_000), ("pauseProducing", 2, 1), ("close", 2, 1)], False)
def test_what_is_polled_together_sees_the_same(
    reactor: Any, history: list[tuple[str, int, int]], can_half_close: bool
) -> None:
    expected = lived(reactor, history, False, can_half_close)
    assert lived(reactor, history, True, can_half_close) == expected


@pytest.mark.parametrize("step", "alp")
def test_one_ends_another_whose_bytes_have_come_in_the_same_turn(reactor: Any, step: str) -> None:
    scene = Scene(reactor, True, True)
    scene.do(step, 0, 1)
    scene.do("send", 1, 5)
    scene.do("send", 2, 5)
    scene.settle()
    first, second, third = scene.finish()
    assert (first, third) == ([step.encode() + b"\1"], [b"xxxxx"])
    assert b"xxxxx" not in second


def test_a_turn_reads_a_flooding_connection_once(reactor: Any) -> None:
    scene = Scene(reactor, True, True)
    turns, before_all = 0, scene.turns
    while len(b"".join(scene.protocols[1].seen)) < 50:
        for number in (0, 1):
            scene.do("send", number, 1 << 20 if not number else 5)
        before = scene.protocols[1].seen[:]
        reactor.doIteration(0)
        turns += 1
        assert scene.protocols[1].seen != before, "the other one is read in each turn"
    assert turns == 10
    assert scene.turns - before_all == turns, "a turn begins once, however many connections are read in it"
    scene.finish()


def test_the_end_of_the_reactor_ends_connections(reactor: Any) -> None:
    scene = Scene(reactor, True, False)
    assert scene.poll is not None
    reactor.removeReader(scene.poll)
    scene.poll.connectionLost(Failure(ZeroDivisionError()))
    assert [each.seen for each in scene.protocols] == [[ZeroDivisionError]] * CONNECTIONS
    assert scene.poll.is_empty
    scene.finish()


def test_other_reactors_poll_one_by_one(reactor: Any) -> None:
    assert can_share(reactor)
    assert not can_share(object())
