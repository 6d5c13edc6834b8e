"""The command: what it says, and how it ends."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bussrv.cli.main import main
from bussrv.journal.segment import list_segments
from bussrv.version import VERSION
from tests.audit.commands import BUSSRV, WITHOUT_SPARK, Ended, run
from tests.audit.conftest import Clean, Whole
from tests.audit.journals import day, write_journal

pytestmark = [pytest.mark.timeout(600), pytest.mark.processes]


def test_clean_journals(clean: Clean) -> None:
    """What else it says, and writes, is for the tests of the report."""
    assert (clean.ended.returncode, clean.ended.stderr) == (0, "")
    assert clean.ended.stdout.splitlines()[-1] == str(clean.root / "bussrv-audit" / "summary.json")


@pytest.mark.long
def test_a_journal_that_was_tampered_with_through_the_other_door(whole: Whole) -> None:
    assert whole.ended.returncode == 1
    assert whole.ended.stderr == "bussrv audit: --engine spark, since PySpark and Java are installed\n"
    assert "FINDINGS: " in whole.ended.stdout
    assert str(list_segments(whole.barn)[1]) in whole.ended.stdout
    assert whole.ended.stdout.splitlines()[-1] == str(whole.out / "summary.json")


def refused(done: Ended) -> str:
    """The one sentence on standard error of a run that could not judge."""
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("bussrv audit: ")
    return done.stderr


def test_no_such_journal(tmp_path: Path) -> None:
    assert "cannot read the journal directory" in refused(run(tmp_path, BUSSRV, "audit", "nowhere"))
    assert list(tmp_path.iterdir()) == []


def test_an_empty_journal(tmp_path: Path) -> None:
    write_journal(tmp_path / "journal")
    assert "journal holds no journal records" in refused(run(tmp_path, BUSSRV, "audit", "journal"))


def test_an_output_directory_of_somebody_else(tmp_path: Path) -> None:
    write_journal(tmp_path / "journal", day().records)
    said = refused(run(tmp_path, BUSSRV, "audit", "journal", "--out", "journal"))
    assert "is neither empty nor an earlier audit" in said


def test_an_output_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    write_journal(tmp_path / "journal", day().records)
    said = refused(run(tmp_path, BUSSRV, "audit", "journal", "--out", "file"))
    assert "file is not a directory" in said


def test_without_pyspark(tmp_path: Path) -> None:
    write_journal(tmp_path / "journal", day().records)
    assert "pip install 'bussrv[audit]', in a checkout: pip install -e '.[audit]'" in refused(
        run(tmp_path, WITHOUT_SPARK, "audit", "journal", "--engine", "spark")
    )
    assert not (tmp_path / "bussrv-audit").exists()


def java_in(directory: Path, version: str) -> Path:
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2018-10-16' >&2\n")
    program.chmod(0o755)
    return directory


def test_without_java(tmp_path: Path) -> None:
    write_journal(tmp_path / "journal", day().records)
    said = refused(run(tmp_path, BUSSRV, "audit", "journal", "--engine", "spark", PATH="", JAVA_HOME=""))
    assert "Spark needs Java 17 or newer, and there is none on the path" in said


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_392"])
def test_with_an_old_java(tmp_path: Path, version: str) -> None:
    write_journal(tmp_path / "journal", day().records)
    home = java_in(tmp_path / "jre", version)
    said = refused(run(tmp_path, BUSSRV, "audit", "journal", "--engine", "spark", JAVA_HOME=str(home)))
    assert f"{home}/bin/java is {version.partition('.')[0]}: install a newer JRE" in said


def test_with_a_java_that_does_not_start(tmp_path: Path) -> None:
    write_journal(tmp_path / "journal", day().records)
    home = java_in(tmp_path / "jre", "17.0.1")
    said = refused(run(tmp_path, BUSSRV, "audit", "journal", "--engine", "spark", JAVA_HOME=str(home)))
    assert "Spark does not start" in said


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_the_command_answers_without_what_its_subcommands_need(tmp_path: Path, argument: str) -> None:
    program = (
        "import sys; from bussrv.cli.main import main\n"
        "try: main()\n"
        "finally: print(*{'pyspark', 'twisted'} & set(sys.modules), file=sys.stderr)"
    )
    done = run(tmp_path, ("-c", program), argument)
    assert (done.returncode, done.stderr) == (0, "\n")
    assert done.stdout.startswith(("Usage: bussrv", "bussrv "))


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"bussrv {VERSION}\n"


@pytest.mark.parametrize("arguments", [["audit"], ["adit", "journal"]])
def test_a_wrong_command_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    said, complained = capsys.readouterr()
    assert said == ""
    assert re.fullmatch(r"bussrv.*: .* \(see bussrv.* --help\)\n", complained)


def test_an_interrupt_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("bussrv.audit.job.run", interrupt)
    assert main(["audit", "journal"]) == 130
