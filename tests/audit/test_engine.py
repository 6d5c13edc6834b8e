"""The engine that an audit gets if nobody names one."""

from __future__ import annotations

from pathlib import Path

import pytest

from bussrv.audit import job
from bussrv.audit.arguments import EMBEDDED, SPARK
from bussrv.audit.spark.java import why_no_java
from tests.audit.journals import day, write_journal
from tests.tables import each_row

pytestmark = pytest.mark.dear


@each_row(
    "version, why",
    [
        ('openjdk version "17.0.1"', None),
        ('java version "25"', None),
        ('openjdk version "11.0.2"', "Spark needs Java 17 or newer, and JAVA is 11"),
        ('java version "1.8.0_392"', "Spark needs Java 17 or newer, and JAVA is 1"),
        ("Segmentation fault", "Spark needs Java 17 or newer, and JAVA is something else"),
    ],
)
@pytest.mark.processes
def test_the_version_of_java(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, version: str, why: str | None
) -> None:
    home = tmp_path_factory.mktemp("java")
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    java.chmod(0o700)
    monkeypatch.setenv("JAVA_HOME", str(home))
    said = why_no_java()
    assert (said and said.replace(str(java), "JAVA")) == why


@each_row(
    "journals, given, spark, java, engine_, why",
    [
        (["hall"], {}, True, None, SPARK, "PySpark and Java are installed"),
        (["hall", "s3://b/hall"], {}, True, "no Java", EMBEDDED, "no Java"),
        (["hall"], {}, False, None, EMBEDDED, "PySpark is not installed"),
        (["hall", "hdfs://x/hall"], {}, True, "no Java", SPARK, "only Spark reads hdfs://x/hall"),
        (["hall"], {"master": "spark://x"}, True, "no Java", SPARK, None),
        (["hall"], {"remote": "sc://x"}, False, "no Java", SPARK, None),
    ],
)
def test_what_is_chosen(
    monkeypatch: pytest.MonkeyPatch,
    journals: list[str],
    given: dict[str, str],
    spark: bool,
    java: str | None,
    engine_: str,
    why: str | None,
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr(job, "find_spec", lambda name: object() if spark else None)
    monkeypatch.setattr(job, "why_no_java", lambda: java)
    assert job.choose(journals, given.get("master"), given.get("remote")) == (engine_, why)


def test_an_audit_without_java_says_why_it_is_made_without_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    write_journal(tmp_path / "hall", day().records)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert job.main([str(tmp_path / "hall"), "--out", str(tmp_path / "out")]) == job.CLEAN
    why = f"Spark needs Java 17 or newer, and there is none in JAVA_HOME, {tmp_path}"
    assert capfd.readouterr().err == f"bussrv audit: --engine embedded, since {why}\n"
