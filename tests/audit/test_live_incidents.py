"""What an audit calls incidents is what a running server calls incidents, for every history."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict

from bussrv.audit.job import audit
from bussrv.audit.report.incidents import happenings
from bussrv.audit.sql.database import published
from bussrv.incidents.judging import LIVE_ONLY, RULES, Incident
from bussrv.incidents.sums import Sums
from tests.audit.conftest import without_report
from tests.audit.journals import write_journal
from tests.incidents.histories import EVERY_KIND, HISTORIES, records
from tests.size import sized

pytestmark = pytest.mark.dear

SERVERS = 30
"""An audit of one journal takes as long as one of thirty."""

PLACE = ("journal", "segment", "first_seq", "last_seq", "file", "line")


def told(incident: Incident) -> dict[str, Any]:
    """All of an incident except its place in the files, which only an audit knows."""
    return {name: value for name, value in asdict(incident).items() if name not in PLACE or name == "first_seq"}


def audited(root: Path, journals: list[Path]) -> list[Incident]:
    with without_report():
        audit(None, journals, root / "out")
    with published(root / "out" / "tables", root / "scratch") as tables:
        return [*happenings(tables, 10_000).rows]


@settings(
    max_examples=sized(6, 3), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(st.lists(HISTORIES, min_size=SERVERS, max_size=SERVERS))
def test_an_audit_and_a_server_call_the_same_incidents(histories: list[list[tuple[Any, ...]]]) -> None:
    live: list[Incident] = []
    with TemporaryDirectory() as directory:
        root, journals = Path(directory), []
        for number, steps in enumerate([*histories, *EVERY_KIND]):
            server = f"s{number:02}"
            written = records(server, steps)
            journals.append(write_journal(root / server, written))
            over: list[Incident] = []
            sums = Sums(server, over.append)
            sums.take(written)
            live += sums.incidents(written[-1].time)
            assert (over, dict(sums.not_kept)) == ([], {})
        found = audited(root, journals)
    key = repr
    assert sorted(map(told, live), key=key) == sorted(map(told, found), key=key)
    assert {each.what for each in live} == {*RULES} - LIVE_ONLY
