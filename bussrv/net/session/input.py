"""The input of one client: what it sent, how far that is served, and what is done with it next.

:mod:`bussrv.net.session.input_states` has its states, and what leads from one to another.
"""

from __future__ import annotations

from typing import Any, Protocol

from twisted.python.failure import Failure

from bussrv.bus.flush_schedule import NEVER
from bussrv.bus.interfaces import IBus
from bussrv.errors import RemoteProtocolError
from bussrv.memory.limits import HeldMemory
from bussrv.net.session.input_states import BUSY, SERVES, TRANSITIONS, WAITS, InputEvent, State
from bussrv.values import Traffic

FREE_INPUT = 64 << 10
"""How many unfinished bytes of a client do not count towards ``--max-inbound-total``: small objects always pass. A
client that may do nothing before it proves who it is never has more."""

LARGE_INPUT = 32 << 10
"""Bytes that were read between two sends. So many come from a client that sends faster than the server reads."""

_HAS_ENDED = frozenset({State.NO_SESSION, State.ENDED, State.ENDED_BUSY})
_IS_BUSY = frozenset({*BUSY, State.CUT_BUSY, State.ENDED_BUSY})
_IS_UNSERVED = frozenset({*WAITS, *SERVES, *BUSY, State.SERVING_ALONE})
_SERVES = frozenset(SERVES)
_WAITS = frozenset(WAITS)
_PAUSED = frozenset({State.WAITING_PAUSED, State.SERVING_PAUSED, State.BUSY_PAUSED})

# Some versions of Python look members of an enum up by a call.
_WAITING, _BUSY, _BUSY_ALONE, _DIRECTLY = State.WAITING, State.BUSY, State.BUSY_ALONE, State.READING_DIRECTLY
_AT_CHUNK = TRANSITIONS[InputEvent.CHUNK]
_AT_SLICE = TRANSITIONS[InputEvent.SLICE]
_AT_SERVED = TRANSITIONS[InputEvent.SERVED]
_AT_ANSWERED = TRANSITIONS[InputEvent.ANSWERED]
_AT_WORK = TRANSITIONS[InputEvent.WORK]
_AT_DONE = TRANSITIONS[InputEvent.DONE]


class Reader(Protocol):
    """A pure reader of one wire format, as the modules of :mod:`bussrv.wire` have them.

    Most derive from :class:`bussrv.wire.reader.StreamReader`, which has all of this except ``read_event``.
    """

    def feed(self, data: bytes) -> None:
        """Add a chunk."""

    def next_event(self) -> Any:
        """The next event, or ``None``; raises :class:`RemoteProtocolError`."""

    def __len__(self) -> int:
        """How many bytes of memory are held for what is not read yet: they count towards ``--max-inbound-total``."""

    def clear(self) -> None:
        """Forget what waits; nothing more comes."""


def check_reader(reader: Reader) -> Reader:
    """Check that a reader has all that the limits to memory depend on.

    :raises TypeError: a fault of the wire format; names what is missing.
    """
    needed = ("feed", "next_event", "__len__", "clear")
    missing = [each for each in needed if not callable(getattr(reader, each, None))]
    if missing:
        raise TypeError(
            f"the reader {type(reader).__qualname__} has no {', '.join(missing)}: without that its memory is not "
            "limited; derive it from bussrv.wire.reader.StreamReader"
        )
    return reader


class InputPort(Protocol):
    """The port of a connection, as far as its input needs it."""

    in_turns: bool


class InputConnection(Protocol):
    """The connection of a client, as far as its input needs it."""

    transport: Any
    traffic: Traffic

    def next_event(self) -> Any:
        """The next event; ``None``: more bytes are needed; ``READING_DIRECTLY``: and may be routed as they come."""

    def received(self, event: Any) -> None:
        """Serve an event."""

    def has_input(self) -> bool:
        """Whether something may be left in the reader."""

    def input_is_large(self) -> None:
        """More waits than small objects need."""

    def input_has_ended(self) -> None:
        """Everything is served, and the client sends no more."""

    def refuse_input(self, error: RemoteProtocolError) -> None:
        """The input is malformed."""

    def serving_failed(self, failure: Failure) -> None:
        """Serving the client failed."""

    def work_is_over(self) -> None:
        """The session has ended, and so has its work."""


