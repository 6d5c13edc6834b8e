"""The page about evidence: its commands are run as written, those that are not of bussrv in a shell."""

from __future__ import annotations

import re
import shlex
import subprocess
import textwrap
import zipfile
from pathlib import Path

import pytest

from bussrv.cli.main import main
from tests.docs.commands import examples, prepare, says
from tests.docs.pages import page

PAGE = "docs/how-to/evidence.md"


def foreign_commands() -> list[str]:
    found = re.findall(r"^ *```bash\n(.*?)^ *```$", page(PAGE), re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(each) for each in found]


@pytest.mark.processes
def test_three_foreign_commands_check_a_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    ((command, wanted),) = examples(PAGE)
    assert main(shlex.split(command)) == 0
    assert says(capsys.readouterr().out, wanted)
    zipfile.ZipFile("proof.zip").extractall("proof")
    (tmp_path / "hall.key.pub").rename(tmp_path / "proof" / "hall.key.pub")
    commands = foreign_commands()
    assert len(commands) == 3
    assert not any("bussrv" in each for each in commands)

    def run(each: str) -> str:
        done = subprocess.run(["bash", "-e", "-c", each], cwd="proof", capture_output=True, text=True, check=False)
        return done.stdout

    said = [run(each) for each in commands]
    assert said[1] == "Signature Verified Successfully\n"
    assert said[2].endswith(" True\n")
    assert '"seq":28' in said[2]
    # Of another record, and of another checkpoint, they say so.
    (proof,) = Path("proof").glob("*.tlog-proof")
    proof.write_text(proof.read_text().replace("index 27", "index 26"))
    assert run(commands[2]).endswith(" False\n")
    text = Path("proof/checkpoint.txt")
    text.write_text(text.read_text().replace("\n38\n", "\n39\n"))
    run(commands[0])
    assert "Success" not in run(commands[1])
