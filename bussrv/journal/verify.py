"""Is a journal what its server wrote? Every line, every header, every seal is judged; nothing is changed.

Three things are compared: the lines of each segment (each has the hash of the line before), the headers (each has the
digest of the segment before), and the manifest (which has the digest of each segment, and with a key a signature that
only the server could make). It works on a copy of a journal, wherever that is, and while a server writes. The judge is
:mod:`bussrv.journal.evidence`.

Records that are not sealed yet are protected by the chain alone, which anybody can make. A server seals the first
records of a segment at once. So a segment without any seal is a fault if there are seals.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from bussrv.errors import JournalError
from bussrv.journal import bounds
from bussrv.journal.digests import digests_of
from bussrv.journal.evidence.findings import SEVERITIES, Finding
from bussrv.journal.evidence.numbers import Numbers
from bussrv.journal.evidence.registries import NewRegistry, RegistryReader
from bussrv.journal.evidence.segments import (
    Segment,
    SegmentJudge,
    expect_first,
    is_closed,
    is_verified,
    judge_manifest,
    judge_missing,
    judge_references,
    unsealed_end,
)
from bussrv.journal.evidence.witnesses import (
    Covered,
    Others,
    begins_of,
    coverage,
    judge_cosignatures,
    judge_coverage,
    judge_kept,
    known_checkpoints,
    vouched,
    when,
)
from bussrv.journal.keys import PublicKey
from bussrv.journal.leaves import root_at
from bussrv.journal.manifest import MANIFEST_NAME, Manifest, Seal
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.scan import Scan
from bussrv.journal.segment import (
    COMPRESSED_SUFFIX,
    CORRUPT,
    DIGITS,
    SUFFIX,
    TORN_SUFFIX,
    compressed_path,
    first_seq,
    is_compressed,
    list_segments,
    segment_name,
)

PATIENCE = 1.0
"""Seconds that a running server may take to seal what it has just begun or closed."""

BAD_FILE = "bad-file"
"""The code of a file that contradicts its name. Only this module looks at other files than segments and manifest."""

_POLL = 0.05


class JournalFault(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that is not as it was written.

    :ivar path: the name of the file.
    :ivar code: a key of :data:`bussrv.journal.evidence.findings.SEVERITIES`, or ``BAD_FILE``.
    :ivar message: what is wrong, as a sentence without its end.
    :ivar segment: the number of the segment that it is about, also where an entry of the manifest is wrong.
    :ivar line: the number of the line, from 1.
    :ivar seq: the first record that it is about, and ``last_seq`` the last one.
    """

    path: str
    code: str
    message: str
    segment: int | None = None
    line: int | None = None
    seq: int | None = None
    last_seq: int | None = None


class Report(Struct, kw_only=True):
    """The result.

    :ivar faults: everything that is not as it was written: the manifest first, then the segments in their order. Of
        very many the last ones are counted, those of each code together.
    :ivar notes: facts that are worth knowing, and no faults.
    :ivar segments: how many segments were looked at, and ``records`` how many records they have.
    :ivar first_seq: the first record that is there, and ``last_seq`` the last one.
    :ivar sealed_seq: the last record that is sealed and verified.
    :ivar witnessed_seq: the last record that enough witnesses cosigned; ``None``: none, or nobody asked.
    :ivar witnessed: which witnesses cosigned which records, if witnesses were named.
    :ivar key: the fingerprint of the key in force; ``None``: the seals are not signed.
    :ivar is_trusted: whether a key that the caller knows leads to that key.
    """

    faults: list[JournalFault] = []
    notes: list[str] = []
    segments: int = 0
    records: int = 0
    first_seq: int | None = None
    last_seq: int | None = None
    sealed_seq: int | None = None
    witnessed_seq: int | None = None
    witnessed: list[Covered] = []
    key: str | None = None
    is_trusted: bool = False


def verify(
    directory: Path,
    trusted: PublicKey | None = None,
    includes: Sequence[str] = (),
    *,
    to_the_end: bool = False,
    registry: NewRegistry | None = None,
    others: Others | None = None,
) -> Report:
    """Look at everything in a journal directory.

    :param trusted: the key that seals have to be led back to.
    :param includes: hashes of entries of the manifest, kept elsewhere, that have to be there.
    :param to_the_end: whether every record has to be sealed, as it is when a server has stopped.
    :param registry: with it snapshots are compared with what comes before them, where no closing seal does that.
    :param others: the witnesses that are trusted, and checkpoints that were kept.
    :raises JournalError: if the journal cannot be read, or is none, or a checkpoint that was kept is not signed.
    """
    try:
        verification = _Verification(directory, trusted, includes, to_the_end, registry)
        return verification.run() if others is None else _with_others(verification, directory, others)
    except OSError as error:
        raise JournalError(f"cannot read the journal directory {directory}: {error}") from error


