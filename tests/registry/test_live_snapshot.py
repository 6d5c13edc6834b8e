"""A snapshot that is kept up to date shows what one that is made anew does."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv import events as ev
from bussrv.registry.live_snapshot import LiveSnapshot
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
