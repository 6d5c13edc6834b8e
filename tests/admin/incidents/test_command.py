"""The command of ``--on-incident`` with real processes."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from tests.admin.incidents.told import TEXT, outcome

pytestmark = pytest.mark.processes


def test_a_command_gets_the_incident_and_nothing_else(tmp_path: Path) -> None:
    """Its words are its arguments, whatever a shell would make of them. It gets no secret of the server."""
    out = tmp_path / "out"
    program = "import os,sys,json; open(sys.argv[1],'w').write(json.dumps([sys.argv[2:], dict(os.environ)]))"
    words = [sys.executable, "-c", program, str(out), "$(touch x)", "a b", "*"]
    assert outcome(command=words, environment={"BUSSRV_TOKEN": "secret"}) == ""
    arguments, environment = json.loads(out.read_text())
    assert arguments == ["$(touch x)", "a b", "*"]
    assert environment["BUSSRV_INCIDENT"] == TEXT
    assert environment["BUSSRV_INCIDENT_EVENT"] == "began"
    assert "BUSSRV_TOKEN" not in environment
    assert TEXT.isascii()
    assert TEXT.isprintable()


def test_a_command_that_fails_is_not_told() -> None:
    assert outcome(command=["sh", "-c", "yes | head -c 1000000; exit 3"]) == "it ended with status 3"
    assert outcome(command=["/nowhere/at-all"]) == "it ended with status 1"


def test_a_command_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    """So is what it started."""
    pids, patience, said = tmp_path / "pids", 0.5, ""
    while not (pids.exists() and pids.read_text()):
        # On a busy machine it may be killed before it has begun.
        patience *= 2
        said = outcome(command=["sh", "-c", f"sleep 600 & echo $! $$ > {pids}; wait"], patience=patience)
    assert said == f"it took more than {patience:g} s, and was killed"
    end = time.monotonic() + 10
    for pid in map(int, pids.read_text().split()):
        while is_alive(pid):
            assert time.monotonic() < end, f"{pid} lives"


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # One that nobody waited for is dead, too.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_command_may_leave_something_running(tmp_path: Path) -> None:
    """A process that keeps the output open does not delay the next incident."""
    began = time.monotonic()
    pid = tmp_path / "pid"
    assert outcome(command=["sh", "-c", f"sleep 30 & echo $! > {pid}"]) == ""
    assert time.monotonic() - began < 20
    os.kill(int(pid.read_text()), 9)