class Input:
    """The input of one client.

    :ivar reader: makes events of it.
    :ivar session_id: the session of the client.
    :ivar state: what is done with it.
    :ivar read_at: when the first chunk came that is not served, in seconds of the reactor; ``NEVER``: there is none.
    :ivar unflushed: bytes that were read since frames were last sent.
    """

    __slots__ = (
        *("_address", "_bus", "_connection", "_holding", "_port", "_reactor", "_slice_end"),
        *("read_at", "reader", "session_id", "state", "unflushed"),
    )

    _holding: HeldMemory
    _connection: InputConnection

    def __init__(self, connection: InputConnection, reader: Reader, bus: IBus, reactor: Any) -> None:
        self.reader = check_reader(reader)
        self.state = State.NO_SESSION
        self.read_at = NEVER
        self.unflushed = 0
        self._connection = connection
        self._bus = bus
        self._reactor = reactor
        self._slice_end = 0.0

    def open(self, session_id: str, port: InputPort, address: str, holding: HeldMemory) -> None:
        """The session is open.

        :param address: the client's; see :class:`bussrv.turns.slices.Slices`.
        :param holding: counts the memory of what waits in the reader.
        """
        self.session_id = session_id
        self._port = port
        self._address = address
        self._holding = holding
        self._on(InputEvent.ADMITTED)

    def _on(self, event: InputEvent) -> State:
        self.state = state = TRANSITIONS[event][self.state]
        return state

    @property
    def has_ended(self) -> bool:
        """Whether there is no session, or it has ended."""
        return self.state in _HAS_ENDED

    @property
    def is_busy(self) -> bool:
        """Whether work is under way."""
        return self.state in _IS_BUSY

    @property
    def is_unserved(self) -> bool:
        """Whether input waits to be served, so that the server and not the client is late."""
        return self.state in _IS_UNSERVED

    @property
    def is_serving(self) -> bool:
        """Whether events are served now, in a slice: what they cause is sent at its end."""
        return self.state in _SERVES

    def take(self, data: bytes) -> None:
        """Read a chunk. Its events are served in the next slice of the session."""
        if self.state in _HAS_ENDED:
            return
        self._connection.traffic.bytes_in += len(data)
        try:
            self.reader.feed(data)
        except Exception:
            self._connection.serving_failed(Failure())
            return
        self.go_on(len(data), self._reactor.seconds() if self.read_at is NEVER else self.read_at)

    def go_on(self, size: int, read_at: float) -> None:
        """A chunk of ``size`` bytes, or the rest of one, is in the reader: serve it soon."""
        self.unflushed += size
        self.read_at = read_at
        self.state = state = _AT_CHUNK[self.state]
        if state is _WAITING:
            self._wait_for_slice()
        elif state in _PAUSED:
            # Not before a second chunk comes: most clients wait for their answer, and cost no system calls then.
            self._connection.transport.pauseProducing()
            self.count()

    def _wait_for_slice(self) -> None:
        self._bus.slices.do(self._serve_slice, self._address)

    def _serve_slice(self, until: float) -> bool:
        """Serve the client until about ``until``, in seconds of the reactor; see :data:`bussrv.turns.slices.Work`."""
        if self.state not in _WAITS:
            return False
        self.state = _AT_SLICE[self.state]
        self._slice_end = until
        is_left, rest = self._serve_events()
        self.flush(self.read_at)
        state = self.state
        if state not in _SERVES:
            return False
        if is_left or self.unflushed:
            # Bytes may have come while frames were sent.
            self._on(InputEvent.SLICE_OVER)
            return True
        self.read_at = NEVER
        self._on(InputEvent.SERVED if rest is None else InputEvent.CLEAR)
        if state is State.SERVING_PAUSED:
            self._connection.transport.resumeProducing()
        elif state is State.SERVING_LAST:
            self._connection.input_has_ended()
        return False

    def _serve_events(self) -> tuple[bool, Any]:
        """Serve events until the slice is over. :returns: whether events may be left, and what stands for no event."""
        connection = self._connection
        try:
            while self.state in _SERVES:
                event = connection.next_event()
                if event is None or event is _DIRECTLY:
                    return self.slice_is_over(), event
                connection.traffic.objects_in += 1
                connection.received(event)
                if self.slice_is_over():
                    return True, None
        except RemoteProtocolError as error:
            connection.refuse_input(error)
        except Exception:
            connection.serving_failed(Failure())
        return False, None

    def slice_is_over(self) -> bool:
        """Whether other sessions are to be served now."""
        is_over: bool = self._reactor.seconds() >= self._slice_end
        return is_over

    def serves_no_more(self) -> bool:
        """Whether no event is to be served now, because the slice is over, or the session is."""
        return self.state not in _SERVES or self.slice_is_over()

    def flush(self, since: float) -> None:
        """Send the frames that input caused, now or with those of other connections.

        :param since: when the input came, in seconds of the reactor.
        """
        size, self.unflushed = self.unflushed, 0
        if self._port.in_turns:
            self._bus.flush_soon(self.session_id, size, since)
        else:
            self._bus.flush(since)
        self.was_routed(size)
        if self._bus.is_behind:
            self.wait_until_sent()

    def wait_until_sent(self) -> None:
        """Let later input of the client wait, if the earlier one is for so many that it is still being sent."""
        sent = None if self.state in _IS_BUSY or self.state in _HAS_ENDED else self._bus.back_pressure()
        if sent is not None:
            self.begin_work()
            sent.addCallback(self.work_is_done)

    def was_routed(self, size: int) -> None:
        """So many bytes were read, and frames were sent: count what is left."""
        if self.state not in _HAS_ENDED:
            self.count()
        if size >= LARGE_INPUT:
            self._wait_for_outflow()

    def _wait_for_outflow(self) -> None:
        """Or a fast sender of large objects would fill the backlogs of clients that read fast enough."""
        outflow = self._bus.streams.outflow
        if outflow.is_busy and self.state not in _IS_BUSY and self.state not in _HAS_ENDED:
            self.begin_work()
            outflow.round().addCallback(self.work_is_done)

    def begin_work(self) -> None:
        """The client asked for something that is under way: its later input waits."""
        self.state = _AT_WORK[self.state]

    def work_is_done(self, _: object = None) -> None:
        """The work is done, and its frames are collected: serve the input that waits."""
        before = self.state
        if before is _BUSY and not self._connection.has_input():
            self.state = _AT_SERVED[before]
            self.read_at = NEVER
            self.flush(self._reactor.seconds())
            return
        self.state = state = _AT_DONE[before]
        if state is before:
            return
        if state in _WAITS:
            self.read_at = self._reactor.seconds()  # the client waited for the journal until now
            self._wait_for_slice()
        else:
            self.flush(self._reactor.seconds())
            if state is State.ENDED:
                self._connection.work_is_over()

    def is_answered(self) -> None:
        """A command is answered, and no frames are collected: the next one may be served alone if nothing waits."""
        state = self.state
        if state is _BUSY_ALONE or (state is _BUSY and not self._connection.has_input()):
            self.state = _AT_ANSWERED[state]
            self.read_at = NEVER
        else:
            self.work_is_done()

    def cut(self) -> None:
        """The session is over a limit, or the connection is lost: nothing more is served."""
        self._on(InputEvent.CUT)

    def last_came(self) -> None:
        """The client sends no more, but may still read: serve what is there."""
        before, state = self.state, self._on(InputEvent.LAST)
        if state is State.WAITING_LAST and before not in _WAITS:
            self._wait_for_slice()

    def end(self) -> None:
        """The session ends: nothing more is read."""
        self._on(InputEvent.END)
        try:
            self.reader.clear()
        except Exception:
            self._connection.serving_failed(Failure())
        self._holding.resize(0)

    def count(self) -> None:
        """Count the memory of what waits in the reader."""
        try:
            waiting = len(self.reader)
        except Exception:
            self._connection.serving_failed(Failure())
            return
        if waiting > FREE_INPUT:
            self._holding.resize(waiting)
            self._connection.input_is_large()
        else:
            self._holding.resize(0)

    def let_go(self) -> None:
        """Let go of the connection, which is gone."""
        del self._connection
        if self.state is not State.NO_SESSION:
            del self._holding
