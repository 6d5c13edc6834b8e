"""The registry at any moment that a journal knows of."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from bussrv.errors import JournalError
from bussrv.journal.moments import Moment
from bussrv.journal.reading import read_header, read_segments, segments
from bussrv.journal.record import Record, format_time
from bussrv.journal.segment import first_seq
from bussrv.registry.state.fold import RegistryFold
from bussrv.registry.state.snapshot import Snapshot, snapshot


def snapshots(directory: Path, moments: Sequence[Moment], pause: Callable[[], object] = lambda: None) -> list[Snapshot]:
    """The registry of a journal at each of ``moments``, in their order.

    The journal is read once, from the last segment on that begins before the first of them. Where the clock was set
    back, a time came twice: then it is looked for in the first segment whose successor begins later.

    :param pause: called between any two records.
    :raises JournalError: if the journal is damaged as far as it takes, or does not reach as far back or forth.
    """
    paths = segments(directory)
    begins = {each: _begin(paths, each) for each in moments}
    past = _Past(directory, paths[min(begins.values()) :])
    for each, index in begins.items():
        past.wait_for(each, first_seq(paths[index]))
    for record in past.records():
        past.pass_record(record)
        pause()
        if not past.waiting:
            break
    past.end()
    return [past.taken[each] for each in moments]


def snapshots_by_server(directories: Sequence[Path], moments: Sequence[Moment]) -> dict[str, list[Snapshot]]:
    """The same of one journal or several, each under the id of the server that wrote it, in their order.

    :param moments: of several journals times, or the end: each journal numbers its own records.
    :raises JournalError: also if two of the journals are of one server, or the moments do not fit several.
    """
    for each in moments:
        if each.seq is not None and len(directories) > 1:
            raise JournalError(f"{each} is a record of one journal. To look into several journals, give a time instead")
    found: dict[str, Path] = {}
    for directory in directories:
        server = read_header(segments(directory)[-1]).server
        if server in found:
            raise JournalError(f"{found[server]} and {directory} are journals of the same server, {server}")
        found[server] = directory
    return {server: snapshots(directory, moments) for server, directory in found.items()}


def _begin(paths: Sequence[Path], moment: Moment) -> int:
    """The index of the segment to look for a moment from: the one before the first that begins later."""
    later = len(paths)
    if moment.seq is not None:
        later = bisect_right(paths, moment.seq + 1, key=first_seq)
    elif moment.time is not None:
        later = next((index for index, path in enumerate(paths) if read_header(path).time > moment.time), later)
    return max(0, later - 1)


class _Past:
    """A registry that is folded from the snapshot of a segment on.

    :ivar waiting: moments that have not been passed, each with the record from which on it is looked for.
    :ivar taken: what it was like, at the moments that have been passed.
    """

    def __init__(self, directory: Path, paths: Sequence[Path]) -> None:
        self.waiting: dict[Moment, int] = {}
        self.taken: dict[Moment, Snapshot] = {}
        self._directory = directory
        self._paths = paths
        self._fold = RegistryFold()
        self._first = first_seq(paths[0])
        self._begun = read_header(paths[0]).time
        self._seq = self._first - 1

    def wait_for(self, moment: Moment, since: int) -> None:
        """Take a moment when it comes.

        :param since: the record from which on it is looked for.
        :raises JournalError: if it is before the beginning of the journal.
        """
        if since == self._first > 1 and moment.seq is not None and moment.seq < since - 1:
            raise self._too_early(moment)
        self.waiting[moment] = since

    def records(self) -> Iterator[Record]:
        """The records after the snapshot."""
        return read_segments(self._paths, self._fold.take)

    def _too_early(self, moment: Moment) -> JournalError:
        return JournalError(
            f"the journal {self._directory} begins with record {self._first}, at {format_time(self._begun)}; "
            f"{moment} is before that"
        )

    def pass_record(self, record: Record) -> None:
        """Take the moments before a record, and apply it.

        :raises JournalError: if one of them is before the beginning of the journal.
        """
        passed = [each for each, since in self.waiting.items() if record.seq >= since and each.is_before(record)]
        if record.seq == self._first > 1:
            for each in passed:
                if each.time is not None and each.time < self._begun:
                    raise self._too_early(each)
        self._take(passed)
        self._fold.apply(record.event, record.time)
        self._seq = record.seq
        self._take(each for each in self.waiting if each.seq == record.seq)

    def _take(self, moments: Iterable[Moment]) -> None:
        for each in list(moments):
            self.taken[each] = snapshot(self._seq, self._fold.state)
            del self.waiting[each]

    def end(self) -> None:
        """There is no record after those that were passed.

        :raises JournalError: if one of the moments that are waited for is later than these.
        """
        for each in self.waiting:
            if each.seq is not None and each.seq != self._seq:
                raise JournalError(f"the journal {self._directory} ends with record {self._seq}, before {each}")
        self._take(self.waiting)
