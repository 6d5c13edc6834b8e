"""What is written and said about an audit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from bussrv.audit import report
from bussrv.audit.job import audit
from bussrv.audit.load import read_journals
from bussrv.audit.output import OutputRefused
from bussrv.errors import JournalError
from bussrv.journal.segment import segment_name
from bussrv.version import VERSION
from tests.audit.conftest import Commands, Rows
from tests.audit.journals import START, STEP, compress, day, write_journal
from tests.audit.test_docs import documented

pytestmark = pytest.mark.timeout(600)


@dataclass
class Audited:
    """What the command left of the journals ``hall`` and ``barn`` in ``root``."""

    root: Path
    out: Path
    text: list[str]
    summary: dict[str, Any]
    tables: dict[str, Rows]


@pytest.fixture(scope="module")
def audited(commands: Commands, read_table: Callable[[Path, str], Rows]) -> Audited:
    root, ended = commands.clean, commands.clean_ended
    out = root / "bussrv-audit"
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    tables = {name: read_table(out, name) for name in ("findings", "sessions", "services", "events")}
    return Audited(root, out, ended.stdout.splitlines(), summary, tables)


def moment(seq: int) -> int:
    return START + STEP * seq


def test_nothing_but_tables_and_a_summary_is_left(audited: Audited) -> None:
    assert {path.name for path in audited.root.iterdir()} == {"hall", "barn", "bussrv-audit"}
    assert {path.name for path in audited.out.iterdir()} == {".bussrv-audit", "summary.json", "tables"}
    assert {path.name for path in (audited.out / "tables").iterdir()} == set(audited.tables)


def test_the_summary_tells_totals(audited: Audited) -> None:
    summary = dict(audited.summary)
    (torn,) = summary.pop("findings")
    assert torn["kind"] == "torn-tail"
    assert summary == {
        "format": 1,
        "version": VERSION,
        "verdict": "clean",
        "severities": {"error": 0, "warning": 0, "notice": 1},
        "kinds": {"torn-tail": 1},
        "segments": 3,
        "records": 24,
        "boots": 3,
        "servers": [
            {
                "server": "barn",
                "records": 15,
                "first_seq": 11,
                "last_seq": 25,
                "first_time": "2027-01-15T08:00:13.750000Z",
                "last_time": "2027-01-15T08:00:31.250000Z",
                "boots": 2,
                "crashes": 1,
            },
            {
                "server": "hall",
                "records": 9,
                "first_seq": 1,
                "last_seq": 9,
                "first_time": "2027-01-15T08:00:01.250000Z",
                "last_time": "2027-01-15T08:00:11.250000Z",
                "boots": 1,
                "crashes": 0,
            },
        ],
        "sessions": {
            "inbus": {"opened": 1, "closed": 0, "open": 1},
            "objects": {"opened": 3, "closed": 3, "open": 0},
            "spp": {"opened": 1, "closed": 1, "open": 0},
        },
        "services": {"known": 3, "provided": 1},
        "events": {
            "config.reloaded": 1,
            "limit.reached": 1,
            "server.started": 3,
            "server.stopped": 1,
            "service.refused": 1,
            "service.registered": 5,
            "service.unregistered": 2,
            "session.closed": 4,
            "session.opened": 5,
            "subscription.added": 1,
        },
    }


def test_sessions(audited: Audited) -> None:
    sessions = {row["session"]: row for row in audited.tables["sessions"]}
    assert set(sessions) == {"hall-1.1", "hall-1.2", "barn-1.1", "barn-1.2", "barn-2.1"}
    assert sessions["hall-1.1"] == {
        "session": "hall-1.1",
        "server": "hall",
        "protocol": "objects",
        "routing_id": "r-hall-1.1",
        "actor": "ann",
        "peer": "192.0.2.1:4711",
        "state": "closed",
        "opened": moment(2),
        "closed": moment(7),
        "duration": 2.5,
        "reason": "client-closed",
        "objects_in": 3,
        "objects_out": 0,
        "bytes_in": 120,
        "bytes_out": 0,
        "persistent": False,
        "home": None,
    }
    still_open = sessions["barn-2.1"]
    assert (still_open["state"], still_open["persistent"], still_open["opened"]) == ("open", True, moment(23))
    assert {still_open[name] for name in ("closed", "duration", "reason", "objects_in", "bytes_out")} == {None}
    assert sessions["barn-1.1"]["reason"] == "server-crashed"


def test_services(audited: Audited) -> None:
    services = {(row["server"], row["service"]): row for row in audited.tables["services"]}
    assert services["hall", "tv"] == {
        "service": "tv",
        "server": "hall",
        "providers": 1,
        "registrations": 1,
        "first_registered": moment(3),
        "last_registered": moment(3),
        "provided_seconds": 3 * STEP / 1_000_000,
        "provided": False,
    }
    # Two at once, then by one; again, until the server came back and found it gone.
    assert services["barn", "tv"] == {
        "service": "tv",
        "server": "barn",
        "providers": 2,
        "registrations": 3,
        "first_registered": moment(14),
        "last_registered": moment(18),
        "provided_seconds": (3 + 4) * STEP / 1_000_000,
        "provided": False,
    }
    assert services["barn", "radio"]["provided"]
    assert services["barn", "radio"]["provided_seconds"] == STEP / 1_000_000


def test_events(audited: Audited) -> None:
    events = {(row["server"], row["event"], row["protocol"]): row for row in audited.tables["events"]}
    assert events["barn", "limit.reached", None] == {
        "server": "barn",
        "event": "limit.reached",
        "protocol": None,
        "outcome": "refused",
        "records": 1,
        "suppressed": 7,
    }
    assert events["barn", "session.opened", "objects"]["records"] == 2
    assert events["barn", "session.opened", "inbus"]["suppressed"] == 0
    assert events["barn", "service.refused", "objects"]["outcome"] == "refused"


@pytest.mark.parametrize("table", ["findings", "sessions", "services", "events"])
def test_the_documentation_describes_the_tables(spark: SparkSession, audited: Audited, table: str) -> None:
    assert documented(table) == spark.read.parquet(str(audited.out / "tables" / table)).dtypes


def test_the_documentation_describes_the_summary(audited: Audited) -> None:
    names = [name for name, _ in documented("summary.json")]
    assert [name for name in names if name in audited.summary] == list(audited.summary)


def test_the_text_fits_on_a_screen_and_says_it_all(audited: Audited) -> None:
    place = audited.root / "barn" / "00000000000000000011.jsonl"
    day_one = "2027-01-15T08:00:"
    assert audited.text == [
        "24 records in 3 segments",
        f"  server barn: records 11 to 25, {day_one}13.750000Z to {day_one}31.250000Z, 2 boots, 1 crashed",
        f"  server hall: records 1 to 9, {day_one}01.250000Z to {day_one}11.250000Z, 1 boot",
        "3 services, 1 provided at the end",
        "sessions      opened   closed     open",
        "  inbus             1        0        1",
        "  objects           3        3        0",
        "  spp               1        1        0",
        "",
        "CLEAN: 1 notice",
        f"  notice  torn-tail: the journal ends in 1 bytes of an unfinished record ({place}, line 17)",
        str(audited.out / "summary.json"),
    ]


def test_nothing_is_said_of_a_segment_that_goes_away_meanwhile(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = write_journal(tmp_path / "journal", day().records[:4], day().records[4:])

    def read_late(*arguments: Any) -> DataFrame:
        compress(journal / segment_name(1))
        return read_journals(*arguments)

    monkeypatch.setattr("bussrv.audit.load.read_journals", read_late)
    with pytest.raises(JournalError, match="went away while it was read"):
        audit(spark, [journal], tmp_path / "out")
    assert not (tmp_path / "out" / "summary.json").exists()


def test_a_journal_of_which_nothing_can_be_read_is_judged(spark: SparkSession, tmp_path: Path) -> None:
    journal = write_journal(tmp_path / "journal", day().records)
    compress(journal / segment_name(1)).write_bytes(b"junk")
    summary = audit(spark, [journal], tmp_path / "out").summary
    assert (summary["kinds"], summary["records"]) == ({"unreadable-segment": 1}, 0)


def test_an_audit_that_cannot_be_made_leaves_the_earlier_one(spark: SparkSession, audited: Audited) -> None:
    path = audited.out / "summary.json"
    before = path.read_bytes()
    with pytest.raises(JournalError):
        audit(spark, [audited.out], audited.out)
    with pytest.raises(OutputRefused):
        audit(spark, [audited.root / "hall"], audited.root / "barn")
    assert path.read_bytes() == before


SUMMARY: dict[str, Any] = {
    "verdict": "clean",
    "severities": {"error": 0, "warning": 0, "notice": 0},
    "segments": 1,
    "records": 1,
    "servers": [],
    "sessions": {},
    "services": {"known": 0, "provided": 0},
    "findings": [],
}


def test_nothing_was_found_in_words() -> None:
    assert report.in_words(SUMMARY).splitlines() == [
        "1 record in 1 segment",
        "0 services, 0 provided at the end",
        "",
        "CLEAN: nothing was found",
    ]


def test_much_was_found_in_words() -> None:
    finding = {"severity": "error", "kind": "seq-gap", "message": "\x1b[31mred\nline", "file": None, "line": None}
    server = {
        "server": "s",
        "first_seq": 1,
        "last_seq": 2,
        "first_time": "t",
        "last_time": "u",
        "boots": 1,
        "crashes": 0,
    }
    severities = {"error": 100, "warning": 1, "notice": 0}
    much = {"verdict": "findings", "findings": [finding] * 100, "servers": [server] * 12, "severities": severities}
    text = report.in_words({**SUMMARY, **much}).splitlines()
    assert len(text) == 26
    assert text[11] == "  and 2 more servers"
    assert text[14:16] == ["FINDINGS: 100 errors, 1 warning", "  error   seq-gap: \ufffd[31mred\ufffdline"]
    assert text[-1] == "  and 91 more, in summary.json and the table of findings"
