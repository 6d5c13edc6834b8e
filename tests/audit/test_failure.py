"""The reason why Spark fails, from what Java says, and what an audit then says."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from py4j.protocol import Py4JError

from bussrv.audit import job
from bussrv.audit.spark.failure import in_one_line, killed_in, reason_in
from tests.audit.commands import JOB, run
from tests.audit.journals import day, write_journal
from tests.tables import each_row

HOST = """\
WARNING: Using incubator modules: jdk.incubator.vector
Exception in thread "main" java.lang.ExceptionInInitializerError
\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)
Caused by: java.net.UnknownHostException: nowhere-such: nowhere-such: Name or service not known
\tat java.base/java.net.InetAddress.getLocalHost(InetAddress.java:1671)
\t... 10 more
Caused by: java.net.UnknownHostException: nowhere-such: Name or service not known
\tat java.base/java.net.Inet6AddressImpl.lookupAllHostAddr(Native Method)
\t... 17 more
"""

HOME = """\
26/11/27 11:49:07 WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address
Exception in thread "main" java.lang.IllegalArgumentException: basedir must be absolute: ?/.ivy2.5.2/local
\tat org.apache.ivy.util.Checks.checkAbsolute(Checks.java:48)
\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)
"""

OPTION = """\
Unrecognized VM option 'UseNothing'
Error: Could not create the Java Virtual Machine.
Error: A fatal exception has occurred. Program will exit.
"""

MEMORY = """\
#
# There is insufficient memory for the Java Runtime Environment to continue.
# An error report file with more information is saved as:
# /tmp/hs_err_pid1.log
"""

GARBAGE = """\
java.lang.IllegalArgumentException: Too large frame: 7577086323178629474
26/11/27 12:09:27 WARN StandaloneAppClient$ClientEndpoint: Failed to connect to master 127.0.0.1:7999
org.apache.spark.SparkException: Exception thrown in awaitResult:\x20
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)
Caused by: java.lang.IllegalArgumentException: Frame length is negative: -38
\t... 1 more
26/11/27 12:09:47 WARN StandaloneSchedulerBackend: Application ID is not initialized yet.
26/11/27 12:09:47 ERROR StandaloneSchedulerBackend: Application has been killed. Reason: All masters are unresponsive! \
Giving up.
java.lang.IllegalStateException: something that follows from it
"""

REMOVED = """\
26/11/27 12:09:47 ERROR StandaloneSchedulerBackend: Application has been killed. Reason: Master removed our \
application: FAILED
"""


@each_row(
    "log, reason",
    [
        (HOST, "UnknownHostException: nowhere-such: Name or service not known"),
        (HOME, "IllegalArgumentException: basedir must be absolute: ?/.ivy2.5.2/local"),
        (OPTION, "Unrecognized VM option 'UseNothing'"),
        (MEMORY, "There is insufficient memory for the Java Runtime Environment"),
        (
            GARBAGE,
            "All masters are unresponsive! Giving up: IllegalArgumentException: Frame length is negative: -38",
        ),
        (REMOVED, "Master removed our application: FAILED"),
        (HOST + HOME, "IllegalArgumentException: basedir must be absolute: ?/.ivy2.5.2/local"),
        ('Exception in thread "main" java.lang.StackOverflowError\n\tat a.b.C.d(C.java)\n', "StackOverflowError"),
        ("no such file\n\n", "no such file"),
        ("\n", None),
    ],
)
def test_the_reason_in_a_log(log: str, reason: str | None) -> None:
    assert reason_in(log) == reason


@each_row("log", [HOST, HOME, OPTION, ""])
def test_only_a_cluster_ends_an_application(log: str) -> None:
    assert killed_in(log) is None


CALLED = "An error occurred while calling o1.x.\n: "

PLAIN = CALLED + "java.io.IOException: not a directory\n\tat a.b.C.d(C.java:1)\n"

LOGIN = (
    CALLED
    + """java.io.IOException: Invalid UID
\tat a.b.C.d(C.java:1)
Caused by: javax.security.auth.login.LoginException: invalid null input: name
\t... 2 more
"""
)

PROGRAM = (
    CALLED
    + """org.apache.spark.SparkException: Job aborted
Caused by: java.io.IOException: Cannot run program "/x/python": error=13, Permission denied
\tat a.b.C.d(C.java:1)
Caused by: java.io.IOException: error=13, Permission denied
\t... 9 more
"""
)


@each_row(
    "message, reason",
    [
        (PLAIN, "java.io.IOException: not a directory"),
        (LOGIN, "LoginException: invalid null input: name"),
        (PROGRAM, 'IOException: Cannot run program "/x/python": error=13, Permission denied'),
    ],
)
def test_the_root_cause_of_an_error(message: str, reason: str) -> None:
    assert in_one_line(Py4JError(message)) == reason


def test_a_cluster_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is found before Spark starts."""
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr("bussrv.audit.spark.session._check_java", lambda: None)
    write_journal(tmp_path / "hall", day().records)
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        master = f"spark://127.0.0.1:{bound.getsockname()[1]}"
        ended = job.main([str(tmp_path / "hall"), "--out", str(tmp_path / "out"), "--master", master])
    assert ended == job.NOT_JUDGED
    instead = "--engine embedded, without --master, needs no Spark"
    said = f"bussrv audit: there is no Spark master at {master}: Connection refused ({instead})\n"
    assert capfd.readouterr() == ("", said)


@pytest.fixture
def broken_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Spark of which the cluster has ended the application before there is a session."""

    def start(master: str, scratch: Path, quick_start: bool) -> None:
        (scratch / "log").write_text(GARBAGE)
        raise Py4JError("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.")

    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr("bussrv.audit.spark.session._start", start)
    monkeypatch.setattr("bussrv.audit.spark.session._check_java", lambda: None)


@each_row(
    "journal, instead",
    [("hall", " (--engine embedded needs no Spark)"), ("hdfs://nowhere/hall", "")],
)
def test_a_cluster_that_refuses(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    broken_spark: None,
    journal: str,
    instead: str,
) -> None:
    """The other engine is named only if it can read the journal."""
    if not (tmp_path / "hall").exists():
        write_journal(tmp_path / "hall", day().records)
    monkeypatch.chdir(tmp_path)
    assert job.main([journal, "--engine", "spark"]) == job.NOT_JUDGED
    assert capfd.readouterr().err == f"bussrv audit: Spark does not start: {reason_in(GARBAGE)}{instead}\n"
    assert not (tmp_path / "bussrv-audit").exists()


@contextmanager
def answering_garbage() -> Iterator[int]:
    """The port of a server that answers whatever it gets with what is no message of Spark."""

    class Garbage(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while self.request.recv(4096):
                self.request.sendall(b"\xff" * 64)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Garbage) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(600)
def test_a_master_that_is_none(tmp_path: Path) -> None:
    """Spark tries for a minute. The reason is only in its log."""
    write_journal(tmp_path / "hall", day().records)
    with answering_garbage() as port:
        ended = run(tmp_path, JOB, "hall", "--master", f"spark://127.0.0.1:{port}")
    assert (ended.returncode, ended.stdout) == (2, "")
    why = "All masters are unresponsive! Giving up: IllegalArgumentException: "
    assert ended.stderr.startswith(f"bussrv audit: Spark does not start: {why}")
    assert ended.stderr.endswith(" (--engine embedded, without --master, needs no Spark)\n")
    assert ended.stderr.count("\n") == 1
