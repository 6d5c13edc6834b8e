"""The page about ``bussrv why``: its commands are run as written, and say what it says."""

import re
import shlex
from pathlib import Path

import pytest

from bussrv.cli.main import main
from tests.docs.commands import examples, prepare, says
from tests.docs.pages import page

PAGE = "docs/how-to/why.md"


@pytest.mark.parametrize(("command", "wanted"), examples(PAGE))
def test_a_command_of_the_page(
    command: str, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    status = main(shlex.split(command))
    said, complained = capsys.readouterr()
    assert (status, complained) == (0, "")
    assert says(said, wanted), said


def test_every_option_is_on_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "--help"]) == 0
    options = set(re.findall(r"^ +(--[a-z]+)", capsys.readouterr().out, re.MULTILINE)) - {"--help"}
    assert [each for each in options if not re.search(rf"[`\s]{each}\b", page(PAGE))] == []


def test_what_cannot_be_asked_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepare(tmp_path)
    journal = str(tmp_path / "bussrv-journal")
    rows = [
        ([], "one of --object, --service, --request is required"),
        (["--object", "{"], "is not the JSON of an object's attributes"),
        (["--service", "tv", "--request", "tv"], "--request is not allowed with --service"),
        (["--request", "tv", "--type", "text/plain"], "--type goes with --service"),
        (["--service", "tv", "--at", "99"], "ends with record 39, before record 99"),
        (["--service", "tv", "--from", "eve"], "is called 'eve'"),
        (["--request", "tv", "--turn", "eve"], "no session is called 'eve'"),
        (["--request", "tv", "--asker", "eve"], "an asker goes with a reply"),
    ]
    for arguments, said in rows:
        assert main(["why", journal, *arguments]) == 2
        assert said in capsys.readouterr().err, arguments
    assert main(["why", journal, "--service", "tv", "--to", "eve"]) == 1


def test_a_shipped_journal_is_asked_like_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepare(tmp_path)
    asked = ["--at", "2026-11-20T18:30:00.510Z", "--service", "doorbell", "--json"]
    assert main(["why", str(tmp_path / "bussrv-journal"), *asked]) == 0
    answered = capsys.readouterr().out
    assert main(["journal", "ship", str(tmp_path / "bussrv-journal"), f"file:{tmp_path}/there"]) == 0
    capsys.readouterr()
    assert main(["why", f"file:{tmp_path}/there", *asked]) == 0
    assert capsys.readouterr().out == answered
