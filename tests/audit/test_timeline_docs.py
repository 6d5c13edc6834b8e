"""The page on timelines is right: its command and snippet, run as written on the golden journal."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bussrv.audit.timeline.source import TimelineRecords, open_source
from bussrv.cli.main import main

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]

DOCS = Path(__file__).parents[2] / "docs"
JOURNALS = {"bussrv-journal": "whole", "salvaged": "salvaged"}
"""The golden journals, by the names that they have in the commands."""

TEXT = (DOCS / "reference" / "audit" / "timeline.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands find the golden journal."""
    place = tmp_path_factory.mktemp("place")
    for name, golden in JOURNALS.items():
        (place / name).symlink_to(DOCS / "reference" / "journal-format" / golden)
    return place


@pytest.fixture(scope="module")
def sources(spark: SparkSession, place: Path) -> Iterator[dict[str, TimelineRecords]]:
    """Opened once, in the one Spark session of all tests."""
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setattr("bussrv.audit.spark.session.spark_session", lambda **_: nullcontext(spark))
        yield {name: stack.enter_context(open_source([str(place / name)])) for name in JOURNALS}


@pytest.fixture(autouse=True)
def _here(place: Path, sources: dict[str, TimelineRecords], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bussrv.audit.timeline.source.open_source", lambda paths: nullcontext(sources[paths[0]]))
    monkeypatch.chdir(place)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", blocks("console"))
def test_a_command_prints_what_the_page_shows(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An ellipsis stands for any lines."""
    command, *shown = block.splitlines()
    status = main(shlex.split(command.removeprefix("$ "))[1:])
    said = capsys.readouterr()
    assert (status, said.err) == (0, "")
    pattern = "".join(r"(?:.*\n)+" if each == "…" else re.escape(each) + r"\n" for each in shown)
    assert re.fullmatch(pattern, said.out)


def test_the_snippet(sources: dict[str, TimelineRecords], capsys: pytest.CaptureFixture[str]) -> None:
    source = sources["bussrv-journal"]
    names: dict[str, Any] = {"records": source.records, "store": source.store}
    (snippet,) = blocks("python")
    exec(snippet, names)
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
