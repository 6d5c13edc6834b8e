"""The registry before the first segment, as records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from bussrv.events import event_name
from bussrv.inspection.timeline.baseline import baseline
from bussrv.inspection.timeline.scan import beginning
from bussrv.journal.header import Part
from bussrv.journal.segment import list_segments
from bussrv.registry.state.fold import RegistryFold
from tests.docs.golden import UPGRADED
from tests.inspection.timeline.busy import busy


@given(seed=st.integers(0, 2**32), count=st.integers(1, 60))
def test_it_leads_to_the_same_registry(seed: int, count: int) -> None:
    """Except for renewals, and how long a session is kept."""
    before, after = RegistryFold(), RegistryFold()
    before.apply_all(busy(seed)[:count])
    parts = [Part("", 99, number, Raw(state)) for number, state in enumerate(before.states(), 1)]
    records = baseline(parts, "busy", 99)
    assert {each.seq for each in records} <= {98}
    after.apply_all(records)
    assert told(after) == told(before)


def told(fold: RegistryFold) -> Any:
    state = fold.state
    wants = sorted((each.session, each.service, each.added) for each in state.all_subscriptions())
    sessions = {each.id: (each.about(), each.opened, each.away) for each in state.sessions.values()}
    return sessions, {name: dict(each) for name, each in state.services.items()}, wants


def test_one_of_schema_version_2_tells_a_claim_from_a_proof() -> None:
    """Its snapshot has only one field for both. Without the first segment nothing else says it."""
    path: Path = list_segments(UPGRADED)[1]
    server, records = beginning(path.read_bytes(), int(path.name.partition(".")[0]))
    named = [each.event for each in records if event_name(each.event) == "session.identified"]
    assert server == "attic"
    assert [(each.routing_id, each.actor, each.claimed) for each in named] == [("hall-door", None, "anna")]
