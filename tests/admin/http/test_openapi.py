"""The running API is what its description says, for requests that schemathesis makes up."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import ForkedServer

COMMAND = shutil.which("schemathesis", path=Path(sys.executable).parent)

# Its heads are longer, and its requests more, than those of people.
ROOM = ("--admin-max-rate", "1000000", "--admin-max-head", "1000000", "--admin-max-body", "1000000")

STREAMS = "^/api/v1/(events|live|tap)$"
"""They never end."""

EXCLUSIVE = """
[[operations]]
include-path-regex = "^/api/v1/(history|why|busiest/.*)$"
checks.positive_data_acceptance.expected-statuses = ["2xx", "3xx", "400", "401", "403", "404", "409", "429", "5xx"]
"""
"""A description cannot say that only one of several parameters may be given, or that one is less than another."""


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(600)
@pytest.mark.skipif(COMMAND is None, reason="schemathesis is not installed")
def test_it_answers_as_its_description_says(tmp_path: Path) -> None:
    with ForkedServer(tmp_path / "journal", ROOM) as server:
        token = (tmp_path / "journal.admin-token").read_text().strip()
        host, port = server.addresses["admin"]
        (tmp_path / "schemathesis.toml").write_text(EXCLUSIVE)
        command = [
            *(str(COMMAND), "--config-file", "schemathesis.toml", "run", f"http://{host}:{port}/api/v1/openapi.json"),
            *("--header", f"Authorization: Bearer {token}", "--header", "Content-Type: application/json"),
            *("--exclude-path", "/api/v1/drain", "--exclude-path-regex", STREAMS),
            *("--phases", "coverage,fuzzing", "--max-examples", "30", "--continue-on-failure"),
            *("--suppress-health-check", "all", "--warnings", "off", "--no-color"),
        ]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=580)
        assert ran.returncode == 0, ran.stdout[-10_000:]
        assert server.stop() == 0
    assert not [line for line in server.lines if "Traceback" in line]
