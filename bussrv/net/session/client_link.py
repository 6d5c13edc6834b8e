"""The link to one client over a stream: it sends at once, or keeps what waits, and cuts a client that is too slow.

:meth:`StreamLink._check_size` judges one client, :mod:`bussrv.memory.limits` all of them together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from twisted.internet.interfaces import IPushProducer
from twisted.python.failure import Failure
from zope.interface import implementer

from bussrv.bus.groups.fanout import NO_FRAMES
from bussrv.bus.interfaces import IEncoding, IFilteringLink, ISessionLink
from bussrv.memory.bundle import Bundle
from bussrv.memory.send_turns import PIECE, SendTurns
from bussrv.net.session.backlog import Backlog
from bussrv.net.transport.round_trip import round_trip
from bussrv.net.transport.tcp import FAILED, PromptServer
from bussrv.values import Traffic

MOST_BEHIND = 64 << 10
"""Long answers are continued while at most so many bytes wait for the client."""

MOST_KEPT = 32 << 10
"""The most bytes that a transport which keeps copies is given at a time: it says too late that it is full."""


Pieces = Sequence[bytes | memoryview]


class LinkConnection(Protocol):
    """The connection, as far as its link needs it.

    :ivar traffic: counts what is sent.
    """

    transport: Any
    traffic: Traffic

    def overflow(self, limit: int) -> None:
        """More than ``limit`` bytes wait: end the session, after the current frames were sent to the others."""

    def evict(self, reason: str) -> Any:
        """End the session for ``reason``, and the connection when the client has taken what is queued."""

    def encoding_for(self, options: dict[str, Any]) -> IEncoding:
        """How the publications of a subscription with these options are encoded."""

    def personal(self, frame: bytes) -> bytes:
        """A frame as this client gets it."""

    def fail_soon(self, failure: Failure) -> None:
        """The wire format failed: end the session, after the current frames were sent to the others."""


@implementer(ISessionLink, IPushProducer)
class StreamLink:
    """The link over a stream: chunks that many sessions share, queued here while the transport is full.

    :param protocol: ended with ``slow-consumer`` when more than ``max_outbound`` bytes wait after the chunk that is
        being sent.
    :param outflow: says when long chunks are sent.
    :ivar protocol: the same, until the connection is gone.
    :ivar traffic: the counts of objects and bytes of the session.
    :ivar is_closing: whether nothing more is sent.
    :ivar waits_for_close: whether the connection stays when everything is sent, until the client closes its side.
    :ivar wants_turn: whether ``outflow`` is to let it send.
    """

    waits_for_close = False

    def __init__(
        self, protocol: LinkConnection, encoding: IEncoding, max_outbound: int, backlog: Backlog, outflow: SendTurns
    ) -> None:
        self.protocol = protocol
        self.traffic = protocol.traffic
        self._transport = protocol.transport
        hash(encoding)  # Sessions are put together by their encodings: one that cannot be compared fails here.
        self._encoding = encoding
        self._max_outbound = max_outbound
        self._backlog = backlog
        self._outflow = outflow
        self._full = False
        self._drained: Callable[[], None] | None = None
        self.wants_turn = False
        self._is_clear = True
        self.is_closing = False
        self._transport.registerProducer(self, True)
        self._send_now: Callable[[bytes], int] = getattr(self._transport, "send_now", self._write_now)
        self._prompt = self._transport if isinstance(self._transport, PromptServer) else None
        self._send_some: Callable[[Pieces], int] = getattr(self._transport, "send_some", self._write_some)

    @property
    def round_trip(self) -> float | None:
        """Seconds to the client and back on the network, as the system measures them; ``None``: it does not say."""
        return round_trip(getattr(self._transport, "getHandle", lambda: None)())

    def encoding_for(self, options: dict[str, Any] | None) -> IEncoding:
        """One encoding for all that the client gets, or another one for a subscription with options."""
        if options is None:
            return self._encoding
        try:
            encoding = self.protocol.encoding_for(options)
            hash(encoding)
        except Exception:
            # The registry is in the middle of a change.
            self.protocol.fail_soon(Failure())
            return NO_FRAMES
        return encoding

    def send(self, bundle: Bundle) -> None:
        """Send frames, after everything sent before."""
        if self.is_closing:
            return
        traffic = self.traffic
        traffic.objects_out += bundle.count
        traffic.bytes_out += bundle.size
        if self._outflow.is_held:
            self._outflow.keep(self, bundle)
        else:
            self.give(bundle)

    def give(self, bundle: Bundle) -> None:
        """Send frames that are counted; see :class:`bussrv.memory.send_turns.FrameGiver`."""
        if self.is_closing:
            return
        if not self._is_clear:
            self._backlog.put(bundle)
            self._check_size()
            return
        prompt = self._prompt
        if prompt is None or not bundle.at_once:
            sent = self._send_now(bundle.joined) if bundle.at_once else 0
        else:
            # By one call that is not Python's: this is done for every client, and a call less is felt.
            try:
                sent = prompt.try_send(bundle.joined)
            except FAILED:
                sent = 0
            if sent != bundle.size:
                sent = prompt.stalled(sent, bundle.size)
        if sent != bundle.size:
            self._queue(bundle, sent)

    def _queue(self, bundle: Bundle, sent: int) -> None:
        """Nothing waited until now: let the rest of a bundle wait."""
        self._is_clear = False
        self._backlog.begin(bundle, sent)
        self._go_on()
        self._check_size()

    def _check_size(self) -> None:
        if self._full and self._backlog.behind + self._unsent() > self._max_outbound:
            self.is_closing = True
            self.protocol.overflow(self._max_outbound)

    @property
    def has_sent_all(self) -> bool:
        """Whether no bytes wait here to be sent to the client."""
        return not self._backlog

    @property
    def waiting(self) -> int:
        """How many bytes wait for the client."""
        return self._backlog.size + self._unsent()

    def _unsent(self) -> int:
        """How many bytes wait in the transport, as far as it knows."""
        unsent: int = getattr(self._transport, "unsent", 0)
        return unsent

    @property
    def is_behind(self) -> bool:
        """Whether so much waits for the client that a long answer has to wait, too."""
        return self._backlog.size > MOST_BEHIND

    def when_drained(self, call: Callable[[], None]) -> None:
        """Call ``call``, instead of whatever was to be called, once nothing waits any more."""
        self._drained = call

    def _write_now(self, data: bytes) -> int:
        """Give ``data`` to a transport that keeps what it is given. :returns: how many bytes of it."""
        if len(data) > MOST_KEPT:
            return self._write_some((data,))
        self._transport.write(data)
        return len(data)

    def _write_some(self, pieces: Pieces) -> int:
        """Write several pieces, until the transport is full. :returns: how many bytes it took."""
        written = 0
        for piece in pieces:
            for begin in range(0, len(piece), MOST_KEPT):
                if self._full:
                    return written
                part = bytes(piece[begin : begin + MOST_KEPT])
                self._transport.write(part)
                written += len(part)
        return written

    def _go_on(self) -> None:
        if not (self._full or self.wants_turn or (self.is_closing and not self._backlog)):
            self.wants_turn = True
            self._outflow.serve(self)

    def send_piece(self) -> int:
        """Send some of what waits; see :class:`bussrv.memory.send_turns.BacklogSender`."""
        backlog, sent = self._backlog, 0
        if backlog and not self._full:
            sent = self._send_some(backlog.pieces(PIECE))
            backlog.sent(sent)
        if not backlog:
            self._is_clear = not self._full
            self._emptied()
        self.wants_turn = bool(backlog) and not self._full
        return sent

    def _emptied(self) -> None:
        """Nothing waits any more."""
        if self.is_closing:
            self.close_when_sent()
        elif self._drained is not None:
            call, self._drained = self._drained, None
            call()

    def close(self, reason: str) -> None:
        """End the session for ``reason``, and the connection when everything queued is sent."""
        self.protocol.evict(reason)

    def say_last(self, words: Bundle) -> None:
        """Forget what is queued, and have ``words`` sent after what was begun, as soon as :meth:`close_when_sent` is
        called. Nothing else is sent any more.
        """
        self.is_closing = True
        self._is_clear = False
        self.traffic.objects_out += words.count
        self.traffic.bytes_out += words.size
        self._backlog.keep_begun()
        self._backlog.put(words)

    def close_when_sent(self) -> None:
        """Send what is queued, then close the connection."""
        self._outflow.give_kept(self)
        self.is_closing = True
        if self._backlog:
            self._go_on()
        elif not self.waits_for_close:
            self._transport.unregisterProducer()
            self._transport.loseConnection()

    def abort(self) -> None:
        """Close the connection now; what is queued is lost."""
        self.discard()
        self._transport.abortConnection()

    def discard(self) -> None:
        """Forget what is queued, and send nothing more: the connection is going to be closed."""
        self.is_closing = True
        self._backlog.clear()

    def pauseProducing(self) -> None:
        """The transport is full."""
        self._full = True
        self._is_clear = False

    def resumeProducing(self) -> None:
        """The transport has room again."""
        self._full = False
        self._is_clear = not self._backlog
        if self._backlog:
            self._go_on()
        else:
            self._emptied()

    def stopProducing(self) -> None:
        """The connection is gone."""
        self.discard()
        self._drained = None
        self._prompt = None
        # Methods of its own would keep the link in memory.
        self._send_now = self._send_some = _send_nothing

    def let_go(self) -> None:
        """Let go of the connection, which is gone."""
        del self.protocol
        self._backlog.holding = None


class PersonalLink(StreamLink):
    """The link of a wire format whose frames differ from client to client; see :meth:`StreamProtocol.personal`."""

    def send(self, bundle: Bundle) -> None:
        """Send frames as this client gets them, after everything sent before."""
        try:
            frames = [self.protocol.personal(each) for each in bundle.frames]
            check_frames(frames)
        except Exception:
            self.is_closing = True
            self.protocol.fail_soon(Failure())
            return
        super().send(Bundle(frames))


_BYTES = frozenset({bytes})


def check_takes_patterns(link: ISessionLink, *, or_pattern: bool) -> None:
    """Check that a client can be given what a pattern covers.

    :raises TypeError: its link is no :class:`IFilteringLink`.
    """
    if or_pattern and not IFilteringLink.providedBy(link):
        raise TypeError(f"{type(link).__name__} is no IFilteringLink, so its client cannot subscribe to patterns")


def check_frames(frames: Sequence[object]) -> None:
    """Check frames of a wire format, before others are sent something together with them.

    :raises TypeError: one is no ``bytes``.
    """
    if not _BYTES.issuperset(map(type, frames)):
        raise TypeError("the frames that a client is sent are bytes")


def _send_nothing(_: object) -> int:
    return 0
