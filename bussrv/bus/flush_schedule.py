"""When collected frames are sent: after each chunk of input, or once for all connections that are read together."""

from __future__ import annotations

from math import inf
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from bussrv.counts.histogram import Histogram
from bussrv.turns.reactor_turn import EndOfReactorTurn

MOST_PUT_OFF = 128 << 10
"""The most bytes of input before collected frames are sent: they take memory, and receivers wait for them."""

NEVER = inf
"""The time of input that is not known."""


class Collected(Protocol):
    """The collected frames; see :class:`bussrv.bus.groups.fanout.Fanout`."""

    put_off: int
    is_behind: bool

    def flush(self) -> bool:
        """Send all of them."""

    def caught_up(self) -> Deferred[None]:
        """Fires when all of them are sent."""


class FlushSchedule:
    """Sends at once for a connection that sends alone, and later if several send.

    In the second case a reactor turn is likely to read several connections, and each receiver gets all their frames in
    one piece: when all connections of a port have been read, if they are polled together, and otherwise at the end of
    the reactor turn.

    :param fanout: has the collected frames.
    :param reactor: calls at the end of the reactor turn.
    :ivar delivery: the times from the arrival of input until its frames were sent, or queued for clients that read
        slowly. It has one of each time that frames are sent: that of the input that came first.
    """

    def __init__(self, fanout: Collected, reactor: Any) -> None:
        self.delivery = Histogram()
        self._fanout = fanout
        self._reactor = reactor
        self._end = EndOfReactorTurn(self._send_for_all, reactor)
        self._put_off = 0
        self._latest = ""
        self._size = 0
        self._since = NEVER
        self._is_polled = self._is_put_off = False

    def poll_begins(self) -> None:
        """Connections that are polled together are about to be read. :meth:`poll_ends` is called after that."""
        self._is_polled = True

    def poll_ends(self) -> None:
        """All of them have been read: send what was put off. That is sooner than the end of the reactor turn, and costs
        less.
        """
        self._is_polled = False
        if self._is_put_off:
            self._send_for_all()

    def flush_soon(self, session_id: str, size: int, since: float = NEVER) -> float:
        """A chunk of ``size`` bytes of a session was routed; its frames are collected.

        :param since: when it arrived, in seconds of the reactor.
        :returns: the time after frames were sent, if it was looked at: each look costs a call. Otherwise ``NEVER``.
        """
        if since < self._since:
            self._since = since
        is_awaited = self._is_put_off or self._end.is_awaited
        is_alone = session_id == self._latest and not is_awaited
        self._latest = session_id
        self._size += size
        if is_alone or self._size > MOST_PUT_OFF:
            return self._send()
        if self._is_polled:
            self._is_put_off = True
        elif not is_awaited:
            self._end.wait()
        return NEVER

    def wait(self) -> None:
        """Frames were collected: they are sent at the end of the reactor turn."""
        self._end.wait()

    def send(self, since: float = NEVER) -> None:
        """Send collected frames now.

        :param since: see :meth:`flush_soon`.
        """
        self._since = min(since, self._since)
        self._send()

    def back_pressure(self) -> Deferred[None] | None:
        """To be asked after input of a session was served, while the fan-out is behind.

        :returns: fires when the session may be served again; ``None``: now, because what it sent is sent to all.
        """
        before, self._put_off = self._put_off, self._fanout.put_off
        return self._fanout.caught_up() if self._fanout.is_behind and before != self._put_off else None

    def _send_for_all(self) -> None:
        """Send, and let nobody wait who asks next."""
        self._send()
        self._put_off = self._fanout.put_off

    def _send(self) -> float:
        self._size = 0
        self._is_put_off = False
        fanout, since = self._fanout, self._since
        was_behind = fanout.is_behind
        is_sent = fanout.flush()
        if fanout.is_behind:
            if not was_behind:
                self._put_off = -1
                fanout.caught_up().addCallback(lambda _: self._sent(since))
            return NEVER
        if is_sent:
            return self._sent(since)
        self._since = NEVER
        return NEVER

    def _sent(self, since: float) -> float:
        self._since = NEVER
        if since is NEVER:
            return NEVER
        now: float = self._reactor.seconds()
        self.delivery.observe(now - since)
        return now
