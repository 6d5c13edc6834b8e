"""Opening a journal directory: see that nothing is missing, set a torn tail aside, replay the last segment.

The snapshot at the beginning of the last segment is replayed, and the records after it. So the time does not grow with
the history. Earlier segments are not replayed: the digest of each is compared with its seals and with the next header.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from bussrv.errors import JournalError
from bussrv.events import ServerStopped
from bussrv.journal.chain import START
from bussrv.journal.digests import Digests, digests_of
from bussrv.journal.evidence.findings import Finding
from bussrv.journal.evidence.segments import (
    Segment,
    SegmentJudge,
    judge_manifest,
    judge_missing,
    judge_references,
    unreadable,
    why_unreadable,
)
from bussrv.journal.files import FILES, Files
from bussrv.journal.header import Damage, Header, Previous
from bussrv.journal.manifest import MANIFEST_NAME, Seal
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.reading import BadLine, Fold, read_header
from bussrv.journal.record_tree import RecordTree
from bussrv.journal.scan import Scan
from bussrv.journal.segment import (
    COMPRESSED_SUFFIX,
    CORRUPT,
    NEW_SUFFIX,
    Extent,
    first_seq,
    is_compressed,
    list_segments,
    segment_name,
    set_end_aside,
)

ADVICE = (
    "Restore the journal from a copy, start with another directory, or start once with --journal-salvage: "
    "then a new chain begins after the damage."
)


class Recovered(Struct, frozen=True, kw_only=True):
    """The content of a journal directory when it was opened, and the place where the next segment goes on.

    :ivar next_seq: the number of the record to come, 1 in a new journal.
    :ivar hash: the hash of the last line.
    :ivar last_time: the time of the last record, UTC microseconds.
    :ivar previous: the last segment.
    :ivar server: the server id of the last record.
    :ivar stopped: whether the last boot ended in an orderly way.
    :ivar torn_bytes: the size of an unfinished line that was set aside.
    :ivar salvaged: the damage after which the next segment begins a new chain.
    :ivar unsealed: segments that ended without being sealed as closed.
    :ivar tree: the tree of all records, ``None`` if the last segment has none, or a new one begins.
    """

    next_seq: int = 1
    hash: str = START
    last_time: int = 0
    previous: Previous | None = None
    server: str | None = None
    stopped: bool = True
    torn_bytes: int = 0
    salvaged: Damage | None = None
    unsealed: tuple[Extent, ...] = ()
    tree: RecordTree | None = None


class Damaged(JournalError):
    """A journal is damaged where no crash can have done it.

    :ivar what: the message without the advice, which is not for a salvage.
    :ivar damage: where it is, for a salvage.
    :ivar finding: what the judge found.
    """

    def __init__(self, what: str, damage: Damage, finding: Finding) -> None:
        super().__init__(f"{what} {ADVICE}")
        self.what = what
        self.damage = damage
        self.finding = finding


def recover(directory: Path, fold: Fold | None, files: Files = FILES) -> Recovered:
    """Replay a locked journal directory into ``fold``. Nothing in it is changed before everything was looked at.

    :param fold: ``None``: the records are judged only.
    :raises Damaged: if a line is damaged or missing anywhere but at the very end, if a segment is not what it was when
        it was sealed, or if a seal is missing; names segment and line.
    :raises JournalError: if the directory or a file in it cannot be read.
    """
    try:
        paths = list_segments(directory)
        recovered = _Recovery(directory, paths, fold, files).run() if paths else _nothing(directory)
        _remove_unfinished(directory, files)
        return recovered
    except OSError as error:
        raise JournalError(f"cannot read the journal directory {directory}: {error}") from error


def _remove_unfinished(directory: Path, files: Files) -> None:
    for path in sorted(directory.iterdir()):
        is_copy = path.name.endswith(COMPRESSED_SUFFIX) and path.with_suffix("").exists()
        if path.name.endswith(NEW_SUFFIX) or is_copy:
            files.remove(path)


def _nothing(directory: Path) -> Recovered:
    missing = list(judge_missing(read_manifest(directory / MANIFEST_NAME), ()))
    if missing:
        raise _damaged(directory, missing[-1])
    return Recovered()


def _damaged(directory: Path, finding: Finding, *, line: int = 0, next_seq: int | None = None) -> Damaged:
    """The error for a finding, with the facts that a salvage needs.

    :param line: of the segment, if the finding does not name it.
    :param next_seq: the number of the record that should stand there; those before it are not in doubt.
    """
    number, line, seq, path = finding.segment or 0, finding.line or line, finding.first_seq, directory / MANIFEST_NAME
    if finding.code == "bad-manifest" and finding.line:
        number, seq = 0, None
    elif finding.code == "broken-link" and finding.line and seq is not None:
        # The next header misses a segment. The damage is there, and not in the segment of that header.
        number, line = seq, 0
    if number:
        plain = directory / segment_name(number)
        path = next((path for path in list_segments(directory) if first_seq(path) == number), plain)
        seq = min(each for each in (seq or number, next_seq) if each is not None)
    where = f"{path}, line {line}" if line else str(path)
    doubt = "" if seq is None else f" From record {seq} on the journal is in doubt."
    what = finding.message
    return Damaged(f"{where}: {what}.{doubt}", Damage(segment=number, line=line, seq=seq, reason=what), finding)


class _Recovery:
    """One look at a journal that has segments; those before the last salvage are not judged any more."""

    def __init__(self, directory: Path, paths: list[Path], fold: Fold | None, files: Files) -> None:
        self._directory = directory
        self._manifest = read_manifest(directory / MANIFEST_NAME)
        self._fold = fold
        self._files = files
        # A segment that was about to be removed at a crash is neither missed nor judged.
        kept = [path for path in paths if first_seq(path) not in self._manifest.pruned]
        self._headers = _since_salvage(kept)
        self._paths = kept[-len(self._headers) :]
        self._numbers = {first_seq(path) for path in self._paths}
        self._judge = SegmentJudge(self._manifest, self._numbers)
        self._overlong: dict[Path, int] = {}

    def run(self) -> Recovered:
        self._check_manifest()
        for index in range(len(self._paths)):
            self._check_segment(index)
        *older, last = self._paths
        found = _read(last, self._fold)
        record = found.judge.last_record
        torn = 0 if is_compressed(last) else last.stat().st_size - found.extent.bytes
        if torn:
            self._overlong[last] = found.extent.bytes
        for path, size in self._overlong.items():
            set_end_aside(path, size, self._files)
        unsealed = [_read(path).extent for path in older if not self._is_closed(path)]
        if record is None:
            # A crash came between the beginning of the segment and its first record.
            self._files.remove(last)
            header = self._headers[-1]
            return Recovered(
                next_seq=header.segment,
                hash=header.prev,
                last_time=header.time,
                previous=header.previous,
                server=header.server,
                stopped=False,
                torn_bytes=torn,
                salvaged=header.salvaged,
                unsealed=tuple(unsealed),
                tree=None if header.tree is None else RecordTree.of_header(header.tree, header.segment),
            )
        if not self._is_closed(last):
            unsealed.append(found.extent)
        return Recovered(
            next_seq=found.judge.next_seq,
            hash=found.judge.hash or START,
            last_time=record.time,
            previous=found.extent.as_previous(),
            server=record.server,
            stopped=isinstance(record.event, ServerStopped),
            torn_bytes=torn,
            unsealed=tuple(unsealed),
            tree=found.tree,
        )

    def _is_closed(self, path: Path) -> bool:
        seal = self._manifest.seals.get(first_seq(path))
        return seal is not None and seal.closed

    def _check_manifest(self) -> None:
        """Entries from before the last salvage are not judged, nor are segments missed that were there before."""
        manifest, first = self._manifest, self._headers[0]
        judged_from = 0 if first.salvaged is None else manifest.lines.get(first.seal or "", 0)
        for finding in judge_manifest(manifest):
            if (finding.line or 0) > judged_from:
                raise _damaged(self._directory, finding)
        headers = {each.segment: each for each in self._headers if each.salvaged is None}
        for finding in judge_references(manifest, headers):
            raise _damaged(self._directory, finding, line=1)
        for finding in judge_missing(manifest, self._numbers):
            if (finding.segment or 0) > first.segment:
                raise _damaged(self._directory, finding)

    def _check_segment(self, index: int) -> None:
        """Hold a segment against its seals, and against the segment before."""
        path, seals = self._paths[index], self._manifest.all_seals.get(self._headers[index].segment, [])
        # Nothing before the first segment is judged.
        header = self._headers[index] if index else None
        segment = Segment(number=first_seq(path), digests=self._digests(index, seals), header=header)
        # A segment that a crash left unsealed is sealed soon.
        for finding in self._judge.pass_segment(segment, seals, seals[-1] if seals else None, may_grow=True):
            # A bad line of it, or of the one before, says more.
            for each in self._paths[max(0, index - 1) : index + 1]:
                _read(each)
            raise _damaged(self._directory, finding)

    def _digests(self, index: int, seals: Iterable[Seal]) -> Digests:
        path, successor = self._paths[index], next(iter(self._headers[index + 1 :]), None)
        expected = None if successor is None else successor.previous
        sizes = [seal.bytes for seal in seals] + ([] if expected is None else [expected.bytes])
        try:
            found = digests_of(path, sizes)
        except CORRUPT as error:
            raise _damaged(self._directory, unreadable(first_seq(path), why_unreadable(error))) from error
        if successor is None or expected is None or found.size <= expected.bytes or self._is_closed(path):
            return found
        # A failing disk did not let go of this end; it was refused, and the next segment began without it.
        size = self._overlong[path] = expected.bytes
        return replace(found, size=size, digest=found.beginnings[size], last_hash=successor.prev)


def _since_salvage(paths: list[Path]) -> list[Header]:
    """The headers of the segments since the last one that began a new chain."""
    headers: list[Header] = []
    for path in reversed(paths):
        try:
            headers.insert(0, read_header(path))
        except BadLine:
            # The lines after it may tell more of it.
            _read(path)
            raise
        if headers[0].salvaged is not None:
            break
    return headers


def _read(path: Path, fold: Fold | None = None) -> Scan:
    """Read a segment, and replay it into ``fold``.

    :raises Damaged: says what is wrong with it first.
    """
    found = Scan(path, fold=fold)
    first, wrong = found.judge.first, found.judge.wrong
    if first is not None and wrong is not None:
        raise _damaged(path.parent, first, line=wrong.line or 0, next_seq=found.judge.next_seq)
    return found
