"""Others and a journal: witnesses that cosigned its checkpoints, and checkpoints that were kept. Pure.

Whoever has the key and the disk of a server can make another history that fits in itself, but no cosignatures: a
witness signs only what goes on from what it signed before. So the cosignatures of all that differs are missing. A
history that was cut off is found with a checkpoint that somebody kept, as every witness does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from bussrv.errors import JournalError
from bussrv.journal.checkpoints import SealedCheckpoint, sealed_checkpoints
from bussrv.journal.evidence.findings import Finding
from bussrv.journal.manifest import Manifest, Seal, last_seq
from bussrv.journal.record import format_time
from bussrv.transparency.checkpoints import Checkpoint, parse_checkpoint
from bussrv.transparency.cosignatures import signed_by
from bussrv.transparency.notes import Note, NoteError, VerifierKey

GRACE = 120_000_000
"""Microseconds that the witnesses have for a record. They are asked once a minute, and at the end of a segment."""


class Quorum(Struct, frozen=True):
    """The witnesses that are trusted. A witness counts once, whichever of its keys it signed with.

    :ivar keys: of each.
    :ivar count: how many of them have to cosign a checkpoint.
    """

    keys: tuple[VerifierKey, ...]
    count: int

    @property
    def names(self) -> list[str]:
        """The names of the witnesses."""
        return list(dict.fromkeys(each.name for each in self.keys))


class Others(Struct, frozen=True, kw_only=True):
    """The knowledge of others about a journal.

    :ivar quorum: the witnesses that are trusted; ``None``: none is.
    :ivar kept: checkpoints that were kept elsewhere.
    :ivar now: UTC microseconds.
    """

    quorum: Quorum | None = None
    kept: tuple[Note, ...] = ()
    now: int = 0


class Witnessed(Struct, frozen=True):
    """How far the witnesses go.

    :ivar newest: of each that cosigned, by its name: the seal of its newest checkpoint, and the time, in seconds since
        1970, at which it cosigned that.
    :ivar count: how many of them have to cosign.
    :ivar findings: wrong signatures of theirs.
    """

    newest: Mapping[str, tuple[Seal, int]] = {}
    count: int = 1
    findings: tuple[Finding, ...] = ()

    @property
    def seq(self) -> int:
        """The last record that enough of them cosigned; 0: there is none."""
        return self._enough()[0]

    @property
    def time(self) -> int:
        """The time by which enough of them had, seconds since 1970."""
        return self._enough()[1]

    def _enough(self) -> tuple[int, int]:
        ends = sorted(((last_seq(seal), time) for seal, time in self.newest.values()), reverse=True)
        return ends[self.count - 1] if len(ends) >= self.count else (0, 0)


class Covered(Struct, frozen=True):
    """Records that the same witnesses cosigned.

    :ivar witnesses: their names; none: no witness that is trusted cosigned them.
    """

    first_seq: int
    last_seq: int
    witnesses: tuple[str, ...]

    def __str__(self) -> str:
        """In words."""
        who = f"cosigned by {', '.join(self.witnesses)}" if self.witnesses else "cosigned by no witness"
        return f"records {self.first_seq} to {self.last_seq} are {who}"


def judge_cosignatures(checkpoints: Iterable[SealedCheckpoint], quorum: Quorum) -> Witnessed:
    """The newest checkpoint that each witness cosigned. Trees only grow, so it speaks for all records before, too.

    :param checkpoints: those of a journal, the newest first, each of which is known to be of its records.
    """
    newest: dict[str, tuple[Seal, int]] = {}
    wrong: list[Finding] = []
    for each in checkpoints:
        for key in quorum.keys:
            try:
                found = None if key.name in newest else signed_by(each.note, key)
            except NoteError as error:
                wrong.append(Finding(code="bad-manifest", message=str(error), segment=each.seal.segment))
                continue
            if found is not None:
                newest[key.name] = each.seal, found.time or 0
        if len(newest) == len(quorum.names):
            break
    return Witnessed(newest, quorum.count, tuple(wrong))


def coverage(witnessed: Witnessed, first_seq: int, last: int) -> Iterator[Covered]:
    """The records from ``first_seq`` to ``last``, and who cosigned them."""
    ends = {name: last_seq(seal) for name, (seal, _) in witnessed.newest.items()}
    begin = first_seq
    for end in sorted({*(min(each, last) for each in ends.values()), last}):
        if begin <= end:
            yield Covered(begin, end, tuple(name for name, covers in ends.items() if covers >= end))
            begin = end + 1


def judge_coverage(manifest: Manifest, witnessed: Witnessed, quorum: Quorum, now: int) -> Iterator[Finding]:
    """Records that the witnesses should have covered, and have not.

    :param now: UTC microseconds.
    """
    yield from witnessed.findings
    covered, by = witnessed.seq, witnessed.time
    late = [
        seal
        for seal in manifest.seals.values()
        if seal.last_seq is not None
        and seal.last_seq > covered
        and (not covered or (seal.closed and max(seal.first_time or 0, by * 1_000_000) < now - GRACE))
    ]
    if late:
        first, last, number = max(covered + 1, 1), max(map(last_seq, late)), len(quorum.names)
        asked = f"{quorum.count} of {number} witnesses" if number > 1 else "the witness"
        what = f"no checkpoint of them is cosigned by {asked}: the history may be another one from there on"
        yield Finding(code="not-witnessed", message=what, segment=late[0].segment, first_seq=first, last_seq=last)


def vouched(notes: Iterable[Note], keys: Iterable[VerifierKey]) -> Iterator[Checkpoint]:
    """Checkpoints that were kept.

    :param keys: of journals, and of witnesses that are trusted.
    :raises JournalError: if none of these signed one.
    """
    known = set(keys)
    for note in notes:
        try:
            checkpoint = parse_checkpoint(note.text)
            if any(signed_by(note, key) for key in known):
                yield checkpoint
                continue
        except NoteError as error:
            raise JournalError(f"the checkpoint that was kept: {error}") from error
        raise JournalError(
            f"the checkpoint of {checkpoint.origin} with {checkpoint.size} records is signed neither by the key of the "
            "journal nor by a witness that is trusted"
        )


def known_checkpoints(manifest: Manifest) -> tuple[list[SealedCheckpoint], list[Finding]]:
    """The checkpoints of a journal, in order. If the signature of the journal under one is wrong, there are none."""
    try:
        return list(sealed_checkpoints(manifest)), []
    except JournalError as error:
        return [], [Finding(code="bad-manifest", message=str(error))]


def begins_of(checkpoints: Iterable[SealedCheckpoint]) -> dict[str, int]:
    """The record that is leaf 0 of each tree of a journal, by the origin of its checkpoints."""
    return {each.checkpoint.origin: each.begin for each in checkpoints}


def judge_kept(
    kept: Sequence[Checkpoint], end: int, begins: Callable[[str], int | None], root: Callable[[int, int], bytes | None]
) -> Iterator[Finding]:
    """Checkpoints that were kept elsewhere, and that are not of this journal.

    :param end: the number of its last record.
    :param begins: gives the record that is leaf 0 of the tree of an origin; ``None``: it is not of this journal.
    :param root: gives the root hash of that tree at a size; ``None``: it cannot be computed, as records are not there.
    """
    agreed: dict[str, int] = {}
    for each in sorted(kept, key=lambda checkpoint: checkpoint.size):
        begin = begins(each.origin)
        about = f"the checkpoint of {each.origin} with {each.size} records"
        if begin is None:
            yield Finding(code="other-history", message=f"{about} is of another journal, or of one before this")
            continue
        doubt, last = begin + agreed.get(each.origin, 0), begin + each.size - 1
        if last > end:
            what = f"{about} was kept, and this one has {end - begin + 1}: it was cut off or rolled back"
            yield Finding(code="other-history", message=what, first_seq=max(doubt, end + 1), last_seq=last)
            continue
        found = root(begin, each.size)
        if found == each.root:
            agreed[each.origin] = each.size
        elif found is not None:
            what = f"{about} was kept, and this is another history"
            yield Finding(code="other-history", message=what, first_seq=doubt, last_seq=last)


def when(witnessed: Witnessed) -> str:
    """The time of the witnesses, in words."""
    return format_time(witnessed.time * 1_000_000)
