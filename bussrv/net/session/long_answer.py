"""Long answers: made and sent a slice at a time, and no faster than the client takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from twisted.internet.defer import Deferred

from bussrv.net.session.client_link import StreamLink
from bussrv.turns.slices import Slices

SLICE_BYTES = 64 << 10
"""The most bytes of an answer that are sent in one slice, and one frame more."""


class LongAnswer:
    """Frames that are made while they are sent. A frame is never cut; between two of them others are served.

    :param frames: makes the frames; an empty one is not sent, but others may be served.
    :param send: sends some frames, after everything sent before.
    :param address: the address of the client; see :class:`bussrv.turns.slices.Slices`.
    :ivar sent: fires when all frames are sent, and fails as ``frames`` does. If the session ends first, it never fires.
    """

    def __init__(
        self,
        frames: Iterator[bytes],
        send: Callable[[list[bytes]], None],
        link: StreamLink,
        slices: Slices,
        address: str,
    ) -> None:
        self.sent: Deferred[None] = Deferred()
        self._frames = frames
        self._send = send
        self._link = link
        self._slices = slices
        self._address = address
        self._go_on()

    def _go_on(self) -> None:
        self._slices.do(self._slice, self._address)

    def _slice(self, until: float) -> bool:
        if self._link.is_closing:
            return False
        if self._link.is_behind:
            self._link.when_drained(self._go_on)
            return False
        try:
            frames, is_left = self._take(until)
        except Exception:
            self.sent.errback()
            return False
        if frames:
            self._send(frames)
        if not is_left:
            self.sent.callback(None)
        return is_left

    def _take(self, until: float) -> tuple[list[bytes], bool]:
        """The frames of one slice, and whether more may come."""
        frames: list[bytes] = []
        size = 0
        for frame in self._frames:
            if frame:
                frames.append(frame)
            size += len(frame)
            if size >= SLICE_BYTES or self._slices.is_over(until):
                return frames, True
        return frames, False
