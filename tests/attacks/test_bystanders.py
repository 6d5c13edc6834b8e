"""The bystanders themselves: they see every format answered, and a server that stands still."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.attacks.bystanders import PROBES, Bystanders, Sample, Waits, scheduled, share
from tests.forked import ForkedServer

FROZEN = 0.4


def test_bystanders_of_every_format_notice_a_server_that_stalls(tmp_path: Path) -> None:
    with ForkedServer(tmp_path / "journal") as server, Bystanders(server) as bystanders:
        idle = bystanders.watch(0.5)
        assert {sample.name for sample in idle.samples} == set(PROBES)
        with bystanders.during() as waits:
            server.process.send_signal(signal.SIGSTOP)
            timer = threading.Timer(FROZEN, server.process.send_signal, (signal.SIGCONT,))
            timer.start()
            timer.join()
        for name in ("objects", "business", "spp"):
            assert waits.worst(name) >= FROZEN * 0.9 * waits.share, str(waits)
            assert idle.worst(name) < FROZEN, str(idle)


def test_time_that_other_programs_take_does_not_count() -> None:
    half = Waits([Sample("objects", 1.0, 1.2)], share=0.5)
    assert (half.worst(), half.p99("objects")) == (pytest.approx(0.1), pytest.approx(0.1))


def test_the_time_that_a_process_ran_is_what_the_system_says() -> None:
    """Processes that compute, and of which only one can run at a time, get a part of it each."""
    core = min(os.sched_getaffinity(0))
    program = f"import os; os.sched_setaffinity(0, [{core}]); print(flush=True)\nwhile True: pass"
    hogs = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) for _ in range(3)]
    try:
        for hog in hogs:
            assert hog.stdout is not None
            hog.stdout.readline()
        before = [scheduled(hog.pid) for hog in hogs]
        time.sleep(0.5)
        shares = [share(first, scheduled(hog.pid)) for first, hog in zip(before, hogs, strict=True)]
    finally:
        for hog in hogs:
            hog.kill()
            hog.communicate()
    assert all(0 < each < 0.8 for each in shares), shares
