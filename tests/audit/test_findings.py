"""One audit of many small journals: each shows one thing, and exactly what it shows is found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bussrv import events as ev
from bussrv.audit.findings import FINDING, KINDS
from bussrv.audit.job import Verdict, audit
from bussrv.journal.segment import segment_name
from tests.audit.conftest import Rows
from tests.audit.journals import Writer, day, lines, write_journal

pytestmark = pytest.mark.timeout(300)

Expected = list[tuple[str, dict[str, Any]]]


@dataclass
class Case:
    """A journal. It is named like its server; the segments are named in a row unless ``first_seqs`` says otherwise."""

    expected: Expected
    segments: Iterable[list[bytes]]
    first_seqs: Iterable[int] | None = None


def sound(server: str) -> Case:
    return Case([], [lines(day(server).records)])


def in_segments(server: str) -> Case:
    text = lines(day(server).records)
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
    return Case([], [lines(writer.records)], [100])


def running(server: str) -> Case:
    writer = Writer(server)
    writer.start()
    writer.open(writer.id(1))
    writer.register(writer.id(1), "tv")
    return Case([], [lines(writer.records)])


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
    return Case([], [lines(writer.records)])


def persistent(server: str) -> Case:
    writer = Writer(server)
    writer.start()
    one, other = writer.id(1), writer.id(2)
    writer.open(one, persistent=True, protocol="inbus")
    writer.open(other, persistent=True, protocol="inbus")
    writer.stop()
    writer.start()
    writer.close(one, reason="lease-expired", protocol="inbus")
    return Case([], [lines(writer.records)])


def gaps(server: str) -> Case:
    text = lines(day(server).records)
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
    text = lines(day(server).records)
    return Case([("seq-gap", {"server": server, "first_seq": 1, "last_seq": 1})], [text[1:]])


def gap_behind_deleted_segments(server: str) -> Case:
    writer = Writer(server, seq=50)
    writer.start()
    return Case([("seq-gap", {"server": server, "first_seq": 48, "last_seq": 49})], [lines(writer.records)], [48])


def duplicates(server: str) -> Case:
    text = lines(day(server).records)
    return Case(
        [
            ("seq-duplicate", {"first_seq": 1, "last_seq": 1, "message": ": record 1 is there up to 2 times"}),
            ("seq-duplicate", {"first_seq": 5, "last_seq": 6, "message": ": records 5 to 6 are there up to 3 times"}),
            ("service-not-registered", {"first_seq": 6, "service": "tv", "session": f"{server}-1.1"}),
        ],
        [text[:1], text[:6], [text[4], text[4], text[5]], text[6:]],
    )


def bad_lines(server: str) -> Case:
    text = lines(day(server).records)
    return Case(
        [
            ("bad-line", {"file": segment_name(1), "line": 1, "message": "no record, not one JSON value: {oops"}),
            ("bad-line", {"file": segment_name(5), "line": 3, "message": "no record, blank: "}),
        ],
        [[b"{oops\n", *text[:4]], [*text[4:6], b"\n", *text[6:]]],
        [1, 5],
    )


def torn(server: str) -> Case:
    text = lines(day(server).records)
    return Case(
        [
            (
                "bad-line",
                {"file": segment_name(1), "line": 3, "message": "ends in 4 bytes of an unfinished record, yet"},
            ),
            ("torn-tail", {"file": segment_name(3), "line": 8, "message": "ends in 5 bytes of an unfinished record"}),
        ],
        [[*text[:2], b'{"v"'], [*text[2:], b'{"v":']],
        [1, 3],
    )


def torn_but_complete(server: str) -> Case:
    """A record without its newline is none: the server sets it aside when it starts again."""
    text = lines(day(server).records)
    return Case([("torn-tail", {"line": 9})], [[*text[:8], text[8][:-1]]])


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
        [lines(writer.records)],
    )


def left_open_by_the_last_boot(server: str) -> Case:
    writer = Writer(server)
    writer.start()
    writer.open(writer.id(1))
    writer.stop()
    return Case([("session-never-closed", {"session": f"{server}-1.1"})], [lines(writer.records)])


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
        [lines(writer.records)],
    )


def unopened(server: str) -> Case:
    writer = Writer(server, seq=40)
    writer.close(writer.id(1))
    writer.start()
    writer.close(writer.id(1))
    return Case(
        [("session-closed-unopened", {"session": f"{server}-1.1", "first_seq": 42, "last_seq": 42})],
        [lines(writer.records)],
        [40],
    )


def unopened_in_a_complete_journal(server: str) -> Case:
    writer = Writer(server)
    writer.close(writer.id(1))
    return Case([("session-closed-unopened", {"session": f"{server}-0.1", "boot": None})], [lines(writer.records)])


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
        [lines(writer.records)],
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
        [lines(writer.records)],
    )


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
]


@dataclass
class Audited:
    verdict: Verdict
    out: Path
    root: Path
    findings: Rows

    def of(self, case: str) -> Rows:
        directory = f"{self.root / case}/"
        return [each for each in self.findings if each["server"] == case or (each["file"] or "").startswith(directory)]


@pytest.fixture(scope="module")
def audited(
    spark: SparkSession, read_table: Callable[[Path, str], Rows], tmp_path_factory: pytest.TempPathFactory
) -> Audited:
    root = tmp_path_factory.mktemp("findings")
    journals = []
    for make in CASES:
        case = make(make.__name__)
        journals.append(write_journal(root / make.__name__, *case.segments, first_seqs=case.first_seqs))
    out = root / "out [1]"
    verdict = audit(spark, journals, out)
    return Audited(verdict, out, root, read_table(out, "findings"))


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_what_is_found(audited: Audited, make: Callable[[str], Case]) -> None:
    found = audited.of(make.__name__)
    expected = make(make.__name__).expected
    assert sorted(each["kind"] for each in found) == sorted(kind for kind, _ in expected)
    for kind, wanted in expected:
        assert any(agrees(each, {"kind": kind, "severity": KINDS[kind], **wanted}) for each in found), (wanted, found)


def agrees(finding: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """The same values; a part of the message and the name of the file will do."""
    return all(
        value in finding[name] if name in {"message", "file"} else finding[name] == value
        for name, value in wanted.items()
    )


def test_every_kind_is_shown_by_some_case() -> None:
    assert {kind for make in CASES for kind, _ in make("x").expected} == set(KINDS)


def test_no_finding_belongs_to_no_case(audited: Audited) -> None:
    assert len(audited.findings) == sum(len(make("x").expected) for make in CASES)


def test_every_finding_has_the_columns_it_promises(audited: Audited) -> None:
    assert {tuple(each) for each in audited.findings} == {tuple(FINDING)}


def test_the_summary_counts_and_lists_them(audited: Audited) -> None:
    summary = audited.verdict.summary
    kinds = [each["kind"] for each in audited.findings]
    assert summary["verdict"] == "findings"
    assert not audited.verdict.is_clean
    assert summary["kinds"] == {kind: kinds.count(kind) for kind in KINDS}
    assert summary["severities"] == {
        severity: sum(KINDS[kind] == severity for kind in kinds) for severity in ("error", "warning", "notice")
    }
    assert sorted(map(str, summary["findings"])) == sorted(map(str, audited.findings))
    order = ["error", "warning", "notice"]
    severities = [order.index(each["severity"]) for each in summary["findings"]]
    assert severities == sorted(severities)
