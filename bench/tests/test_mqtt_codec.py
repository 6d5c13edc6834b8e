"""The benchmark of the codec of MQTT reads and writes every packet that it measures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.processes
def test_every_packet_is_measured() -> None:
    command = [sys.executable, Path(__file__).parents[1] / "mqtt_codec.py", "--packets", "2000"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("us of CPU") == 10