def _with_others(verification: _Verification, directory: Path, others: Others) -> Report:
    report = verification.run()
    # Only what is there now is compared: a running server may have gone on.
    manifest = verification.manifest
    (checkpoints, wrong), quorum = known_checkpoints(manifest), others.quorum
    verification.add(wrong)
    if quorum is not None:
        witnessed = judge_cosignatures(reversed(checkpoints), quorum)
        verification.add(judge_coverage(manifest, witnessed, quorum, others.now))
        report.witnessed_seq = witnessed.seq or None
        if report.first_seq is not None and report.last_seq is not None:
            report.witnessed = [*coverage(witnessed, report.first_seq, report.last_seq)]
            report.notes += map(str, report.witnessed)
        if witnessed.seq:
            report.notes.append(f"the witnesses cosigned up to record {witnessed.seq}, by {when(witnessed)}")
    keys = {each.key for each in checkpoints if each.key is not None} | set(quorum.keys if quorum else ())
    kept = [*vouched(others.kept, keys)]

    def root(begin: int, size: int) -> bytes | None:
        try:
            return root_at(directory, begin, size)
        except JournalError as error:
            report.notes.append(f"the checkpoint with {size} records cannot be compared: {error}")
            return None

    verification.add(judge_kept(kept, report.last_seq or 0, begins_of(checkpoints).get, root))
    return report


class _Unlisted(Struct):
    """Faults that are only counted; ``path``: the file of the first one."""

    path: str
    count: int = 0


