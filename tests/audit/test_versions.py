"""Journals of older schema versions, and one that was begun with 2 and continued today, are audited like others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bussrv.audit.job import Verdict, audit
from tests.audit.conftest import without_report
from tests.docs.golden import OLDER, UPGRADED

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]

Rows = list[dict[str, Any]]
V2 = OLDER / "v2" / "whole"


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("versions") / "out"


@pytest.fixture(scope="module")
def verdict(spark: SparkSession, out: Path) -> Verdict:
    with without_report():
        return audit(spark, [V2, UPGRADED], out)


def test_a_version_3_journal_is_clean(spark: SparkSession, tmp_path: Path) -> None:
    with without_report():
        verdict = audit(spark, [OLDER / "v3" / "whole"], tmp_path / "out")
    assert verdict.is_intact, verdict.text


def test_they_are_clean(verdict: Verdict) -> None:
    assert verdict.is_intact, verdict.text


def test_what_was_proved_and_what_was_claimed_is_told_apart(
    verdict: Verdict, out: Path, read_table: Callable[[Path, str], Rows]
) -> None:
    sessions = {each["session"]: (each["actor"], each["claimed"]) for each in read_table(out, "sessions")}
    assert sessions["5f1c2ab94e07.1"] == (None, "anna")
    assert sessions["8f63b05d2a71.2"] == ("ben", None)
    assert sessions["77c0d1e2f3a4.1"] == sessions["a1d20b3c4e5f.1"] == (None, "anna")
    assert sessions["77c0d1e2f3a4.3"] == sessions["a1d20b3c4e5f.2"] == ("ben", None)
    failed = [each for each in read_table(out, "refusals") if each["event"] == "auth.failed"]
    tried = [(each["server"], each["actor"], each["claimed"]) for each in failed]
    strange = 'a "quoted" \\ name \a 🔒'
    assert sorted(tried, key=repr) == [("attic", None, "ben"), ("attic", None, None), ("hall", None, strange)]
