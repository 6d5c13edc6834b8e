"""A snapshot that is kept up to date shows what one that is made anew does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv import events as ev
from bussrv.journal.record import Stamped
from bussrv.registry import live_snapshot
from bussrv.registry.live_snapshot import MOST_REMOVED, LiveSnapshot
from bussrv.registry.snapshot import encode, snapshot
from bussrv.registry.state import RegistryState
from bussrv.values import ModeInterest
from tests.size import sized

sessions = st.sampled_from("ab")
services = st.sampled_from(["tv", 'quoted "name"'])
histories = st.lists(
    st.one_of(
        st.builds(ev.SessionOpened, protocol=st.just("spp"), session=sessions, routing_id=sessions, peer=st.just("x")),
        st.builds(ev.SessionIdentified, session=sessions, routing_id=sessions, name=st.sampled_from(["one", "two"])),
        st.builds(ev.SessionClosed, session=sessions, duration=st.just(1)),
        st.builds(ev.ServiceRegistered, session=sessions, service=services),
        st.builds(ev.ServiceUnregistered, session=sessions, service=services),
        st.builds(ev.SubscriptionAdded, session=sessions, service=services),
        st.builds(ev.SubscriptionAdded, session=sessions, interest=st.just(ModeInterest())),
        st.builds(ev.SubscriptionRemoved, session=sessions, service=services),
        st.builds(ev.SubscriptionRenewed, session=sessions, service=services, options=st.just({"version": 2})),
        st.none(),  # the moment is shown
    ),
    max_size=60,
)


@settings(max_examples=sized(1000))
@given(histories, histories)
def test_it_is_the_snapshot_of_the_same_events(before: list[ev.Event | None], history: list[ev.Event | None]) -> None:
    state = RegistryState()
    for event in before:
        if event is not None:
            state.apply(event, 1)
    live = LiveSnapshot(state.copy())
    for seq, event in enumerate(history):
        if event is not None:
            state.apply(event, seq)
            live.apply(event, seq)
        else:
            assert live.encode(seq) == encode(snapshot(seq, state))
    assert live.encode(len(history)) == encode(snapshot(len(history), state))
    assert live.encode(len(history)) is live.encode(len(history))


def records(history: list[ev.Event | None]) -> list[Stamped]:
    return [Stamped(time, time, event) for time, event in enumerate(history) if event is not None]


@settings(max_examples=sized(1000))
@given(st.lists(histories, max_size=8), st.integers(0, 4))
def test_records_may_be_applied_together(batches: list[list[ev.Event | None]], most_removed: int) -> None:
    state = RegistryState()
    live = LiveSnapshot(RegistryState())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_snapshot, "MOST_REMOVED", most_removed)
        for seq, batch in enumerate(batches):
            for each in records(batch):
                state.apply(each.event, each.time)
            live.apply_all(records(batch))
            if None in batch:
                assert live.encode(seq) == encode(snapshot(seq, state))
    assert live.encode(len(batches)) == encode(snapshot(len(batches), state))


def test_notes_of_what_was_removed_are_bounded() -> None:
    live = LiveSnapshot(RegistryState())
    live.apply(ev.SessionOpened(session="a", routing_id="a"), 1)
    for number in range(3 * MOST_REMOVED):
        name = f"service {number}"
        changes = [ev.ServiceRegistered(session="a", service=name), ev.ServiceUnregistered(session="a", service=name)]
        live.apply_all([Stamped(number, number, each) for each in changes])
    assert len(live._services._stale) <= MOST_REMOVED + 1
