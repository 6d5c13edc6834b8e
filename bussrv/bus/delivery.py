"""Fan-out: what one chunk of input gives to whom, framed once and written once.

Sessions that want the same and are spoken to alike form a *group*. A group is matched once, an object is framed once
per encoding, and everything that one chunk of input brings to a group is joined once; all its members are given the
very same bytes. A group is a stream, so order holds for each of its members.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from zope.interface import implementer

from bussrv.interfaces import IEncoding, ISessionLink
from bussrv.values import Interest, Publication
from bussrv.wire import objects as wire


class Delivery:
    """One object on its way out, in the two forms that encodings ask for.

    :ivar metadata: its metadata as the object network sees it, as raw JSON.
    :ivar payload: its payload.
    :ivar publication: what it is to subscribers of a service; ``None`` when it is no publication.
    """

    __slots__ = ("_frames", "metadata", "payload", "publication")

    def __init__(self, metadata: bytes, payload: bytes, publication: Publication | None = None) -> None:
        self.metadata = metadata
        self.payload = payload
        self.publication = publication
        self._frames: dict[IEncoding, bytes | None] = {}

    def frame(self, encoding: IEncoding) -> bytes | None:
        """Its bytes in ``encoding``; made once."""
        try:
            return self._frames[encoding]
        except KeyError:
            frame = self._frames[encoding] = encoding.encode(self)
            return frame


@implementer(IEncoding)
class ObjectFrames:
    """Objects as metadata, NUL and payload."""

    def encode(self, delivery: Delivery) -> bytes:
        """The bytes of an object."""
        return wire.encode(delivery.metadata, delivery.payload)


OBJECT_FRAMES = ObjectFrames()


class Batch:
    """Frames for one or many sessions. ``frames`` is for datagrams, ``joined`` for streams.

    :ivar size: the bytes of all frames together.
    """

    def __init__(self, frames: Sequence[bytes]) -> None:
        self.frames = frames
        self.size = sum(map(len, frames))

    def __len__(self) -> int:
        """How many frames there are."""
        return len(self.frames)

    @cached_property
    def joined(self) -> bytes:
        """All frames in one piece; made once for all sessions that get it."""
        return self.frames[0] if len(self.frames) == 1 else b"".join(self.frames)


class Detour(NamedTuple):
    """Where a member leaves the stream of its group: what it is given is another thing there.

    :ivar until: how many frames of the group are before it.
    :ivar frame: what the member is given; ``None`` for nothing.
    :ivar on: how many frames of the group are before the next one that it is given.
    """

    until: int
    frame: bytes | None
    on: int


class Group:
    """Sessions that want the same and are given the same bytes.

    :ivar interest: what its members let pass; ``None`` for the subscribers of a service.
    :ivar vocabulary: the words its members are spoken to with.
    :ivar links: the way out to each member, by session id.
    :ivar pending: what was collected for its members, save the session ``except_for``.
    :ivar detours: those of each member that has any, by session id.
    """

    __slots__ = ("detours", "encoding", "except_for", "interest", "links", "pending", "vocabulary")

    def __init__(self, encoding: IEncoding, interest: Interest | None = None, vocabulary: str | None = None) -> None:
        self.encoding = encoding
        self.interest = interest
        self.vocabulary = vocabulary
        self.links: dict[str, ISessionLink] = {}
        self.pending: list[bytes] = []
        self.except_for: str | None = None
        self.detours: dict[str, list[Detour]] = {}

    def share(self, session_id: str) -> list[bytes]:
        """What was collected for one member."""
        pending = [] if session_id == self.except_for else self.pending
        frames: list[bytes] = []
        begin = 0
        for until, frame, on in self.detours.get(session_id, ()):
            frames += pending[begin:until]
            if frame is not None:
                frames.append(frame)
            begin = on
        return [*frames, *pending[begin:]]


class Fanout:
    """Collects frames for groups until :meth:`flush`.

    :ivar epoch: another one once something may have been sent, and when the members of a group change.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self._dirty: dict[Group, None] = {}

    def join(self, group: Group, session_id: str, link: ISessionLink) -> None:
        """A session is a member of ``group`` from now on: what was collected before is not for it."""
        self.epoch += 1
        group.links[session_id] = link
        self._caught_up(group, session_id)

    def leave(self, group: Group, session_id: str) -> None:
        """A session is no member of ``group`` any more: it is sent what was collected before."""
        self.epoch += 1
        self.send_one(group, session_id)
        group.links.pop(session_id, None)
        group.detours.pop(session_id, None)

    def send_one(self, group: Group, session_id: str, further: Sequence[bytes] = ()) -> None:
        """Send one member of ``group`` at once what was collected for it, and ``further`` frames behind that."""
        link = group.links.get(session_id)
        if link is None:
            return
        frames = [*group.share(session_id), *further]
        self._caught_up(group, session_id)
        if frames:
            link.send(Batch(frames))

    def _caught_up(self, group: Group, session_id: str) -> None:
        group.detours.pop(session_id, None)
        if group.pending:
            group.detours[session_id] = [Detour(0, None, len(group.pending))]

    def add(self, group: Group, delivery: Delivery, except_for: str | None = None) -> None:
        """Give ``delivery`` to every member of ``group``, save the session ``except_for``."""
        frame = delivery.frame(group.encoding)
        if frame is not None:
            self.open(group, except_for)
            group.pending.append(frame)

    def add_for_others(self, group: Group, delivery: Delivery, session_id: str) -> None:
        """The same as :meth:`add`, for what is about another session each time."""
        frame = delivery.frame(group.encoding)
        if frame is not None:
            self.open(group, None)
            _detour(group, session_id, None, 1)
            group.pending.append(frame)

    def add_for_one(self, group: Group, session_id: str, delivery: Delivery) -> None:
        """Give ``delivery`` to one member of ``group``, behind what the group is given."""
        frame = delivery.frame(group.encoding)
        if frame is not None:
            self._dirty[group] = None
            _detour(group, session_id, frame, 0)

    def open(self, group: Group, except_for: str | None) -> bool:
        """Make ready for a frame that is put on the list of ``group`` right after this.

        :returns: whether something had to be sent.
        """
        if group.pending and group.except_for == except_for:
            return False
        sends = bool(group.pending)
        if sends:
            self.flush_group(group)
        self._flush_overlapping(group)
        self._dirty[group] = None
        group.except_for = except_for
        return sends

    def _flush_overlapping(self, group: Group) -> None:
        """A session that watches several services is in a group for each, and gets everything in order all the same."""
        if group.interest is not None:
            return
        for other in tuple(self._dirty):
            if other.interest is None and not other.links.keys().isdisjoint(group.links):
                self.flush_group(other)

    def flush_group(self, group: Group) -> None:
        """Send what was collected for one group."""
        self.epoch += 1
        if group not in self._dirty:
            return
        del self._dirty[group]
        for session_id in tuple(group.detours):
            self.send_one(group, session_id)
        batch, except_for, detours = Batch(group.pending), group.except_for, group.detours
        group.pending, group.detours = [], {}
        if batch:
            for session_id, link in tuple(group.links.items()):
                if session_id != except_for and session_id not in detours:
                    link.send(batch)

    def flush(self) -> None:
        """Send everything that was collected."""
        self.epoch += 1
        for group in tuple(self._dirty):
            self.flush_group(group)


def _detour(group: Group, session_id: str, frame: bytes | None, skipped: int) -> None:
    if session_id in group.links:
        place = len(group.pending)
        group.detours.setdefault(session_id, []).append(Detour(place, frame, place + skipped))
