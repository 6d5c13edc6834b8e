"""Spark sessions. One on this machine opens no port to the network, removes its files, and logs nothing."""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from bussrv.audit.spark.failure import SparkFailed, in_one_line, is_sparks, killed_in, reason_in
from bussrv.audit.spark.java import why_no_java
from bussrv.audit.spark.surroundings import LOOPBACK, java_options, user_name, variables

HEAP = "2g"
"""The memory of Spark on this machine. Larger data goes to disk."""

DIRECTING_HEAP = "512m"
"""The same if Spark runs on a cluster. Its workers then do all that needs memory."""

ANSWERED_WITHIN = 15.0
"""Seconds for a Spark Connect server, or the master of a cluster, to answer the first time."""

# Spark makes one Java method of each stage of a query. Java would not compile the larger ones, and each row would take
# many times as long.
_COMPILE_ALL = "-XX:-DontCompileHugeMethods"

# Java then compiles once, fast, instead of twice. Small audits end before the better code would pay off. The default of
# 48 MB for that code is nearly full after one audit, and Java may exit once it is full.
_QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"

# Otherwise Java would begin with a heap of a 64th of the machine's memory.
_DIRECTING = f"{_QUICK_START} -Xms64m"

_FORGETFUL = {
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "10",
}
"""The bounds of what the driver of a cluster remembers of work that is done. By default, it remembers up to 100,000
tasks."""

COMPILED_QUERIES = 1000
"""The most pieces of compiled code that Spark keeps. An audit makes hundreds; a session may run several audits."""


_LOG = "log"
"""The file of what Java and Spark write, in the directory of a session."""

_HERE = r"local(\[.*\])?"
"""The masters of which the workers are processes of this machine, with the packages of this program."""


class SparkUnavailable(SparkFailed):
    """Spark cannot run here. The message says what to do."""


@contextmanager
def spark_session(master: str = "local[*]", *, quick_start: bool = False) -> Iterator[SparkSession]:
    """A Spark session, stopped afterwards. Under ``spark-submit``, its session.

    The output of Java and Spark goes to a file that is removed afterwards. A process can have several such sessions in
    turn, but not two at once.

    :param master: where Spark runs.
    :param quick_start: start in half the time, but compute more slowly later.
    :raises SparkUnavailable: if there is no Java, an old one, Spark does not start, or a cluster refuses or ends the
        application.
    """
    scratch = tempfile.TemporaryDirectory(prefix="bussrv-spark-", ignore_cleanup_errors=True)
    with _quiet_py4j(), scratch as directory, _as_ended(Path(directory) / _LOG):
        spark = _open(master, Path(directory), quick_start)
        try:
            yield spark
        finally:
            if not _has_ended(spark):
                spark.stop()


def _open(master: str, scratch: Path, quick_start: bool) -> SparkSession:
    """A session that is ready."""
    is_submitted, before = "PYSPARK_GATEWAY_PORT" in os.environ, SparkContext._active_spark_context
    if not is_submitted:
        _check_java()
        _knock_at_masters(master)
    try:
        context = SparkContext.getOrCreate() if is_submitted else _start(master, scratch, quick_start)
        spark = SparkSession(context)
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        if is_spread(spark):
            _ship(spark, scratch)
        return spark
    except Exception as error:
        _stop(before)
        raise SparkUnavailable(f"Spark does not start: {_reason(error, scratch / _LOG)}") from error


def is_spread(spark: SparkSession) -> bool:
    """Whether the workers of a session may be on other machines: on a cluster, or behind Spark Connect."""
    return not isinstance(spark, SparkSession) or not re.fullmatch(_HERE, spark.sparkContext.master or "")


def end(spark: SparkSession) -> None:
    """End a session before its time, and its Java, unless others started that."""
    if isinstance(spark, SparkSession):
        gateway: Any = SparkContext._gateway
        spark.stop()
        if gateway.proc is not None:
            gateway.shutdown()
            gateway.proc.communicate()
            # The next session starts a Java of its own.
            SparkContext._gateway = SparkContext._jvm = None


def _has_ended(spark: SparkSession) -> bool:
    return spark.sparkContext._jsc is None


def _reason(error: Exception, log: Path) -> str:
    """Why Spark did not start. If Java ended, the log knows, and otherwise the error does, unless it only says that
    the application was ended.
    """
    text = _read(log)
    if isinstance(error, PySparkRuntimeError):
        return reason_in(text) or in_one_line(error)
    return killed_in(text) or in_one_line(error)


def _stop(before: SparkContext | None) -> None:
    """Stop a Spark that a session could not be made of, so that the process can start another one.

    :param before: the one that was there before; it belongs to others.
    """
    context = SparkContext._active_spark_context
    if context is not None and context is not before:
        with suppress(Exception):
            context.stop()


def _read(log: Path) -> str:
    return log.read_text(errors="replace") if log.exists() else ""


@contextmanager
def _as_ended(log: Path) -> Iterator[None]:
    """Raise what follows from the end of the application as its reason, which is in the log."""
    try:
        yield
    except Exception as error:
        why = killed_in(_read(log)) if is_sparks(error) else None
        if why is None:
            raise
        raise SparkUnavailable(f"Spark ended the application: {why}") from error


