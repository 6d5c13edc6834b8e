"""The incidents that are known: those that go on, those that are over, and who took note of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from bussrv import events as ev
from bussrv.incidents.judging import Incident, id_of, key_of, weight_of
from bussrv.incidents.words import verdict
from bussrv.journal.record import Record

MOST = 500
"""The most incidents that are remembered. Beyond it those that somebody took note of are forgotten, then the oldest."""

MOST_OF_A_KIND = 100
"""The most incidents of one kind that go on. So a storm of one kind leaves room for the others."""

MOST_NOTES = 2_000
"""The most acknowledgements that are remembered."""


class Note(Struct, frozen=True):
    """An operator took note of an incident.

    :ivar actor: the user; ``None``: it proved nothing.
    :ivar time: UTC microseconds.
    """

    actor: str | None
    peer: str | None
    time: int
    note: str | None


class Known(Struct):
    """An incident.

    :ivar id: its short name.
    :ivar row: its sums.
    :ivar is_over: whether nothing more of it happens.
    :ivar note: who took note of it; ``None``: nobody did.
    """

    id: str
    row: Incident
    is_over: bool = False
    note: Note | None = None

    @property
    def needs_look(self) -> bool:
        """Whether nobody took note of it."""
        return self.note is None


Told = Callable[[Known, bool], None]
"""Is told of an incident that began (``False``) or is over (``True``)."""


class KnownIncidents:
    """The incidents of a server.

    :ivar not_kept: how many there were beyond ``MOST_OF_A_KIND`` at the last look.
    """

    def __init__(self) -> None:
        self._listeners: list[Told] = []
        self._known: dict[str, Known] = {}
        self._going_on: dict[tuple[str | None, ...], Known] = {}
        self._notes: dict[str, Note] = {}
        self.not_kept = 0

    def __iter__(self) -> Iterator[Known]:
        return iter(tuple(self._known.values()))

    def listen(self, listener: Told) -> None:
        """Call ``listener`` with each incident that begins, and with each that is over."""
        self._listeners.append(listener)

    def _tell(self, known: Known, is_over: bool) -> None:
        for listener in self._listeners:
            listener(known, is_over)

    def get(self, incident: str) -> Known | None:
        """An incident, by its id."""
        return self._known.get(incident)

    @property
    def verdict(self) -> str:
        """The verdict on the server, in a sentence."""
        return verdict([each.row for each in self if each.needs_look])

    @property
    def to_look_at(self) -> tuple[int, int]:
        """How many incidents nobody took note of, and the weight of the gravest of them."""
        weights = [weight_of(each.row) for each in self if each.needs_look]
        return len(weights), max(weights, default=0)

    def note(self, record: Record) -> None:
        """Take in that an operator took note."""
        event = record.event
        assert isinstance(event, ev.IncidentAcknowledged)
        note = Note(event.actor, event.peer, record.time, event.note)
        self._notes[event.incident] = note
        if len(self._notes) > MOST_NOTES:
            del self._notes[next(iter(self._notes))]
        known = self._known.get(event.incident)
        if known is not None:
            known.note = note

    def go_on(self, rows: Iterable[Incident]) -> None:
        """Take in all incidents that go on. Those that did before and do not any more are over."""
        found = {key_of(row): row for row in rows}
        for key in [key for key in self._going_on if key not in found]:
            self._end(self._going_on[key])
        numbers = Counter(each.row.what for each in self._going_on.values())
        self.not_kept = 0
        for key, row in found.items():
            known = self._going_on.get(key)
            if known is not None:
                known.row = row
            elif numbers[row.what] < MOST_OF_A_KIND:
                numbers[row.what] += 1
                self._begin(row)
            else:
                self.not_kept += 1

    def over(self, row: Incident) -> None:
        """An incident is over."""
        known = self._going_on.get(key_of(row))
        if known is None:
            known = self._begin(row)
        known.row = row
        self._end(known)

    def add(self, others: KnownIncidents) -> None:
        """Add incidents of before. They are over, unless they are known."""
        mine, self._known = self._known, {}
        for each in others:
            if each.id not in mine:
                each.is_over = True
                self._known[each.id] = each
        self._known |= mine
        self._notes = {**others._notes, **self._notes}
        self._make_room()

    def _begin(self, row: Incident) -> Known:
        known = Known(id_of(row), row)
        known.note = self._notes.get(known.id)
        self._known[known.id] = self._going_on[key_of(row)] = known
        self._make_room()
        self._tell(known, False)
        return known

    def _end(self, known: Known) -> None:
        del self._going_on[key_of(known.row)]
        known.is_over = True
        self._tell(known, True)

    def _make_room(self) -> None:
        if len(self._known) <= MOST:
            return
        over = [each for each in self._known.values() if each.is_over]
        over.sort(key=lambda each: (each.needs_look, each.row.end or 0))
        for each in over[: len(self._known) - MOST]:
            del self._known[each.id]
