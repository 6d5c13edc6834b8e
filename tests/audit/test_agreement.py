"""Whatever journals hold, Spark and a plain program say the same about their segments, lines and numbers."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from tests.audit.conftest import Collection
from tests.audit.oracles import integrity

pytestmark = pytest.mark.timeout(600)

Found = Counter[tuple[Any, ...]]


@pytest.fixture(scope="module")
def expected(collection: Collection) -> Found:
    return integrity.audit(collection.journals)


@pytest.fixture(scope="module")
def audited(collection: Collection) -> Found:
    rows = [row for row in collection.journal_facts() if row["kind"] in integrity.KINDS]
    return Counter((row["kind"], *[row[name] for name in integrity.COLUMNS]) for row in rows)


def test_spark_and_a_plain_program_agree(collection: Collection, audited: Found, expected: Found) -> None:
    for each in sorted({*audited, *expected}, key=str):
        names = re.split(r"[^a-z0-9_]+", str(each))
        plan = next((plan for server, plan in collection.plans.items() if server in names), None)
        assert (each, audited[each]) == (each, expected[each]), plan


def test_the_journals_were_worth_it(expected: Found) -> None:
    assert {each[0] for each in expected} == integrity.KINDS
