"""The page about looking into a journal: its commands are run as written, and say what it says."""

import re
import shlex
from pathlib import Path

import pytest

from bussrv.cli.main import main
from bussrv.journal.segment import segment_name
from tests.docs.pages import ROOT, blocks, page

PAGE = "docs/journal-tools.md"


def examples() -> list[tuple[str, str]]:
    """Every command of the page, and what it prints."""
    found = re.findall(r"^\$ bussrv (.*)\n((?:[^$].*\n)*)", "".join(blocks(PAGE, "console")), re.MULTILINE)
    assert len(found) == "".join(blocks(PAGE, "console")).count("$ ")
    return found


@pytest.mark.parametrize(("command", "wanted"), examples())
def test_a_command_of_the_page(
    command: str, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "bussrv-journal"
    journal.mkdir()
    (journal / segment_name(1)).write_bytes((ROOT / "tests/vectors/journal.jsonl").read_bytes())
    monkeypatch.chdir(tmp_path)
    status = main(shlex.split(command))
    assert capsys.readouterr() == (wanted, "")
    assert status == ("+ " in wanted or "- " in wanted or "~ " in wanted)


def test_every_option_of_tail_is_on_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["journal", "tail", "--help"])
    options = set(re.findall(r"(?<![\w-])--?[a-z]+", capsys.readouterr().out)) - {"-h", "--help"}
    assert len(options) == 8
    assert all(f"`{option}" in page(PAGE) for option in options)
