"""Histories of registries in which the same few sessions and services come and go."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from bussrv import events as ev
from bussrv.values import ModeInterest

SESSIONS = st.sampled_from("ab")


def histories(
    services: st.SearchStrategy[str],
    routing_ids: st.SearchStrategy[str],
    identified: st.SearchStrategy[ev.SessionIdentified],
    pauses: st.SearchStrategy[Any],
) -> st.SearchStrategy[list[Any]]:
    """Lists of events.

    :param identified: events that name a session.
    :param pauses: stand between events, for what the test does there.
    """
    opened = st.builds(
        ev.SessionOpened,
        protocol=st.just("spp"),
        session=SESSIONS,
        routing_id=routing_ids,
        peer=st.just("x"),
        expiry=st.none() | st.just(9),
    )
    added = st.builds(ev.SubscriptionAdded, session=SESSIONS, service=services)
    renewed = st.builds(ev.SubscriptionRenewed, session=SESSIONS, service=services, options=st.just({"version": 2}))
    return st.lists(
        st.one_of(
            opened,
            identified,
            st.builds(ev.SessionLeft, session=SESSIONS, until=st.just(5)),
            st.builds(ev.SessionResumed, session=SESSIONS, peer=st.just("y"), expiry=st.just(3)),
            st.builds(ev.SessionClosed, session=SESSIONS, duration=st.just(1)),
            st.builds(ev.ServiceRegistered, session=SESSIONS, service=services),
            st.builds(ev.ServiceUnregistered, session=SESSIONS, service=services),
            added,
            st.builds(ev.SubscriptionAdded, session=SESSIONS, interest=st.just(ModeInterest())),
            st.builds(ev.SubscriptionRemoved, session=SESSIONS, service=services),
            renewed,
            pauses,
        ),
        max_size=60,
    )
