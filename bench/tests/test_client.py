"""The benchmark of the client says something of every scenario."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import client
import pytest

CLIENT = Path(__file__).parents[1] / "client.py"


@pytest.mark.processes
def test_every_scenario_is_measured() -> None:
    command = [sys.executable, CLIENT, "--messages", "500", "--rounds", "1"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert len(lines) == len(client.SCENARIOS)
    for line, scenario in zip(lines, client.SCENARIOS, strict=True):
        assert line.startswith(f"{scenario} ")
        assert "bussrv " in line
