"""Many connections that are lost at once: some end in each turn, and others are served in between."""

from __future__ import annotations

import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.protocol import Protocol
from twisted.python.failure import Failure

from bussrv.net.transport.losing import MOST_LOST, Losses
from bussrv.net.transport.shared_poll import SharedPoll
from bussrv.net.transport.tcp import PromptServer

epollreactor = pytest.importorskip("twisted.internet.epollreactor", reason="only Linux has epoll")

MANY = 3 * MOST_LOST


class Turns:
    """A reactor that only has turns. In each, it does what was put off in the one before."""

    def __init__(self) -> None:
        self.later: list[Callable[[], None]] = []

    def callLater(self, _: float, call: Callable[[], None]) -> None:
        self.later.append(call)

    def turn(self) -> None:
        due, self.later = self.later, []
        for call in due:
            call()


def test_lost_connections_end_in_order_and_a_few_in_each_turn() -> None:
    turns = Turns()
    losses = Losses(turns)
    ended: list[int] = []
    for number in range(MANY):
        losses.lose(lambda number=number: ended.append(number))  # type: ignore[misc]
    counts = [len(ended)]
    while turns.later:
        turns.turn()
        counts.append(len(ended))
    assert ended == [*range(MANY)]
    assert max(after - before for before, after in zip([0, *counts], counts, strict=False)) == MOST_LOST


class Noting(Protocol):
    """Notes what comes; whatever it is sent is not read by the other end."""

    def __init__(self, lost: list[Noting]) -> None:
        self.got = b""
        self.lost = lost
        self.has_stopped = False

    def dataReceived(self, data: bytes) -> None:
        self.got += data

    def connectionLost(self, reason: Failure = Failure(Exception())) -> None:  # noqa: B008
        self.lost.append(self)

    def pauseProducing(self) -> None:
        """There is no room."""

    def resumeProducing(self) -> None:
        """There is room again."""

    def stopProducing(self) -> None:
        self.has_stopped = True


@pytest.mark.parametrize("waits", [False, True], ids=["idle", "slow"])
def test_a_client_is_read_while_many_others_are_lost(waits: bool) -> None:
    reactor = epollreactor.EPollReactor()
    losses, lost = Losses(reactor), list[Noting]()
    port = SimpleNamespace(
        shared_poll=SharedPoll(reactor, lambda: None, lambda: None, losses), losses=losses, _realPortNumber=0
    )
    ends: list[socket.socket] = []
    protocols: list[Noting] = []

    def connect(number: int) -> Any:
        ours, theirs = socket.socketpair()
        for each in (ours, theirs):
            each.setblocking(False)
        protocol = Noting(lost)
        transport = PromptServer(ours, protocol, ("there", 1), port, number, reactor)
        protocol.makeConnection(transport)
        transport.registerProducer(protocol, True)
        ends.append(theirs)
        protocols.append(protocol)
        return transport

    for number in range(MANY):
        transport = connect(number)
        if waits:
            transport.send_now(bytes(1 << 20))
    connect(MANY)
    for end in ends[:-1]:
        end.close()
    client = protocols[-1]
    counts = []
    while len(lost) < MANY:
        ends[-1].send(b"x")
        reactor.runUntilCurrent()
        reactor.doIteration(0)
        counts.append(len(lost))
        assert len(client.got) == len(counts)
        for each in protocols[:-1]:
            # What is sent to them meanwhile changes nothing.
            each.transport.send_now(b"y")
            each.transport.resumeProducing()
    assert max(after - before for before, after in zip([0, *counts], counts, strict=False)) <= 2 * MOST_LOST
    assert len(set(lost)) == MANY
    assert client not in lost
    assert all(each.has_stopped for each in lost)
    for each in reactor.removeAll():
        each.connectionLost(Failure(Exception()))
    ends[-1].close()
    reactor._poller.close()
