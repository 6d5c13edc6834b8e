"""What is written and said about an audit."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bussrv.audit.fold.segments import SegmentSource
from bussrv.audit.fold.stripe import Period
from bussrv.audit.job import audit
from bussrv.audit.output import PUBLISHED, OutputRefused
from bussrv.audit.reading import stripes
from bussrv.audit.reading.snapshot import JournalSnapshot
from bussrv.audit.report import summary
from bussrv.errors import JournalError
from bussrv.journal.segment import segment_name
from bussrv.version import VERSION
from tests.audit.conftest import Clean, Whole, without_report
from tests.audit.journals import compress, day, write_journal
from tests.audit.test_docs import documented

pytestmark = [pytest.mark.dear, pytest.mark.timeout(600)]


@dataclass
class Audited:
    """What the command left of the journals ``hall`` and ``barn`` in ``root``."""

    root: Path
    out: Path
    text: list[str]
    summary: dict[str, Any]


@pytest.fixture(scope="module")
def audited(clean: Clean) -> Audited:
    out = clean.root / "bussrv-audit"
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    return Audited(clean.root, out, clean.ended.stdout.splitlines(), summary)


def test_nothing_but_tables_report_and_summary_is_left(audited: Audited) -> None:
    assert {path.name for path in audited.root.iterdir()} == {"hall", "barn", "bussrv-audit"}
    assert {path.name for path in audited.out.iterdir()} == {".bussrv-audit", "report.html", "summary.json", "tables"}
    assert {path.name for path in (audited.out / "tables").iterdir()} == set(PUBLISHED)


def test_the_summary_tells_totals(audited: Audited) -> None:
    summary = dict(audited.summary)
    (torn,) = summary.pop("findings")
    (crash,) = summary.pop("incidents")
    assert summary.pop("audited").endswith("Z")
    assert torn["kind"] == "torn-tail"
    assert crash == {
        "kind": "crash",
        "time": "2027-01-15T08:00:26.250000Z",
        "until": "2027-01-15T08:00:26.250000Z",
        "server": "barn",
        "address": None,
        "user": None,
        "proved": False,
        "subject": None,
        "number": 1,
        "message": "The server crashed: 1 crash; down for 1.2 s at most",
        "command": f"bussrv journal tail {audited.root / 'barn'} --around 21",
    }
    assert summary == {
        "format": 3,
        "every": None,
        "version": VERSION,
        "command": "bussrv audit hall barn --engine embedded",
        "verdict": "incidents",
        "integrity": "intact",
        "security": "incidents",
        "severities": {"error": 0, "warning": 0, "notice": 1},
        "kinds": {"torn-tail": 1},
        "seals": {"sealed": 0, "vouched": 0, "keys": [], "trusted": None},
        "last_seals": [],
        "witnessed": [],
        "segments": 3,
        "records": 27,
        "boots": 3,
        "servers": [
            {
                "server": "barn",
                "records": 18,
                "first_seq": 11,
                "last_seq": 28,
                "first_moment": "2027-01-15T08:00:13.750000Z",
                "last_moment": "2027-01-15T08:00:35.000000Z",
                "boots": 2,
                "crashes": 1,
            },
            {
                "server": "hall",
                "records": 9,
                "first_seq": 1,
                "last_seq": 9,
                "first_moment": "2027-01-15T08:00:01.250000Z",
                "last_moment": "2027-01-15T08:00:11.250000Z",
                "boots": 1,
                "crashes": 0,
            },
        ],
        "sessions": {
            "inbus": {"opened": 1, "closed": 0, "open": 1, "away": 0},
            "objects": {"opened": 3, "closed": 3, "open": 0, "away": 0},
            "spp": {"opened": 1, "closed": 1, "open": 0, "away": 0},
        },
        "services": {"known": 3, "provided": 1},
        "events": {
            "config.reloaded": 1,
            "limit.reached": 1,
            "server.recovered": 1,
            "server.started": 3,
            "server.stopped": 1,
            "service.refused": 1,
            "service.registered": 5,
            "service.unregistered": 4,
            "session.closed": 4,
            "session.opened": 5,
            "subscription.added": 1,
        },
        "incident_kinds": {"crash": 1},
    }


@pytest.mark.parametrize("table", PUBLISHED)
def test_the_documentation_describes_the_tables(spark: SparkSession, whole: Whole, table: str) -> None:
    dtypes = spark.read.parquet(str(whole.out / "tables" / table).replace("[", "\\[")).dtypes
    columns = [(name, re.sub("array<(.*)>", r"array of \1", kind)) for name, kind in dtypes if name != "date"]
    assert sorted(name_and_kind for name_and_kind in documented(table) if name_and_kind[0] != "date") == sorted(columns)


def test_the_documentation_describes_the_summary(audited: Audited) -> None:
    names = [name for name, _ in documented("summary.json")]
    assert [name for name in names if name in audited.summary] == list(audited.summary)


@pytest.mark.long
def test_the_snippet_writes_the_report_again(audited: Audited, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(__file__).parents[2].joinpath("docs", "reference", "audit", "report.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(snippet, {"out": audited.out, "summary": audited.summary, "period": Period(), "Path": Path})
    assert (tmp_path / "report.html").read_bytes() == (audited.out / "report.html").read_bytes()


def test_the_text_fits_on_a_screen_and_says_it_all(audited: Audited) -> None:
    place = audited.root / "barn" / "00000000000000000011.jsonl"
    day_one = "2027-01-15T08:00:"
    assert audited.text == [
        "27 records in 3 segments",
        f"  server barn: records 11 to 28, {day_one}13.750000Z to {day_one}35.000000Z, 2 boots, 1 crashed",
        f"  server hall: records 1 to 9, {day_one}01.250000Z to {day_one}11.250000Z, 1 boot",
        "3 services, 1 provided at the end",
        "sessions       opened   closed     open     away",
        "  inbus             1        0        1        0",
        "  objects           3        3        0        0",
        "  spp               1        1        0        0",
        "",
        "JOURNAL INTACT: 1 notice",
        f"  notice  torn-tail: the journal ends in 1 bytes of an unfinished record ({place}, line 20)",
        "1 INCIDENT needs a look",
        f"  {day_one}26.250000Z  The server crashed: 1 crash; down for 1.2 s at most, at server barn",
        f"    bussrv journal tail {audited.root / 'barn'} --around 21",
        str(audited.out / "summary.json"),
    ]


def test_nothing_is_said_of_a_segment_that_goes_away_meanwhile(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = write_journal(tmp_path / "journal", day().records[:4], day().records[4:])

    sources_of = stripes.sources_of

    def read_late(snapshot: JournalSnapshot) -> list[list[SegmentSource]]:
        found = sources_of(snapshot)
        compress(journal / segment_name(1))
        return found

    monkeypatch.setattr(stripes, "sources_of", read_late)
    with pytest.raises(JournalError, match="went away while it was read"):
        audit(spark, [journal], tmp_path / "out")
    assert not (tmp_path / "out" / "summary.json").exists()


@pytest.mark.long
def test_journals_of_which_nothing_can_be_read_are_judged(spark: SparkSession, tmp_path: Path) -> None:
    """One is junk as a file, the other as a line."""
    broken = write_journal(tmp_path / "broken", day().records)
    compress(broken / segment_name(1)).write_bytes(b"junk")
    junk = write_journal(tmp_path / "junk", [b"junk\n"])
    with without_report():
        verdict = audit(spark, [broken, junk], tmp_path / "out")
    summary = verdict.summary
    assert (summary["kinds"], summary["records"]) == ({"bad-line": 1, "unreadable-segment": 1}, 0)
    assert verdict.text.startswith("0 records in 2 segments\n")
    assert f"{junk / segment_name(1)}, line 2)" in verdict.text


def test_an_audit_that_cannot_be_made_leaves_the_earlier_one(spark: SparkSession, audited: Audited) -> None:
    path = audited.out / "summary.json"
    before = path.read_bytes()
    with pytest.raises(JournalError):
        audit(spark, [audited.out], audited.out)
    with pytest.raises(OutputRefused):
        audit(spark, [audited.root / "hall"], audited.root / "barn")
    assert path.read_bytes() == before


SUMMARY: dict[str, Any] = {
    "integrity": "intact",
    "severities": {"error": 0, "warning": 0, "notice": 0},
    "segments": 1,
    "records": 1,
    "servers": [],
    "sessions": {},
    "services": {"known": 0, "provided": 0},
    "findings": [],
    "incident_kinds": {},
    "incidents": [],
    "witnessed": [],
}


def test_nothing_was_found_in_words() -> None:
    assert summary.in_words(SUMMARY).splitlines() == [
        "1 record in 1 segment",
        "0 services, 0 provided at the end",
        "",
        "JOURNAL INTACT: nothing was found",
        "NO INCIDENTS",
    ]


def test_much_was_found_in_words() -> None:
    finding = {"severity": "error", "kind": "seq-gap", "message": "\x1b[31mred\nline", "file": None, "line": None}
    server = {
        "server": "s",
        "first_seq": 1,
        "last_seq": 2,
        "first_moment": "t",
        "last_moment": "u",
        "boots": 1,
        "crashes": 0,
    }
    severities = {"error": 100, "warning": 1, "notice": 0}
    told = {"time": "t", "message": "An address failed", "subject": None, "address": "192.0.2.1", "user": "a\x1bn"}
    incident = {
        **told,
        "kind": "address",
        "server": "s",
        "proved": False,
        "command": "bussrv journal tail j --around 3",
    }
    crash = {**told, "kind": "crash", "server": "s", "address": None, "user": None, "command": None}
    much = {
        "integrity": "findings",
        "findings": [finding] * 100,
        "servers": [server] * 12,
        "severities": severities,
        "incident_kinds": {"address": 11, "crash": 1},
        "incidents": [*[incident] * 8, {**crash, "message": "It crashed"}],
    }
    text = summary.in_words({**SUMMARY, **much}).splitlines()
    assert len(text) == 33
    assert text[11] == "  and 2 more servers"
    assert text[14:16] == ["FINDINGS: 100 errors, 1 warning", "  error   seq-gap: \ufffd[31mred\ufffdline"]
    # Many incidents of one kind hide no other kind.
    assert text[-8:] == [
        "  and 91 more, in summary.json and the table of findings",
        "12 INCIDENTS need a look",
        *["  t  An address failed, from 192.0.2.1, claiming to be a\ufffdn, at server s", f"    {incident['command']}"]
        * 2,
        "  t  It crashed, at server s",
        "  and 9 more, in report.html and summary.json",
    ]
