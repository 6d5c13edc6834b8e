"""``bussrv replay``: what it refuses before it starts Spark."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bussrv.cli.main import main
from tests.audit.journals import barn, day, write_journal


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one sentence on standard error."""
    assert main(["replay", *map(str, arguments)]) == 2
    said, complained = capsys.readouterr()
    assert said == ""
    assert complained.count("\n") == 1
    assert complained.startswith("bussrv replay: ")
    return complained


@pytest.mark.parametrize("command", [("at", "5"), ("diff", "5", "6"), ("timeline", "tv")])
def test_no_such_journal(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]) -> None:
    assert "cannot read the journal directory" in refused(capsys, *command, tmp_path / "nowhere")


def test_a_record_of_two_servers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journals = [write_journal(tmp_path / each.server, each.records) for each in (day("hall"), day("attic"))]
    assert "the journals of 2 servers: say a time instead of record 5" in refused(capsys, "at", "5", *journals)


@pytest.mark.parametrize("moment", ["9", "2027-01-15T07:00:00Z"])
def test_a_moment_before_the_beginning(tmp_path: Path, capsys: pytest.CaptureFixture[str], moment: str) -> None:
    journal = write_journal(tmp_path / "barn", barn().records, first_seqs=[11])
    assert "begins with record 11, at 2027-01-15T08:00:13" in refused(capsys, "at", moment, journal)
    assert "begins with record 11" in refused(capsys, "diff", "20", moment, journal)


@pytest.mark.parametrize("command", [("at", "5"), ("diff", "5", "6"), ("timeline", "tv")])
def test_without_pyspark(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
) -> None:
    journal = write_journal(tmp_path / "journal", day().records)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.delitem(sys.modules, "bussrv.audit.session", raising=False)
    assert "pip install 'bussrv[audit]'" in refused(capsys, *command, journal)


@pytest.mark.parametrize("arguments", [["at", "noon", "j"], ["timeline", "tv", "--since", "5", "j"], ["at", "5"]])
def test_a_wrong_command_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["replay", *arguments])
    assert capsys.readouterr().err.startswith("usage: bussrv replay")
