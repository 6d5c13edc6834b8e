"""The command with a Spark Connect server: the same tables. Client and server are processes on this machine."""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bussrv.audit.job import FINDINGS, NOT_JUDGED, main
from bussrv.audit.output import PUBLISHED
from bussrv.audit.spark import session
from tests.audit.commands import JOB, called, run
from tests.audit.conftest import Rows, Whole
from tests.audit.days import Shape, write_days

pytest.importorskip("grpc", reason="needs pip install 'bussrv[connect]'")
pytestmark = [pytest.mark.timeout(1200), pytest.mark.processes]


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as bound:
        port: int = bound.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def server(spark: SparkSession) -> Iterator[str]:
    """The URL of a Spark Connect server: the Spark of all tests, which serves others for a while."""
    context = spark.sparkContext
    jvm: Any = context._jvm
    settings = context._jsc.sc().conf()
    settings.set("spark.connect.grpc.binding.address", "127.0.0.1")
    settings.set("spark.connect.grpc.binding.port", "0")
    service = getattr(getattr(jvm.org.apache.spark.sql.connect.service, "SparkConnectService$"), "MODULE$")
    service.start(context._jsc.sc())
    yield f"sc://127.0.0.1:{service.localPort()}"
    nothing = jvm.scala.Option.empty()
    service.stop(nothing, nothing)


@pytest.mark.long
def test_a_spark_connect_server_gives_the_same_tables(
    server: str, whole: Whole, read_table: Callable[[Path, str], Rows], tmp_path: Path
) -> None:
    """With a checkpoint, and one journal that is read in place."""
    in_place = f"file://{whole.barn}"
    journals = [str(whole.hall), in_place]
    ended = run(tmp_path, JOB, *journals, "--out", "far", "--remote", server, "--checkpoint", "kept")
    assert (ended.returncode, ended.stderr) == (FINDINGS, "")
    assert ended.stdout.splitlines()[-1] == str(tmp_path / "far" / "summary.json")
    assert [*(tmp_path / "kept" / "stripes").iterdir()]

    for name in PUBLISHED:
        far = Counter(repr(row).replace(in_place, str(whole.barn)) for row in read_table(tmp_path / "far", name))
        near = Counter(map(repr, read_table(whole.out, name)))
        assert (name, far - near, near - far) == (name, Counter(), Counter())
    assert {row["kind"] for row in read_table(whole.out, "findings")} >= {"broken-chain", "broken-seal"}
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("bussrv-audit-")], "the snapshot is gone"


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("sc://127.0.0.1:{}", "no answer for 1 seconds"),
        ("http://127.0.0.1:{}", "there is no Spark Connect server at http://127.0.0.1:"),
    ],
)
def test_nobody_is_there(
    url: str, sentence: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "ANSWERED_WITHIN", 1.0)
    write_days(tmp_path / "hall", Shape(events=5), "hall")
    begun = time.monotonic()
    ended = called(spark, main, tmp_path, "hall", "--remote", url.format(free_port()))
    assert time.monotonic() - begun < 60.0
    assert (ended.returncode, ended.stdout) == (NOT_JUDGED, "")
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert ended.stderr.startswith("bussrv audit: there is no Spark Connect server at")
    assert sentence in ended.stderr
