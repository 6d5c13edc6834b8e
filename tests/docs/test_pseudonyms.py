"""The page about pseudonyms: its commands, and the lines of the key file."""

import json
import shlex
from pathlib import Path

import pytest

from bussrv.cli.main import main
from bussrv.journal.pseudonym_keys import new_key
from bussrv.server.configuration.options import Options
from tests.docs.commands import FORGETTABLE, examples, prepare
from tests.docs.pages import blocks

PAGE = "docs/how-to/pseudonyms.md"
FILES = Path("/var/lib/bussrv")


@pytest.mark.parametrize(("command", "wanted"), examples(PAGE))
def test_who_is_forgotten(command: str, wanted: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepare(tmp_path)
    assert main(shlex.split(command.replace(str(FILES), str(tmp_path)))) == 0
    assert capsys.readouterr() == (wanted, "")


def test_the_option_is_understood() -> None:
    (command,) = [line for line in blocks(PAGE, "console")[0].splitlines() if line.startswith("$ twistd")]
    options = Options()
    options.parseOptions(shlex.split(command.removeprefix("$ twistd bussrv ")))
    assert options.config.journal_config.pseudonyms == FILES / "pseudonyms"


def test_the_lines_of_the_key_file() -> None:
    (text,) = blocks(PAGE, "json")
    for shown, (kind, identity) in zip(text.splitlines(), FORGETTABLE, strict=True):
        written = json.loads(new_key(kind, identity)[1])
        assert {**json.loads(shown), "key": written["key"]} == written
