"""Fan-out: frames for groups of sessions, each made once and written once.

Sessions with one interest and one encoding form a *group*. A group is matched once, an object is framed once for each
encoding, and all frames that a chunk of input brings to a group are joined once: its members are sent the very same
bytes. A group is a stream, so order holds for each of its members.

What is for many groups is framed and sent in slices, so that nobody else waits for all of it. What comes for a group
meanwhile is sent after that; see :meth:`Fanout.flush`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from functools import partial
from itertools import takewhile
from typing import Any

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from bussrv.bus.generation import Generation
from bussrv.bus.groups.frames import Delivery
from bussrv.bus.interest.matching import compile_interest, nothing, permitted
from bussrv.bus.interfaces import IEncoding, ISessionLink
from bussrv.counts.throttle import LOG_BURST, LOG_RATE, Throttle
from bussrv.memory.bundle import Bundle, Joined
from bussrv.policy.permissions.permissions import EVERYTHING, Permissions
from bussrv.turns.slices import Slices
from bussrv.values import Interest, ModeInterest
from bussrv.wire import objects as wire

log = Logger()


@implementer(IEncoding)
class ObjectFrames:
    """Objects as metadata, NUL and payload."""

    def encode(self, delivery: Delivery) -> bytes:
        """The bytes of an object."""
        return wire.encode(delivery.metadata, delivery.payload)


OBJECT_FRAMES = ObjectFrames()


@implementer(IEncoding)
class NoFrames:
    """Carries nothing: for a session whose own encoding could not be made, and that is about to end for that."""

    def encode(self, delivery: Delivery) -> None:
        """Nothing."""


NO_FRAMES = NoFrames()

ALL_AT_ONCE = 64 << 20
"""The most bytes that the sessions of a group together are sent in one go."""

MANY = 64
"""To more groups than that, frames are made and sent in slices."""


class MemberOverride(Struct, gc=False):
    """An exception for one member of a group: it gets ``frame`` instead of the frames between two places.

    :ivar until: how many frames of the group come before it.
    :ivar frame: the frame that the member gets; ``None`` for none.
    :ivar on: how many frames of the group come before the next one that the member gets.
    """

    until: int
    frame: bytes | None
    on: int


Piece = bytes | Joined | Callable[["Group"], Sequence[bytes]]
"""A frame, several of them, or what makes some when they are sent."""


class Group:
    """Sessions with one interest, one encoding and the same permissions.

    :ivar interest: the interest of its members; ``None`` for the subscribers of a service.
    :ivar services: names and patterns: its members want the publications on these, too, whatever they are.
    :ivar hears_gaps: whether its members are told when objects were lost.
    :ivar wants_addressed: whether its members want objects of a kind that are for them alone; the subscribers of a
        service want none.
    :ivar no_echo: whether its members do not get their own objects.
    :ivar wants_broadcast: whether its members want, and may receive, objects of a kind that are for everybody, by
        their interest.
    :ivar vocabulary: the vocabulary of its members.
    :ivar links: the link to each member, by session id.
    :ivar pending: frames collected for its members, except the session ``except_for``.
    :ivar has_joined: whether some of them are :class:`Joined` ones.
    :ivar has_unmade: whether some of them are to be made.
    :ivar overrides: the member overrides, by session id.
    """

    __slots__ = (
        "encoding",
        "except_for",
        "has_joined",
        "has_unmade",
        "hears_gaps",
        "interest",
        "links",
        "no_echo",
        "overrides",
        "pending",
        "permissions",
        "services",
        "vocabulary",
        "wants_addressed",
        "wants_broadcast",
    )

    def __init__(
        self,
        encoding: IEncoding,
        interest: Interest | None = None,
        vocabulary: str | None = None,
        permissions: Permissions = EVERYTHING,
        services: Set[str] = frozenset(),
        hears_gaps: bool = False,
    ) -> None:
        self.encoding = encoding
        self.hears_gaps = hears_gaps
        self.interest = interest
        self.permissions = permissions
        self.services = services
        self.wants_addressed = compile_interest(interest)
        self.no_echo = isinstance(interest, ModeInterest) and interest.receive == "no_echo"
        self.wants_broadcast = permitted(self.wants_addressed, permissions)
        self.vocabulary = vocabulary
        self.links: dict[str, ISessionLink] = {}
        self.pending: list[Piece] = []
        self.has_joined = self.has_unmade = False
        self.except_for: str | None = None
        self.overrides: dict[str, list[MemberOverride]] = {}

    @property
    def has_interest(self) -> bool:
        """Whether its members want some objects by their interest, and not only publications on services."""
        return self.wants_addressed is not nothing

    @property
    def is_deaf(self) -> bool:
        """Whether its members want nothing, no answers either."""
        return isinstance(self.interest, ModeInterest) and self.interest.receive == "none"

    def share(self, session_id: str) -> list[Piece]:
        """The frames collected for one member."""
        pending = [] if session_id == self.except_for else self.pending
        if not pending:
            return [each.frame for each in self.overrides.get(session_id, ()) if each.frame is not None]
        frames: list[Piece] = []
        begin = 0
        for each in self.overrides.get(session_id, ()):
            frames += pending[begin : each.until]
            if each.frame is not None:
                frames.append(each.frame)
            begin = each.on
        return [*frames, *pending[begin:]]


class Fanout:
    """Collects frames for groups until :meth:`flush`.

    :param generation: ends when a group has other members.
    :param failed: called if the encoding of a group raised an exception, while that is handled. That group does not get
        the object; other groups do.
    :param slices: those in which frames for many groups are sent; ``None``: all are sent at once.
    :ivar flushes: how often something may have been sent. Until it grows, groups that were opened stay open.
    :ivar collected: the groups for which something was collected, for whatever session, since they were last flushed.
    :ivar is_behind: whether a flush is not over: the rest of it follows in slices.
    :ivar put_off: grows whenever something is collected that follows in slices.
    """

    def __init__(
        self,
        generation: Generation,
        failed: Callable[[Group], None] | None = None,
        slices: Slices | None = None,
    ) -> None:
        self._generation = generation
        self.flushes = self.put_off = 0
        self.is_behind = False
        self._slices = slices
        # The groups that wait for a slice, in the order in which they are sent to, and for asking.
        self._rest: deque[Group] = deque()
        self._waits: set[Group] = set()
        self._catching_up: list[Deferred[None]] = []
        # While many groups are sent: bundles by the pieces in them, which are kept so that no other has their ids.
        self._bundles: dict[tuple[int, ...], tuple[Bundle, Sequence[object]]] | None = None
        self.collected: dict[Group, None] = {}
        # Groups of subscribers that were opened since the last flush; and by session, its group of them that was
        # opened last. Those of the list are not among these yet: mostly only one group is opened.
        self._opened: list[Group] = []
        self._opened_of: dict[str, Group] = {}
        self._failed = failed

    def join(self, group: Group, session_id: str, link: ISessionLink) -> None:
        """A session is a member of ``group`` from now on. It does not get frames collected before."""
        self._generation.end()
        group.links[session_id] = link
        if group.interest is None and group in self.collected:
            self._opened.append(group)
        self._caught_up(group, session_id)

    def leave(self, group: Group, session_id: str) -> None:
        """A session is no member of ``group`` any more. It is sent the frames collected before."""
        self._generation.end()
        self.send_one(group, session_id)
        group.links.pop(session_id, None)
        group.overrides.pop(session_id, None)

    def send_one(self, group: Group, session_id: str, further: Sequence[bytes] = ()) -> None:
        """Send one member of ``group`` its collected frames at once, then ``further`` ones."""
        link = group.links.get(session_id)
        if link is None:
            return
        frames = [*self._made(group, group.share(session_id)), *further]
        self._caught_up(group, session_id)
        if frames:
            link.send(Bundle(frames, group.has_joined))

    def _caught_up(self, group: Group, session_id: str) -> None:
        group.overrides.pop(session_id, None)
        if group.pending:
            group.overrides[session_id] = [MemberOverride(0, None, len(group.pending))]

    def add(self, group: Group, delivery: Delivery, except_for: str | None = None) -> None:
        """Give ``delivery`` to every member of ``group``, except the session ``except_for``."""
        frame = self.frame(group, delivery)
        if frame is not None:
            self.open(group, except_for)
            group.pending.append(frame)

    def add_to_all(self, groups: Collection[Group], delivery: Delivery) -> None:
        """Give ``delivery`` to every member of some groups. If they are many, it is encoded when it is sent."""
        if len(groups) > MANY:
            self._add_unmade(groups, partial(self._frames, delivery))
            return
        for group in groups:
            self.add(group, delivery)

    def add_made(self, groups: Collection[Group], make: Callable[[Group], Sequence[bytes]]) -> None:
        """Give the frames that ``make`` makes in the encoding of each group to every member of it, unless it fails."""
        if len(groups) > MANY:
            self._add_unmade(groups, partial(self._made_by, make))
            return
        for group in groups:
            self.add_frames(group, self._made_by(make, group))

    def _add_unmade(self, groups: Iterable[Group], piece: Callable[[Group], Sequence[bytes]]) -> None:
        for group in groups:
            self.open(group, None)
            group.pending.append(piece)
            group.has_unmade = True

    def add_piece(self, group: Group, piece: Callable[[Group], Sequence[bytes]]) -> None:
        """Have ``piece`` called when a group without members is sent to, unless it has one already."""
        if self.is_behind and group in self._waits:
            self.put_off += 1
        if not group.pending:
            self.collected[group] = None
            group.pending.append(piece)
            group.has_unmade = True

    def _frames(self, delivery: Delivery, group: Group) -> Sequence[bytes]:
        frame = self.frame(group, delivery)
        return () if frame is None else (frame,)

    def _made_by(self, make: Callable[[Group], Sequence[bytes]], group: Group) -> Sequence[bytes]:
        try:
            frames = make(group)
            for each in frames:
                _checked(each)
        except Exception:
            self.fail(group)
            return ()
        return frames

    def _made(self, group: Group, pieces: Sequence[Piece]) -> list[bytes | Joined]:
        """Pieces of a group, with those frames that were not made yet."""
        frames: list[bytes | Joined] = []
        for each in pieces:
            if isinstance(each, (bytes, Joined)):
                frames.append(each)
            else:
                frames += each(group)
        return frames

    def fail(self, group: Group) -> None:
        """The encoding of a group, or sending to it, failed: the exception is being handled now."""
        if self._failed is None:
            raise
        self._failed(group)

    def add_frames(self, group: Group, frames: Sequence[bytes]) -> None:
        """Give frames in the encoding of ``group`` to every member of it."""
        if frames:
            self.open(group, None)
            group.pending.extend(frames)

    def add_for_others(self, group: Group, delivery: Delivery, session_id: str) -> None:
        """As :meth:`add`, with an exception that is another session each time."""
        frame = self.frame(group, delivery)
        if frame is not None:
            self.open(group, None)
            _leave_out(group, session_id)
            group.pending.append(frame)

    def add_for_one(self, group: Group, session_id: str, delivery: Delivery) -> bool:
        """Give ``delivery`` to one member of ``group``, after the frames collected for the group.

        :returns: whether the encoding can carry it.
        """
        frame = self.frame(group, delivery)
        if frame is not None:
            self.add_frame_for_one(group, session_id, frame)
        return frame is not None

    def add_frame_for_one(self, group: Group, session_id: str, frame: bytes) -> None:
        """The same with a frame in the encoding of ``group``."""
        self.collected[group] = None
        if session_id in group.links:
            place, overrides = len(group.pending), group.overrides.get(session_id)
            if overrides is None:
                overrides = group.overrides[session_id] = []
            overrides.append(MemberOverride(place, frame, place))

    def frame(self, group: Group, delivery: Delivery) -> bytes | None:
        """The frame in the encoding of a group; ``None`` if it cannot carry it, or failed.

        The encoding may be a plugin's, so a failure is not the publisher's fault.
        """
        frames, encoding = delivery.frames, group.encoding
        if encoding in frames:
            known: bytes | None = frames[encoding]
            return known
        try:
            frame = frames[encoding] = _checked(encoding.encode(delivery))
        except Exception:
            self.fail(group)
            return None
        return frame

    def open(self, group: Group, except_for: str | None) -> bool:
        """Make ready for a frame that is put on the list of ``group`` right after this.

        :returns: whether something had to be sent.
        """
        if self.is_behind and group in self._waits:
            self.put_off += 1
        if group.pending and group.except_for == except_for:
            return False
        sends = bool(group.pending)
        if sends:
            self.flush_group(group)
        self._flush_overlapping(group)
        self.collected[group] = None
        group.except_for = except_for
        return sends

    def open_with(self, groups: Iterable[Group], sender: str, frames: Joined) -> None:
        """Open groups with the frames of one sender, while nothing is collected that would have to be sent first.

        :param groups: of members or linked servers.
        :param sender: empty if it is no session of this server.
        """
        collected = self.collected
        if self.is_behind and not self._waits.isdisjoint(groups):
            self.put_off += 1
        for group in groups:
            collected[group] = None
            group.except_for = sender if group.no_echo else None
            group.pending.append(frames)
            group.has_joined = True

    def _flush_overlapping(self, group: Group) -> None:
        """A session that is subscribed to several services is in a group for each; order holds across them."""
        if group.interest is not None:
            return
        opened_of = self._opened_of
        for each in self._opened:
            opened_of.update(dict.fromkeys(each.links, each))
        self._opened = [group]
        if opened_of:
            for session_id in tuple(group.links):
                other = opened_of.get(session_id)
                if other is not None and other in self.collected:
                    self.flush_group(other)

    def flush_group(self, group: Group) -> None:
        """Send the frames collected for one group."""
        self.flushes += 1
        if group not in self.collected:
            return
        del self.collected[group]
        for session_id in tuple(group.overrides):
            self.send_one(group, session_id)
        pending, except_for, overrides = group.pending, group.except_for, group.overrides
        if not pending:
            group.overrides = {}
            return
        bundle = self._bundle(group, self._made(group, pending) if group.has_unmade else pending)
        group.pending, group.overrides, group.has_joined, group.has_unmade = [], {}, False, False
        if not bundle.count:
            return
        bundle.at_once = bundle.at_once and bundle.size * len(group.links) <= ALL_AT_ONCE
        # Copied, because members may leave meanwhile.
        if overrides or except_for in group.links:
            links = [link for each, link in group.links.items() if each != except_for and each not in overrides]
        else:
            links = [*group.links.values()]
        for link in links:
            link.send(bundle)

    def _bundle(self, group: Group, frames: Sequence[Any]) -> Bundle:
        """The bundle of some frames: many groups may get the same ones."""
        if self._bundles is None:
            return Bundle(frames, group.has_joined)
        key = tuple(map(id, frames))
        known = self._bundles.get(key)
        if known is None:
            known = self._bundles[key] = Bundle(frames, group.has_joined), frames
        return known[0]

    def flush(self) -> bool:
        """Send all collected frames. :returns: whether there were any, and all are sent.

        If they are for many groups, the rest follows in slices. What is collected until then for few other groups is
        sent at once, and what is for many of them follows in the same slices. A group has its frames in one piece,
        whatever it waited for.
        """
        self.flushes += 1
        if self.is_behind:
            self._flush_meanwhile()
            return False
        groups = tuple(self.collected)
        if len(groups) > MANY and self._slices is not None:
            self.is_behind = True
            self._wait_for_slices(groups)
            self._slices.do(self._flush_some)
            return not self.is_behind
        self._opened, self._opened_of = [], {}
        for group in groups:
            self.flush_group(group)
        return bool(groups)

    def _wait_for_slices(self, groups: Iterable[Group]) -> None:
        self._rest.extend(groups)
        self._waits.update(groups)

    def _flush_meanwhile(self) -> None:
        """Send what was collected since others began to wait, unless it is for many."""
        # The latest come last. Groups before a waiting one that was collected anew are sent with the rest.
        groups = [*takewhile(lambda each: each not in self._waits, reversed(self.collected))][::-1]
        if len(groups) > MANY:
            self._wait_for_slices(groups)
            self.put_off += 1
            return
        for group in groups:
            self.flush_group(group)

    def _flush_some(self, until: float) -> bool:
        """Send to some groups; see :data:`bussrv.turns.slices.Work`."""
        assert self._slices is not None
        self._bundles = {}
        try:
            while self._rest:
                group = self._rest.popleft()
                self._waits.discard(group)
                try:
                    self.flush_group(group)
                except Exception:
                    self.fail(group)  # Its links are a plugin's, perhaps. The others are sent theirs.
                if self._slices.is_over(until):
                    return True
        finally:
            self._bundles = None
        if self.collected:
            self._wait_for_slices(tuple(self.collected))
            return True
        self._opened, self._opened_of = [], {}
        self.is_behind = False
        catching_up, self._catching_up = self._catching_up, []
        for each in catching_up:
            each.callback(None)
        return False

    def caught_up(self) -> Deferred[None]:
        """:returns: fires when everything that is collected is sent, if a flush is not over."""
        done: Deferred[None] = Deferred()
        self._catching_up.append(done)
        return done


def _checked(frame: bytes | None) -> bytes | None:
    """:raises TypeError: a frame is no ``bytes``: it would be found when it is sent, together with those of others."""
    if frame is not None and not isinstance(frame, bytes):
        raise TypeError(f"a frame is bytes, not {type(frame).__name__}")
    return frame


def _leave_out(group: Group, session_id: str) -> None:
    """A member is not given the next frame."""
    if session_id in group.links:
        place = len(group.pending)
        group.overrides.setdefault(session_id, []).append(MemberOverride(place, None, place + 1))


class FailedEncodings:
    """Ends the sessions of a failed encoding, with ``internal-error``.

    It may be a plugin's, so publishers are not affected.

    :param counters: counts each session that is ended.
    :param reactor: calls later.
    """

    def __init__(self, counters: Counter[str], reactor: Any) -> None:
        self._counters = counters
        self._reactor = reactor
        self._complaints = Throttle(LOG_RATE, LOG_BURST, reactor.seconds)
        self._groups: dict[Group, None] = {}

    def failed(self, group: Group) -> None:
        """The encoding of ``group`` raised an exception, which is being handled now.

        Its sessions end at the end of this reactor turn, because frames are being sent to others just now.
        """
        if group in self._groups:
            return
        encoding = type(group.encoding).__name__
        suppressed = self._complaints.admit(encoding)
        if suppressed is not None:
            log.failure(
                "encoding with {encoding} failed ({suppressed} more not logged)",
                event="encoding.failed",
                encoding=encoding,
                suppressed=suppressed,
            )
        self._groups[group] = None
        self._reactor.callLater(0, self._end, group)

    def _end(self, group: Group) -> None:
        del self._groups[group]
        for link in tuple(group.links.values()):
            self._counters["internal-error"] += 1
            link.close("internal-error")
