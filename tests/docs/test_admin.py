"""The commands of the page about the admin interface do what it says."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from bussrv.testing.server import RunningServer
from tests.docs.pages import blocks
from tests.forked import ForkedServer

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]


def commands(block: str, port: int) -> str:
    """A script of the commands, at the port of a server of the test."""
    lines = [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
    return "\n".join(f"{line}\necho" for line in lines).replace(":7280", f":{port}")


def run(block: str, server: RunningServer, directory: Path) -> list[dict]:
    ran = subprocess.run(
        ["sh", "-e", "-c", commands(block, server.port("admin"))],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [json.loads(line) for line in ran.stdout.splitlines() if line]


def test_the_commands_of_the_page(tmp_path: Path) -> None:
    look, why, past, steer = blocks("docs/how-to/admin.md", "console")
    with ForkedServer(tmp_path / "bussrv-journal") as server:
        shown, sessions, clock = run(look, server, tmp_path)
        (page,) = blocks("docs/reference/admin-api.md", "json")
        assert json.loads(page).keys() == sessions.keys()
        assert shown["permissions"] == {"read": True, "write": False}
        assert sessions["items"] == []
        assert clock["service"] == "bus/clock" or clock["type"].endswith("no-such-service")
        closed, history = run(why, server, tmp_path)
        assert closed["items"] == history["items"] == []
        figures, *busiest, by_rate = run(past, server, tmp_path)
        assert figures["interval"] == 1
        assert [each["items"] for each in busiest] == [[], []]
        assert {each["protocol"] for each in by_rate["items"]} <= {"bus"}
        (reloaded,) = run(steer, server, tmp_path)
        assert reloaded == {"changed": [], "restart": [], "faults": [], "effects": []}
