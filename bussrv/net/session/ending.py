"""The end of a connection: its services end, then its session, then the connection itself.

A session ends because the wire format or the server says so (:meth:`Ending.end`), because the client reads too slowly
(:meth:`Ending.cut`), or because the connection is lost (:meth:`Ending.lost`). Its services are told to others, so they
end a slice at a time. The client has ``--close-timeout`` to take what is queued for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from bussrv.bus.interfaces import IBus
from bussrv.bus.sessions.ending import MOST_ENDED, end_services_then
from bussrv.memory.bundle import Bundle
from bussrv.net.session import failing
from bussrv.net.session.client_link import StreamLink
from bussrv.net.session.identification import Identification
from bussrv.net.session.input import Input
from bussrv.net.session.input_states import State
from bussrv.values import Traffic


class EndingConnection(failing.FailingConnection, Protocol):
    """A connection, as far as its end needs it."""

    input: Input
    link: StreamLink
    identification: Identification
    session_id: str
    traffic: Traffic

    @property
    def is_busy(self) -> bool:
        """Whether something that the client asked for is under way."""

    def farewell(self, reason: str) -> None:
        """The session is about to end."""

    def close_session(self, reason: str) -> None:
        """The session ends on the bus."""

    def end_timers(self) -> None:
        """Nothing is expected of the client any more."""

    def closed(self, reason: str) -> None:
        """The session has ended."""


class Ending:
    """The end of one connection, which is an argument: so connection and end need no collector to be freed.

    :ivar address: of the client, as slices of time are given by it.
    """

    def __init__(self, bus: IBus, reactor: Any) -> None:
        self.address = ""
        self._bus = bus
        self._reactor = reactor
        self._has_bid_farewell = False
        self._abort_call: Any = None
        self._closed: Deferred[None] = Deferred()  # fires when the session is closed
        self._gone: Deferred[None] = Deferred()  # and this one when the connection is gone, too

    def closed(self) -> Deferred[None]:
        """:returns: fires when the connection has no session any more."""
        return _after(self._closed)

    def gone(self) -> Deferred[None]:
        """:returns: fires when the connection is gone."""
        return _after(self._gone)

    def end_services(self, session_id: str, reason: str, then: Callable[[], object]) -> None:
        """End the services of a session, some in each slice, then call ``then``."""
        ending = end_services_then(self._bus.registry, session_id, reason, self._reactor.seconds, then)
        self._bus.slices.do(ending, self.address)

    def end(self, connection: EndingConnection, reason: str, most: float | None = None) -> None:
        """End the session, and the connection when the client has taken what is queued.

        :param most: seconds after which the connection is cut; no longer than ``--close-timeout``.
        """
        if not (connection.input.has_ended or self._has_bid_farewell):
            self._has_bid_farewell = True
            failing.ask(connection, connection.farewell, reason)
        if not connection.input.has_ended:
            self._close_session(connection, reason)
            self._close_when_sent(connection, self._bus.settings.close_timeout)
        if most is not None and self._abort_call is not None:
            self._abort_call.reset(min(most, max(0.0, self._abort_call.getTime() - self._reactor.seconds())))

    def cut(self, connection: EndingConnection, reason: str, words: Bundle | None, seconds: float) -> None:
        """The client has too much waiting for it: end the session, and the connection.

        :param words: what the client is sent instead, if it takes it within so many seconds; ``None``: nothing.
        """
        if words is not None:
            connection.link.say_last(words)
        self._close_session(connection, reason)
        if words is None:
            connection.link.abort()
        else:
            self._close_when_sent(connection, min(seconds, self._bus.settings.close_timeout))

    def _close_when_sent(self, connection: EndingConnection, seconds: float) -> None:
        self._abort_call = self._reactor.callLater(seconds, self._abort, connection.link)
        connection.link.close_when_sent()

    def _abort(self, link: StreamLink) -> None:
        self._abort_call = None
        link.abort()

    def _close_session(self, connection: EndingConnection, reason: str) -> None:
        session_id = connection.session_id
        connection.input.end()
        connection.identification.cancel()
        if len(self._bus.registry.state.provided_by(session_id)) <= MOST_ENDED:
            self._close_on_bus(connection, reason)
        else:
            self._bus.send(session_id, [])  # what was collected for the client, while it may be sent
            self.end_services(session_id, reason, partial(self._close_on_bus, connection, reason))
        connection.end_timers()
        failing.ask(connection, connection.closed, reason)

    def _close_on_bus(self, connection: EndingConnection, reason: str) -> None:
        try:
            connection.close_session(reason)
        except Exception:
            failing.note(connection, Failure())
            self._bus.close(connection.session_id, reason, connection.traffic)
        self._closed.callback(None)

    def lost(self, connection: EndingConnection, reason: str) -> None:
        """The connection is gone, and the services of its session have ended."""
        if not connection.input.has_ended:
            self._close_session(connection, reason)
        if self._abort_call is not None:
            self._abort_call.cancel()
            self._abort_call = None
        self._closed.addCallback(lambda _: self.over(connection))

    def over(self, connection: EndingConnection) -> None:
        """The connection and the session are gone."""
        self._gone.callback(None)
        if not connection.is_busy:
            self.let_go(connection)

    def let_go(self, connection: EndingConnection) -> None:
        """If it is gone, have all parts let go of the connection, so that its memory is free at once.

        Otherwise it is free when the garbage collector looks at old objects, which may take minutes: with many clients
        that come and go, that is memory for all who came meanwhile.
        """
        if not self._gone.called:
            return
        connection.input.let_go()
        connection.identification.let_go()
        if connection.input.state is not State.NO_SESSION:
            connection.link.let_go()


def _after(fired: Deferred[None]) -> Deferred[None]:
    found: Deferred[None] = Deferred()
    fired.addCallback(lambda _: found.callback(None))
    return found
