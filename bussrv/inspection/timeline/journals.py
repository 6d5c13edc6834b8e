"""The segments of journals, in directories or at URLs, and those of a period."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Protocol

from bussrv.archive.fetching import StoredJournal
from bussrv.archive.store import open_store
from bussrv.errors import JournalError
from bussrv.journal.reading import read_header, segments
from bussrv.journal.segment import CORRUPT, first_seq, is_compressed, open_segment


class Period(NamedTuple):
    """From ``since`` on, and before ``until``. UTC microseconds; ``None``: no bound."""

    since: int | None = None
    until: int | None = None

    def holds(self, moment: int) -> bool:
        """Whether a moment is in it."""
        return (self.since is None or moment >= self.since) and (self.until is None or moment < self.until)


EVER = Period()


MOST_INFLATED = 256 << 20
"""The most bytes of compressed segments that are kept in memory, since each is read twice."""


class Inflated:
    """The lines of compressed segments, as far as there is room. The first ones are kept: they are read again first."""

    def __init__(self) -> None:
        self._room = MOST_INFLATED
        self._lines: dict[Path, bytes] = {}

    def read(self, path: Path) -> bytes:
        """The lines of a segment; nothing, if it is damaged or exceeds a bound.

        :raises JournalError: if it cannot be read.
        """
        found = self._lines.get(path)
        if found is None:
            found = _lines(path)
            if is_compressed(path) and len(found) <= self._room:
                self._room -= len(found)
                self._lines[path] = found
        return found


class Segments(Protocol):
    """The segments of one journal, oldest first."""

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers in their names."""

    def begun(self, index: int) -> int | None:
        """When a segment was begun, UTC microseconds. ``None``: it does not say."""

    def read(self, index: int) -> bytes:
        """The lines of a segment; nothing, if it is damaged or exceeds a bound.

        :raises JournalError: if it cannot be read.
        """


class LocalSegments:
    """The segments of a journal directory, see :class:`Segments`. A server may be writing it.

    :raises JournalError: if it cannot be read, or holds no segment.
    """

    def __init__(self, directory: Path, inflated: Inflated) -> None:
        self._paths = segments(directory)
        self._inflated = inflated
        self.numbers = [*map(first_seq, self._paths)]

    def begun(self, index: int) -> int | None:
        """See :class:`Segments`."""
        try:
            return read_header(self._paths[index]).time
        except JournalError:
            return None

    def read(self, index: int) -> bytes:
        """See :class:`Segments`."""
        return self._inflated.read(self._paths[index])


class RemoteSegments:
    """The segments of a journal at a URL, see :class:`Segments`. They are copied when they are read.

    :param place: a directory for the copies.
    :raises JournalError: as :class:`bussrv.archive.fetching.StoredJournal`.
    """

    def __init__(self, url: str, place: Path, inflated: Inflated) -> None:
        self._journal = StoredJournal(open_store(url), place)
        self._copies: dict[int, Path] = {}
        self._inflated = inflated
        self.numbers = [*self._journal.names]

    def begun(self, index: int) -> int | None:
        """See :class:`Segments`."""
        seal = self._journal.manifest.seals.get(self.numbers[index])
        return None if seal is None else seal.first_time

    def read(self, index: int) -> bytes:
        """See :class:`Segments`."""
        number = self.numbers[index]
        if number not in self._copies:
            self._copies[number] = self._journal.add(number)
        return self._inflated.read(self._copies[number])


def _lines(path: Path) -> bytes:
    try:
        with open_segment(path, counts_lines=False) as file:
            return file.read()
    except CORRUPT:
        return b""
    except OSError as error:
        raise JournalError(f"cannot read {path}: {error.strerror or error}") from error


@contextmanager
def open_journals(locations: Sequence[Path | str]) -> Iterator[list[Segments]]:
    """The journals in directories and at URLs. Copies of segments are removed afterwards.

    :param locations: one that is named twice is read once.
    :raises JournalError: if one of them is no journal, or cannot be read.
    """
    distinct = dict.fromkeys(each.resolve() if isinstance(each, Path) else each.rstrip("/") for each in locations)
    with ExitStack() as stack:
        found: list[Segments] = []
        inflated = Inflated()
        for each in distinct:
            if isinstance(each, Path):
                found.append(LocalSegments(each, inflated))
            else:
                place = stack.enter_context(TemporaryDirectory(prefix="bussrv-timeline-"))
                found.append(RemoteSegments(each, Path(place), inflated))
        yield found


class Window:
    """Successive segments of a journal: those of a period, and more of them if it is widened.

    A segment begins with the registry before it, so what is older need not be read. The first one is the segment before
    the one in which the period begins, since a crash or a lost link is explained by the records just before it.
    """

    def __init__(self, journal: Segments, period: Period) -> None:
        self._journal = journal
        count = len(journal.numbers)
        self._begin, self._end = _first(journal, period, count), _last(journal, period, count)
        self._step_back = self._step_on = 1

    @property
    def has_earlier(self) -> bool:
        """Whether the journal has segments before these."""
        return self._begin > 0

    @property
    def has_later(self) -> bool:
        """Whether the journal has segments after these."""
        return self._end < len(self._journal.numbers)

    def widen_back(self) -> None:
        """Add earlier segments, each time twice as many as before."""
        self._begin = max(0, self._begin - self._step_back)
        self._step_back *= 2

    def widen_on(self) -> None:
        """Add later segments, each time twice as many as before."""
        self._end = min(len(self._journal.numbers), self._end + self._step_on)
        self._step_on *= 2

    def read(self, number: int) -> bytes:
        """The lines of one of the segments."""
        return self._journal.read(bisect_left(self._journal.numbers, number))

    def contents(self) -> Iterator[tuple[int, bytes]]:
        """The number and the lines of each segment. The next one is read, and decompressed, meanwhile."""
        indices = range(self._begin, self._end)
        with ThreadPoolExecutor(1) as reader:
            coming = [reader.submit(self._journal.read, indices[0])] if indices else []
            for index in indices:
                content = coming.pop().result()
                if index + 1 < self._end:
                    coming.append(reader.submit(self._journal.read, index + 1))
                yield self._journal.numbers[index], content


def _first(journal: Segments, period: Period, count: int) -> int:
    if period.since is None:
        return 0
    since = period.since
    # Where the clock was set back, a time came twice. Then the first of both counts.
    later = (index for index in range(count) if (begun := journal.begun(index)) is not None and begun > since)
    return max(0, next(later, count) - 2)


def _last(journal: Segments, period: Period, count: int) -> int:
    """The end of the segments that may hold a record before ``until``, and at least one segment."""
    if period.until is None:
        return count
    for index in range(count - 1, 0, -1):
        begun = journal.begun(index)
        if begun is None or begun < period.until:
            # A segment is begun when its first record waits already: that may be older than its header.
            return min(count, index + 2)
    return min(count, 2)
