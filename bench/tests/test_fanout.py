"""The benchmark of one object counts all deliveries, with each of its options."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bussrv.compiled import HOT_PATH

FANOUT = Path(__file__).parents[1] / "fanout.py"


@pytest.mark.processes
@pytest.mark.parametrize("options", ["", "--no-ids", "--linked", "--again", "--named", "--rules 50", "--tap 10"])
def test_every_object_is_counted(options: str) -> None:
    command = [sys.executable, FANOUT, "--objects", "5000", "--subscribers", "3", *options.split()]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert f"us of CPU an object, hot path in {HOT_PATH}, 3 subscribers" in ran.stdout
