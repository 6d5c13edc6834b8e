"""Values on their way out: one object or publication, and the frames that a session is sent together. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from bussrv.values import Publication

AT_ONCE = 256 << 10
"""The most bytes that a session is sent in one go."""


Form = Callable[[Sequence[bytes]], Sequence[bytes]]
"""Makes frames of the frames of an encoding, for a wire format that puts something around each."""


class Delivery:
    """One object on its way out, in the two forms that encodings ask for.

    :ivar metadata: its metadata as the object network sees it, as raw JSON.
    :ivar payload: its payload.
    :ivar publication: what it is to subscribers of a service; ``None`` when it is no publication.
    :ivar frames: its bytes by encoding, each made once; ``None`` for an encoding that cannot carry it.
    """

    __slots__ = ("frames", "metadata", "payload", "publication")

    def __init__(self, metadata: bytes, payload: bytes, publication: Publication | None = None) -> None:
        self.metadata = metadata
        self.payload = payload
        self.publication = publication
        self.frames: dict[object, bytes | None] = {}


class Bundle:
    """Frames for one or many sessions. ``frames`` is for datagrams, ``joined`` for streams.

    :ivar size: the bytes of all frames together.
    :ivar at_once: whether a session that has room is sent it in one go; otherwise in pieces, in turn with others.
    """

    _other: tuple[Form, Bundle] | None = None

    def __init__(self, frames: Sequence[bytes]) -> None:
        self.frames = frames
        self.size = size = sum(map(len, frames))
        self.at_once = size <= AT_ONCE

    def __len__(self) -> int:
        """How many frames there are."""
        return len(self.frames)

    @cached_property
    def joined(self) -> bytes:
        """All frames in one piece; made once for all sessions that get it."""
        return self.frames[0] if len(self.frames) == 1 else b"".join(self.frames)

    def in_form(self, form: Form) -> Bundle:
        """The same frames in another form; made once for all sessions that get it."""
        if self._other is None or self._other[0] is not form:
            other = Bundle(form(self.frames))
            other.at_once = other.at_once and self.at_once
            self._other = form, other
        return self._other[1]
