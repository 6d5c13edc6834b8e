"""Is a journal what its server wrote? Every line, every link between segments, every seal; nothing is changed.

Three things are held against each other: the lines of each segment (each has the hash of the one before it), the
headers (each has the digest of the segment before), and the manifest (which has the digest of each segment, and with a
key a signature that only the server could make). It works on a copy of a journal, wherever that is, and on one that a
server is writing.

What no seal is about yet is vouched for by the chain alone, which anybody can make. A server seals the first records of
a segment at once, so a segment of which nothing is sealed is a fault where there are seals.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from bussrv.errors import JournalError
from bussrv.journal.header import Header
from bussrv.journal.keys import PublicKey
from bussrv.journal.manifest import MANIFEST_NAME, Seal, read_manifest
from bussrv.journal.record import format_time
from bussrv.journal.segment import (
    COMPRESSED_SUFFIX,
    DIGITS,
    GARBLED,
    SUFFIX,
    TORN_SUFFIX,
    Extent,
    compressed_path,
    digest_of,
    first_seq,
    is_compressed,
    list_segments,
    segment_name,
)
from bussrv.journal.walk import Fault, Walk, walk

PATIENCE = 1.0
"""Seconds that a running server may take to seal what it has just begun or closed."""

_POLL = 0.05


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


def verify(
    directory: Path, trusted: PublicKey | None = None, includes: Sequence[str] = (), *, to_the_end: bool = False
) -> Report:
    """Look at everything in a journal directory.

    :param trusted: the key that seals have to be led back to.
    :param includes: hashes of entries of the manifest, kept elsewhere, that have to be there.
    :param to_the_end: whether every record has to be sealed, as it is when a server has stopped.
    :raises JournalError: if the journal cannot be read, or is none.
    """
    try:
        return _Verification(directory, trusted, includes, to_the_end).run()
    except OSError as error:
        raise JournalError(f"cannot read the journal directory {directory}: {error}") from error


class _Verification:
    """
    :ivar _unknown: seals that headers refer to, and that are not there, each with the first such segment.
    :ivar _waits_until: when a seal that is not there will not come any more.
    """

    def __init__(self, directory: Path, trusted: PublicKey | None, includes: Sequence[str], to_the_end: bool) -> None:
        # In this order: what a header refers to was in the manifest before the segment was there.
        self._paths = list_segments(directory)
        self._manifest_path = directory / MANIFEST_NAME
        self._manifest = read_manifest(self._manifest_path, trusted)
        if not self._paths and not self._manifest_path.exists():
            raise JournalError(f"{directory} holds no journal: there is no segment in it")
        self._trusted = trusted
        self._includes = includes
        self._to_the_end = to_the_end
        self._known = {entry.hash for entry in self._manifest.entries}
        self._unknown: dict[str, int] = {}
        # Another one may have been begun and sealed in between.
        self._numbers = {first_seq(path) for path in (*self._paths, *list_segments(directory))}
        self._waits_until = time.monotonic() + PATIENCE
        self._report = Report(segments=len(self._paths))

    def run(self) -> Report:
        report, in_force = self._report, self._manifest.in_force
        report.key = None if in_force is None else in_force.fingerprint
        self._check_manifest()
        report.is_trusted = self._trusted is not None and not report.faults
        before: Walk | None = None
        for path in self._paths:
            before = self._check_if_there(path, before)
        self._check_references()
        self._check_present()
        self._check_other_files()
        return report

    def _check_if_there(self, path: Path, before: Walk | None) -> Walk | None:
        try:
            return self._check_segment(path, before)
        except FileNotFoundError:
            # A running server that removed it has said so in the manifest before.
            self._manifest.pruned.update(read_manifest(self._manifest_path, self._trusted).pruned)
            if first_seq(path) not in self._manifest.pruned:
                raise
            self._report.segments -= 1
            return None

    def _fault(self, path: Path, message: str, line: int | None = None, seq: int | None = None) -> None:
        segment = None if path == self._manifest_path else first_seq(path)
        self._report.faults.append(Fault(path=path.name, segment=segment, line=line, seq=seq, message=message))

    def _is_blamed(self, number: int) -> bool:
        return any(fault.segment == number for fault in self._report.faults)

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

    def _check_references(self) -> None:
        if self._unknown:
            (entry_hash, number), *others = self._unknown.items()
            more = f", nor {len(others)} others that later segments refer to" if others else ""
            self._fault(
                self._manifest_path,
                f"entry {entry_hash} is not there, which segment {number} refers to{more}: it was cut off or replaced",
            )

    def _check_segment(self, path: Path, before: Walk | None) -> Walk:
        is_last = path == self._paths[-1]
        seals = self._manifest.all_seals.get(first_seq(path), [])
        found = _walk(path, seals)
        if found.records and not (seals and (seals[-1].closed or is_last)):
            later = self._await_seal(found.number, is_closed=not is_last)
            if later:
                seals, found = later, _walk(path, later)
        self._report.faults += found.faults
        self._check_header(path, found.header, before)
        if seals:
            self._check_seals(path, seals, found, is_last)
        else:
            self._check_unsealed(path, found)
        self._check_end(path, found, is_last)
        self._check_copy(path, found)
        self._count(found)
        return found

    def _await_seal(self, number: int, *, is_closed: bool) -> list[Seal]:
        """The seals with the one that a running server makes right now, if it does."""
        while self._manifest.entries:
            seals = read_manifest(self._manifest_path).all_seals.get(number, [])
            if seals and (seals[-1].closed or not is_closed):
                return seals
            if time.monotonic() >= self._waits_until:
                break
            time.sleep(_POLL)
        return []

    def _check_header(self, path: Path, header: Header | None, before: Walk | None) -> None:
        if header is None or header.segment != first_seq(path):
            return
        if header.seal is not None and header.seal not in self._known:
            self._unknown.setdefault(header.seal, header.segment)
        if header.salvaged is not None:
            damage = header.salvaged
            what = (
                f"a new chain begins here: segment {damage.segment} was damaged at line {damage.line} ({damage.reason})"
            )
            self._fault(path, what, 1, header.segment)
        elif header.previous is None:
            if header.segment != 1:
                self._fault(
                    path, f"it says that it is the first, and records 1 to {header.segment - 1} are missing", 1, 1
                )
            elif before is not None:
                self._fault(path, f"it says that it is the first, and stands behind segment {before.number}", 1)
        elif before is None or before.number != header.previous.segment:
            self._check_gap(path, header.previous.segment, before)
        else:
            self._check_link(path, header, before)

    def _check_gap(self, path: Path, expected: int, before: Walk | None) -> None:
        """Another segment stood before this one. What is sealed and gone is named with the other seals."""
        if expected in self._manifest.pruned or (expected in self._manifest.seals and expected not in self._numbers):
            return
        is_there = "" if before is None else f", and segment {before.number} is there"
        self._fault(path, f"segment {expected} stood before it{is_there}", 1, expected)

    def _check_link(self, path: Path, header: Header, before: Walk) -> None:
        """Hold a segment against what the header of the next one says of it; once is enough to name it."""
        if self._is_blamed(before.number):
            return
        expected = header.previous
        if header.segment > before.next_seq:
            self._fault(
                before.path,
                f"records {before.next_seq} to {header.segment - 1} at its end are gone",
                seq=before.next_seq,
            )
        elif header.segment < before.next_seq:
            self._fault(
                before.path,
                f"it goes on behind record {header.segment - 1}, where the next one begins",
                seq=header.segment,
            )
        elif expected is not None and (expected.bytes, expected.digest) == (before.bytes, before.digest):
            if header.prev != before.last_hash:
                self._fault(path, f"the header does not hold the hash of the last line of segment {before.number}", 1)
        elif header.prev != before.last_hash:
            self._fault(
                before.path,
                f"its last record was changed, or the header of segment {header.segment}",
                before.lines,
                before.extent.last_seq,
            )
        else:
            self._fault(path, f"it does not say of segment {before.number} what that is like", 1)

    def _check_unsealed(self, path: Path, found: Walk) -> None:
        if not found.records:
            return
        if self._manifest.entries or self._to_the_end:
            self._fault(
                path,
                "nothing of it is sealed, though a server seals the first records of a segment at once: it was put "
                "there, its seals were cut off, or the server was killed at that moment and has yet to start again",
                seq=found.extent.first_seq,
            )

    def _check_seals(self, path: Path, seals: Sequence[Seal], found: Walk, is_last: bool) -> None:
        """Hold a segment against all its seals: the first one of a record holds what was there then."""
        for seal in seals:
            if found.beginnings.get(seal.bytes) != seal.digest:
                self._not_as_sealed(path, seal, found)
                return
        self._check_last_seal(path, seals[-1], found, is_last)

    def _check_last_seal(self, path: Path, seal: Seal, found: Walk, is_last: bool) -> None:
        self._report.sealed_seq = seal.last_seq
        if seal.closed and found.size > seal.bytes:
            self._fault(path, f"it goes on behind its closed seal, at byte {seal.bytes}", seq=_next(seal))
        elif not seal.closed and not is_last:
            self._fault(path, f"it is sealed up to record {seal.last_seq} only, not as closed", seq=_next(seal))
        elif seal.closed and _ends(seal) != _ends(found.extent):
            self._fault(path, "its seal gives another number of records, or other first and last ones")
        elif found.next_seq > _next(seal):
            self._check_behind_seal(path, seal, found)

    def _not_as_sealed(self, path: Path, seal: Seal, found: Walk) -> None:
        if found.faults:
            self._fault(path, "it is not what was sealed")
        elif found.bytes < seal.bytes:
            what = f"it was cut: {seal.bytes} bytes, up to record {seal.last_seq}, are sealed, and it has {found.bytes}"
            self._fault(path, what, found.lines + 1, found.next_seq)
        else:
            what = (
                f"it is not what was sealed, and its lines fit each other: record {seal.last_seq} was changed, or more"
            )
            self._fault(path, what, found.lines + seal.records - found.records, seal.last_seq)

    def _check_behind_seal(self, path: Path, seal: Seal, found: Walk) -> None:
        since = "" if seal.last_time is None else f" of {format_time(seal.last_time)}"
        what = f"records {_next(seal)} to {found.next_seq - 1}, behind record {seal.last_seq}{since}, are not sealed"
        if self._to_the_end:
            self._fault(path, what, seq=_next(seal))
        else:
            self._report.notes.append(f"{what} yet")

    def _check_end(self, path: Path, found: Walk, is_last: bool) -> None:
        unfinished = found.size - found.bytes
        if is_last and unfinished:
            self._report.notes.append(f"{path.name} ends in an unfinished line of {unfinished} bytes")
        elif unfinished and not self._is_blamed(found.number):
            self._fault(path, f"it ends in an unfinished line of {unfinished} bytes", seq=found.next_seq)
        if not found.records and is_last:
            self._report.notes.append(f"{path.name} holds no record yet")
        elif not found.records:
            self._fault(path, "it holds no record")

    def _check_copy(self, path: Path, found: Walk) -> None:
        """While a segment is compressed, it is there twice."""
        copy = compressed_path(path)
        if is_compressed(path) or not copy.exists():
            return
        try:
            is_same = digest_of(copy) == (found.bytes, found.digest)
        except FileNotFoundError:
            return
        except GARBLED:
            is_same = False
        if not is_same:
            self._fault(copy, f"it is not the same as {path.name}, which is there too")

    def _count(self, found: Walk) -> None:
        report = self._report
        report.records += found.records
        if found.records:
            report.first_seq = found.extent.first_seq if report.first_seq is None else report.first_seq
            report.last_seq = found.extent.last_seq

    def _check_present(self) -> None:
        """What is sealed has to be there, unless the manifest says that it was removed."""
        for number, seal in self._manifest.seals.items():
            path = self._manifest_path.with_name(segment_name(number))
            if number not in self._numbers and number not in self._manifest.pruned:
                self._fault(
                    path, f"it is missing, with the records {seal.first_seq} to {seal.last_seq}", seq=seal.first_seq
                )
        if self._manifest.pruned:
            gone = self._manifest.pruned.values()
            self._report.notes.append(
                f"{len(gone)} segments, up to record {max(each.last_seq for each in gone)}, were removed by retention"
            )

    def _check_other_files(self) -> None:
        for path in sorted(self._manifest_path.parent.iterdir()):
            number, _, suffix = path.name.partition(".")
            if path.name.endswith(TORN_SUFFIX):
                self._report.notes.append(f"{path.name}: {path.stat().st_size} bytes that a crash left unfinished")
            elif f".{suffix}" in (SUFFIX, COMPRESSED_SUFFIX) and number.isdecimal() and len(number) != DIGITS:
                self._fault(path, f"the name of a segment has {DIGITS} digits")


def _walk(path: Path, seals: Iterable[Seal]) -> Walk:
    return walk(path, [seal.bytes for seal in seals])


def _next(seal: Seal) -> int:
    return seal.segment + seal.records


def _ends(extent: Seal | Extent) -> tuple[int | None, ...]:
    return extent.records, extent.first_seq, extent.last_seq, extent.first_time, extent.last_time
