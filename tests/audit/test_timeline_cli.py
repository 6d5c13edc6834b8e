"""``bussrv timeline``: the errors that it finds before it starts Spark."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bussrv.cli.main import main
from tests.audit.journals import day, write_journal


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one sentence on standard error."""
    assert main(["timeline", *map(str, arguments)]) == 2
    said, complained = capsys.readouterr()
    assert said == ""
    assert complained.count("\n") == 1
    assert complained.startswith("bussrv timeline: ")
    return complained


def test_no_such_journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "cannot read the journal directory" in refused(capsys, "tv", tmp_path / "nowhere")


def test_without_pyspark(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    journal = write_journal(tmp_path / "journal", day().records)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.delitem(sys.modules, "bussrv.audit.spark.session", raising=False)
    assert "pip install 'bussrv[audit]', in a checkout: pip install -e '.[audit]'" in refused(capsys, "tv", journal)


@pytest.mark.parametrize("arguments", [["tv"], ["tv", "--since", "5", "j"], ["tv", "j", "--until", "noon"]])
def test_a_wrong_command_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["timeline", *arguments]) == 2
    assert capsys.readouterr().err.endswith("(see bussrv timeline --help)\n")
