"""``bussrv timeline``: errors are one sentence, also without the packages of the audit."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bussrv.cli.main import main
from tests.audit.journals import day, write_journal


def test_no_such_journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for journal, said in (
        (tmp_path / "nowhere", "cannot read the journal directory"),
        (tmp_path, "holds no journal"),
        (f"file:{tmp_path}/nowhere", "holds no journal"),
        ("nothing://there", "cannot be used"),
    ):
        assert main(["timeline", "tv", str(journal)]) == 2
        printed, complained = capsys.readouterr()
        assert (printed, complained.count("\n")) == ("", 1)
        assert complained.startswith("bussrv timeline: ")
        assert said in complained


@pytest.mark.parametrize(
    "arguments",
    [["tv"], ["tv", "--since", "5", "j"], ["tv", "j", "--until", "noon"], ["tv", "j", "--zone", "Mars/Crater"]],
)
def test_a_wrong_command_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["timeline", *arguments]) == 2
    assert capsys.readouterr().err.endswith("(see bussrv timeline --help)\n")


def test_the_packages_of_the_audit_are_not_needed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = write_journal(tmp_path / "journal", day().records)
    for name in [*sys.modules]:
        if name.startswith("bussrv.inspection.timeline"):
            monkeypatch.delitem(sys.modules, name)
    for name in ("pyspark", "pyarrow", "numpy", "duckdb"):
        monkeypatch.setitem(sys.modules, name, None)
    assert main(["timeline", "tv", str(journal), "--zone", "Asia/Tokyo"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 3
    assert all("+09:00 hall " in line for line in lines)
