"""The tour of the README, as written but for port numbers and the place of the virtual environment."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bussrv.client.objects import ObjectsClient
from bussrv.testing.server import PATIENCE, RunningServer
from tests.docs.pages import ROOT, blocks

# Spark takes long to start when other tests keep the machine busy.
pytestmark = pytest.mark.timeout(600)

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


def test_the_client_library(server: RunningServer, tmp_path: Path) -> None:
    program = "\n".join(as_run_here(block, server) for block in blocks("README.md", "python"))
    expected = "".join(blocks("README.md", "text"))
    ran = subprocess.run(
        [sys.executable, "-"], input=program, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.stdout, ran.stderr) == (expected, "")


@pytest.mark.skipif(shutil.which("nc") is None, reason="there is no nc here")
def test_by_hand(server: RunningServer, tmp_path: Path) -> None:
    answers = shell(as_run_here(command_with("nc -w"), server), tmp_path).stdout.splitlines()
    assert ['"event":"routing/subscribe/reply"' in answers[0], '"event":"pong"' in answers[1]] == [True, True]
    assert len(answers) == 2


@pytest.fixture
def used(server: RunningServer) -> Iterator[RunningServer]:
    """One whose journal has something in it: what is answered is there."""
    with ObjectsClient(port=server.port("objects")) as client:
        client.subscribe()
        client.register("tv")
        yield server


def test_looking_at_the_journal(used: RunningServer, tmp_path: Path) -> None:
    shown = shell(command_with("tail -n 3"), tmp_path).stdout.splitlines()
    assert len(shown) == 3
    assert '"service":"tv"' in shown[-1]


def test_checking_the_journal_of_a_running_server(used: RunningServer, tmp_path: Path) -> None:
    said = shell(as_run_here(command_with("journal verify"), used), tmp_path).stdout.splitlines()
    assert said[-2].startswith("whole")
    assert '"tv":[' in said[-1]


def test_the_audit_of_a_running_server(server: RunningServer, tmp_path: Path) -> None:
    audited = shell(as_run_here(command_with("bussrv audit"), server), tmp_path)
    assert (audited.returncode, audited.stderr) == (0, "")
    assert Path(tmp_path, audited.stdout.splitlines()[-1].split()[-1]).is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"bussrv-journal", "bussrv-audit"}


@needs_make
def test_make_run(tmp_path: Path) -> None:
    assert "make run\n" in blocks("README.md", "sh")
    free_ports = "--objects 0 --business 0 --inbus 0 --spp 0"
    make = subprocess.Popen(
        ["make", "run", f"ARGS={free_ports} --journal {tmp_path}/journal"],
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
            if "To serve other hosts" in line:
                os.killpg(make.pid, signal.SIGINT)
        make.wait(PATIENCE)
    assert any("bussrv stopped" in line for line in said), "".join(said)
    (segment,) = (tmp_path / "journal").glob("*.jsonl")
    assert '"event":"server.stopped"' in segment.read_text().splitlines()[-1]


@needs_make
def test_make_demo() -> None:
    assert "make demo\n" in blocks("README.md", "sh")
    demo = shell("make demo", ROOT)
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert Path(demo.stdout.splitlines()[-1].split()[-1]).is_file()
