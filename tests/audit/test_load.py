"""Every line comes out: as a record, or as a bad line with its place and the reason."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bussrv import events as ev
from bussrv.audit.fold.lines import FoldLine, read_lines
from bussrv.audit.fold.segments import read_segment
from bussrv.audit.kinds import KINDS
from bussrv.audit.reading.judged import tables
from bussrv.audit.reading.sources import take_snapshot
from bussrv.audit.reading.stripes import sources_of
from bussrv.journal.evidence.lines import LineJudge
from bussrv.journal.header import decode_header, decode_part, encode_header
from bussrv.journal.record import Record, encode
from bussrv.journal.segment import segment_name
from bussrv.values import InEffect, ModeInterest, PolicyText, RuleInterest
from tests.audit.frames import Rows
from tests.audit.journals import START, day, write_journal

pytestmark = pytest.mark.timeout(300)

GOOD = {
    "v": 4,
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
    "v": 4,
    "prev": "ab" * 32,
    "segment": 1,
    "parts": 0,
    "time": "2027-01-15T08:00:01.250000Z",
    "server": "hall",
    "boot": "b1",
    "previous": {"segment": 1, "bytes": 2, "digest": "cd" * 32},
    "salvaged": {"segment": 1, "line": 2, "reason": "not a journal record"},
}

PART = {"v": 4, "prev": "ab" * 32, "snapshot": 1, "part": 1, "state": {"sessions": []}}


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
    (changed(v=5), "schema version 5"),
    (changed(v=1, prev=None), "schema version 1"),
    (changed(v=5, seq="seven", service=["tv"]), "schema version 5"),
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
    (changed(HEADER, v=5), "schema version 5"),
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
        InEffect | None: InEffect(
            asks=True, policy=PolicyText(name="policy.toml", digest="ab" * 32), limits={"max-sessions": 7}
        ),
    }
    return event(**{field.name: values[field.type] for field in msgspec.structs.fields(event)})


@dataclass
class Read:
    """The records read from a journal with every event and every kind of bad line.

    :ivar records: of its first segment; ``others`` of its second one.
    """

    journal: Path
    records: list[FoldLine]
    moments: list[int]
    others: list[FoldLine]
    bad: Rows
    torn: Rows


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Read:
    root = tmp_path_factory.mktemp("load")
    records = [Record(seq, START + seq, seq, "hall", "b1", full(each)) for seq, each in enumerate(ev.EVENT_CLASSES, 1)]
    bad = [line + b"\n" for line, _ in EVERY_BAD]
    journal = write_journal(root / "journal [1]", [*records, *bad], [bad[0]], [*day().records, b"{"])
    with take_snapshot([str(journal)]) as snapshot:
        (sources,) = sources_of(snapshot)
        found, read = zip(*map(read_segment, sources), strict=True)
        findings = tables(snapshot, {each.taken: each for each in found})["findings"].to_pylist()
    kinds = {kind: [each for each in findings if each["kind"] == kind] for kind in ("bad-line", "torn-tail")}
    lines = [] if read[0] is None else read[0].records
    others = [record for each in read[1:] if each is not None for record in each.records]
    return Read(journal, lines, read[0].moments.tolist(), others, kinds["bad-line"], kinds["torn-tail"])


def test_every_record_is_read_whole(collected: Read) -> None:
    assert len(collected.records) == len(ev.EVENT_CLASSES)
    for number, (record, event) in enumerate(zip(collected.records, map(full, ev.EVENT_CLASSES), strict=True), 1):
        fields = json.loads(encode(Record(number, START + number, number, "hall", "b1", event)))
        said = json.loads(msgspec.json.encode(record))
        assert {name: said[name] for name in fields} == fields | {"prev": said["prev"]}
    assert collected.moments == [START + number for number in range(1, len(ev.EVENT_CLASSES) + 1)]


def test_every_bad_line_is_found_where_it_is(collected: Read) -> None:
    journal = collected.journal
    first, second = journal / segment_name(1), journal / segment_name(1 + len(ev.EVENT_CLASSES) + len(EVERY_BAD))
    before = 1 + len(ev.EVENT_CLASSES)
    # Later segments begin with their header and the rules in effect.
    expected = [(str(first), before + number) for number in range(1, len(EVERY_BAD) + 1)]
    bad = [each for each in collected.bad if "is not written as" not in each["message"]]
    assert [(each["file"], each["line"]) for each in bad] == [*expected, (str(second), 3)]
    for finding, (_, _, why) in zip(bad[-1 - len(MISPLACED) :], MISPLACED, strict=False):
        assert why in finding["message"]
    assert len(collected.others) == 9


def test_what_is_no_record_is_none_for_the_judge_either() -> None:
    """The tables are made of the same lines that the judge passes."""
    head = encode_header(decode_header(changed(HEADER, salvaged=None)))
    for line, _ in (*BAD, *BAD_HEADERS, *BAD_PARTS):
        lines = LineJudge(1)
        lines.pass_line(head)
        assert lines.pass_line(line) is None, line
        assert read_lines(head + line + b"\n", 1, is_chained=True).records == [], line


def test_a_header_and_a_part_are_what_the_server_reads() -> None:
    assert decode_header(changed(HEADER)).salvaged
    assert decode_part(changed(PART)).part == 1


def test_a_bad_line_is_quoted_and_shortened(collected: Read) -> None:
    messages = [each["message"] for each in collected.bad if "is not written as" not in each["message"]]
    assert messages[0].endswith(": ")
    assert messages[2].endswith(f": {chr(0xFFFD)}{TEXT.decode()}"[:162] + "…")
    garbage = next(index for index, (line, _) in enumerate(EVERY_BAD) if line == b"garbage")
    assert messages[garbage].endswith(": garbage")


def test_a_torn_tail_is_a_notice(collected: Read) -> None:
    (torn,) = collected.torn
    assert (KINDS[torn["kind"]], torn["line"]) == ("notice", 12)
    assert torn["message"] == "the journal ends in 1 bytes of an unfinished record"
