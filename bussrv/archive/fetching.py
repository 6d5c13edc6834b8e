"""From a store, or another directory, to a directory: a whole journal, or the segments that a question takes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from bussrv.archive.store import Store, open_store, segment_names
from bussrv.errors import JournalError, os_errors_as
from bussrv.journal import bounds
from bussrv.journal.digests import digests_of
from bussrv.journal.files import FILES, Files
from bussrv.journal.keys import PublicKey
from bussrv.journal.leaves import is_leaves_name
from bussrv.journal.lock import DIRECTORY_MODE
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.moments import Moment
from bussrv.journal.reading import segments
from bussrv.journal.segment import CORRUPT, first_seq, list_segments, write_file
from bussrv.journal.verify import Report, verify
from bussrv.registry.state.fold import RegistryFold

FETCHING = ".fetching"
"""The ending of the directory that a journal is fetched to, until it is whole."""

_BLOCK = 1 << 20


class StoredJournal:
    """A journal at a URL, of which parts are copied to a directory.

    :param place: a directory, in which an earlier attempt may have left segments.
    :param trusted: the key that the seals must be traceable to.
    :param is_live: whether a server writes it there, and nobody ships it: then its last segment may have no seal yet.
    :ivar manifest: what its manifest says; empty if it has none.
    :ivar names: the files of its segments, by their numbers, in order.
    :raises JournalError: there is none, or its manifest is damaged.
    """

    def __init__(
        self,
        store: Store,
        place: Path,
        trusted: PublicKey | None = None,
        files: Files = FILES,
        *,
        is_live: bool = False,
    ) -> None:
        self.store = store
        self._place = place
        self._files = files
        if MANIFEST_NAME in store.names():
            self._copy(MANIFEST_NAME, bounds.MANIFEST)
        self.manifest = read_manifest(place / MANIFEST_NAME, trusted)
        for finding in self.manifest.findings:
            line = f", line {finding.line}" if finding.line else ""
            raise JournalError(f"{store.at(MANIFEST_NAME)}{line}: {finding.message}")
        # In this order: a segment is shipped before its seals.
        names = segment_names(store.names())
        if not names:
            raise JournalError(f"{store.url} holds no journal: there is no segment in it, or no such place")
        numbers = sorted(names)
        if self.manifest.entries and numbers[-1] not in self.manifest.seals and not is_live:
            # It is being shipped, and the next manifest has its seals.
            numbers.pop()
        self.names = {number: names[number] for number in numbers}

    def fetch(self, numbers: Iterable[int]) -> None:
        """Copy segments, except for those that are there as their seals say. Others that are there are removed.

        :raises JournalError: one is not there, or not what its seal says, or the disk fails.
        """
        wanted = {number: self.names[number] for number in numbers}
        for path in list_segments(self._place):
            if wanted.get(first_seq(path)) != path.name:
                self._files.remove(path)
        for number in wanted:
            self.add(number)

    def add(self, number: int) -> Path:
        """Copy a segment, except if it is there as its seal says. :returns: its path.

        :raises JournalError: as :meth:`fetch`.
        """
        name = self.names[number]
        if not self._is_sealed(number):
            self._copy(name, bounds.SEGMENT)
            if number in self.manifest.seals and self.manifest.seals[number].closed and not self._is_sealed(number):
                raise JournalError(
                    f"{self.store.at(name)} is not what the seal of segment {number} says: it was damaged there"
                )
        return self._place / name

    def fetch_leaves(self) -> None:
        """Copy the hashes of the leaves of segments that were removed, except for those that are there.

        :raises JournalError: if the disk fails.
        """
        for name in self.store.names():
            if is_leaves_name(name) and not (self._place / name).exists():
                self._copy(name, bounds.SEGMENT)

    def _is_sealed(self, number: int) -> bool:
        """Whether a segment is in the directory, and is what its closing seal says."""
        seal = self.manifest.seals.get(number)
        if seal is None or not seal.closed:
            return False
        with suppress(OSError, *CORRUPT):
            found = digests_of(self._place / self.names[number])
            return (found.size, found.digest) == (seal.bytes, seal.digest)
        return False

    def _copy(self, name: str, most: int) -> None:
        self.store.read(name, partial(self._write, self._place / name, most))

    def _write(self, path: Path, most: int, file: BinaryIO) -> None:
        self._files.remove(path)
        failed: list[OSError] = []
        try:
            write_file(path, _parts(file, path.name, most, failed), self._files)
        except OSError as error:
            if error in failed:
                raise
            raise JournalError(f"cannot write {path}: {error.strerror}") from error


def _parts(file: BinaryIO, name: str, most: int, failed: list[OSError]) -> Iterator[bytes]:
    """The content of a file at the store.

    :param failed: is given the errors of the store, which are not those of the disk here.
    """
    size = 0
    while True:
        try:
            block = file.read(_BLOCK)
        except OSError as error:
            failed.append(error)
            raise
        if not block:
            return
        size += len(block)
        if size > most:
            raise JournalError(f"{name} at the store has more than {most} bytes, which no server writes")
        yield block


def fetch(
    store: Store,
    directory: Path,
    trusted: PublicKey | None = None,
    *,
    everything: bool = False,
    is_live: bool = False,
    files: Files = FILES,
) -> Report:
    """Fetch a journal, verify it, and only then give it its name.

    It may be killed anywhere: the next call goes on with what is whole of it.

    :param directory: must not be there.
    :param everything: also the segments that retention has removed from the disk of their server.
    :param is_live: see :class:`StoredJournal`.
    :returns: what :func:`bussrv.journal.verify.verify` says. With faults, the journal stays at ``staging(directory)``.
    :raises JournalError: it cannot be fetched.
    """
    place = staging(directory)
    with os_errors_as(JournalError, f"cannot write {directory}"):
        if directory.exists():
            raise JournalError(f"{directory} is there already: name a directory that is not")
        place.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
        journal = StoredJournal(store, place, trusted, files, is_live=is_live)
        removed = frozenset() if everything else journal.manifest.pruned.keys()
        journal.fetch(number for number in journal.names if number not in removed)
        journal.fetch_leaves()
        report = verify(place, trusted, registry=RegistryFold)
        if not report.faults:
            files.sync_directory(place)
            files.rename(place, directory)
            files.sync_directory(directory.absolute().parent)
    return report


def staging(directory: Path) -> Path:
    """The directory that a journal is in until it is whole."""
    absolute = directory.absolute()
    return absolute.parent / f"{absolute.name}{FETCHING}"


@contextmanager
def at_hand(journals: Sequence[Path | str], moments: Sequence[Moment]) -> Iterator[list[Path]]:
    """The directories of journals, and directories with as much of those at URLs as tells of some moments.

    :raises JournalError: as :class:`StoredJournal`.
    """
    with ExitStack() as stack:
        yield [
            each if isinstance(each, Path) else stack.enter_context(_copied(open_store(each), moments))
            for each in journals
        ]


@contextmanager
def _copied(store: Store, moments: Sequence[Moment]) -> Iterator[Path]:
    """A directory with the segments that tell of some moments. Errors name the URL in its place."""
    with TemporaryDirectory(prefix="bussrv-journal-") as name:
        place = Path(name)
        journal = StoredJournal(store, place)
        begins, ends = zip(*(_span(journal, each) for each in moments), strict=True)
        numbers = list(journal.names)[min(begins) : max(ends) + 1]
        journal.fetch(numbers)
        try:
            yield place
        except JournalError as error:
            raise JournalError(str(error).replace(name, store.url)) from error


def _span(journal: StoredJournal, moment: Moment) -> tuple[int, int]:
    """The indices of the first and the last segment that it takes to find a moment."""
    numbers, seals = list(journal.names), journal.manifest.seals
    end = len(numbers) - 1
    if moment.seq is not None:
        found = max(0, bisect_right(numbers, moment.seq) - 1)
        # The record before the first one of a segment is found in its snapshot.
        return found, min(end, found + 1)
    if moment.time is None:
        return end, end
    first_times = [seals[each].first_time if each in seals else None for each in numbers]
    last_times = [seals[each].last_time if each in seals else None for each in numbers]
    later = next((index for index, time in enumerate(first_times) if time is None or time > moment.time), end + 1)
    # The header of a segment is a little later than its first record.
    begin = max(0, later - 2)
    last = (index for index in range(begin, end) if (time := last_times[index]) is not None and time > moment.time)
    return begin, next(last, end)


ATTEMPTS = 10
"""So often a copy is tried. Each keeps the closed segments of those before, so it takes less time than they did."""


def back_up(
    directory: Path, target: Path, trusted: PublicKey | None = None, *, attempts: int = ATTEMPTS, files: Files = FILES
) -> Report:
    """Copy a journal and verify the copy. It gets its name when it is whole.

    The server may begin, compress or remove a segment meanwhile. Then the copy does not fit its manifest, and is
    completed by another attempt.

    :param target: must not be there.
    :param trusted: the key that the seals must be traceable to.
    :returns: what :func:`bussrv.journal.verify.verify` says of the copy. With faults, it stays where
        :func:`bussrv.archive.fetching.staging` says.
    :raises JournalError: it cannot be copied.
    """
    if target.exists():
        raise JournalError(f"{target} is there already: name a directory that is not")
    segments(directory)
    store = open_store(directory.resolve().as_uri())
    for _ in range(attempts - 1):
        with suppress(JournalError):
            report = fetch(store, target, trusted, is_live=True, files=files)
            if not report.faults:
                return report
    return fetch(store, target, trusted, is_live=True, files=files)
