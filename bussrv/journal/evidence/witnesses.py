"""What others say of a journal: witnesses that cosigned its checkpoints, and checkpoints that were kept. Pure.

Whoever has the key and the disk of a server can make another history that fits in itself, but no cosignatures: a
witness signs only what goes on from what it signed before. So the cosignatures of all that differs are missing. A
history that was cut off is found with a checkpoint that somebody kept, as every witness does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from bussrv.journal.checkpoints import SealedCheckpoint
from bussrv.journal.evidence.findings import Finding
from bussrv.journal.manifest import Manifest, last_seq
from bussrv.journal.record import format_time
from bussrv.transparency.checkpoints import Checkpoint
from bussrv.transparency.cosignatures import signed_by
from bussrv.transparency.notes import NoteError, VerifierKey

GRACE = 120_000_000
"""Microseconds that the witnesses have for a record. They are asked once a minute, and at the end of a segment."""


class Quorum(Struct, frozen=True):
    """The witnesses that are trusted.

    :ivar keys: of each.
    :ivar count: how many of them have to cosign a checkpoint.
    """

    keys: tuple[VerifierKey, ...]
    count: int


class Witnessed(Struct, frozen=True):
    """How far the witnesses go.

    :ivar seq: the last record of the newest checkpoint that enough of them cosigned; 0: there is none.
    :ivar time: the time by which enough of them had, seconds since 1970.
    :ivar findings: wrong signatures of theirs.
    """

    seq: int = 0
    time: int = 0
    findings: tuple[Finding, ...] = ()


def judge_cosignatures(checkpoints: Sequence[SealedCheckpoint], quorum: Quorum) -> Witnessed:
    """The newest checkpoint that enough witnesses cosigned.

    :param checkpoints: those of a journal, in order, each of which is known to be of its records.
    """
    wrong: list[Finding] = []
    for each in reversed(checkpoints):
        times = []
        for key in quorum.keys:
            try:
                found = signed_by(each.note, key)
            except NoteError as error:
                seal = each.seal
                wrong.append(Finding(code="bad-manifest", message=str(error), segment=seal.segment))
                continue
            if found is not None:
                times.append(found.time or 0)
        if len(times) >= quorum.count:
            return Witnessed(last_seq(each.seal), sorted(times)[-quorum.count], tuple(wrong))
    return Witnessed(findings=tuple(wrong))


def judge_coverage(manifest: Manifest, witnessed: Witnessed, quorum: Quorum, now: int) -> Iterator[Finding]:
    """Records that the witnesses should have covered, and have not.

    :param now: UTC microseconds.
    """
    yield from witnessed.findings
    late = [
        seal
        for seal in manifest.seals.values()
        if seal.last_seq is not None
        and seal.last_seq > witnessed.seq
        and (not witnessed.seq or (seal.closed and max(seal.first_time or 0, witnessed.time * 1_000_000) < now - GRACE))
    ]
    if late:
        first, last = max(witnessed.seq + 1, 1), max(map(last_seq, late))
        asked = f"{quorum.count} of {len(quorum.keys)} witnesses" if len(quorum.keys) > 1 else "the witness"
        what = f"no checkpoint of them is cosigned by {asked}: the history may be another one from there on"
        yield Finding(code="not-witnessed", message=what, segment=late[0].segment, first_seq=first, last_seq=last)


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
