"""Small journals whose segments are damaged, or are otherwise worth a look: lines, headers and what links them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bussrv import events as ev
from bussrv.journal.header import Damage
from bussrv.journal.segment import segment_name
from tests.audit.cases import Case
from tests.audit.journals import Writer, change_line, compress, day, write_journal
from tests.tamperings.copies import Copy

CHANGED = "it is not what it was when it was closed, as the header of segment"
CUT = "its last line was changed, cut off or added, or the header of segment"


def bad_lines(server: str) -> Case:
    text = day(server).records
    return Case(
        [
            (
                "bad-line",
                {
                    "file": segment_name(1),
                    "line": 2,
                    "message": "a journal record: JSON is malformed: object keys must be strings (byte 1): {oops",
                },
            ),
            (
                "bad-line",
                {"file": segment_name(5), "line": 5, "message": "not a journal record: Input data was truncated: "},
            ),
        ],
        [[b"{oops\n", *text[:4]], [*text[4:6], b"\n", *text[6:]]],
        [1, 5],
    )


def torn(server: str) -> Case:
    text = day(server).records
    return Case(
        [
            (
                "bad-line",
                {"file": segment_name(1), "line": 4, "message": "ends in 4 bytes of an unfinished record, yet"},
            ),
            ("torn-tail", {"file": segment_name(3), "line": 10, "message": "ends in 5 bytes of an unfinished record"}),
        ],
        [[*text[:2], b'{"v"'], [*text[2:], b'{"v":']],
        [1, 3],
    )


def torn_but_complete(server: str) -> Case:
    """A record without its newline is none: the server sets it aside when it starts again."""

    def damage(segment: Path) -> None:
        segment.write_bytes(segment.read_bytes()[:-1])

    return Case([("torn-tail", {"line": 10})], [day(server).records], damage=damage)


def compressed(server: str) -> Case:
    """Also one that was to be removed then, and the last one, as a server leaves it when it stops."""
    text = day(server).records

    def damage(one: Path, other: Path, last: Path) -> None:
        before = one.read_bytes()
        compress(one)
        one.write_bytes(before)
        compress(other)
        compress(last)

    return Case([], [text[:4], text[4:5], text[5:]], damage=damage)


def compressed_and_damaged(server: str) -> Case:
    text = day(server).records

    def damage(one: Path, other: Path, last: Path) -> None:
        for segment in (one, other):
            packed = compress(segment)
            packed.write_bytes(packed.read_bytes()[:-20] + (b"" if segment is one else bytes(20)))

    return Case(
        [
            ("unreadable-segment", {"file": f"{segment_name(1)}.gz", "message": "cannot be decompressed: Compressed"}),
            ("unreadable-segment", {"file": f"{segment_name(4)}.gz"}),
            ("seq-gap", {"first_seq": 1, "last_seq": 5}),
        ],
        [text[:3], text[3:5], text[5:]],
        damage=damage,
    )


def changed_line(server: str) -> Case:
    """A service was given another name: the line behind that tells, and the next header."""
    text = day(server).records

    def damage(one: Path, other: Path) -> None:
        change_line(one, 4, lambda line: line.replace(b'"tv"', b'"tw"'))

    return Case(
        [
            (
                "broken-chain",
                {"boot": f"{server}-1", "file": segment_name(1), "line": 5, "first_seq": 3, "last_seq": 4},
            ),
            ("broken-link", {"server": server, "file": segment_name(1), "segment": 1, "message": CHANGED}),
            ("service-never-unregistered", {"service": "tw"}),
            ("service-not-registered", {"service": "tv"}),
        ],
        [text[:5], text[5:]],
        damage=damage,
    )


def changed_last_line(server: str) -> Case:
    text = day(server).records

    def damage(one: Path, other: Path) -> None:
        change_line(one, 6, lambda line: line.replace(b'"tv"', b'"tw"'))

    return Case([("broken-link", {"segment": 1, "last_seq": 5, "message": CUT})], [text[:5], text[5:]], damage=damage)


def changed_snapshot(server: str) -> Case:
    """And the chain was made to fit."""

    def damage(one: Path, other: Path) -> None:
        copy = Copy(one.parent)
        copy.forge(5, 1, lambda line: line.replace(b'"peer":"192.0.2.2:5000"', b'"peer":"192.0.2.9:5000"'))
        copy.chain_from(1)
        copy.save()

    text = day(server).records
    message = "its snapshot is not what segment 1 adds up to: it was changed, or records were"
    return Case(
        [("broken-snapshot", {"segment": 5, "line": 1, "message": message})], [text[:4], text[4:]], damage=damage
    )


def missing_segment(server: str) -> Case:
    text = day(server).records
    message = "segment 6 should follow segment 5, not segment 1"
    return Case(
        [("broken-link", {"file": segment_name(6), "message": message}), ("seq-gap", {"first_seq": 5, "last_seq": 5})],
        [text[:4], text[4:5], text[5:]],
        damage=lambda one, other, last: other.unlink(),
    )


def emptied_segment(server: str) -> Case:
    text = day(server).records
    return Case(
        [
            ("broken-link", {"file": segment_name(5), "message": "the segment does not begin with a header"}),
            ("broken-link", {"file": segment_name(5), "message": CUT}),
            ("seq-gap", {"first_seq": 5, "last_seq": 5}),
        ],
        [text[:4], text[4:5], text[5:]],
        damage=lambda one, other, last: other.write_bytes(b""),
    )


def emptied_first_segment(server: str) -> Case:
    """Its name says where the records begin."""
    text = day(server).records
    return Case(
        [
            ("broken-link", {"file": segment_name(1), "message": "the segment does not begin with a header"}),
            ("broken-link", {"file": segment_name(1), "message": CUT}),
            ("seq-gap", {"first_seq": 1, "last_seq": 4, "message": ": records 1 to 4 are missing"}),
        ],
        [text[:4], text[4:]],
        damage=lambda one, other: one.write_bytes(b""),
    )


def another_journal_before(server: str) -> Case:
    """Segments from elsewhere were put before those that begin this journal."""
    text = day(server).records

    def damage(first: Path) -> None:
        elsewhere = first.parent / "elsewhere"
        write_journal(elsewhere, text[:3])
        (elsewhere / segment_name(1)).rename(first.parent / segment_name(1))

    return Case([("broken-link", {"segment": 1, "message": CUT})], [text[3:]], [4], damage)


def without_a_header(server: str) -> Case:
    """Before a snapshot."""
    text = day(server).records
    message = "part 1 of the snapshot of segment 5 does not belong here: {"
    return Case(
        [("bad-line", {"file": segment_name(5), "line": 1, "message": message})],
        [text[:4], text[4:]],
        damage=lambda one, other: change_line(other, 1, lambda line: b""),
    )


def records_without_a_header(server: str) -> Case:
    message = "the segment does not begin with a header"
    return Case(
        [("broken-link", {"line": 1, "message": message})],
        [day(server).records],
        damage=lambda segment: change_line(segment, 1, lambda line: b""),
    )


def without_a_snapshot(server: str) -> Case:
    text = day(server).records
    message = "the header says that its snapshot has 1 parts, and 0 are there"
    return Case(
        [
            ("bad-line", {"file": segment_name(5), "line": 1, "message": message}),
            ("broken-chain", {"file": segment_name(5), "line": 2, "first_seq": 5, "message": "record 5 does not hold"}),
        ],
        [text[:4], text[4:]],
        damage=lambda one, other: change_line(other, 2, lambda line: b""),
    )


def headers_and_snapshots_elsewhere(server: str) -> Case:
    text = day(server).records
    file = segment_name(5)

    def damage(one: Path, other: Path) -> None:
        header, part, record, *_ = other.read_bytes().splitlines(keepends=True)
        of_one = one.read_bytes().partition(b"\n")[0] + b"\n"
        change_line(other, 3, lambda line: record + part + header + of_one + part.replace(b":5,", b":1,"))

    return Case(
        [
            (
                "bad-line",
                {"file": file, "line": 4, "message": "part 1 of the snapshot of segment 5 does not belong"},
            ),
            ("bad-line", {"file": file, "line": 5, "message": "the header of segment 5 does not belong here: {"}),
            ("bad-line", {"file": file, "line": 6, "message": "the header of segment 1 does not belong here: {"}),
            (
                "bad-line",
                {"file": file, "line": 7, "message": "part 1 of the snapshot of segment 1 does not belong"},
            ),
            ("broken-chain", {"file": file, "line": 8, "first_seq": 6, "message": "record 6 does not hold"}),
        ],
        [text[:4], text[4:]],
        damage=damage,
    )


def salvaged(server: str) -> Case:
    """A line was damaged; the server went on behind that, and the number of that line was not used again."""
    text = day(server).records
    message = "a new chain begins here, after damage in segment 1, line 4: not a journal record"

    def damage(one: Path, other: Path, last: Path) -> None:
        change_line(one, 4, lambda line: b"{oops\n")

    return Case(
        [
            ("bad-line", {"file": segment_name(1), "line": 4}),
            ("broken-chain", {"file": segment_name(1), "line": 5, "first_seq": 4}),
            ("broken-link", {"file": segment_name(1), "message": CHANGED}),
            ("journal-salvaged", {"server": server, "file": segment_name(7), "first_seq": 3, "message": message}),
            ("seq-gap", {"first_seq": 3, "last_seq": 3}),
            ("service-not-registered", {"service": "tv"}),
        ],
        [text[:4], text[4:6], text[6:]],
        damage=damage,
        salvaged=Damage(1, 4, "not a journal record", 3),
    )


def retained(server: str) -> Case:
    """What the server says when it prunes, and when it salvages, are records as others are."""
    writer = Writer(server, seq=100)
    writer.start()
    writer.write(ev.JournalSalvaged(segment=1, line=3, message="not a journal record"))
    writer.write(ev.JournalPruned(segment=1, last_seq=99, bytes=1000, digest="d" * 64))
    return Case([], [writer.records[:1], writer.records[1:]], [100, 101], lambda one, other: one.unlink())


SEGMENT_CASES: list[Callable[[str], Case]] = [
    bad_lines,
    torn,
    torn_but_complete,
    compressed,
    compressed_and_damaged,
    changed_line,
    changed_last_line,
    changed_snapshot,
    missing_segment,
    emptied_segment,
    emptied_first_segment,
    another_journal_before,
    without_a_header,
    records_without_a_header,
    without_a_snapshot,
    headers_and_snapshots_elsewhere,
    salvaged,
    retained,
]
