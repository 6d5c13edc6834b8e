"""What the page about running a server shows of journals: its commands are run as written, one behind the other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bussrv.journal.reading import NO_FOLD
from bussrv.journal.recovery import Damaged, recover
from bussrv.journal.segment import segment_name
from tests.docs.commands import prepare, says
from tests.docs.pages import ROOT, blocks

OF_JOURNALS = [block for block in blocks("docs/operations.md", "console") if block.startswith("$ ")]
REFUSED = [block for block in OF_JOURNALS if block.startswith("$ twistd")]


def commands(block: str) -> list[tuple[str, str]]:
    return re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", block, re.MULTILINE)


@pytest.mark.parametrize("block", [block for block in OF_JOURNALS if block not in REFUSED])
def test_commands_about_journals(block: str, tmp_path: Path) -> None:
    prepare(tmp_path)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    for command, wanted in commands(block):
        ran = subprocess.run(
            ["sh", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=60
        )
        assert says(ran.stdout, wanted), ran.stdout


def test_the_sentence_of_a_start_that_is_refused(tmp_path: Path) -> None:
    ((_, wanted),) = commands(*REFUSED)
    prepare(tmp_path)
    path = tmp_path / "bussrv-journal" / segment_name(32)
    changed = path.read_bytes().replace(b'"reason":"connection-lost"', b'"reason":"connection-left"')
    path.write_bytes(changed)
    with pytest.raises(Damaged) as refused:
        recover(path.parent, NO_FOLD)
    assert f"bussrv: {refused.value}\n".replace(str(path.parent), "/var/lib/bussrv/journal") == wanted
