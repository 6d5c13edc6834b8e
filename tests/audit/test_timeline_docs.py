"""The page on timelines is right: its command and snippet, run as written on the golden journal."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bussrv.audit.timeline.source import TimelineRecords, open_source
from bussrv.cli.main import main

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "reference" / "audit" / "timeline.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands find the golden journal."""
    place = tmp_path_factory.mktemp("place")
    (place / "bussrv-journal").symlink_to(DOCS / "reference" / "journal-format" / "whole")
    return place


@pytest.fixture(scope="module")
def source(spark: SparkSession, place: Path) -> Iterator[TimelineRecords]:
    """Opened once, in the one Spark session of all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bussrv.audit.spark.session.spark_session", lambda **_: nullcontext(spark))
        with open_source([str(place / "bussrv-journal")]) as source:
            yield source


@pytest.fixture(autouse=True)
def _here(place: Path, source: TimelineRecords, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bussrv.audit.timeline.source.open_source", lambda _: nullcontext(source))
    monkeypatch.chdir(place)


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_command_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    command, *shown, rest = block("console").splitlines()
    status = main(shlex.split(command.removeprefix("$ "))[1:])
    said = capsys.readouterr()
    assert (status, said.err, rest) == (0, "", "…")
    assert said.out.splitlines()[: len(shown)] == shown
    assert len(said.out.splitlines()) > len(shown)


def test_the_snippet(source: TimelineRecords, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"records": source.records, "store": source.store}
    exec(block("python"), names)
    assert {row.service for row in names["rows"].collect()} >= {"doorbell"}
    assert "service.unregistered" in capsys.readouterr().out


def test_nobody_is_known_by_that_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["timeline", "doorbel", "bussrv-journal"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "similar names are doorbell" in said.err
    assert main(["timeline", "doorbell", "bussrv-journal", "--until", "2020-01-01T00:00:00Z"]) == 1
    assert "no record concerns doorbell in that time" in capsys.readouterr().err


def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["timeline", "doorbell", "bussrv-journal", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(row["sentence"] and row["event"] for row in rows)
