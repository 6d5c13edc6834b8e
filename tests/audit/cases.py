"""Small journals: each shows one thing, and says what is to be found in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bussrv import events as ev
from bussrv.journal.header import Damage
from bussrv.journal.segment import list_segments, segment_name
from tests.audit.journals import Line, Writer, change_line, compress, day, write_journal

Expected = list[tuple[str, dict[str, Any]]]

CHANGED = "the segment before this one is not what it was when it was closed"


@dataclass
class Case:
    """A journal. It is named like its server; the segments are named in a row unless ``first_seqs`` says otherwise.

    :ivar damage: what becomes of its segments, which it is given, once they are written.
    """

    expected: Expected
    segments: Sequence[Sequence[Line]]
    first_seqs: Sequence[int] | None = None
    damage: Callable[..., object] | None = None
    salvaged: Damage | None = None

    def write(self, directory: Path) -> Path:
        """Make it be there."""
        write_journal(directory, *self.segments, first_seqs=self.first_seqs, salvaged=self.salvaged)
        if self.damage is not None:
            self.damage(*list_segments(directory))
        return directory


def sound(server: str) -> Case:
    return Case([], [day(server).records])


def in_segments(server: str) -> Case:
    text = day(server).records
    return Case([], [text[:4], text[4:5], text[5:]])


def old_segments_deleted(server: str) -> Case:
    """What happened to sessions of a boot that is only there in part cannot be judged."""
    writer = Writer(server, seq=100)
    early, late = writer.id(1), writer.id(2)
    writer.unregister(early, "tv")
    writer.close(early)
    writer.stop()
    writer.start()
    writer.unregister(late, "tv")
    writer.close(late, reason="server-crashed")
    return Case([], [writer.records], [100])


def running(server: str) -> Case:
    writer = Writer(server)
    writer.start()
    writer.open(writer.id(1))
    writer.register(writer.id(1), "tv")
    return Case([], [writer.records])


def crashed_and_recovered(server: str) -> Case:
    writer = Writer(server)
    writer.start()
    session = writer.id(1)
    writer.open(session)
    writer.register(session, "tv")
    writer.start()
    writer.write(ev.ServerRecovered(sessions_closed=1))
    writer.unregister(session, "tv")
    writer.close(session, reason="server-crashed")
    return Case([], [writer.records])


def persistent(server: str) -> Case:
    writer = Writer(server)
    writer.start()
    one, other = writer.id(1), writer.id(2)
    writer.open(one, persistent=True, protocol="inbus")
    writer.open(other, persistent=True, protocol="inbus")
    writer.stop()
    writer.start()
    writer.close(one, reason="lease-expired", protocol="inbus")
    return Case([], [writer.records])


def gaps(server: str) -> Case:
    text = day(server).records
    return Case(
        [
            ("seq-gap", {"server": server, "first_seq": 5, "last_seq": 5, "message": ": record 5 is missing"}),
            ("seq-gap", {"server": server, "first_seq": 7, "last_seq": 8, "message": ": records 7 to 8 are missing"}),
            ("session-never-closed", {"session": f"{server}-1.1"}),
            ("session-never-closed", {"session": f"{server}-1.2"}),
        ],
        [text[:4], [text[5], text[8]]],
    )


def gap_at_the_beginning(server: str) -> Case:
    text = day(server).records
    return Case([("seq-gap", {"server": server, "first_seq": 1, "last_seq": 1})], [text[1:]])


def gap_behind_deleted_segments(server: str) -> Case:
    writer = Writer(server, seq=50)
    writer.start()
    return Case([("seq-gap", {"server": server, "first_seq": 48, "last_seq": 49})], [writer.records], [48])


def duplicates(server: str) -> Case:
    text = day(server).records
    return Case(
        [
            ("seq-duplicate", {"first_seq": 1, "last_seq": 1, "message": ": record 1 is there up to 2 times"}),
            ("seq-duplicate", {"first_seq": 5, "last_seq": 6, "message": ": records 5 to 6 are there up to 3 times"}),
            ("service-not-registered", {"first_seq": 6, "service": "tv", "session": f"{server}-1.1"}),
        ],
        [text[:1], text[:6], [text[4], text[4], text[5]], text[6:]],
    )


def bad_lines(server: str) -> Case:
    text = day(server).records
    return Case(
        [
            ("bad-line", {"file": segment_name(1), "line": 2, "message": "no record, not one JSON value: {oops"}),
            ("bad-line", {"file": segment_name(5), "line": 5, "message": "no record, blank: "}),
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
            ("broken-link", {"file": segment_name(3), "line": 1, "message": CHANGED}),
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
            ("broken-chain", {"server": server, "boot": f"{server}-1", "file": segment_name(1), "line": 5}),
            ("broken-link", {"server": server, "file": segment_name(6), "line": 1, "message": CHANGED}),
            ("service-not-registered", {"service": "tv"}),
        ],
        [text[:5], text[5:]],
        damage=damage,
    )


def changed_last_line(server: str) -> Case:
    text = day(server).records

    def damage(one: Path, other: Path) -> None:
        change_line(one, 6, lambda line: line.replace(b'"tv"', b'"tw"'))

    message = "the header does not hold the hash of the last line of the segment before it"
    return Case([("broken-link", {"message": message})], [text[:5], text[5:]], damage=damage)


def left_open(server: str) -> Case:
    """In an orderly stop, and in a crash; what the newest boot has open may still be there."""
    writer = Writer(server)
    writer.start()
    writer.open(writer.id(1))
    writer.stop()
    writer.start()
    writer.open(writer.id(1))
    writer.start()
    writer.open(writer.id(1))
    message = "was never closed, though its boot ended"
    return Case(
        [
            ("session-never-closed", {"session": f"{server}-1.1", "boot": f"{server}-1", "first_seq": 2}),
            ("session-never-closed", {"session": f"{server}-2.1", "boot": f"{server}-2", "message": message}),
        ],
        [writer.records],
    )


def left_open_by_the_last_boot(server: str) -> Case:
    writer = Writer(server)
    writer.start()
    writer.open(writer.id(1))
    writer.stop()
    return Case([("session-never-closed", {"session": f"{server}-1.1"})], [writer.records])


def twice(server: str) -> Case:
    writer = Writer(server)
    writer.start()
    session = writer.id(1)
    writer.open(session)
    writer.open(session)
    writer.close(session)
    writer.stop()
    writer.start()
    writer.close(session)
    place = {"server": server, "boot": f"{server}-1", "session": session}
    return Case(
        [
            ("session-closed-twice", {**place, "first_seq": 4, "last_seq": 7, "message": "was closed 2 times"}),
            ("session-opened-twice", {**place, "first_seq": 2, "last_seq": 3, "message": "was opened 2 times"}),
        ],
        [writer.records],
    )


def unopened(server: str) -> Case:
    writer = Writer(server, seq=40)
    writer.close(writer.id(1))
    writer.start()
    writer.close(writer.id(1))
    return Case(
        [("session-closed-unopened", {"session": f"{server}-1.1", "first_seq": 42, "last_seq": 42})],
        [writer.records],
        [40],
    )


def unopened_in_a_complete_journal(server: str) -> Case:
    writer = Writer(server)
    writer.close(writer.id(1))
    return Case([("session-closed-unopened", {"session": f"{server}-0.1", "boot": None})], [writer.records])


def unregistered(server: str) -> Case:
    writer = Writer(server)
    writer.start()
    session = writer.id(1)
    writer.open(session)
    writer.register(session, "tv")
    writer.unregister(session, "tv")
    writer.unregister(session, "tv")
    writer.unregister(session, "radio")
    writer.register(session, "tv")
    writer.close(session)
    writer.unregister(session, "tv")
    place = {"server": server, "boot": f"{server}-1", "session": session}
    return Case(
        [
            ("service-not-registered", {**place, "service": "tv", "first_seq": 5, "last_seq": 5}),
            ("service-not-registered", {**place, "service": "radio", "message": "radio, which it did not provide"}),
            ("service-not-registered", {**place, "service": "tv", "first_seq": 9}),
        ],
        [writer.records],
    )


def kept_while_the_disk_failed(server: str) -> Case:
    """The registration was refused, then the session was lost: only the end of it was kept."""
    writer = Writer(server)
    writer.start()
    session = writer.id(1)
    writer.open(session)
    writer.write(ev.JournalDegraded(message="no space left on device"))
    writer.unregister(session, "tv")
    writer.close(session)
    writer.write(ev.JournalRestored(refused=1))
    writer.open(writer.id(2))
    writer.unregister(writer.id(2), "radio")
    writer.write(ev.JournalDegraded(message="no space left on device"))
    writer.start()
    writer.open(writer.id(1))
    writer.unregister(writer.id(1), "piano")
    writer.close(f"{server}-1.2", reason="server-crashed")
    return Case(
        [("service-not-registered", {"service": "radio"}), ("service-not-registered", {"service": "piano"})],
        [writer.records],
    )


def missing_segment(server: str) -> Case:
    text = day(server).records
    message = "the segment should follow segment 5, not segment 1"
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
            ("broken-link", {"file": segment_name(6), "message": CHANGED}),
            ("seq-gap", {"first_seq": 5, "last_seq": 5}),
        ],
        [text[:4], text[4:5], text[5:]],
        damage=lambda one, other, last: other.write_bytes(b""),
    )


def another_journal_before(server: str) -> Case:
    """Segments from elsewhere were put before those that begin this journal."""
    text = day(server).records

    def damage(first: Path) -> None:
        elsewhere = first.parent / "elsewhere"
        write_journal(elsewhere, text[:3])
        (elsewhere / segment_name(1)).rename(first.parent / segment_name(1))

    message = "the header says that there is no segment before this one"
    return Case([("broken-link", {"file": segment_name(4), "message": message})], [text[3:]], [4], damage)


def without_a_header(server: str) -> Case:
    """Before a snapshot."""
    text = day(server).records
    message = "no part of a snapshot, without a header: {"
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
    message = "no header, its snapshot has 1 parts, and 0 are there"
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
            ("bad-line", {"file": file, "line": 4, "message": "no part of a snapshot, part 1 in its place: {"}),
            ("bad-line", {"file": file, "line": 5, "message": "no header, not in the first line: {"}),
            ("bad-line", {"file": file, "line": 6, "message": "no header, of segment 1: {"}),
            ("bad-line", {"file": file, "line": 7, "message": "no part of a snapshot, of segment 1: {"}),
            ("broken-chain", {"file": file, "line": 8, "first_seq": 6, "message": "record 6 does not hold"}),
        ],
        [text[:4], text[4:]],
        damage=damage,
    )


def salvaged(server: str) -> Case:
    """A line was damaged; the server went on behind that, and the number of that line was not used again."""
    text = day(server).records
    message = "the server went on behind damage in segment 1, line 4: not a journal record"

    def damage(one: Path, other: Path, last: Path) -> None:
        change_line(one, 4, lambda line: b"{oops\n")

    return Case(
        [
            ("bad-line", {"file": segment_name(1), "line": 4}),
            ("broken-chain", {"file": segment_name(1), "line": 5, "first_seq": 4}),
            ("broken-link", {"file": segment_name(5), "message": CHANGED}),
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


CASES: list[Callable[[str], Case]] = [
    sound,
    in_segments,
    old_segments_deleted,
    running,
    crashed_and_recovered,
    persistent,
    gaps,
    gap_at_the_beginning,
    gap_behind_deleted_segments,
    duplicates,
    bad_lines,
    torn,
    torn_but_complete,
    left_open,
    left_open_by_the_last_boot,
    twice,
    unopened,
    unopened_in_a_complete_journal,
    unregistered,
    kept_while_the_disk_failed,
    compressed,
    compressed_and_damaged,
    changed_line,
    changed_last_line,
    missing_segment,
    emptied_segment,
    another_journal_before,
    without_a_header,
    records_without_a_header,
    without_a_snapshot,
    headers_and_snapshots_elsewhere,
    salvaged,
    retained,
]
