"""Asks the servers of ``--admin-peer`` every few seconds, and keeps their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from bussrv.admin.interfaces import AdministeredServer
from bussrv.admin.servers.asking import Answered, AskedServer, Question
from bussrv.admin.servers.facts import ServerSummary
from bussrv.journal.record import parse_time
from bussrv.turns.threads import Threads

EVERY = 5.0
"""Seconds between two questions to a server."""

PATIENCE = 10.0
"""Seconds after which a question is given up."""

MOST_THREADS = 8

log = Logger()


class Peer:
    """One server of ``--admin-peer``.

    :ivar answered: its last answer; ``None``: it was not asked yet.
    :ivar last_summary: the last summary that it gave. It may be of long ago; see ``at``.
    :ivar at: when that was, UTC microseconds.
    """

    def __init__(self, asked: AskedServer) -> None:
        self.asked = asked
        self.answered: Answered | None = None
        self.last_summary: ServerSummary | None = None
        self.at = 0
        self.is_being_asked = False

    @property
    def url(self) -> str:
        """Its admin interface."""
        return self.asked.url


class Peers:
    """The servers of ``--admin-peer``.

    :param off_thread: calls a function off the reactor's thread.
    """

    def __init__(self, server: AdministeredServer, off_thread: Callable[..., Deferred[Any]] | None = None) -> None:
        self._server = server
        self._peers: tuple[Peer, ...] = ()
        self._off_thread = off_thread or Threads(server.reactor, "bussrv-peers", MOST_THREADS)
        self._asking = LoopingCall(self._ask_all)
        self._asking.clock = server.reactor

    def __iter__(self) -> Iterator[Peer]:
        return iter(self._peers)

    def use(self, asked: Iterable[AskedServer]) -> None:
        """Ask these from now on. Answers of those that stay are kept."""
        known = {each.url: each for each in self._peers}
        peers = []
        for each in asked:
            peer = known.get(each.url) or Peer(each)
            peer.asked = each
            peers.append(peer)
        self._peers = tuple(peers)
        if self._asking.running:
            self._ask_all()

    def start(self) -> None:
        """Begin to ask."""
        if not self._asking.running:
            self._asking.start(EVERY).addErrback(_failed)

    def stop(self) -> None:
        """Ask no more."""
        if self._asking.running:
            self._asking.stop()

    def _ask_all(self) -> None:
        for peer in self._peers:
            if not peer.is_being_asked:
                self._ask(peer)

    def _ask(self, peer: Peer) -> None:
        peer.is_being_asked = True
        question = Question(peer.asked, self._server.bus.utc, parse_time)
        late = self._server.reactor.callLater(PATIENCE, question.abort)
        done = self._off_thread(question.ask)
        done.addCallbacks(partial(self._answered, peer), _failed)

        def end(_: object) -> None:
            peer.is_being_asked = False
            if late.active():
                late.cancel()

        done.addBoth(end)

    def _answered(self, peer: Peer, answered: Answered) -> None:
        peer.answered = answered
        if answered.summary is not None:
            peer.last_summary, peer.at = answered.summary, self._server.bus.utc()


def _failed(failure: Failure) -> None:
    log.failure("asking an admin peer failed", failure, event="admin.failed")


def others(peers: Iterable[Peer], boot: str) -> Sequence[Peer]:
    """The peers that are not this server itself: all servers may have the same list."""
    return [each for each in peers if each.last_summary is None or each.last_summary.boot != boot]
