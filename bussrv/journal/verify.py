"""Is a journal what its server wrote? Every line, every link between segments, every seal; nothing is changed.

Three things are held against each other: the lines of each segment (each has the hash of the one before it), the
headers (each has the digest of the segment before), and the manifest (which has the digest of each segment, and with a
key a signature that only the server could make). It works on a copy of a journal, wherever that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from bussrv.errors import JournalError
from bussrv.journal.header import Header
from bussrv.journal.keys import PublicKey
from bussrv.journal.manifest import MANIFEST_NAME, Manifest, Seal, read_manifest
from bussrv.journal.segment import TORN_SUFFIX, Extent, digest_of, first_seq, list_segments, segment_name
from bussrv.journal.walk import Fault, Walk, walk


class Report(Struct, kw_only=True):
    """What came out.

    :ivar faults: what is not as it was written, in the order of the journal.
    :ivar notes: what is worth knowing, and no fault.
    :ivar segments: how many segments were looked at, and ``records`` how many records they have.
    :ivar first_seq: the first record that is there, and ``last_seq`` the last one.
    :ivar sealed_seq: the last record that a seal vouches for.
    :ivar key: the fingerprint of the key in force; ``None``: the seals are not signed.
    :ivar is_trusted: whether that was led back to a key that the caller knows.
    """

    faults: list[Fault] = []
    notes: list[str] = []
    segments: int = 0
    records: int = 0
    first_seq: int | None = None
    last_seq: int | None = None
    sealed_seq: int | None = None
    key: str | None = None
    is_trusted: bool = False


def verify(directory: Path, trusted: PublicKey | None = None, includes: Sequence[str] = ()) -> Report:
    """Look at everything in a journal directory.

    :param trusted: the key that seals have to be led back to.
    :param includes: hashes of entries of the manifest, kept elsewhere, that have to be there.
    :raises JournalError: if the journal cannot be read, or is none.
    """
    paths = list_segments(directory)
    manifest_path = directory / MANIFEST_NAME
    manifest = read_manifest(manifest_path, trusted)
    if not paths and not manifest.entries and not manifest.faults:
        raise JournalError(f"{directory} holds no journal: there is no segment in it")
    try:
        return _Verification(paths, manifest_path, manifest, trusted, includes).run()
    except (OSError, EOFError) as error:
        raise JournalError(f"cannot read the journal directory {directory}: {error}") from error


class _Verification:
    def __init__(
        self,
        paths: list[Path],
        manifest_path: Path,
        manifest: Manifest,
        trusted: PublicKey | None,
        includes: Sequence[str],
    ) -> None:
        self._paths = paths
        self._manifest_path = manifest_path
        self._manifest = manifest
        self._trusted = trusted
        self._includes = includes
        self._known = {entry.hash for entry in manifest.entries}
        self._report = Report(segments=len(paths))

    def run(self) -> Report:
        report, in_force = self._report, self._manifest.in_force
        report.key = None if in_force is None else in_force.fingerprint
        report.is_trusted = self._trusted is not None
        self._check_manifest()
        before: Walk | None = None
        for path in self._paths:
            before = self._check_segment(path, before)
        self._check_present()
        self._note_torn()
        return report

    def _fault(self, path: Path, message: str, line: int | None = None, seq: int | None = None) -> None:
        segment = None if path == self._manifest_path else first_seq(path)
        self._report.faults.append(Fault(path=path.name, segment=segment, line=line, seq=seq, message=message))

    def _check_manifest(self) -> None:
        for fault in self._manifest.faults:
            self._fault(self._manifest_path, fault.message, line=fault.line or None)
        for entry_hash in self._includes:
            if entry_hash not in self._known:
                self._fault(
                    self._manifest_path, f"entry {entry_hash} is not there: what was behind it is cut off or replaced"
                )
        if self._manifest.torn:
            self._report.notes.append(f"{MANIFEST_NAME} ends in an unfinished line of {self._manifest.torn} bytes")
        if not self._manifest.entries:
            self._report.notes.append(
                "there are no seals: the chain alone does not show who wrote it, or where it ended"
            )
        elif self._manifest.in_force is None:
            self._report.notes.append("the seals are not signed: whoever can write to the journal can make such seals")
        elif self._trusted is None:
            self._report.notes.append(
                f"the seals are signed with the key {self._manifest.in_force.fingerprint}, which was not compared with "
                "one that you know: use --public-key"
            )

    def _check_segment(self, path: Path, before: Walk | None) -> Walk:
        found = walk(path)
        self._report.faults += found.faults
        header = found.header
        if header is not None:
            self._check_header(path, header, before)
        self._check_seal(path, found)
        if not found.records:
            self._no_records(path)
        self._count(found)
        return found

    def _check_header(self, path: Path, header: Header, before: Walk | None) -> None:
        if header.seal is not None and header.seal not in self._known:
            self._fault(path, f"the manifest has no entry {header.seal}, which the header refers to", 1)
        if header.salvaged is not None:
            damage = header.salvaged
            what = (
                f"a new chain begins here: segment {damage.segment} was damaged at line {damage.line} ({damage.reason})"
            )
            self._fault(path, what, 1, header.segment)
            return
        if before is None:
            self._check_beginning(path, header)
            return
        expected = header.previous
        if expected is None or expected.segment != before.number:
            said = "none" if expected is None else f"segment {expected.segment}"
            self._fault(path, f"the segment before it should be {said}, and is segment {before.number}", 1)
        elif (expected.bytes, expected.digest) != (before.bytes, before.digest):
            self._changed(header, before)
        elif header.prev != before.last_hash:
            self._fault(path, f"the header does not hold the hash of the last line of segment {before.number}", 1)
        if header.segment != before.next_seq:
            self._fault(path, f"records {before.next_seq} to {header.segment - 1} are missing", 1, before.next_seq)

    def _changed(self, header: Header, before: Walk) -> None:
        """The segment before is not what the header says; if all its lines but the last are, it is that one."""
        if not before.faults and header.prev != before.last_hash:
            self._fault(
                before.path, "its last record was changed, or records behind it are gone", seq=before.extent.last_seq
            )
        else:
            self._fault(before.path, f"it is not what it was when segment {header.segment} was begun")

    def _check_beginning(self, path: Path, header: Header) -> None:
        expected = header.previous
        if expected is None:
            if header.segment != 1:
                self._fault(path, f"records 1 to {header.segment - 1} are missing", 1, 1)
        elif expected.segment not in self._manifest.pruned and expected.segment not in self._manifest.seals:
            # What is sealed and gone is named with the other seals.
            self._fault(path, f"segment {expected.segment} before it is missing, and was not removed by retention", 1)

    def _check_seal(self, path: Path, found: Walk) -> None:
        seal = self._manifest.seals.get(found.number)
        is_last = path == self._paths[-1]
        if seal is None:
            if self._manifest.seals and not is_last:
                self._fault(path, "it is not sealed")
            elif found.records:
                self._report.notes.append(f"nothing of {path.name} is sealed yet")
            return
        size, digest = digest_of(path, seal.bytes)
        if (size, digest) != (seal.bytes, seal.digest):
            self._fault(path, _seal_words(seal, size, found))
        elif seal.closed and found.size > seal.bytes:
            self._fault(path, f"it goes on behind its closed seal, at byte {seal.bytes}", seq=_next(seal))
        elif not seal.closed and not is_last:
            self._fault(path, f"it is sealed up to record {seal.last_seq} only, not as closed", seq=_next(seal))
        else:
            self._check_sealed(path, seal, found)

    def _check_sealed(self, path: Path, seal: Seal, found: Walk) -> None:
        self._report.sealed_seq = seal.last_seq
        if seal.closed and _ends(seal) != _ends(found.extent):
            self._fault(path, "its seal gives another number of records, or other first and last ones")
        elif found.next_seq > _next(seal):
            self._report.notes.append(f"records {_next(seal)} to {found.next_seq - 1} are not sealed yet")

    def _no_records(self, path: Path) -> None:
        if path == self._paths[-1]:
            self._report.notes.append(f"{path.name} holds no record yet")
        else:
            self._fault(path, "it holds no record")

    def _count(self, found: Walk) -> None:
        report = self._report
        report.records += found.records
        if found.records:
            report.first_seq = found.extent.first_seq if report.first_seq is None else report.first_seq
            report.last_seq = found.extent.last_seq

    def _check_present(self) -> None:
        """What is sealed has to be there, unless the manifest says that it was removed."""
        numbers = {first_seq(path) for path in self._paths}
        for number, seal in self._manifest.seals.items():
            path = self._manifest_path.with_name(segment_name(number))
            if number not in numbers and number not in self._manifest.pruned:
                self._fault(
                    path, f"it is missing, with the records {seal.first_seq} to {seal.last_seq}", seq=seal.first_seq
                )
        if self._manifest.pruned:
            gone = self._manifest.pruned.values()
            self._report.notes.append(
                f"{len(gone)} segments, up to record {max(each.last_seq for each in gone)}, were removed by retention"
            )

    def _note_torn(self) -> None:
        for path in sorted(self._manifest_path.parent.glob(f"*{TORN_SUFFIX}")):
            self._report.notes.append(f"{path.name}: {path.stat().st_size} bytes that a crash left unfinished")


def _next(seal: Seal) -> int:
    return seal.segment + seal.records


def _ends(extent: Seal | Extent) -> tuple[int | None, ...]:
    return extent.records, extent.first_seq, extent.last_seq, extent.first_time, extent.last_time


def _seal_words(seal: Seal, size: int, found: Walk) -> str:
    if size < seal.bytes:
        return f"it was cut: {seal.bytes} bytes, up to record {seal.last_seq}, are sealed, and it has {found.size}"
    if found.faults:
        return "it is not what was sealed"
    return (
        f"it is not what was sealed, though its lines fit each other: record {seal.last_seq} was changed, or more of it"
    )
