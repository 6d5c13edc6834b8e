"""From the snapshot of journals to facts, and to findings about everything but what the records say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from bussrv.audit.fold.stripe import Period
from bussrv.audit.fold.stripes import COMPRESSED, Found, Source, facts
from bussrv.audit.reading import judged
from bussrv.audit.reading.extents import Extent
from bussrv.audit.reading.proofs import Proof, to_prove
from bussrv.audit.reading.snapshot import Journal, Segment, Snapshot
from bussrv.audit.tables.findings import Finding

_TEXT, _NUMBER = pa.string(), pa.int64()

_FINDINGS = pa.schema(
    [("kind", _TEXT), ("message", _TEXT), ("server", _TEXT), ("boot", _TEXT), ("segment", _NUMBER),
     ("first_seq", _NUMBER), ("last_seq", _NUMBER), ("file", _TEXT), ("line", _NUMBER)]
)  # fmt: skip

_SEGMENTS = pa.schema(
    [("journal", _TEXT), ("segment", _NUMBER), ("file", _TEXT), ("server", _TEXT), ("records", _NUMBER),
     ("first_seq", _NUMBER), ("last_seq", _NUMBER), ("first_moment", _NUMBER), ("last_moment", _NUMBER),
     ("bytes", _NUMBER), ("sealed", _TEXT), ("vouched", pa.bool_())]
)  # fmt: skip


def read(snapshot: Snapshot, period: Period) -> dict[str, pa.Table]:
    """The tables of facts, ``fact_findings``, and ``segments``.

    :raises bussrv.errors.JournalError: if a segment goes away meanwhile.
    """
    sizes, asked = judged.sizes_of(snapshot), to_prove(snapshot)
    try:
        found = facts([_sources(journal, snapshot, sizes, asked) for journal in snapshot.journals], period)
    finally:
        snapshot.check()
    digests = {taken: each.digests for taken, each in found.segments.items() if each.digests is not None}
    headers = judged.headers_of(snapshot, digests)
    extents = {taken: _extent(each) for taken, each in found.segments.items() if each.digests is not None}
    proofs = {
        taken: Proof(each.digests, each.proved.is_sound, each.proved.registries)
        for taken, each in found.segments.items()
        if each.digests is not None and each.proved is not None
    }
    judged_by = judged.Read(digests, headers, asked, proofs, judged.verified(snapshot, digests))
    findings = _findings(snapshot, judged_by, extents)
    return {
        **{f"fact_{name}": table for name, table in found.tables.items()},
        "fact_findings": pa.Table.from_pylist([_as_row(each) for each in findings], _FINDINGS),
        "segments": pa.Table.from_pylist([*_segments(snapshot, judged_by, extents)], _SEGMENTS),
    }


def _sources(
    journal: Journal, snapshot: Snapshot, sizes: Mapping[str, list[int]], asked: Mapping[str, bool]
) -> list[Source]:
    seals = journal.late.seals
    return [
        Source(
            each.taken,
            str(each.path_in(Path(snapshot.local))),
            each.number,
            each.bytes * (COMPRESSED if each.is_compressed else 1),
            (*sizes.get(each.taken, ()),),
            seals.get(each.number),
            asked.get(each.taken),
        )
        for each in journal.segments
    ]


def _extent(found: Found) -> Extent:
    return Extent(
        is_sound=found.is_sound,
        records=found.records,
        first_seq=found.first_seq,
        last_seq=found.last_seq,
        first_moment=found.first_moment,
        last_moment=found.last_moment,
    )


def _findings(snapshot: Snapshot, read: judged.Read, extents: Mapping[str, Extent]) -> Iterator[Finding]:
    for journal in snapshot.journals:
        yield from judged.findings(journal, read, extents)
    spark: Any = None  # asked only for segments that are not on this machine
    yield from judged.line_findings(spark, snapshot, read, extents)


def _as_row(finding: Finding) -> dict[str, Any]:
    return {name: getattr(finding, name) for name in _FINDINGS.names}


def _segments(snapshot: Snapshot, read: judged.Read, extents: Mapping[str, Extent]) -> Iterator[dict[str, Any]]:
    for journal in snapshot.journals:
        for segment in journal.segments:
            header, digests = read.headers.get(segment.taken), read.digests.get(segment.taken)
            yield {
                "journal": journal.location,
                "segment": segment.number,
                "file": segment.file,
                "server": None if header is None else header.server,
                **_numbers(extents.get(segment.taken, Extent())),
                "bytes": None if digests is None else digests.size,
                "sealed": _sealed(journal, segment),
                "vouched": segment.taken in read.verified,
            }


def _numbers(extent: Extent) -> dict[str, int | None]:
    names = ("records", "first_seq", "last_seq", "first_moment", "last_moment")
    return {name: getattr(extent, name) for name in names}


def _sealed(journal: Journal, segment: Segment) -> str:
    seal = journal.late.seals.get(segment.number)
    return "none" if seal is None else "closed" if seal.closed else "open"
