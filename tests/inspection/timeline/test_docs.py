"""The page on timelines is right: its commands and snippet, run as written on the golden journals."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from bussrv.cli.main import main

DOCS = Path(__file__).parents[3] / "docs"
JOURNALS = {"bussrv-journal": "whole", "salvaged": "salvaged"}
"""The golden journals, by the names that they have in the commands."""

TEXT = (DOCS / "reference" / "audit" / "timeline.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, golden in JOURNALS.items():
        (tmp_path / name).symlink_to(DOCS / "reference" / "journal-format" / golden)
    monkeypatch.chdir(tmp_path)


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


def test_the_snippet(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    (snippet,) = blocks("python")
    exec(snippet, names)
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


def test_a_journal_at_a_url_has_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is shipped there, except for its active segment."""
    copytree("bussrv-journal", "journal")
    assert main(["journal", "ship", "journal", f"file:{tmp_path}/store"]) == 0
    assert main(["journal", "fetch", f"file:{tmp_path}/store", "fetched"]) == 0
    capsys.readouterr()
    told = []
    for journal in ("fetched", f"file:{tmp_path}/store"):
        assert main(["timeline", "doorbell", journal]) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1] != ""
    assert main(["timeline", "doorbell", "bussrv-journal", "bussrv-journal/."]) == 0
    assert capsys.readouterr().out.count(" 6 the server hall started") == 1
