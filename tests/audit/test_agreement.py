"""Whatever journals hold, Spark and a plain program say the same about them."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from bussrv.audit.findings import KINDS
from tests.audit import oracle
from tests.audit.conftest import Collection, Rows

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def expected(collection: Collection) -> oracle.Answer:
    return oracle.audit(collection.journals)


@pytest.fixture(scope="module")
def audited(collection: Collection) -> oracle.Answer:
    tables = collection.tables
    return oracle.Answer(
        findings(tables["findings"]),
        keyed(tables["sessions"], "session"),
        keyed(tables["services"], "service", "server"),
        events(tables["events"]),
    )


@pytest.mark.parametrize("table", ["findings", "sessions", "services", "events"])
def test_spark_and_a_plain_program_agree(
    collection: Collection, audited: oracle.Answer, expected: oracle.Answer, table: str
) -> None:
    said, wanted = getattr(audited, table), getattr(expected, table)
    for each in sorted({*said, *wanted}, key=str):
        names = re.split(r"[^a-z0-9_]+", str(each))
        plan = next((plan for server, plan in collection.plans.items() if server in names), None)
        assert (each, said.get(each)) == (each, wanted.get(each)), plan


def test_the_journals_were_worth_it(expected: oracle.Answer) -> None:
    assert {finding[0] for finding in expected.findings} == set(KINDS)
    assert {session["state"] for session in expected.sessions.values()} == {"open", "closed"}
    assert any(service["provided_seconds"] for service in expected.services.values())


def findings(rows: Rows) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(value for name, value in row.items() if name not in {"severity", "message"}) for row in rows)


def keyed(rows: Rows, *names: str) -> dict[Any, dict[str, Any]]:
    answer = {}
    for row in rows:
        key = tuple(row[name] for name in names)
        answer[key if len(key) > 1 else key[0]] = {name: row[name] for name in row if name not in names}
    assert len(answer) == len(rows)
    return answer


def events(rows: Rows) -> Counter[tuple[str, str, str | None, str]]:
    return Counter({(row["server"], row["event"], row["protocol"], row["outcome"]): row["records"] for row in rows})
