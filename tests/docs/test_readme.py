"""The tour of the README, as written but for port numbers and the place of the virtual environment."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bussrv.testing.server import PATIENCE, RunningServer
from tests.docs.commands import says
from tests.docs.pages import ROOT, blocks, page
from tests.size import FULL

# Spark takes long to start when other tests keep the machine busy.
pytestmark = [pytest.mark.timeout(600), pytest.mark.processes]

DEFAULT_PORTS = {"objects": 7890, "business": 7891, "inbus": 7222, "spp": 3002}
MADE_BY_MAKE = Path(sys.prefix) == ROOT / ".venv" and (ROOT / ".venv/.installed-dev").exists()
needs_make = pytest.mark.skipif(not MADE_BY_MAKE, reason="runs only under `make test`, which has everything installed")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with RunningServer(tmp_path / "bussrv-journal") as running:
        yield running


def as_run_here(snippet: str, server: RunningServer) -> str:
    for name, port in DEFAULT_PORTS.items():
        snippet = snippet.replace(str(port), str(server.port(name)))
    return snippet.replace(".venv/bin/", f"{sys.prefix}/bin/")


def shell(command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", command], cwd=directory, capture_output=True, text=True, timeout=500, check=False
    )


def command_with(text: str) -> str:
    (found,) = [block for block in blocks("README.md", "sh") if text in block]
    return found


def with_outputs() -> list[tuple[str, str]]:
    """Every command of the README and what it says."""
    return re.findall(r"^```sh\n(.*?)^```$.*?^```console\n(.*?)^```$", page("README.md"), re.MULTILINE | re.DOTALL)


def test_every_command_is_shown_with_what_it_says() -> None:
    assert [command for command, _ in with_outputs()] == blocks("README.md", "sh")


def test_the_client_library(server: RunningServer, tmp_path: Path) -> None:
    program = "\n".join(as_run_here(block, server) for block in blocks("README.md", "python"))
    expected = "".join(blocks("README.md", "text"))
    ran = subprocess.run(
        [sys.executable, "-"], input=program, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.stdout, ran.stderr) == (expected, "")


@pytest.mark.skipif(shutil.which("nc") is None, reason="there is no nc here")
def test_what_commands_say_is_what_is_shown(server: RunningServer, tmp_path: Path) -> None:
    """The tour in its order: the clients stay connected while one looks at the journal."""
    (by_hand, answer), *looking = [
        (command, said)
        for command, said in with_outputs()
        if any(each in command for each in ("nc -w", "journal", "bussrv who"))
    ]
    *_, (audit, _) = looking
    assert "audit" in audit
    if not FULL:
        # It starts Spark, which takes longer than all the rest; tests of the audit call the same command.
        looking.pop()
    assert says(shell(as_run_here(by_hand, server), tmp_path).stdout, answer)
    program = "\n".join(as_run_here(block, server) for block in blocks("README.md", "python"))
    ran = [as_run_here(command, server) for command, _ in looking]
    looks = f"""
import json, subprocess, sys
ran = [subprocess.run(command, shell=True, capture_output=True, text=True) for command in {ran!r}]
json.dump([[each.returncode, each.stdout, each.stderr] for each in ran], sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-"],
        input=program + looks,
        cwd=tmp_path,
        env={**os.environ, "BUSSRV_SERVER": f"127.0.0.1:{server.port('admin')}"},
        capture_output=True,
        text=True,
        check=True,
    )
    outcomes = json.loads(done.stderr)
    assert len(outcomes) == len(looking) == (4 if FULL else 3)
    for (status, output, complaints), (command, said) in zip(outcomes, looking, strict=True):
        assert status == 0
        assert says(complaints, "bussrv audit: --engine …, since …\n" if "bussrv audit" in command else "")
        assert says(output, said), f"{command} said:\n{output}"
    assert {path.name for path in tmp_path.iterdir()} == {
        "bussrv-journal",
        "bussrv-journal.admin-token",
        *(["bussrv-audit"] if FULL else []),
    }
    if FULL:
        assert Path(tmp_path, outcomes[-1][1].split()[-1]).is_file()


@needs_make
def test_make_run(tmp_path: Path) -> None:
    assert "make run\n" in blocks("README.md", "sh")
    free_ports = "--objects 0 --business 0 --inbus 0 --spp 0"
    make = subprocess.Popen(
        ["make", "run", f"ARGS={free_ports} --journal {tmp_path}/bussrv-journal"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert make.stdout is not None
    with make:
        said = []
        for line in make.stdout:
            said.append(line)
            if "bussrv is ready" in line:
                os.killpg(make.pid, signal.SIGINT)
        make.wait(PATIENCE)
    assert any("bussrv stopped" in line for line in said), "".join(said)
    ((_, banner),) = [each for each in with_outputs() if each[0] == "make run\n"]
    for port in DEFAULT_PORTS.values():
        banner = banner.replace(f":{port}\n", ":…\n")
    assert says("".join(said), f"{banner}…")
    (segment,) = (tmp_path / "bussrv-journal").glob("*.jsonl")
    assert '"event":"server.stopped"' in segment.read_text().splitlines()[-1]


@needs_make
@pytest.mark.long
def test_make_demo() -> None:
    assert "make demo\n" in blocks("README.md", "sh")
    demo = shell("make demo", ROOT)
    assert demo.returncode == 0, demo.stdout + demo.stderr
    ((_, shown),) = [each for each in with_outputs() if each[0] == "make demo\n"]
    assert says(demo.stdout, shown), demo.stdout
    report = Path(demo.stdout.splitlines()[-1].split()[-1])
    assert (report.name, report.is_file()) == ("report.html", True)
