"""What the admin interface says of an audit that runs beside the server."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from bussrv.admin.journal.audit import LARGEST, MOST_SHOWN, AuditReader, AuditView
from bussrv.audit.job import audit
from bussrv.journal.record import parse_time
from bussrv.synth.journal import write_journal

NOW = parse_time("2026-11-28T12:00:00.000000Z")


def summary(**changes: Any) -> dict[str, Any]:
    finding = {"severity": "error", "kind": "seq-gap", "message": "records are missing", "server": "hall"}
    incident = {"kind": "crash", "message": "a server crashed", "number": 3}
    found = {"audited": "2026-11-28T11:59:00.000000Z", "every": 60, "integrity": "findings", "security": "incidents"}
    found |= {"severities": {"error": 99}, "incident_kinds": {"crash": 99}, "records": 812, "format": 3}
    return found | {"findings": [finding] * 99, "incidents": [incident] * 99} | changes


@pytest.fixture
def reader(tmp_path: Path) -> AuditReader:
    found = AuditReader()
    found.file = tmp_path / "summary.json"
    return found


def view(reader: AuditReader, text: str | None = None, now: int = NOW) -> AuditView:
    if text is not None and reader.file is not None:
        reader.file.write_text(text)
    found = reader.view(now)
    assert found is not None
    return found


def test_none_is_named() -> None:
    assert AuditReader().view(NOW) is None


def test_the_worst_is_shown(reader: AuditReader) -> None:
    found = view(reader, json.dumps(summary())).summary
    assert found is not None
    assert (found.integrity, found.security, found.records) == ("findings", "incidents", 812)
    assert [len(found.findings), len(found.incidents)] == [MOST_SHOWN, MOST_SHOWN]
    assert (found.severities, found.incident_kinds) == ({"error": 99}, {"crash": 99})


@pytest.mark.parametrize(
    ("every", "age", "is_stale"), [(60, 180, False), (60, 181, True), (1, 63, True), (None, 999_999, False)]
)
def test_a_summary_gets_stale(reader: AuditReader, every: int | None, age: int, is_stale: bool) -> None:
    text = json.dumps(summary(every=every))
    assert view(reader, text, parse_time("2026-11-28T11:59:00.000000Z") + age * 1_000_000).stale is is_stale


def test_while_it_is_replaced_the_last_one_is_shown(reader: AuditReader, tmp_path: Path) -> None:
    assert view(reader) == AuditView(str(reader.file), "No such file or directory", False, None)
    before = view(reader, json.dumps(summary()))
    (tmp_path / "summary.json").unlink()
    assert view(reader) == before
    reader.file = tmp_path / "other.json"
    assert view(reader).summary is None


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("", "Input data was truncated"),
        ("[]", "Expected `object`, got `array`"),
        (json.dumps(summary(records="many")), "Expected `int`, got `str`"),
        (json.dumps(summary(audited="yesterday")), "not a time of a journal record"),
        (json.dumps(summary(extra="x" * LARGEST)), "which no summary has"),
        ('{"audited":' + "[" * 100_000, "Expected `str`, got `array`"),
    ],
    ids=["empty", "list", "type", "time", "large", "deep"],
)
def test_what_is_no_summary(reader: AuditReader, text: str, trouble: str) -> None:
    """The last one that was is shown beside it."""
    before = view(reader, json.dumps(summary()))
    found = view(reader, text)
    assert trouble in (found.trouble or "")
    assert found.summary == before.summary


def test_a_fifo_makes_nobody_wait(reader: AuditReader) -> None:
    assert reader.file is not None
    os.mkfifo(reader.file)
    assert view(reader).trouble is not None


@pytest.mark.dear
def test_it_reads_what_the_audit_writes(reader: AuditReader, tmp_path: Path) -> None:
    write_journal(tmp_path / "hall", events=500, attacks=["password-guessing"], faults=["session-never-closed"])
    verdict = audit(None, [tmp_path / "hall"], tmp_path / "out", every=7)
    reader.file = verdict.path
    found = view(reader).summary
    assert found is not None
    assert (found.every, found.integrity, found.security) == (7, "findings", "incidents")
    assert (found.severities, found.incident_kinds) == (
        verdict.summary["severities"],
        verdict.summary["incident_kinds"],
    )
    assert found.findings[0].message == verdict.summary["findings"][0]["message"]
    assert found.incidents[0].address == verdict.summary["incidents"][0]["address"]
