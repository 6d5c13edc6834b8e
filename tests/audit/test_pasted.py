"""An auditor's afternoon: a journal with attacks, crashes and faults is audited, and every command of the report is
pasted into a shell. Each does what it is for.
"""

from __future__ import annotations

import html
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from bussrv.cli.main import main
from bussrv.journal.batch import Rotation
from bussrv.journal.keys import generate, public_path, read_private
from bussrv.journal.segment import list_segments
from bussrv.synth.faults import KINDS as FAULTS
from bussrv.synth.journal import write_journal
from bussrv.synth.scripts import KINDS as ATTACKS
from tests.audit.conftest import without_patience
from tests.audit.journals import change_line

pytestmark = [pytest.mark.dear, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Those of the report, except the one that made it. Some show the same."""
    root = tmp_path_factory.mktemp("an afternoon")
    journal, key = root / "a journal", root / "the hall's key"
    generate(key)
    more: dict[str, Any] = {"key": read_private(key), "rotation": Rotation(bytes=400_000)}
    write_journal(journal, events=5000, server="hall", attacks=[*ATTACKS], faults=[*FAULTS], **more)
    first, *_, last = list_segments(journal)
    change_line(first, 40, lambda line: b"junk\n")
    change_line(last, 30, lambda line: line.replace(b'"mono":', b'"mono":1'))
    with without_patience(), pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        options = ("--engine", "embedded", "--public-key", str(public_path(key).relative_to(root)), "--out", "out")
        assert main(["audit", journal.name, *options]) == 1
    page = (root / "out" / "report.html").read_text("utf-8")
    code = re.findall('<code class="command">(.*?)</code>', page)
    found = [html.unescape(re.sub("</?span>", "", each)) for each in code]
    return [each for each in dict.fromkeys(found) if each != shlex.join(["bussrv", "audit", journal.name, *options])]


def word_after(command: str, option: str) -> str:
    words = shlex.split(command)
    return words[words.index(option) + 1]


def shown(capfdbinary: pytest.CaptureFixture[bytes], command: str) -> tuple[int, list[str]]:
    """The exit status, and the lines of the output, of a command that complains about nothing."""
    status = main(shlex.split(command)[1:])
    said, complained = capfdbinary.readouterr()
    assert complained == b"", command
    return status, said.decode().splitlines()


def test_the_surroundings_of_each_place_are_shown(
    commands: list[str], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Also around damage, which every other command stops at."""
    places = [each for each in commands if each.startswith("bussrv journal tail ")]
    assert len(places) > 25
    for each in places:
        status, lines = shown(capfdbinary, each)
        place = each.rpartition(" ")[2]
        assert (status, len(lines)) == (0, 10), each
        if place.isdecimal():
            # The record itself, or those before and after it if it is missing.
            seqs = {int(line.split()[1]) for line in lines if line.startswith("20")}
            assert {int(place)} <= seqs or {int(place) - 1, int(place) + 1} <= seqs, each
    assert any(":" in each.rpartition(" ")[2] and ".jsonl:" in each for each in places)


def test_the_last_seal_is_verified(commands: list[str], capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    (seal,) = (each for each in commands if "--includes" in each)
    # With the key: without it, whoever changed the journal could have made the seals anew.
    assert all(Path(word_after(each, "--public-key")).is_absolute() for each in commands if " verify " in each)
    status, lines = shown(capfdbinary, seal)
    # It is there; what was changed is damage all the same.
    assert (status, any("FAULT" in line for line in lines)) == (1, True)
    assert not any("is not in it" in line or "missing-seal" in line for line in lines)


def test_the_tables_are_asked(commands: list[str], capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    queries = [each for each in commands if "--sql" in each]
    assert len(queries) >= 5
    for each in queries:
        status, lines = shown(capfdbinary, each)
        # The report shows 20 rows, and there are more; the first line has the names of columns.
        assert (status, len(lines) > 20) == (0, True), each


def test_the_history_of_each_client_and_service_is_told(
    commands: list[str], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    histories = [each for each in commands if each.startswith("bussrv timeline ")]
    assert len(histories) >= 4
    for each in histories:
        status, lines = shown(capfdbinary, each)
        assert (status, len(lines) > 0) == (0, True), each
