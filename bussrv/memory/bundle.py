"""The frames that a session is sent together. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from weakref import ref

import msgspec
from msgspec import Struct

from bussrv.memory.limits import Chunk, KnownChunk
from bussrv.wire.objects import NUL

AT_ONCE = 256 << 10
"""The most bytes that a session is sent in one go."""


Form = Callable[[Sequence[bytes]], Sequence[bytes]]
"""Makes frames of the frames of an encoding, for a wire format that puts something around each."""


class Joined(Struct, gc=False):
    """The frames of some objects in one piece.

    :ivar count: how many.
    """

    frames: bytes
    count: int


class Bundle:
    """Frames for one or many sessions. ``frames`` is for datagrams and messages, ``joined`` for streams.

    :param has_joined: whether some of the frames are :class:`Joined` ones.
    :ivar count: how many frames there are.
    :ivar size: the bytes of all frames together.
    :ivar at_once: whether a session that has room is sent it in one go; otherwise in pieces, in turn with others.
    """

    _other: tuple[Form, Bundle] | None = None

    def __init__(self, frames: Sequence[bytes | Joined], has_joined: bool = False) -> None:
        self._has_joined = has_joined
        self.count = len(frames)
        if self.count == 1:
            # Most answers are one frame, and what comes of a chunk is one Joined: this costs less than the property.
            only = frames[0]
            if isinstance(only, Joined):
                self.count = only.count
                only = only.frames
            self._pieces: Sequence[bytes] = (only,)
            self.joined = only
            self.size = size = len(only)
        else:
            if has_joined:
                self.count += sum(each.count - 1 for each in frames if isinstance(each, Joined))
                frames = [each.frames if isinstance(each, Joined) else each for each in frames]
            self._pieces = frames  # type: ignore[assignment]  # none is a Joined any more
            self.size = size = sum(map(len, self._pieces))
        self.at_once = size <= AT_ONCE

    @property
    def frames(self) -> Sequence[bytes]:
        """The frames, each by itself."""
        return list(chain.from_iterable(map(_apart, self._pieces))) if self._has_joined else self._pieces

    @cached_property
    def joined(self) -> bytes:
        """All frames in one piece; made once for all sessions that get it."""
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)

    @cached_property
    def chunk(self) -> Chunk:
        """The same, for sessions that have to wait for it."""
        return Chunk(self.joined)

    @cached_property
    def chunks(self) -> Sequence[Chunk]:
        """The frames, each by itself, for sessions that have to wait for them."""
        return [Chunk(frame) for frame in self.frames]

    def in_form(self, form: Form) -> Bundle:
        """The same frames in another form; made once for all sessions that get it."""
        if self._other is None or self._other[0] is not form:
            other = Bundle(form(self.frames))
            other.at_once = other.at_once and self.at_once
            self._other = form, other
        return self._other[1]


class KeptBundle(Bundle):
    """Frames that are kept for sessions that come later. Its chunks are gone when no session waits for them."""

    _chunks: Sequence[ref[KnownChunk]] = ()
    _chunk: Sequence[ref[KnownChunk]] = ()

    @property
    def chunk(self) -> Chunk:
        """See :attr:`Bundle.chunk`."""
        (chunk,), self._chunk = _known([self.joined], self._chunk)
        return chunk

    @property
    def chunks(self) -> Sequence[Chunk]:
        """See :attr:`Bundle.chunks`."""
        chunks, self._chunks = _known(self.frames, self._chunks)
        return chunks


def _known(
    pieces: Sequence[bytes], before: Sequence[ref[KnownChunk]]
) -> tuple[list[KnownChunk], Sequence[ref[KnownChunk]]]:
    """The chunks of some pieces: those that sessions wait for, and new ones for the others."""
    waiting = [each() for each in before] or [None] * len(pieces)
    chunks = [each or KnownChunk(piece) for each, piece in zip(waiting, pieces, strict=True)]
    return chunks, list(map(ref, chunks))


class _Sized(Struct):
    size: int = 0


_decode_size = msgspec.json.Decoder(_Sized).decode


def _apart(frames: bytes) -> Iterator[bytes]:
    """Each of some objects of this server that stand one after the other."""
    begin = 0
    while begin < len(frames):
        end = frames.index(NUL, begin)
        after = end + 1 + _decode_size(frames[begin:end]).size
        yield frames[begin:after]
        begin = after
