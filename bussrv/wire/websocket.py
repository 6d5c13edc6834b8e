"""Objects over WebSocket: each message carries one. The frames are those of :mod:`bussrv.wire.frames`.

::

    message   = metadata NUL [payload]      the framing of :mod:`bussrv.wire.objects`, one object a message
              / metadata                    -> only: if there is no payload, the end of the message stands for NUL

    -> messages are binary or text
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import length_hint

from bussrv.errors import RemoteProtocolError
from bussrv.wire.frames import MOST_FRAGMENTS, Control, Fragment, FrameReader, Nothing
from bussrv.wire.objects import MAX_METADATA, MAX_NESTING, MAX_PAYLOAD, NUL, BadObject, BusObject, ObjectReader

SUBPROTOCOL = "objects"
"""The name that a client may ask for in ``Sec-WebSocket-Protocol``. It need not ask."""

_NOTHING = Nothing()


class WebSocketReader(ObjectReader):
    """Reads objects from the messages of one connection, and control frames; see :meth:`take_control`.

    :ivar frames: reads the frames.
    :ivar has_more: whether reading stopped so that other clients are served, although there are more bytes.
    """

    def __init__(
        self, max_metadata: int = MAX_METADATA, max_payload: int = MAX_PAYLOAD, max_nesting: int = MAX_NESTING
    ) -> None:
        super().__init__(max_metadata, max_payload, max_nesting)
        self.frames = FrameReader(SUBPROTOCOL, takes_text=True, most=max_metadata + len(NUL) + max_payload)
        self.has_more = False
        self._control: Control | None = None
        self._whole: BusObject | BadObject | None = None
        self._bad: BadObject | None = None

    def limit(self, max_metadata: int, max_payload: int) -> None:
        """From now on metadata and payloads have at most so many bytes."""
        super().limit(max_metadata, max_payload)
        self.frames.most = max_metadata + len(NUL) + max_payload

    @property
    def is_clear(self) -> bool:
        """Chunks are made of frames: all of them have to be read here."""
        return False

    @property
    def is_idle(self) -> bool:
        """See :class:`ObjectReader`. Chunks are no objects."""
        return False

    def __len__(self) -> int:
        """How many bytes wait to be read."""
        return len(self.frames) + len(self.buffer)

    def stretch(self) -> None:
        """Messages are not in one piece."""

    def feed(self, data: bytes) -> None:
        """Add a chunk."""
        self.frames.feed(data)

    def take_control(self) -> Control | None:
        """Take the upgrade, ping or close frame that is next; ``None``: another thing is next.

        No further object is read before it is taken.
        """
        control, self._control = self._control, None
        return control

    def next_event(self) -> BusObject | BadObject | None:
        """The next object; ``None``: more bytes are needed, or :meth:`take_control` or :attr:`has_more` says why."""
        for obj in self.batch():
            return obj
        if self._singles:
            return self._singles.popleft()
        bad, self._bad = self._bad, None
        if bad is None and self._control is None and self._error is not None:
            raise self._error
        return bad

    def batch(self) -> Iterator[BusObject]:
        """Some of the next objects; see :meth:`ObjectReader.batch`."""
        stops = self._singles or self._bad is not None or self._control is not None or self._error is not None
        if not (stops or length_hint(self._ahead)):
            self._ahead = iter(self._read_messages())
        return self._ahead

    def _read_messages(self) -> list[BusObject]:
        objs: list[BusObject] = []
        self.has_more = False
        try:
            for _ in range(MOST_FRAGMENTS):
                found = self._read_something()
                if found is None:
                    return objs
                if isinstance(found, BusObject) and found.head.event not in self.ends:
                    objs.append(found)
                elif not isinstance(found, Nothing):
                    if isinstance(found, BusObject):
                        self._singles.append(found)
                    elif isinstance(found, BadObject):
                        self._bad = found
                    else:
                        self._control = found
                    return objs
            self.has_more = True
        except RemoteProtocolError as error:
            self._error = error
        return objs

    def _read_something(self) -> BusObject | BadObject | Control | Nothing | None:
        """An object, a control frame, or nothing yet; ``None``: more bytes are needed."""
        found = self.frames.read()
        return self._read_fragment(found) if isinstance(found, Fragment) else found

    def _read_fragment(self, fragment: Fragment) -> BusObject | BadObject | Nothing:
        self.buffer.feed(fragment.payload)
        if self._whole is None:
            self._whole = self.read_event()
        if fragment.is_last and self._whole is self._waiting is None and len(self.buffer):
            # Metadata without a payload may end with the message.
            self.buffer.feed(NUL)
            self._whole = self.read_event()
        if self._whole is not None and len(self.buffer):
            raise RemoteProtocolError("bad-message", "a message holds more than one object")
        if not fragment.is_last:
            return _NOTHING
        found, self._whole = self._whole, None
        if found is None:
            raise RemoteProtocolError("bad-message", "a message ends before its object does")
        return found
