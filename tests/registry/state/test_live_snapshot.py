"""A snapshot that is kept up to date shows what one that is made anew does."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.json import encode

from bussrv import events as ev
from bussrv.journal.record import Record
from bussrv.registry.state.live_snapshot import LiveSnapshot
from bussrv.registry.state.snapshot import snapshot
from bussrv.registry.state.state import RegistryState
from tests.registry.histories import SESSIONS
from tests.registry.histories import histories as histories_of
from tests.size import sized

histories = histories_of(
    services=st.sampled_from(["tv", 'quoted "name"']),
    routing_ids=SESSIONS,
    identified=st.builds(
        ev.SessionIdentified, session=SESSIONS, routing_id=SESSIONS, name=st.sampled_from(["one", "two"])
    ),
    pauses=st.none(),  # the moment is shown
)


EVERYTHING = [
    *(ev.SessionOpened(protocol="spp", session=each, routing_id=each, peer="x") for each in "ab"),
    ev.ServiceRegistered(session="a", service="tv"),
    ev.ServiceRegistered(session="b", service="tv"),
    ev.SubscriptionAdded(session="a", service="tv"),
]


def folded(history: Sequence[ev.Event | None]) -> RegistryState:
    state = RegistryState()
    for event in history:
        if event is not None:
            state.apply(event, 1)
    return state


def in_a_row(*history: ev.Event) -> list[Record]:
    return [Record(number, number, 0, "hall", "boot", event) for number, event in enumerate(history, start=1)]


@settings(max_examples=sized(1000))
@given(histories, histories)
def test_it_is_the_snapshot_of_the_same_events(before: list[ev.Event | None], history: list[ev.Event | None]) -> None:
    state = folded(before)
    live = LiveSnapshot(state.copy())
    for seq, event in enumerate(history):
        if event is not None:
            state.apply(event, seq)
            live.apply(event, seq)
        else:
            assert live.encode(seq) == encode(snapshot(seq, state))
    assert live.encode(len(history)) == encode(snapshot(len(history), state))
    assert live.encode(len(history)) is live.encode(len(history))


@settings(max_examples=sized(1000))
@given(st.booleans(), st.lists(histories, max_size=4))
def test_batches_show_the_same_if_shown_before_or_not(is_shown: bool, batches: list[list[ev.Event | None]]) -> None:
    state, seq = folded(EVERYTHING), 0
    live = LiveSnapshot(state.copy())
    if is_shown:
        live.encode(seq)
    for batch in batches:
        records = in_a_row(*filter(None, batch))
        for each in records:
            state.apply(each.event, each.time)
        live.apply_all(records)
        seq += 1
        # A batch with a moment at its end is shown, so that others find entries that are encoded, and out of date.
        if batch and batch[-1] is None:
            assert live.encode(seq) == encode(snapshot(seq, state))
    assert live.encode(-2) == encode(snapshot(-2, state))


def test_batches_change_what_was_shown() -> None:
    state = folded(EVERYTHING)
    live = LiveSnapshot(state.copy())
    live.encode(0)
    opened = ev.SessionOpened(protocol="spp", session="a", routing_id="a", peer="x")
    batches = [
        in_a_row(ev.ServiceUnregistered(session="a", service="tv")),
        in_a_row(ev.ServiceUnregistered(session="b", service="tv"), ev.ServiceRegistered(session="a", service="radio")),
        in_a_row(ev.ServiceRegistered(session="a", service="tv"), ev.SessionIdentified(session="b", routing_id="c")),
        in_a_row(ev.SubscriptionAdded(session="b", service="tv"), ev.SubscriptionRemoved(session="a", service="tv")),
        in_a_row(ev.ServiceRegistered(session="a", service="lamp"), ev.SessionClosed(session="a", duration=1), opened),
        in_a_row(*[ev.SessionClosed(session=each, duration=1) for each in "ab"]),
        in_a_row(opened, ev.SubscriptionAdded(session="a", service="tv")),
    ]
    for seq, records in enumerate(batches, start=1):
        live.apply_all(records)
        for each in records:
            state.apply(each.event, each.time)
        assert live.encode(seq) == encode(snapshot(seq, state))
