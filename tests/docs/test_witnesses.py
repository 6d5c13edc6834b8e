"""The page on witnesses: a journal, a witness and their keys as it says, except for places and ports."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from bussrv.cli.commands.operate.witness import witness as command
from bussrv.events import SealRefused, SealWitnessed, event_name
from tests.docs.commands import examples, says
from tests.docs.pages import blocks, rows
from tests.docs.test_how_to import ENVIRONMENT
from tests.forked import ForkedServer
from tests.witness.test_program import running
from tests.witness.test_witnessed import await_line, cosigned_sizes

NAME = "docs/how-to/witnesses.md"


def shell(text: str, place: Path) -> str:
    ran = subprocess.run(text, shell=True, cwd=place, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    return ran.stdout


def options_of(line: str) -> list[str]:
    return shlex.split(line)[3:]


@pytest.mark.processes
def test_a_journal_is_cosigned_as_the_page_says(tmp_path: Path) -> None:
    begin, show, attend, ask, be_witness = blocks(NAME, "sh")
    keygen, start = begin.replace("/etc/bussrv/hall.key", str(tmp_path / "hall.key")).splitlines()
    journal = tmp_path / "bussrv-journal"
    shell(keygen, tmp_path)
    with ForkedServer(journal, options_of(start)) as server:
        assert server.stop() == 0
    key = shell(show, tmp_path).strip()
    keygen, serve = attend.splitlines()
    shell(keygen, tmp_path)
    words = shlex.split(serve)[2:]
    given = dict(zip(words[::2], words[1::2], strict=True))
    assert given.keys() <= {option for each in command.params for option in each.opts}
    assert key.startswith(given["--log"].partition("+")[0] + "+")
    with running(tmp_path, log_keys=[key]) as witness:
        (option, value) = options_of(ask)[-2:]
        wanted = re.sub(r"\S+ \S+", f"http://127.0.0.1:{witness.port} {witness.keys[0].text}", value)
        with ForkedServer(journal, [*options_of(start), option, wanted]) as server:
            await_line(server, "the witness attic.example/w1 cosigned")
            assert server.stop() == 0
        assert len(cosigned_sizes(journal, witness.keys)) == 1
    keygen, start = be_witness.replace("/etc/bussrv", str(tmp_path / "etc")).splitlines()
    (tmp_path / "etc").mkdir()
    shell(keygen, tmp_path)
    free = ("--witness-listen", "tcp:0:interface=127.0.0.1")
    named = [key if each.startswith("hall.example/journal+") else each for each in options_of(start)]
    with ForkedServer(tmp_path / "barn", [*named, *free]) as server:
        await_line(server, "verifier key barn.example/w1+")
        assert server.stop() == 0
    assert (tmp_path / "barn.witness").is_dir()
    ((asked, printed),) = examples(NAME)
    said = shell(f"bussrv {asked}", tmp_path)
    assert says(said, printed), said


def test_its_records_are_those_of_the_journal() -> None:
    assert [row[0] for row in rows(NAME)[1:]] == [f"`{event_name(each)}`" for each in (SealWitnessed, SealRefused)]
