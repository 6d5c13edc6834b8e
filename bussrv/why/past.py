"""What a journal knows of a moment: the registry, the rules in effect, and the records that made them so.

Reading begins at the snapshot of the segment that the moment is in, or a little before. It does not check the chain:
``bussrv journal verify`` does that.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, field

from bussrv import events as ev
from bussrv.errors import JournalError
from bussrv.journal.header import Header, Part
from bussrv.journal.moments import Moment
from bussrv.journal.reading import read_header, segments
from bussrv.journal.record import format_time
from bussrv.journal.segment import first_seq
from bussrv.registry.state.event_fold import CHANGING
from bussrv.registry.state.fold import RegistryFold
from bussrv.registry.state.session import Session
from bussrv.registry.state.state import RegistryState
from bussrv.values import InEffect
from bussrv.why.records import Place, SegmentText

WINDOW = 60.0
"""The seconds before and after a moment in which reasons are looked for."""

SECOND = 1_000_000


class Ended(Struct, frozen=True):
    """A session that ended shortly before a moment."""

    session: Session
    at: Place
    reason: str


class LinkChange(Struct, frozen=True):
    """A link came, or went for ``reason``.

    :ivar server: the other server.
    """

    server: str
    is_up: bool
    at: Place
    reason: str = ""


class Past(Struct):
    """What a journal knows of a moment.

    :ivar server: the id of the server that wrote it.
    :ivar at: the last record before the moment.
    :ivar state: the registry, with the rules in effect.
    :ivar rules: the record that put these into effect; ``None``: it is before the segment.
    :ivar opened: the record that opened a session, if that is in the segment.
    :ivar subscribed: the record that made a subscription what it is, by session and service, if it is in the segment.
    :ivar provided: the same of services.
    :ivar unsubscribed: the end of a subscription within the window before the moment.
    :ivar ended: the sessions that ended within the window before the moment.
    :ivar links: the changes of links within the window, before and after the moment.
    :ivar later: the first subscription of a session after the moment, by session and service, within the window.
    :ivar opened_later: the sessions that were opened after the moment, within the window.
    """

    server: str
    at: Place
    state: RegistryState
    rules: Place | None = None
    opened: dict[str, Place] = field(default_factory=dict)
    subscribed: dict[tuple[str, str | None], Place] = field(default_factory=dict)
    provided: dict[tuple[str, str], Place] = field(default_factory=dict)
    unsubscribed: dict[tuple[str, str | None], tuple[Place, str]] = field(default_factory=dict)
    ended: list[Ended] = field(default_factory=list)
    links: list[LinkChange] = field(default_factory=list)
    later: dict[tuple[str, str | None], Place] = field(default_factory=dict)
    opened_later: dict[str, tuple[Place, ev.SessionOpened]] = field(default_factory=dict)

    def rename(self, session: Callable[[Session], Session], rules: Callable[[InEffect], InEffect]) -> None:
        """Put other names and addresses in the place of those in the journal, such as those behind pseudonyms.

        :param session: says what a session is with other names.
        :param rules: says the same of the rules in effect.
        """
        state = self.state
        for each in tuple(state.sessions.values()):
            state.sessions[each.id] = session(each)
        if state.in_effect is not None:
            state.in_effect = rules(state.in_effect)
        self.ended = [Ended(session(each.session), each.at, each.reason) for each in self.ended]


def past_of(
    directory: Path, moment: Moment, window: float = WINDOW, pause: Callable[[], object] = lambda: None
) -> Past:
    """What a journal knows of a moment.

    :param window: seconds before and after the moment in which reasons are looked for.
    :param pause: called between any two records.
    :raises JournalError: it cannot be read, or does not reach as far back or forth.
    """
    paths = segments(directory)
    index = segment_of(paths, moment)
    reader = _Reader(directory, moment, int(window * SECOND), pause)
    begin = index
    if moment.time is not None:
        begin = min(begin, segment_of(paths, Moment(time=moment.time - reader.window)))
    reader.read(paths[begin:], is_first=begin == 0)
    return reader.past()


def take_in(fold: RegistryFold, part: Part, path: Path) -> None:
    """Take a part of the snapshot of a segment into a registry.

    :raises JournalError: it is none.
    """
    try:
        fold.take(part.state, part.version)
    except ValueError as error:
        raise JournalError(f"{path}, line {part.part + 1}: not a part of a snapshot: {error}") from error


def segment_of(paths: Sequence[Path], moment: Moment) -> int:
    """The index of the segment that a moment is in, or else the nearest one."""
    if moment.seq is not None:
        return max(0, bisect_right(paths, moment.seq, key=first_seq) - 1)
    if moment.time is None:
        return len(paths) - 1
    later = next((index for index, path in enumerate(paths) if read_header(path).time > (moment.time or 0)), len(paths))
    return max(0, later - 1)


class _Reader:
    """Reads on from the snapshot of a segment, up to the moment and through the window after it."""

    def __init__(self, directory: Path, moment: Moment, window: int, pause: Callable[[], object]) -> None:
        self.window = window
        self._directory = directory
        self._moment = moment
        self._pause = pause
        self._fold = RegistryFold()
        self._header: Header | None = None
        self._at: Place | None = None
        self._found: Past | None = None
        self._before = Past("", Place(0, 0), self._fold.state)

    def read(self, paths: Sequence[Path], *, is_first: bool) -> None:
        """Read segments that follow each other.

        :param is_first: whether the journal begins with the first of them.
        :raises JournalError: the moment is before the first record, or one cannot be read.
        """
        for path in paths:
            for place, event in self._records(path):
                if self._found is None and self._is_after(place):
                    if self._at is None and not self._is_begun(place, is_first=is_first):
                        raise JournalError(
                            f"the journal {self._directory} begins with record {place.seq}, at "
                            f"{format_time(place.time)}; {self._moment} is before that"
                        )
                    self._take()
                if self._found is None:
                    self._note(event, place)
                    self._fold.apply(event, place.time)
                    self._at = place
                else:
                    self._note_later(event, place)
                    if place.time > self._found.at.time + self.window:
                        return

    def _is_begun(self, first: Place, *, is_first: bool) -> bool:
        """Whether a moment before the first record that was read is covered: the snapshot says what was then."""
        if is_first and first.seq == 1:
            return True
        if self._moment.seq is not None:
            return self._moment.seq == first.seq - 1
        return self._header is not None and (self._moment.time or 0) >= self._header.time

    def past(self) -> Past:
        """What was found.

        :raises JournalError: the journal ends before the moment.
        """
        if self._found is None:
            at = self._at
            if self._moment.seq is not None and (at is None or at.seq != self._moment.seq):
                ended = 0 if at is None else at.seq
                raise JournalError(f"the journal {self._directory} ends with record {ended}, before {self._moment}")
            self._take()
        assert self._found is not None
        return self._found

    def _is_after(self, place: Place) -> bool:
        if self._moment.seq is not None:
            return place.seq > self._moment.seq
        return self._moment.time is not None and place.time > self._moment.time

    def _take(self) -> None:
        assert self._header is not None
        found, header = self._before, self._header
        found.server = header.server
        found.at = self._at or Place(header.segment - 1, header.time)
        since = found.at.time if self._moment.time is None else self._moment.time
        found.ended = [each for each in found.ended if each.at.time >= since - self.window]
        found.links = [each for each in found.links if each.at.time >= since - self.window]
        self._found = found

    def _records(self, path: Path) -> Iterator[tuple[Place, ev.Event]]:
        """The records of a segment. The snapshot of the first one is taken in.

        :raises JournalError: it cannot be read.
        """
        text = SegmentText(path)
        if self._header is None:
            for part in text.snapshot():
                take_in(self._fold, part, path)
            self._header = text.header
        if self._found is not None:
            return text.records(self._pause)
        return text.records(self._pause, text.lines_about(self._moment, self.window, _KINDS, self._pause))

    def _note(self, event: ev.Event, place: Place) -> None:
        """Note which record made something so."""
        note = _NOTES.get(type(event))
        if note is not None:
            note(self._before, event, place)

    def _note_later(self, event: ev.Event, place: Place) -> None:
        found = self._found
        assert found is not None
        if isinstance(event, ev.SubscriptionAdded):
            found.later.setdefault((event.session or "", event.service), place)
        elif isinstance(event, ev.SessionOpened):
            found.opened_later.setdefault(event.session or "", (place, event))
        elif isinstance(event, (ev.LinkUp, ev.LinkDown)):
            _note_link(found, event, place)


def _note_rules(past: Past, event: ev.Event, place: Place) -> None:
    past.rules = place


def _note_opened(past: Past, event: ev.Event, place: Place) -> None:
    past.opened[event.session or ""] = place


def _note_subscribed(past: Past, event: ev.Event, place: Place) -> None:
    past.subscribed[event.session or "", event.service] = place
    past.unsubscribed.pop((event.session or "", event.service), None)


def _note_unsubscribed(past: Past, event: ev.Event, place: Place) -> None:
    past.unsubscribed[event.session or "", event.service] = place, event.reason or ""


def _note_provided(past: Past, event: ev.Event, place: Place) -> None:
    past.provided[event.session or "", event.service or ""] = place


def _note_closed(past: Past, event: ev.Event, place: Place) -> None:
    session = past.state.session(event.session or "")
    if session is not None:
        past.ended.append(Ended(session, place, event.reason or ""))


def _note_link(past: Past, event: ev.Event, place: Place) -> None:
    past.links.append(LinkChange(event.routing_id or "", isinstance(event, ev.LinkUp), place, event.reason or ""))


_NOTES: dict[type[ev.Event], Callable[[Past, ev.Event, Place], None]] = {
    ev.ServerStarted: _note_rules,
    ev.ConfigReloaded: _note_rules,
    ev.SessionOpened: _note_opened,
    ev.SubscriptionAdded: _note_subscribed,
    ev.SubscriptionRemoved: _note_unsubscribed,
    ev.ServiceRegistered: _note_provided,
    ev.SessionClosed: _note_closed,
    ev.LinkUp: _note_link,
    ev.LinkDown: _note_link,
}

_KINDS = frozenset(str(each.__struct_config__.tag).encode() for each in CHANGING | _NOTES.keys())
"""The events that say something about a moment that is after them."""
