"""A server whose retention waits for ``bussrv journal ship``, and that program beside it, killed and begun again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from bussrv.journal.manifest import Pruned
from bussrv.journal.segment import first_seq, list_segments
from bussrv.testing.server import RunningServer
from tests.audit.commands import BUSSRV, run
from tests.end_to_end.conftest import Start
from tests.end_to_end.test_journal_options import await_line, entries, keep_busy

RETENTION = ("--journal-segment-bytes", "2000", "--journal-retain-bytes", "6000", "--journal-retain-shipped")

Shipping = Callable[[], "subprocess.Popen[str]"]


def asked(server: RunningServer, path: str) -> bytes:
    with urlopen(f"http://127.0.0.1:{server.addresses['admin'][1]}{path}") as answer:
        body: bytes = answer.read()
    return body


def shipping_check(server: RunningServer) -> dict[str, Any]:
    check: dict[str, Any] = json.loads(asked(server, "/readyz"))["checks"]["shipping"]
    return check


def figures(server: RunningServer) -> dict[str, float]:
    lines = (line.split() for line in asked(server, "/metrics").decode().splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in (each for each in lines if len(each) == 2)}


@pytest.fixture
def shipping(journal: Path, tmp_path: Path) -> Iterator[Shipping]:
    """Starts the program that follows the journal."""
    command = [sys.executable, *BUSSRV, "journal", "ship", "--follow", str(journal), f"file:{tmp_path}/archive"]
    running: list[subprocess.Popen[str]] = []

    def begun() -> subprocess.Popen[str]:
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return running[-1]

    yield begun
    for each in running:
        ended(each)


def ended(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


@pytest.mark.processes
@pytest.mark.timeout(120)
def test_a_server_and_its_shipper(start: Start, shipping: Shipping, journal: Path, tmp_path: Path) -> None:
    server = start(*RETENTION)
    keep_busy(server)
    await_line(server, "retention waits for that, so that the disk fills")
    assert shipping_check(server)["status"] == "degraded"
    assert "not shipped" in shipping_check(server)["message"]
    # Figures may be half a second old.
    while "bussrv_journal_retention_held" not in (first := figures(server)):
        pass
    assert first["bussrv_journal_retention_held"] == 1
    assert first["bussrv_journal_unshipped_segments"] > 5
    assert first_seq(list_segments(journal)[0]) == 1
    # One is killed as soon as it has shipped a segment, and another one goes on.
    killed = shipping()
    assert killed.stdout is not None
    assert "up to record" in killed.stdout.readline()
    ended(killed)
    following = shipping()
    await_line(server, "closed segments are shipped in time again")
    assert shipping_check(server)["status"] == "ok"
    await_line(server, "journal: removing segment 1 ")
    keep_busy(server)
    assert server.stop() == 0
    assert start("--services", "off").stop() == 0
    assert len(entries(journal, Pruned)) > 3
    url = f"file:{tmp_path}/archive"
    refused = run(tmp_path, BUSSRV, "journal", "ship", journal, url)
    assert (refused.returncode, refused.stderr.count("another program ships")) == (2, 1)
    ended(following)
    assert run(tmp_path, BUSSRV, "journal", "ship", journal, url).returncode == 0
    # Every segment that there ever was is there, and a server goes on with what it had.
    fetched = run(tmp_path, BUSSRV, "journal", "fetch", "--all", url, "whole")
    assert (fetched.returncode, fetched.stdout.splitlines()[-1]) == (0, "OK")
    assert first_seq(list_segments(tmp_path / "whole")[0]) == 1
    fetched = run(tmp_path, BUSSRV, "journal", "fetch", url, "restored")
    assert (fetched.returncode, fetched.stdout.splitlines()[-1]) == (0, "OK")
    with RunningServer(tmp_path / "restored", ["--services", "off"]) as again:
        keep_busy(again, 3)
        assert again.stop() == 0
    assert run(tmp_path, BUSSRV, "journal", "ship", "restored", url).returncode == 0
    # The one that it was restored from is another journal now.
    assert start("--services", "off").stop() == 0
    refused = run(tmp_path, BUSSRV, "journal", "ship", journal, url)
    assert refused.returncode == 1
    assert "went on differently" in refused.stderr
