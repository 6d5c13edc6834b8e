"""The page about looking into a journal: its commands are run as written, and say what it says."""

import re
import shlex
from pathlib import Path

import pytest

from bussrv.cli.main import main
from tests.docs.commands import examples, prepare, says
from tests.docs.pages import PAGES, blocks, page

PAGE = "docs/reference/journal-tools.md"
COMMANDS = ("tail", "state", "diff", "verify", "seal", "keygen", "forget", "synth")

FOUND_SOMETHING = re.compile(r"^(?:[+~-] |FAULT )", re.MULTILINE)
"""What a command with exit status 1 says."""


@pytest.mark.parametrize(("command", "wanted"), examples(PAGE))
def test_a_command_of_the_page(
    command: str, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    status = main(shlex.split(command))
    said, complained = capsys.readouterr()
    assert says(said, wanted), said
    assert complained == ""
    assert status == bool(FOUND_SOMETHING.search(wanted))


def test_every_command_is_shown_and_no_other() -> None:
    shown = "".join(blocks(PAGE, "console"))
    assert len(examples(PAGE)) == shown.count("$ ")
    assert {command.split()[1] for command, _ in examples(PAGE)} == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_on_the_page(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["journal", command, "--help"]) == 0
    listed = capsys.readouterr().out.partition("Options:\n")[2].partition("\n\n")[0]
    heads = re.findall(r"^  (-.*?)(?:  .*)?$", listed, re.MULTILINE)
    options = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", " ".join(heads))) - {"-h", "--help"}
    for option in options:
        assert re.search(rf"[`\s]{option}\b", page(PAGE)), option


def test_every_command_is_on_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["journal"]) == 0
    there = re.findall(r"^ {2}([a-z]+) ", capsys.readouterr().out.partition("Commands:\n")[2], re.MULTILINE)
    assert set(COMMANDS) <= set(there)
    assert all(f"| `bussrv journal {command}` |" in page(PAGE) for command in COMMANDS)
    text = "".join(path.read_text("utf-8") for path in PAGES)
    assert [command for command in there if f"`bussrv journal {command}" not in text] == []
