"""Exactly what each case shows is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bussrv.audit.kinds import KINDS, SEVERITIES
from bussrv.audit.report.summary import MOST_LISTED
from bussrv.journal.record import format_time
from tests.audit.cases import CASES, Case
from tests.audit.conftest import Collection, Rows
from tests.audit.segment_cases import SEGMENT_CASES

pytestmark = pytest.mark.timeout(600)

OF_SEALS = {"broken-seal", "broken-tree", "bad-manifest", "segment-missing", "not-witnessed", "other-history"}
"""The journals of cases have no seals. :mod:`tests.audit.test_mutations` has others, and ``tests/journal`` the rest."""


def findings_of(collection: Collection, case: str) -> Rows:
    directory = f"{collection.root / case}/"
    findings = collection.findings
    return [each for each in findings if each["server"] == case or (each["file"] or "").startswith(directory)]


@pytest.mark.parametrize("make", [*CASES, *SEGMENT_CASES], ids=lambda make: make.__name__)
def test_what_is_found(collection: Collection, make: Callable[[str], Case]) -> None:
    found = findings_of(collection, make.__name__)
    expected = make(make.__name__).expected
    assert sorted(each["kind"] for each in found) == sorted(kind for kind, _ in expected)
    for kind, wanted in expected:
        assert any(agrees(each, {"kind": kind, "severity": KINDS[kind], **wanted}) for each in found), (wanted, found)


def agrees(finding: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """The same values; a part of the message and the name of the file will do."""
    return all(
        value in finding[name] if name in {"message", "file"} else finding[name] == value
        for name, value in wanted.items()
    )


def test_every_kind_is_shown_by_some_case() -> None:
    shown = {kind for make in (*CASES, *SEGMENT_CASES) for kind, _ in make("x").expected}
    assert shown == set(KINDS) - OF_SEALS


def test_the_summary_counts_them_and_lists_the_worst(collection: Collection) -> None:
    summary, findings = collection.verdict.summary, collection.findings
    kinds = [each["kind"] for each in findings]
    assert summary["verdict"] == "findings"
    assert not collection.verdict.is_intact
    assert summary["kinds"] == {kind: kinds.count(kind) for kind in KINDS if kind in kinds}
    assert summary["severities"] == {each: sum(KINDS[kind] == each for kind in kinds) for each in SEVERITIES}
    by_severity = sorted(findings, key=lambda each: SEVERITIES.index(each["severity"]))
    listed = summary["findings"]
    assert [each["severity"] for each in listed] == [each["severity"] for each in by_severity[:MOST_LISTED]]
    found = [{**each, "moment": each["moment"] and format_time(each["moment"])} for each in findings]
    assert all(each in found for each in listed)
