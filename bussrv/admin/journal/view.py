"""``/api/v1/journal``: the journal, its last seal, and its room."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from bussrv.admin.http.routes import Call
from bussrv.admin.journal.audit import AuditView
from bussrv.journal.checkpoints import is_signed
from bussrv.journal.closed import stored_size
from bussrv.journal.manifest import Seal
from bussrv.journal.record import format_time
from bussrv.journal.segment import list_segments
from bussrv.witness.submitting import WitnessCondition


class HeadView(Struct, frozen=True):
    """The last record: its segment, its number, and the hash of its line."""

    segment: int
    seq: int
    hash: str


class SealView(Struct, frozen=True):
    """A seal.

    :ivar seq: the last record that it covers.
    :ivar hash: the hash of its line in the manifest.
    """

    segment: int
    seq: int | None
    time: str
    hash: str
    closed: bool


class CheckpointView(Struct, frozen=True):
    """The newest checkpoint of the journal.

    :ivar seal: the seal that has it; ``None``: nothing is sealed.
    :ivar checkpoint: its text: a signed note if the server has a key, with the signatures of witnesses that have
        cosigned it; ``None``: nothing is sealed.
    :ivar cosigned: the newest checkpoint that a witness has cosigned, which may be an earlier one; ``None``: there is
        none.
    """

    seal: SealView | None
    checkpoint: str | None
    is_signed: bool
    cosigned: str | None


class JournalView(Struct, frozen=True, kw_only=True):
    """The journal of the server.

    :ivar segments: how many segments it has.
    :ivar bytes: the bytes of all segments on the disk.
    :ivar free_bytes: the bytes that are free on the volume.
    :ivar oldest_wait: the seconds for which the oldest entry has waited to be written.
    :ivar degraded: the reason why changes are refused; ``None``: they are not refused.
    :ivar audit: what an audit says that runs beside the server; ``None``: none is named (``--audit-summary``).
    :ivar witnesses: the witnesses that are asked to cosign it (``--witness``).
    """

    directory: str
    seq: int
    head: HeadView
    last_seal: SealView | None
    segments: int
    bytes: int
    free_bytes: int | None
    sync: str
    waiting: int
    oldest_wait: float
    degraded: str | None
    audit: AuditView | None
    witnesses: list[WitnessCondition]


async def show(call: Call) -> JournalView:
    """The journal, its last seal, and its room.

    :raises Problem: ``no-journal``.
    """
    place = call.journal
    segments, size = await call.shared.reading.do(_size, place.directory)
    audit = await call.shared.reading.do(call.shared.audit.view, call.server.bus.utc())
    head, condition = place.head(), call.server.journal_condition()
    return JournalView(
        directory=str(place.directory),
        seq=call.shared.seq,
        head=HeadView(head.segment, head.seq, head.hash),
        last_seal=seal_view(place.last_seal()),
        segments=segments,
        bytes=size,
        free_bytes=condition.free,
        sync=place.sync,
        waiting=condition.waiting,
        oldest_wait=condition.oldest_wait,
        degraded=condition.trouble,
        audit=audit,
        witnesses=list(call.server.witnesses()),
    )


def seal_view(sealed: tuple[Seal, str] | None) -> SealView | None:
    """A seal, as it is shown.

    :param sealed: the seal, and the hash of its line.
    """
    if sealed is None:
        return None
    seal, seal_hash = sealed
    return SealView(seal.segment, seal.last_seq, format_time(seal.time), seal_hash, seal.closed)


async def checkpoint(call: Call) -> CheckpointView:
    """The newest checkpoint of the journal.

    :raises Problem: ``no-journal``.
    """
    sealed = call.journal.last_seal()
    text = None if sealed is None else sealed[0].checkpoint
    cosigned = call.journal.cosigned()
    if cosigned is not None and sealed is not None and cosigned[0] == sealed[1]:
        text = cosigned[1].encode()
    return CheckpointView(
        seal=seal_view(sealed),
        checkpoint=text,
        is_signed=text is not None and is_signed(text),
        cosigned=None if cosigned is None else cosigned[1].encode(),
    )


def _size(directory: Path) -> tuple[int, int]:
    """How many segments there are, and how many bytes they take."""
    paths = list_segments(directory)
    return len(paths), sum(map(stored_size, paths))
