"""The page on replay is so: every command and snippet in it, run as written on the golden journal."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bussrv.audit.replay.past import Past, open_past
from bussrv.cli.main import main

pytestmark = pytest.mark.timeout(600)

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "audit" / "replay.md").read_text(encoding="utf-8")
CONSOLE = re.findall(r"^```console\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)

OpenPast = Callable[..., AbstractContextManager[Past]]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands find the golden journal."""
    place = tmp_path_factory.mktemp("place")
    (place / "bussrv-journal").symlink_to(DOCS / "journal-format" / "whole")
    return place


@pytest.fixture(scope="module")
def opened_once(spark: SparkSession) -> Iterator[OpenPast]:
    """Opens the past in the one Spark session of all tests, and once for all who ask for all of it."""
    opened: dict[Any, Past] = {}

    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:

        def open_once(locations: list[str], times: Sequence[int | None] = (None,)) -> AbstractContextManager[Past]:
            asked = (*locations, *(times if None not in times else ()))
            if asked not in opened:
                opened[asked] = stack.enter_context(open_past(locations, times))
            return nullcontext(opened[asked])

        patch.setattr("bussrv.audit.session.spark_session", lambda **_: nullcontext(spark))
        yield open_once


@pytest.fixture(autouse=True)
def _here(place: Path, opened_once: OpenPast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bussrv.audit.replay.past.open_past", opened_once)
    monkeypatch.chdir(place)


@pytest.mark.parametrize("block", CONSOLE, ids=lambda block: block.split()[3])
def test_a_command_says_what_is_shown(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, *shown = block.splitlines()
    status = main(shlex.split(command.removeprefix("$ "))[1:])
    said = capsys.readouterr()
    assert (status, said.err) == (1 if " diff " in command else 0, "")
    assert shown[-1] == "…"
    assert said.out.splitlines()[: len(shown) - 1] == shown[:-1]
    assert len(said.out.splitlines()) > len(shown) - 1


def test_the_snippet(opened_once: OpenPast) -> None:
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    with opened_once(["bussrv-journal"]) as past:
        names["records"] = past.records
        exec(snippet, names)
        assert {row.session for row in names["there"].sessions.collect()} == {"2c40a7d91e05.1", "8f63b05d2a71.1"}


def test_nobody_is_known_by_that_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "timeline", "doorbel", "bussrv-journal"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "doorbell" in said.err


def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "diff", "10", "30", "bussrv-journal", "--json"]) == 1
    assert set(json.loads(capsys.readouterr().out)) >= {"sessions", "services", "subscriptions"}