class _Verification:
    """
    :ivar _names: of the files of segments.
    :ivar _numbers: of the segments that are there.
    :ivar _waits_until: when a seal that is not there will not come any more.
    """

    def __init__(
        self,
        directory: Path,
        trusted: PublicKey | None,
        includes: Sequence[str],
        to_the_end: bool,
        registry: NewRegistry | None,
    ) -> None:
        # In this order: the entry that a header refers to was in the manifest before the segment was there.
        self._paths = list_segments(directory)
        self._manifest_path = directory / MANIFEST_NAME
        self._manifest = read_manifest(self._manifest_path, trusted)
        if not self._paths and not self._manifest_path.exists():
            raise JournalError(f"{directory} holds no journal: there is no segment in it")
        self._trusted = trusted
        self._includes = includes
        self._new_registry = registry
        self._seqs = Numbers()
        # Another one may have been begun and sealed in between.
        self._numbers = {first_seq(path) for path in (*self._paths, *list_segments(directory))}
        self._judge = SegmentJudge(self._manifest, self._numbers, to_the_end=to_the_end)
        self._waits_until = time.monotonic() + PATIENCE
        self._late_manifest = self._manifest
        self._late_stamp: tuple[int, int, int] | None = None
        self._report = Report(segments=len(self._paths))
        self._names = {first_seq(path): path.name for path in self._paths}
        self._unlisted: dict[str, _Unlisted] = {}

    def run(self) -> Report:
        report, in_force = self._report, self._manifest.in_force
        report.key = None if in_force is None else in_force.fingerprint
        self._add(judge_manifest(self._manifest, self._includes))
        report.is_trusted = self._trusted is not None and not report.faults
        self._note_seals()
        for path, following in zip(self._paths, [*self._paths[1:], None], strict=False):
            self._check_if_there(path, following)
        self._add(judge_references(self._manifest, self._judge.headers))
        self._add(judge_missing(self._manifest, self._numbers))
        expect_first(self._seqs, self._judge.headers.values(), self._manifest, self._numbers)
        self._add(self._seqs.findings())
        self._note_removals()
        self._check_other_files()
        self._count_unlisted()
        return report

    def _add(self, findings: Iterable[Finding]) -> None:
        for each in findings:
            number = each.segment
            if each.code == "bad-manifest" or number is None:
                name = MANIFEST_NAME
            else:
                name = self._names.get(number) or segment_name(number)
            if SEVERITIES[each.code] == "notice":
                self._report.notes.append(f"{name}: {each.message}")
                continue
            self._add_fault(
                JournalFault(
                    path=name,
                    code=each.code,
                    message=each.message,
                    segment=number,
                    line=each.line,
                    seq=each.first_seq,
                    last_seq=each.last_seq,
                )
            )

    @property
    def manifest(self) -> Manifest:
        """The manifest as it was read."""
        return self._manifest

    def add(self, findings: Iterable[Finding]) -> None:
        """Add findings to the report."""
        self._add(findings)

    def _add_fault(self, fault: JournalFault) -> None:
        if len(self._report.faults) < bounds.ALL_FINDINGS:
            self._report.faults.append(fault)
        else:
            self._unlisted.setdefault(fault.code, _Unlisted(fault.path)).count += 1

    def _count_unlisted(self) -> None:
        for code, each in self._unlisted.items():
            message = f"and {each.count} more from this file on, which are not listed"
            self._report.faults.append(JournalFault(path=each.path, code=code, message=message))

    def _note_seals(self) -> None:
        manifest, notes = self._manifest, self._report.notes
        if manifest.torn and manifest.is_torn:
            notes.append(f"{MANIFEST_NAME} ends in an unfinished line of {manifest.torn} bytes")
        if not manifest.entries:
            notes.append("there are no seals: the chain alone does not show who wrote it, or where it ended")
        elif manifest.in_force is None:
            notes.append("the seals are not signed: whoever can write to the journal can make such seals")
        elif self._trusted is None:
            notes.append(
                f"the seals are signed with the key {manifest.in_force.fingerprint}, which was not compared with "
                "one that you know: use --public-key"
            )

    def _check_if_there(self, path: Path, following: Path | None) -> None:
        try:
            self._check_segment(path, following)
        except FileNotFoundError:
            # A running server that removed it has said so in the manifest before.
            self._manifest.pruned.update(self._late().pruned)
            if first_seq(path) not in self._manifest.pruned:
                raise
            self._report.segments -= 1
            # Those before it were removed, too, and no record is missing between them and the next one.
            self._seqs = Numbers()

    def _check_segment(self, path: Path, following: Path | None) -> None:
        is_last, number = following is None, first_seq(path)
        seals = self._manifest.all_seals.get(number, [])
        found = self._scan(path, seals, following)
        has_records = found.segment is not None and found.segment.records > 0
        is_sealed = bool(seals) and (seals[-1].closed or is_last)
        if has_records and not is_sealed and (later := self._await_seal(number, is_closed=not is_last)):
            seals, found = later, self._scan(path, later, following)
        self._add(found.judge.findings)
        self._seqs.extend(found.judge.numbers)
        self._check_copy(path)
        if found.segment is None:
            self._judge.pass_unreadable(number)
            return
        self._check_place(found.segment, seals, is_last=is_last)
        if found.extent.records:
            report = self._report
            report.records += found.extent.records
            report.first_seq = found.extent.first_seq if report.first_seq is None else report.first_seq
            report.last_seq = found.extent.last_seq

    def _scan(self, path: Path, seals: Sequence[Seal], following: Path | None) -> Scan:
        """Read a segment. Without a closing seal that fits, every byte of it is judged."""
        last, sizes = seals[-1] if seals else None, [seal.bytes for seal in seals]
        if last is None or not last.closed:
            return Scan(path, sizes, registry=self._registry(), to_the_byte=True)
        registry = self._registry() if self._is_open(following) else None
        found = Scan(path, sizes, registry=registry)
        if found.segment is not None and not is_verified(found.segment.digests, last):
            return Scan(path, sizes, to_the_byte=True)
        return found

    def _registry(self) -> RegistryReader | None:
        return None if self._new_registry is None else self._new_registry()

    def _is_open(self, following: Path | None) -> bool:
        """Whether the snapshot of the next segment is compared with what this one adds up to."""
        return following is not None and not is_closed(self._manifest.seals.get(first_seq(following)))

    def _await_seal(self, number: int, *, is_closed: bool) -> list[Seal]:
        """The seals with the one that a running server makes right now, if it does."""
        while self._manifest.entries:
            seals = self._late().all_seals.get(number, [])
            if seals and (seals[-1].closed or not is_closed):
                return seals
            if time.monotonic() >= self._waits_until:
                break
            time.sleep(_POLL)
        return []

    def _late(self) -> Manifest:
        """The manifest as it is now."""
        try:
            found = self._manifest_path.stat()
        except FileNotFoundError:
            return Manifest()
        stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
        if stamp != self._late_stamp:
            self._late_stamp, self._late_manifest = stamp, read_manifest(self._manifest_path, self._trusted)
        return self._late_manifest

    def _check_place(self, segment: Segment, seals: Sequence[Seal], *, is_last: bool) -> None:
        last = seals[-1] if seals else None
        findings = self._judge.pass_segment(segment, seals, last, may_grow=is_last)
        self._add(findings)
        if not segment.records and is_last:
            self._report.notes.append(f"{segment_name(segment.number)} holds no record yet")
        if last is not None and not any(each.code == "broken-seal" for each in findings):
            self._report.sealed_seq = last.last_seq
            if (rest := unsealed_end(segment, last)) is not None:
                self._report.notes.append(f"{rest.message} yet")

    def _check_copy(self, path: Path) -> None:
        """While a segment is compressed, it is there twice."""
        copy = compressed_path(path)
        if is_compressed(path) or not copy.exists():
            return
        try:
            is_same = digests_of(copy).digest == digests_of(path).digest
        except FileNotFoundError:
            return
        except CORRUPT:
            is_same = False
        if not is_same:
            self._bad_file(copy, f"it is not the same as {path.name}, which is there too")

    def _bad_file(self, path: Path, message: str) -> None:
        self._add_fault(JournalFault(path=path.name, code=BAD_FILE, segment=first_seq(path), message=message))

    def _note_removals(self) -> None:
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
                self._bad_file(path, f"the name of a segment has {DIGITS} digits")
