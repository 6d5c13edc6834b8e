"""What the options of the audit do."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bussrv.audit import job
from bussrv.audit.job import Verdict, audit
from bussrv.audit.reading.snapshot import choose
from bussrv.audit.reading.sources import take_snapshot
from bussrv.errors import JournalError
from bussrv.journal.batch import Rotation
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.moments import parse_instant
from bussrv.journal.reading import read_header, read_segments
from bussrv.journal.segment import list_segments
from bussrv.synth.journal import write_journal
from tests.audit.conftest import Rows, Whole, without_patience, without_report
from tests.audit.days import RUNNING, Shape, write_days
from tests.audit.ingested import Ingested, ingested
from tests.audit.journals import change_line, day
from tests.audit.journals import write_journal as write_lines_of
from tests.inspection.journals import KEY, NEXT_KEY

pytestmark = [pytest.mark.dear, pytest.mark.timeout(1200)]

ReadTable = Callable[[Path, str], Rows]


@pytest.fixture(autouse=True)
def impatient() -> Iterator[None]:
    with without_patience():
        yield


def plain(rows: Rows) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True, default=str) for row in rows)


@pytest.mark.long
def test_a_period(spark: SparkSession, read_table: ReadTable, whole: Whole, tmp_path: Path) -> None:
    """The tables hold what was in it; whether the segments are what they were is judged all the same."""

    def rows(out: str, name: str) -> Rows:
        return [row for row in read_table(outs[out], name) if row["server"] == "hall"]

    outs = {"all": whole.out, "part": tmp_path / "part"}
    journal = tmp_path / "hall"
    shutil.copytree(whole.hall, journal)
    segments = sorted(rows("all", "segments"), key=lambda row: row["segment"])
    middle = segments[1 : len(segments) - 1]
    assert len(middle) >= 2
    since = (middle[0]["first_moment"] + middle[0]["last_moment"]) // 2
    until = (middle[-1]["first_moment"] + middle[-1]["last_moment"]) // 2
    change_line(list_segments(journal)[2], 9, lambda line: line.replace(b'"mono":', b'"mono":1'))
    with without_report():
        audit(spark, [journal], outs["part"], since=since, until=until)

    read = {row["segment"] for row in rows("part", "segments")}
    assert read == {row["segment"] for row in segments if row["first_moment"] < until and row["last_moment"] >= since}
    assert read < {row["segment"] for row in segments}
    assert {"broken-seal", "broken-chain"} <= {row["kind"] for row in rows("part", "findings")}
    for name in ("events", "refusals"):
        assert rows("part", name)
        assert sum(row["records"] for row in rows("part", name)) < sum(row["records"] for row in rows("all", name))
    storms = [row for row in rows("all", "storms") if since <= row["begin"] and row["end"] < until]
    assert all(plain([row]) <= plain(rows("part", "storms")) for row in storms)
    held = [row for row in rows("all", "concurrency") if since < row["moment"] < until]
    assert held
    assert plain(held) == plain([row for row in rows("part", "concurrency") if row["moment"] != since])
    there = {row["session"] for row in rows("all", "sessions") if overlaps(row, since, until)}
    assert {row["session"] for row in rows("part", "sessions")} == there
    # What had not ended by then is known to have lasted until the last record before it.
    last = max(row["last_moment"] for row in rows("part", "servers"))
    assert last < until
    uptimes = [row for row in rows("all", "uptimes") if row["begin"] < last and row["end"] > since]
    clipped = [
        {
            **row,
            "begin": max(row["begin"], since),
            "end": min(row["end"], last),
            "lost": row["lost"] and row["end"] <= last,
        }
        for row in uptimes
    ]
    assert plain(clipped) == plain(rows("part", "uptimes"))


def test_records_older_than_their_segment_are_in_the_period(tmp_path: Path) -> None:
    """They waited until they were written: until then, the segment was not there."""
    journal = tmp_path / "hall"
    write_journal(journal, events=1500, rotation=Rotation(bytes=40_000))
    paths = list_segments(journal)
    first = next(read_segments(paths[1:]))
    assert first.time < read_header(paths[1]).time
    assert choose(paths, None, first.time + 1) == paths[:2]
    assert choose(paths, None, first.time) == paths[:1]
    assert choose(paths, first.time, None) == paths[1:]
    assert choose(paths, first.time - 1, None) == paths


def overlaps(session: dict[str, Any], since: int, until: int) -> bool:
    opened, closed = session["opened"], session["closed"]
    return (opened is None or opened < until) and (closed is None or closed >= since)


@pytest.fixture
def nobody_needs_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("bussrv.audit.spark.session.spark_session", fail)


def run(*arguments: str | Path) -> int:
    return job.main([*map(str, arguments)])


BARS = ("error", "warning", "notice", "incident")
FAILS = {
    # What there is: which of the bars, each alone, make the exit status 1.
    (None, False): (),
    ("notice", False): ("notice",),
    ("warning", False): ("warning", "notice"),
    ("error", False): ("error", "warning", "notice"),
    (None, True): ("incident",),
    ("notice", True): ("notice", "incident"),
    ("error", True): BARS,
}


def audit_instead(monkeypatch: pytest.MonkeyPatch, audit: Callable[[job.AuditCommand], Verdict | None]) -> None:
    """Let the command call this, with no engine."""
    monkeypatch.setattr(job, "_engine", lambda _: nullcontext())
    monkeypatch.setattr(job, "_audit_once", lambda command, *_: audit(command))


@pytest.mark.parametrize(("worst", "happened"), FAILS)
def test_fail_on(worst: str | None, happened: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    severities = {each: int(each == worst) for each in job.SEVERITIES}
    found = {"severities": severities, "incident_kinds": {"crash": 1} if happened else {}}
    verdict = Verdict(found, tmp_path / "summary.json", "said")
    audit_instead(monkeypatch, lambda _: verdict)
    fails = FAILS[worst, happened]
    for count in range(1, 3):
        for bars in combinations(BARS, count):
            options = [word for each in bars for word in ("--fail-on", each)]
            assert (bars, run("journal", *options)) == (bars, int(not {*fails}.isdisjoint(bars)))
    assert run("journal") == run("journal", "--fail-on", "warning")
    assert (verdict.is_intact, verdict.is_quiet) == ("warning" not in fails, not happened)


def test_a_severity_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("journal", "--fail-on", "trifle") == 2
    assert "--fail-on" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--since", "--until"])
def test_a_time_that_is_none(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("journal", option, "yesterday") == 2
    assert option in capsys.readouterr().err


def test_times_are_those_of_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    audit_instead(monkeypatch, lambda command: seen.append((command.since, command.until)))
    with pytest.raises(AttributeError):
        run("journal", "--since", "2026-11-21T14:02:03Z", "--until", "2026-11-21T14:02:03.5Z")
    assert seen == [(parse_instant("2026-11-21T14:02:03Z"), parse_instant("2026-11-21T14:02:03.5Z"))]
    assert seen[0][1] - seen[0][0] == 500_000


@pytest.mark.usefixtures("nobody_needs_spark")
@pytest.mark.parametrize("content", [None, "no key at all\n"])
def test_no_such_key(content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = tmp_path / "key.pub"
    if content is not None:
        key.write_text(content)
    write_lines_of(tmp_path / "hall", day().records)
    assert run(tmp_path / "hall", "--out", tmp_path / "out", "--public-key", key) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert str(key) in said.err
    assert not (tmp_path / "out").exists()


SEALED = Shape(events=60, segment=30)
SHAPES = {
    "right": SEALED,
    "wrong": Shape(events=60, segment=30, key=NEXT_KEY),
    "unsigned": Shape(events=60, segment=30, key=None),
    "unsealed": Shape(events=60, segment=30, key=None, seals=False),
    "lost": SEALED,
}
"""Signed with the trusted key, with another one, and with none; without any seal, and without its manifest."""


@dataclass
class Lot:
    """Journals that are read together.

    :ivar sealed: each as its name says.
    :ivar new: one that a newer server wrote.
    :ivar mixed: one in which it wrote one line.
    :ivar read: what was read of all of them.
    """

    sealed: dict[str, Path]
    new: Path
    mixed: Path
    read: Ingested


@pytest.fixture(scope="module")
def lot(tmp_path_factory: pytest.TempPathFactory) -> Lot:
    root = tmp_path_factory.mktemp("lot")
    sealed = {name: write_days(root / name, each, name) for name, each in SHAPES.items()}
    (sealed["lost"] / MANIFEST_NAME).unlink()
    new, mixed = (write_lines_of(root / name, day(name).records) for name in ("new", "mixed"))
    for path in list_segments(new):
        path.write_bytes(path.read_bytes().replace(b'{"v":4,', b'{"v":5,'))
    change_line(list_segments(mixed)[0], 4, lambda line: line.replace(b'{"v":4,', b'{"v":5,'))
    with without_patience():
        return Lot(sealed, new, mixed, ingested(None, [*sealed.values(), new, mixed], root / "out"))


def test_keys_and_manifests(lot: Lot, tmp_path: Path) -> None:
    found = {name: {each["kind"] for each in lot.read.found if each["server"] == name} for name in SHAPES}
    # The segments refer to seals.
    assert found == {"right": set(), "wrong": set(), "unsigned": set(), "unsealed": set(), "lost": {"bad-manifest"}}
    trusting = ingested(None, [*lot.sealed.values()], tmp_path / "with", trusted=KEY.public)
    assert trusting.records == Counter({name: lot.read.records[name] for name in SHAPES})
    found = {name: {each["kind"] for each in trusting.found if each["server"] == name} for name in SHAPES}
    assert found["right"] == set()
    assert all("bad-manifest" in found[name] for name in SHAPES if name != "right"), found
    assert {each["severity"] for each in trusting.found} == {"error"}


def test_versions(lot: Lot) -> None:
    """All lines of a newer one, and both: each such line is named, the others are read."""
    (new,), (mixed,) = list_segments(lot.new), list_segments(lot.mixed)
    lines = mixed.read_bytes().splitlines()
    bad = [each for each in lot.read.found if each["kind"] == "bad-line"]
    assert Counter(each["file"] for each in bad) == {str(new): len(lines), str(mixed): 1}
    assert all("schema version 5" in each["message"] for each in bad)
    read = lot.read.records
    assert (read["new"], read["mixed"]) == (0, len(lines) - 2)


def test_what_cannot_be_read(tmp_path: Path) -> None:
    journal = write_lines_of(tmp_path / "hall", day().records[:5], day().records[5:])
    first, _ = list_segments(journal)
    first.unlink()
    first.mkdir()
    with (
        pytest.raises(JournalError, match=r"cannot read the segment .*1\.jsonl: Is a directory"),
        take_snapshot([str(journal)]),
    ):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read(tmp_path: Path) -> None:
    journal = write_lines_of(tmp_path / "hall", day().records[:5], day().records[5:])
    list_segments(journal)[0].chmod(0)
    with (
        pytest.raises(JournalError, match=r"cannot read the segment .*: Permission denied"),
        take_snapshot([str(journal)]),
    ):
        pass


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[Path]:
    """A journal of which the last segment grows, a few bytes at a time, so that it mostly ends within a record."""
    whole = write_days(tmp_path / "whole", Shape(events=400, segment=300, end=RUNNING), "hall")
    *closed, last = list_segments(whole)
    journal = tmp_path / "hall"
    journal.mkdir()
    for path in (*closed, whole / MANIFEST_NAME):
        (journal / path.name).write_bytes(path.read_bytes())
    text = last.read_bytes()
    sealed = max(
        entry["bytes"]
        for entry in map(json.loads, (whole / MANIFEST_NAME).read_bytes().splitlines())
        if entry.get("segment") == int(last.name.partition(".")[0])
    )
    ended = threading.Event()

    def write() -> None:
        with (journal / last.name).open("wb", buffering=0) as file:
            file.write(text[: sealed + 7])
            for begin in range(sealed + 7, len(text), 37):
                begun.set()
                if ended.wait(0.05):
                    return
                file.write(text[begin : begin + 37])
            begun.set()

    begun = threading.Event()
    writing = threading.Thread(target=write)
    writing.start()
    begun.wait()
    yield journal
    ended.set()
    writing.join()


def test_a_segment_that_grows_is_no_fault(growing: Path, tmp_path: Path) -> None:
    counts = []
    for number in range(3):
        read = ingested(None, [growing], tmp_path / f"out-{number}", kept=tmp_path / "kept" if number else None)
        assert {*read.kinds} <= {"torn-tail"}
        assert all(each["severity"] == "notice" for each in read.found)
        counts.append(read.records.total())
    assert counts == sorted(counts)
    assert counts[0] > 300