@contextmanager
def remote_session(url: str) -> Iterator[SparkSession]:
    """A session of a Spark Connect server, stopped afterwards.

    :param url: ``sc://host:port``.
    :raises SparkUnavailable: if there is no such server, or packages are missing.
    """
    try:
        _knock(url)
        spark = SparkSession.builder.remote(url).getOrCreate()
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    except ImportError as error:
        raise SparkUnavailable(f"Spark Connect needs more packages ({error}): pip install 'bussrv[connect]'") from error
    except Exception as error:
        if not is_sparks(error):
            raise
        raise SparkUnavailable(f"there is no Spark Connect server at {url}: {in_one_line(error)}") from error
    try:
        with tempfile.TemporaryDirectory(prefix="bussrv-spark-") as directory:
            _ship(spark, Path(directory))
            yield spark
    finally:
        spark.stop()


def _ship(spark: SparkSession, directory: Path) -> None:
    """Bring the code of the fold to executors, which then need no bussrv of their own.

    :param directory: keeps that code as long as the session lasts.
    """
    package = Path(__file__).parents[2]
    path = directory / "bussrv-code.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for source in package.rglob("*.py"):
            file.write(source, source.relative_to(package.parent))
    spark.addArtifacts(str(path), pyfile=True)


def _knock(url: str) -> None:
    """Check that the server answers. The session itself would retry for many minutes.

    :raises SparkUnavailable: if it does not answer within ``ANSWERED_WITHIN`` seconds.
    """
    import grpc  # type: ignore[import-untyped, unused-ignore]
    from pyspark.sql.connect.client.core import DefaultChannelBuilder

    with DefaultChannelBuilder(url).toChannel() as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=ANSWERED_WITHIN)
        except grpc.FutureTimeoutError as error:
            raise SparkUnavailable(
                f"there is no Spark Connect server at {url}: no answer for {ANSWERED_WITHIN:.0f} seconds"
            ) from error


def _knock_at_masters(master: str) -> None:
    """Check that a master of a standalone cluster is there, one of ``spark://host:port,host:port``. Spark itself would
    try for a minute.

    :raises SparkUnavailable: if none accepts a connection within ``ANSWERED_WITHIN`` seconds.
    """
    scheme, _, places = master.partition("://")
    if scheme != "spark":
        return
    why = ""
    for place in places.split(","):
        host, _, port = place.rpartition(":")
        if not host or not port.isdecimal():
            return
        try:
            socket.create_connection((host.strip("[]"), int(port)), ANSWERED_WITHIN).close()
        except (OSError, UnicodeError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
        else:
            return
    raise SparkUnavailable(f"there is no Spark master at {master}: {why}")


@contextmanager
def _quiet_py4j() -> Iterator[None]:
    """Keep Py4J from logging a traceback to the root logger when an interrupt breaks off a call to Java."""
    root = logging.getLogger()
    root.addFilter(_is_not_py4j)
    try:
        yield
    finally:
        root.removeFilter(_is_not_py4j)


def _is_not_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


def _start(master: str, scratch: Path, quick_start: bool) -> SparkContext:
    options = f"{_COMPILE_ALL} {_QUICK_START}" if quick_start else _COMPILE_ALL
    is_here = re.fullmatch(_HERE, master) is not None
    own, more = (options, {}) if is_here else (f"{_COMPILE_ALL} {_DIRECTING}", _FORGETFUL)
    # The executors of a cluster have to reach this process.
    address = dict.fromkeys(("spark.driver.host", "spark.driver.bindAddress"), LOOPBACK) if is_here else {}
    settings = {
        **address,
        **more,
        "spark.app.name": "bussrv-audit",
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # With more partitions, each stage of a small audit takes longer to start than to run.
        "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.codegen.cache.maxEntries": str(COMPILED_QUERIES),
        "spark.driver.memory": HEAP if is_here else DIRECTING_HEAP,
        "spark.driver.extraJavaOptions": " ".join([own, *java_options(os.environ, scratch)]),
        "spark.executor.extraJavaOptions": options,
    }
    conf = SparkConf()
    for name, value in settings.items():
        conf.set(name, value)
    if master.startswith("local"):
        # Python workers run on this machine, with the packages of this program.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with (scratch / _LOG).open("wb") as file, _set(variables(master, os.environ)):
        gateway = launch_gateway(conf, {"stdout": file, "stderr": file})
    _name_user(gateway)
    return SparkContext(conf=conf, gateway=gateway)


@contextmanager
def _set(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables that are not set, for a while."""
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]


def _name_user(gateway: Any) -> None:
    """Log a user in who has no name. Hadoop would ask the system for the name, and fail at each file."""
    name = user_name(os.environ)
    if name is not None:
        known = gateway.jvm.org.apache.hadoop.security.UserGroupInformation
        known.setLoginUser(known.createRemoteUser(name))


def _check_java() -> None:
    """:raises SparkUnavailable: unless there is a Java that Spark runs on."""
    why = why_no_java()
    if why is not None:
        raise SparkUnavailable(f"{why}: install a newer JRE")
