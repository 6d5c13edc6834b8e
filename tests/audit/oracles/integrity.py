"""What is wrong with segments, lines and numbers, once more: slow, simple, one line after the other, no seals."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from bussrv.errors import JournalError
from bussrv.journal import bounds
from bussrv.journal.header import Header, Part, Previous, decode_header, decode_part
from bussrv.journal.record import Record, decode

COLUMNS = ("server", "boot", "segment", "first_seq", "last_seq", "session", "service", "file", "line")

KINDS = {
    "bad-line",
    "unreadable-segment",
    "broken-chain",
    "broken-link",
    "journal-salvaged",
    "seq-gap",
    "seq-duplicate",
    "torn-tail",
}


class Findings(Counter[tuple[Any, ...]]):
    """How often each was found: its kind, and ``COLUMNS``."""

    def add(self, kind: str, **place: Any) -> None:
        self[(kind, *[place.get(name) for name in COLUMNS])] += 1


def audit(journals: Sequence[Path]) -> Findings:
    found = Findings()
    by_server: dict[str, list[tuple[Record, int]]] = defaultdict(list)
    begins: dict[str, list[int]] = defaultdict(list)
    for journal in journals:
        for record, segment in read(journal, found):
            by_server[record.server].append((record, segment))
        segments = [open_segment(path) for path in paths_of(journal)]
        servers = [header.server for header in map(header_of, segments) if header is not None]
        if servers:
            begins[servers[0]].append(segments[0].number)
    for server, records in by_server.items():
        check_numbers(server, records, min(begins[server], default=None), found)
    return found


def header_of(segment: Segment) -> Header | None:
    line = (segment.content or b"").partition(b"\n")
    meant = meaning(line[0]) if line[1] else None
    return meant if isinstance(meant, Header) and meant.segment == segment.number else None


@dataclass
class Segment:
    """The lines of a segment, and the kind of each. A segment that cannot be read to its end has none here."""

    path: Path
    number: int
    content: bytes | None
    lines: list[bytes] = field(default_factory=list)
    meant: list[Record | Header | Part | None] = field(default_factory=list)

    def place(self, line: int) -> dict[str, Any]:
        return {"segment": self.number, "file": str(self.path), "line": line}

    @property
    def header(self) -> Header | None:
        return self.meant[0] if self.meant and isinstance(self.meant[0], Header) else None


def read(journal: Path, found: Findings) -> Iterator[tuple[Record, int]]:
    segments = [open_segment(path) for path in paths_of(journal)]
    for segment in segments:
        if segment.content is None:
            found.add("unreadable-segment", **segment.place(1) | {"line": None})
            continue
        *segment.lines, tail = segment.content.split(b"\n")
        if tail:
            kind = "torn-tail" if segment is segments[-1] else "bad-line"
            found.add(kind, **segment.place(len(segment.lines) + 1))
        for number, text in enumerate(segment.lines, 1):
            segment.meant.append(in_place(meaning(text), segment, number))
        check_chain(segment, found)
        yield from ((each, segment.number) for each in segment.meant if isinstance(each, Record))
    for before, segment in zip([None, *segments], segments, strict=False):
        check_header(before, segment, found)


def paths_of(journal: Path) -> list[Path]:
    names = sorted({path.name.removesuffix(".gz") for path in journal.glob("*.jsonl*")} - {"manifest.jsonl"})
    return [journal / (name if (journal / name).exists() else f"{name}.gz") for name in names]


def open_segment(path: Path) -> Segment:
    number = int(path.name.partition(".")[0])
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            content = file.read(bounds.SEGMENT + 1)
    except (OSError, EOFError, zlib.error):
        return Segment(path, number, None)
    is_within = len(content) <= bounds.SEGMENT and content.count(b"\n") <= bounds.SEGMENT_LINES
    return Segment(path, number, content if is_within else None)


def in_place(meant: Record | Header | Part | None, segment: Segment, number: int) -> Record | Header | Part | None:
    """The same, unless it is a header or part that does not belong there."""
    if isinstance(meant, Header):
        return meant if (number, meant.segment) == (1, segment.number) else None
    if isinstance(meant, Part):
        return meant if segment.header and (meant.part + 1, meant.snapshot) == (number, segment.number) else None
    return meant


def check_chain(segment: Segment, found: Findings) -> None:
    """A line between two that do not fit was changed; where one place does not fit, either of two lines was."""
    hashes = [sha256(text).hexdigest() for text in segment.lines]
    check_order(segment, found, hashes)
    broken = [at > 0 and meant is not None and meant.prev != hashes[at - 1] for at, meant in enumerate(segment.meant)]
    for at, meant in enumerate(segment.meant):
        before = seq_of(segment.meant[at - 1]) if at else None
        if meant is None:
            found.add("bad-line", first_seq=None if before is None else before + 1, **segment.place(at + 1))
            continue
        next_too = broken[at + 1 : at + 2] == [True]
        if broken[at] and (next_too or not broken[at - 1]):
            seq, said = seq_of(meant), json.loads(segment.lines[at])
            about = {"server": said.get("server"), "boot": said.get("boot")}
            is_behind = not next_too and before is not None and seq is not None and before < seq
            first = before if is_behind else seq
            found.add("broken-chain", first_seq=first, last_seq=seq, **about, **segment.place(at + 1))


def check_order(segment: Segment, found: Findings, hashes: Sequence[str]) -> None:
    """A record that holds the right hash, but stands after a higher number, and is not there before."""
    records: list[Record] = []
    for at, meant in enumerate(segment.meant):
        if not isinstance(meant, Record):
            continue
        follows = at == 0 or meant.prev == hashes[at - 1]
        is_new = all((each.server, each.seq) != (meant.server, meant.seq) for each in records)
        if follows and is_new and records and records[-1].server == meant.server and meant.seq < records[-1].seq:
            about = {"server": meant.server, "boot": meant.boot, "first_seq": meant.seq, "last_seq": meant.seq}
            found.add("broken-chain", **about, **segment.place(at + 1))
        records.append(meant)


def seq_of(meant: Record | Header | Part | None) -> int | None:
    return meant.seq if isinstance(meant, Record) else None


def check_header(before: Segment | None, segment: Segment, found: Findings) -> None:
    header, place = segment.header, segment.place(1)
    if header is None:
        if segment.content is not None and (not segment.meant or isinstance(segment.meant[0], Record)):
            found.add("broken-link", **place)
        return
    origin = {"server": header.server, "boot": header.boot}
    if sum(isinstance(each, Part) for each in segment.meant) != header.parts:
        found.add("bad-line", **origin, **place)
    if header.salvaged is not None:
        found.add("journal-salvaged", first_seq=header.salvaged.seq, last_seq=header.salvaged.seq, **origin, **place)
    elif header.previous is None:
        if before is not None or segment.number != 1 or header.prev != "0" * 64:
            found.add("broken-link", **origin, **place)
    elif before is not None and header.previous.segment != before.number:
        about = {"first_seq": header.previous.segment, "last_seq": segment.number - 1}
        found.add("broken-link", **about, **origin, **place)
    elif before is not None and before.content is not None and not follows(header, before):
        about = {"first_seq": before.number, "last_seq": segment.number - 1}
        found.add("broken-link", **about, **origin, **(before.place(1) | {"line": None}))


def follows(header: Header, before: Segment) -> bool:
    """What is left of the segment before, without an unfinished line."""
    content = b"".join(line + b"\n" for line in before.lines)
    extent = Previous(before.number, len(content), sha256(content).hexdigest())
    last = before.lines[-1] if before.lines else b""
    return header.previous == extent and header.prev == sha256(last).hexdigest()


def meaning(text: bytes) -> Record | Header | Part | None:
    for decoded in (as_record, decode_header, decode_part):
        with suppress(JournalError):
            return decoded(text)
    return None


def as_record(text: bytes) -> Record:
    """:raises JournalError: if it is none, or says too little."""
    record = decode(text)
    name = type(record.event).__name__
    if record.event.session is None and name.startswith(("Session", "ServiceR", "ServiceU")):
        raise JournalError("about no session")
    if json.loads(text)["outcome"] not in ("ok", "refused", "failed"):
        raise JournalError("an unknown outcome")
    return record


def check_numbers(server: str, records: list[tuple[Record, int]], begin: int | None, found: Findings) -> None:
    """Numbers in a row, from the one that the segment of the first record is named by, or an earlier segment."""
    records = sorted(records, key=lambda each: (each[0].seq, each[1]))
    before = min(records[0][1], begin or records[0][1]) - 1
    for record, segment in records:
        if record.seq > before + 1:
            place = {"segment": segment, "first_seq": before + 1, "last_seq": record.seq - 1}
            found.add("seq-gap", server=server, **place)
        before = record.seq
    in_segments: dict[int, list[int]] = defaultdict(list)
    for record, segment in records:
        in_segments[record.seq].append(segment)
    repeated = {seq: max(segments) for seq, segments in in_segments.items() if len(segments) > 1}
    for seq in repeated:
        if seq - 1 not in repeated:
            last = seq
            while last + 1 in repeated:
                last += 1
            segment = min(repeated[each] for each in range(seq, last + 1))
            found.add("seq-duplicate", server=server, segment=segment, first_seq=seq, last_seq=last)
