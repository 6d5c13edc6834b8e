"""Every line comes out: as a record, or as a bad line with its place and the reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bussrv import events as ev
from bussrv.audit.reading import judged
from bussrv.audit.reading.extents import blocks_of, extents_of
from bussrv.audit.reading.load import lines_of, records_of
from bussrv.audit.reading.segments import read_text
from bussrv.audit.reading.snapshot import Journal, Snapshot
from bussrv.audit.reading.sources import take_snapshot
from bussrv.audit.tables.findings import Finding
from bussrv.audit.tables.kinds import KINDS
from bussrv.journal.digests import digests_of
from bussrv.journal.evidence.lines import LineJudge
from bussrv.journal.header import decode_header, decode_part, encode_header
from bussrv.journal.record import Record, encode
from bussrv.journal.segment import segment_name
from bussrv.values import ModeInterest, RuleInterest
from tests.audit.journals import START, Line, Writer, day, write_journal

pytestmark = pytest.mark.timeout(300)

NOTHING_READ = judged.Read({}, {}, {}, {}, ())

GOOD = {
    "v": 3,
    "prev": "ab" * 32,
    "seq": 7,
    "time": "2027-01-15T08:00:01.250000Z",
    "mono": 1,
    "server": "hall",
    "boot": "b1",
    "outcome": "ok",
    "event": "session.closed",
    "session": "b1.1",
    "duration": 5,
}


HEADER = {
    "v": 3,
    "prev": "ab" * 32,
    "segment": 1,
    "parts": 0,
    "time": "2027-01-15T08:00:01.250000Z",
    "server": "hall",
    "boot": "b1",
    "previous": {"segment": 1, "bytes": 2, "digest": "cd" * 32},
    "salvaged": {"segment": 1, "line": 2, "reason": "not a journal record"},
}

PART = {"v": 3, "prev": "ab" * 32, "snapshot": 1, "part": 1, "state": {"sessions": []}}


def changed(good: dict[str, Any] = GOOD, /, **fields: Any) -> bytes:
    """A good line with other fields; ``None`` takes a field away."""
    return json.dumps({name: value for name, value in {**good, **fields}.items() if value is not None}).encode()


TEXT = changed()
WRONG_TYPE = "not a JSON object, or a field of it has the wrong type"

BAD = [
    (b"", "blank"),
    (b"  ", "blank"),
    (b"\xff" + TEXT, "not UTF-8"),
    (TEXT.replace(b"hall", b"h\xe4ll"), "not UTF-8"),
    (TEXT[:-1], "not one JSON value"),
    (TEXT + b" trailing", "not one JSON value"),
    (TEXT + TEXT, "not one JSON value"),
    (TEXT + b"," + TEXT, "not one JSON value"),
    (b"garbage", "not one JSON value"),
    (b"carriage\rreturn", "not one JSON value"),
    (TEXT.replace(b'"', b"'"), WRONG_TYPE),
    (b"7", WRONG_TYPE),
    (b"null", WRONG_TYPE),
    (b"[" + TEXT + b"]", WRONG_TYPE),
    (changed(seq="7"), WRONG_TYPE),
    (changed(seq=7.0), WRONG_TYPE),
    (changed(seq=True), WRONG_TYPE),
    (changed(seq=1 << 64), WRONG_TYPE),
    (changed(event="session.opened", persistent="true"), WRONG_TYPE),
    (changed(event="session.identified", routing_ids="a"), WRONG_TYPE),
    (changed(event="server.started", version="1", formats=["a"]), WRONG_TYPE),
    (b"{}", "without v"),
    *[
        (changed(**{name: None}), f"without {name}")
        for name in ("v", "prev", "seq", "time", "mono", "server", "boot", "outcome", "event")
    ],
    (changed(v=4), "schema version 4"),
    (changed(v=1, prev=None), "schema version 1"),
    (changed(v=4, seq="seven", service=["tv"]), "schema version 4"),
    (changed(seq=0), "number 0"),
    (changed(time=""), "with a malformed time"),
    (changed(time="2027-02-30T08:00:01.250000Z"), "with a malformed time"),
    (changed(time="2027-01-15T08:00:01Z"), "with a malformed time"),
    (changed(time="2027-01-15T08:00:01.250000"), "with a malformed time"),
    (changed(time="2027-01-15 08:00:01.250000Z"), "with a malformed time"),
    (changed(outcome="fine"), "with an unknown outcome"),
    (changed(event="session.vanished"), "of an unknown event"),
    (changed(duration=None), "session.closed without duration"),
    (changed(session=None), "session.closed without session"),
    (changed(event="service.registered"), "service.registered without service"),
    (changed(event="server.started"), "server.started without version"),
    (changed(event="journal.pruned", segment=1), "journal.pruned without last_seq"),
]

BAD_HEADERS = [
    *[
        (changed(HEADER, **{name: None}), f"without {name}")
        for name in ("v", "prev", "parts", "time", "server", "boot")
    ],
    (changed(HEADER, v=4), "schema version 4"),
    (changed(HEADER, parts="0"), WRONG_TYPE),
    (changed(HEADER, previous="1"), WRONG_TYPE),
    (changed(HEADER, time="2027-01-15"), "with a malformed time"),
    (changed(HEADER, previous={}), "with previous without segment"),
    (changed(HEADER, previous={"segment": 1, "bytes": 2}), "with previous without digest"),
    (changed(HEADER, salvaged={"segment": 1, "reason": "r"}), "with salvaged without line"),
]

BAD_PARTS = [
    *[(changed(PART, **{name: None}), f"without {name}") for name in ("v", "prev", "part", "state")],
    (changed(PART, v=1), "schema version 1"),
    (changed(PART, part="1"), WRONG_TYPE),
]

# These are lines of a journal, but do not belong there, or say nothing of the registry.
MISPLACED = [
    (changed(HEADER, segment=2), "header", "the header of segment 2 does not belong here"),
    (changed(HEADER), "header", "the header of segment 1 does not belong here"),
    (changed(PART, state=[1]), "part of a snapshot", "not a journal record"),
    (changed(PART, state="text"), "part of a snapshot", "not a journal record"),
    (changed(PART, snapshot=2), "part of a snapshot", "part 1 of the snapshot of segment 2 does not belong here"),
    (changed(PART), "part of a snapshot", "part 1 of the snapshot of segment 1 does not belong here"),
]

EVERY_BAD = [*BAD, *BAD_HEADERS, *BAD_PARTS, *[(line, why) for line, _, why in MISPLACED]]


def full(event: type[ev.Event]) -> ev.Event:
    """An event with a value in every field."""
    values: dict[Any, Any] = {
        str | None: "text “ü” \x01\n",
        str: "text",
        int | None: 1 << 62,
        int: 3,
        bool: True,
        tuple[str, ...]: ("a", "b"),
        dict[str, str]: {"spp": "tcp 127.0.0.1:3002"},
        dict[str, Any] | None: {"lease": [1, {"x": "y"}]},
        ModeInterest | RuleInterest | None: RuleInterest(("-", ("a", "b"))),
    }
    return event(**{field.name: values[field.type] for field in msgspec.structs.fields(event)})


@pytest.fixture(scope="module")
def collected(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """One journal with every event and every kind of bad line, read once."""
    root = tmp_path_factory.mktemp("load")
    records = [Record(seq, START + seq, seq, "hall", "b1", full(each)) for seq, each in enumerate(ev.EVENT_CLASSES, 1)]
    bad = [line + b"\n" for line, _ in EVERY_BAD]
    journal = write_journal(root / "journal [1]", [*records, *bad], [bad[0]], [*day().records, b"{"])
    with take_snapshot(spark, [str(journal)]) as snapshot:
        read = lines_of(read_text(spark, snapshot)).persist()
        blocks = blocks_of(read)
        contents = extents_of(blocks, {each.taken: each.number for each in snapshot.segments})
        found = list(judged.line_findings(spark, snapshot, NOTHING_READ, contents))
        answer: dict[str, list[Any]] = {
            "journal": [journal],
            "records": records_of(read).where("segment_first = 1").orderBy("seq").collect(),
            "moments": records_of(read).where("segment_first = 1").orderBy("seq").select(micros("moment")).collect(),
            "others": records_of(read).where("segment_first > 1").collect(),
            "bad": [each for each in found if each.kind == "bad-line"],
            "lines": read.orderBy("taken", "position").select("is_sound").collect(),
            "torn": [each for each in of_segments(snapshot) if each.kind == "torn-tail"],
        }
        read.unpersist()
    return answer


def of_segments(snapshot: Snapshot) -> Iterator[Finding]:
    digests = {each.taken: digests_of(each.path_in(snapshot.local)) for each in snapshot.segments}
    return judged.findings(snapshot.journals[0], judged.Read(digests, {}, {}, {}, ()), {})


def micros(column: str) -> Any:
    return F.unix_micros(column).alias(column)


def test_every_record_is_read_whole(collected: dict[str, list[Any]]) -> None:
    rows = collected["records"]
    assert len(rows) == len(ev.EVENT_CLASSES)
    for number, (row, event) in enumerate(zip(rows, map(full, ev.EVENT_CLASSES), strict=True), 1):
        fields = json.loads(encode(Record(number, START + number, number, "hall", "b1", event)))
        for name in ("v", "prev", "time"):
            del fields[name]
        for name in ("interest", "options"):
            assert json.loads(row[name] or "null") == fields.pop(name, None)
        assert {name: row[name] for name in fields} == fields
    assert [row.moment for row in collected["moments"]] == [START + number for number in range(1, len(rows) + 1)]


def test_every_bad_line_is_found_where_it_is(collected: dict[str, list[Any]]) -> None:
    (journal,) = collected["journal"]
    first, second = journal / segment_name(1), journal / segment_name(1 + len(ev.EVENT_CLASSES) + len(EVERY_BAD))
    before = 1 + len(ev.EVENT_CLASSES)
    expected = [(str(first), before + number) for number in range(1, len(EVERY_BAD) + 1)]
    assert [(each.file, each.line) for each in collected["bad"]] == [*expected, (str(second), 2)]
    for finding, (_, _, why) in zip(collected["bad"][-1 - len(MISPLACED) :], MISPLACED, strict=False):
        assert why in finding.message
    assert len(collected["others"]) == 9


def test_no_bad_line_is_a_record_for_spark(collected: dict[str, list[Any]]) -> None:
    """Which of the lines are records is decided once more, by Spark, to make tables of them."""
    wanted = [True] * (1 + len(ev.EVENT_CLASSES)) + [False] * len((*BAD, *BAD_HEADERS, *BAD_PARTS))
    assert [row.is_sound for row in collected["lines"]][: len(wanted)] == wanted


def test_what_spark_takes_for_no_record_is_none_for_the_judge_either() -> None:
    for line, _ in (*BAD, *BAD_HEADERS, *BAD_PARTS):
        lines = LineJudge(1)
        lines.pass_line(encode_header(decode_header(changed(HEADER, salvaged=None))))
        assert lines.pass_line(line) is None, line


def test_a_header_and_a_part_are_what_the_server_reads() -> None:
    assert decode_header(changed(HEADER)).salvaged
    assert decode_part(changed(PART)).part == 1


def test_a_bad_line_is_quoted_and_shortened(collected: dict[str, list[Any]]) -> None:
    messages = [each.message for each in collected["bad"]]
    assert messages[0].endswith(": ")
    assert messages[2].endswith(f": {chr(0xFFFD)}{TEXT.decode()}"[:162] + "…")
    garbage = next(index for index, (line, _) in enumerate(EVERY_BAD) if line == b"garbage")
    assert messages[garbage].endswith(": garbage")


def test_a_torn_tail_is_a_notice(collected: dict[str, list[Any]]) -> None:
    (torn,) = collected["torn"]
    assert (KINDS[torn.kind], torn.kind, torn.line) == ("notice", "torn-tail", 11)
    assert torn.message == "the journal ends in 1 bytes of an unfinished record"


def test_line_numbers_hold_in_a_segment_that_is_read_in_parts(spark: SparkSession, tmp_path: Path) -> None:
    writer = Writer()
    for number in range(400):
        writer.open(f"b1.{number}")
    lines: list[Line] = [*writer.records]
    wanted = [2, 77, 200, 201, 399, 400]
    for number in wanted:
        lines[number - 2] = b"bad %d\n" % number
    write_journal(tmp_path / "journal", lines)
    setting = "spark.sql.files.maxPartitionBytes"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "8k")
    try:
        with take_snapshot(spark, [str(tmp_path / "journal")]) as snapshot:
            text = read_text(spark, snapshot)
            # As if they were read in place.
            far = replace(snapshot, journals=tuple(in_place(each) for each in snapshot.journals))
            contents = extents_of(blocks_of(lines_of(text)), {each.taken: each.number for each in far.segments})
            found = list(judged.line_findings(spark, far, NOTHING_READ, contents))
            parts = text.select(F.spark_partition_id()).distinct().count()
    finally:
        spark.conf.set(setting, str(before))
    assert parts > 2
    bad = [each for each in found if each.line is not None]
    assert [(each.kind, each.line) for each in bad] == [("bad-line", number) for number in wanted]
    assert all(each.message.endswith(f": bad {each.line}") for each in bad)


def in_place(journal: Journal) -> Journal:
    """A journal whose segments Spark reads from the snapshot as it reads far ones."""
    root = Path(journal.root)
    segments = [replace(each, in_place=True, file=f"file://{each.path_in(root)}") for each in journal.segments]
    return replace(journal, segments=tuple(segments))
