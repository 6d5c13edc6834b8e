"""The command with a Spark Connect server: the same tables. The server is a process of its own on this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pyspark
import pytest

from bussrv.audit.job import FINDINGS, NOT_JUDGED
from bussrv.audit.session import _COMPILE_ALL, _QUICK_START
from bussrv.audit.tables import PUBLISHED
from tests.audit.commands import JOB, run
from tests.audit.conftest import Rows, Whole
from tests.audit.days import Shape, write_days

pytest.importorskip("grpc", reason="needs pip install 'bussrv[connect]'")
pytestmark = pytest.mark.timeout(1200)

STARTED_WITHIN = 300.0
"""Seconds that a server may take on a busy machine."""


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as bound:
        port: int = bound.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Spark Connect server."""
    place, port = tmp_path_factory.mktemp("server"), free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        # As a small audit on this machine has it: the server is not there for long.
        "spark.driver.extraJavaOptions": f"{_COMPILE_ALL} {_QUICK_START}",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.ui.enabled": "false",
    }
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
                *("--master", "local[2]", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
                *(argument for name, value in settings.items() for argument in ("--conf", f"{name}={value}")),
                "spark-internal",
            ],
            cwd=place,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        _await(process, port, place / "log")
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + STARTED_WITHIN
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()[-3000:]
        with closing(socket.socket()) as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.5)
    raise AssertionError(f"no Spark Connect server within {STARTED_WITHIN} seconds: {log.read_text()[-3000:]}")


def test_a_spark_connect_server_gives_the_same_tables(
    server: str, whole: Whole, read_table: Callable[[Path, str], Rows], tmp_path: Path
) -> None:
    """With a checkpoint, which Spark's stream has no part in here, and one journal that is read in place."""
    in_place = f"file://{whole.barn}"
    journals = [str(whole.hall), in_place]
    ended = run(tmp_path, JOB, *journals, "--out", "far", "--remote", server, "--checkpoint", "kept")
    assert (ended.returncode, ended.stderr) == (FINDINGS, "")
    assert ended.stdout.splitlines()[-1] == str(tmp_path / "far" / "summary.json")
    assert [path.name for path in (tmp_path / "kept" / "lines").iterdir()] == ["batch-0"]

    for name in PUBLISHED:
        far = Counter(repr(row).replace(in_place, str(whole.barn)) for row in read_table(tmp_path / "far", name))
        near = Counter(map(repr, read_table(whole.out, name)))
        assert (name, far - near, near - far) == (name, Counter(), Counter())
    assert {row["kind"] for row in read_table(whole.out, "findings")} >= {"broken-chain", "broken-seal"}
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("bussrv-audit-")], "the snapshot is gone"


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("sc://127.0.0.1:{}", "nobody answered for 15 seconds"),
        ("http://127.0.0.1:{}", "there is no Spark Connect server at http://127.0.0.1:"),
    ],
)
def test_nobody_is_there(url: str, sentence: str, tmp_path: Path) -> None:
    write_days(tmp_path / "hall", Shape(events=5), "hall")
    begun = time.monotonic()
    ended = run(tmp_path, JOB, "hall", "--remote", url.format(free_port()))
    assert time.monotonic() - begun < 120.0
    assert (ended.returncode, ended.stdout) == (NOT_JUDGED, "")
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert ended.stderr.startswith("bussrv audit: there is no Spark Connect server at")
    assert sentence in ended.stderr
