"""A FIFO among the segments: whoever can put one there must not stop the server, nor those who check the journal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bussrv.client.objects import ObjectsClient
from bussrv.journal.segment import list_segments, segment_name
from bussrv.testing.server import TWISTD
from tests.forked import ForkedServer

PATIENCE = 60


def ended(*command: str) -> subprocess.CompletedProcess[str]:
    """What a command did that may not wait for ever."""
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.mark.parametrize("name", ["segment", "next segment", "manifest"])
def test_nobody_waits_for_ever(tmp_path: Path, name: str) -> None:
    journal = tmp_path / "journal"
    with ForkedServer(journal) as server:
        with ObjectsClient(port=server.port("objects")) as client:
            client.subscribe()
        server.stop()
    assert journal.stat().st_mode & 0o007 == 0
    segment = list_segments(journal)[0]
    path = {"segment": segment, "next segment": journal / segment_name(10_000), "manifest": journal / "manifest"}[name]
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    bussrv = (sys.executable, "-c", "from bussrv.cli.main import main; raise SystemExit(main())", "journal")
    for command in (
        (*bussrv, "verify", str(journal)),
        (*bussrv, "tail", str(journal)),
        (*TWISTD, "-n", "--pidfile=", "bussrv", "--inbus", "off", "--objects", "0", "--journal", str(journal)),
    ):
        if name == "manifest" and "tail" in command:
            continue  # It does not read it.
        ran = ended(*command)
        assert ran.returncode != 0
        assert path.name in ran.stdout + ran.stderr
        assert "not a regular file" in ran.stdout + ran.stderr
        assert "Traceback" not in ran.stdout + ran.stderr
