"""Spark sessions. One on this machine opens no port to the network, removes its files, and logs nothing."""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from bussrv.audit.spark.failure import in_one_line, is_sparks
from bussrv.audit.spark.java import why_no_java
from bussrv.errors import BussrvError

HEAP = "2g"
"""The memory of Spark on this machine. Larger data goes to disk."""

ANSWERED_WITHIN = 15.0
"""Seconds for a Spark Connect server to answer the first time."""

# Spark makes one Java method of each stage of a query. Java would not compile the larger ones, and each row would take
# many times as long.
_COMPILE_ALL = "-XX:-DontCompileHugeMethods"

# Java then compiles once, fast, instead of twice. Small audits end before the better code would pay off. The default of
# 48 MB for that code is nearly full after one audit, and Java may exit once it is full.
_QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"

COMPILED_QUERIES = 1000
"""The most pieces of compiled code that Spark keeps. An audit makes hundreds; a session may run several audits."""


_HERE = r"local(\[.*\])?"
"""The masters of which the workers are processes of this machine, with the packages of this program."""


class SparkUnavailable(BussrvError):
    """Spark cannot run here. The message says what to do."""


@contextmanager
def spark_session(master: str = "local[*]", *, quick_start: bool = False) -> Iterator[SparkSession]:
    """A Spark session, stopped afterwards. Under ``spark-submit``, its session.

    The output of Java and Spark goes to a file that is removed afterwards. A process can have several such sessions in
    turn, but not two at once.

    :param master: where Spark runs.
    :param quick_start: start in half the time, but compute more slowly later.
    :raises SparkUnavailable: if there is no Java, an old one, or Spark does not start.
    """
    scratch = tempfile.TemporaryDirectory(prefix="bussrv-spark-", ignore_cleanup_errors=True)
    with _quiet_py4j(), scratch as directory:
        submitted = "PYSPARK_GATEWAY_PORT" in os.environ
        context = SparkContext.getOrCreate() if submitted else _start(master, Path(directory), quick_start)
        with SparkSession(context) as spark:
            spark.conf.set("spark.sql.session.timeZone", "UTC")
            if not re.fullmatch(_HERE, context.master or ""):
                _ship(spark, Path(directory))
            yield spark


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
    _check_java()
    java_options = f"{_COMPILE_ALL} {_QUICK_START}" if quick_start else _COMPILE_ALL
    settings = {
        "spark.app.name": "bussrv-audit",
        "spark.master": master,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # With more partitions, each stage of a small audit takes longer to start than to run.
        "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.codegen.cache.maxEntries": str(COMPILED_QUERIES),
        "spark.driver.memory": HEAP,
        "spark.driver.extraJavaOptions": java_options,
        "spark.executor.extraJavaOptions": java_options,
    }
    conf = SparkConf()
    for name, value in settings.items():
        conf.set(name, value)
    if master.startswith("local"):
        # Python workers run on this machine, with the packages of this program.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    log = scratch / "log"
    try:
        with log.open("wb") as file:
            gateway = launch_gateway(conf, {"stdout": file, "stderr": file})
        return SparkContext(conf=conf, gateway=gateway)
    except Exception as error:
        lines = log.read_text(errors="replace").strip().splitlines() or [str(error)]
        raise SparkUnavailable(f"Spark does not start: {lines[-1].strip()}") from error


def _check_java() -> None:
    """:raises SparkUnavailable: unless there is a Java that Spark runs on."""
    why = why_no_java()
    if why is not None:
        raise SparkUnavailable(f"{why}: install a newer JRE")
