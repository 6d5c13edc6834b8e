"""What strangers cause is written at a limited rate, for each address and for all, and the rest is counted."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv import events as ev
from bussrv.counts import throttle
from bussrv.registry.journal_budget.deferred_openings import DeferredOpenings
from bussrv.registry.journal_budget.strangers import TOTAL_BURST, Strangers

KINDS = [ev.LimitReached, ev.AuthFailed]

asked = st.lists(st.tuples(st.integers(0, 30), st.sampled_from(KINDS), st.integers(0, 3)), max_size=200)


def event(kind, number):
    fields = {"limit": "max-sessions", "value": 1} if kind is ev.LimitReached else {}
    return kind(peer=f"10.0.0.{number}:1000", **fields)


@given(asked, st.integers(1, 3), st.integers(1, 4))
def test_all_are_written_or_counted_and_not_too_many_are_written(asked, rate, total_rate):
    now, seen, told, written = 0.0, Counter(), Counter(), Counter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(throttle, "MAX_KEYS", 3)
        strangers = Strangers(rate, total_rate, lambda: now)
    for address, kind, pause in asked:
        now += pause / 10
        seen[kind] += 1
        left_out = strangers.admit(event(kind, address))
        if left_out is not None:
            written[kind] += 1
            told[kind] += 1 + left_out
        assert written[kind] <= total_rate * (TOTAL_BURST + now) + 1e-6
        assert told[kind] <= seen[kind]
    now += 1000
    for kind in KINDS:
        # Whoever is still remembered is told of; the others are counted together.
        for address in range(31):
            seen[kind] += 1
            told[kind] += 1 + (strangers.admit(event(kind, address)) or 0)
            now += 100
    assert told == seen


def test_from_many_addresses_no_more_is_written_than_from_all():
    strangers = Strangers(10, 50, lambda: 0.0)
    written = [strangers.admit(event(ev.AuthFailed, number)) for number in range(2000)]
    assert written.count(0) == 500
    assert set(written[500:]) == {None}


def test_addresses_of_one_ipv6_network_are_one():
    strangers = Strangers(1, 50, lambda: 0.0)
    written = [strangers.admit(ev.AuthFailed(peer=f"[2001:db8::{number:x}]:1000")) for number in range(20)]
    assert written.count(0) == 5


def test_openings_from_many_addresses_wait_for_a_first_action():
    deferred_openings = DeferredOpenings(lambda: 0.0, 10, 50)
    peers = [f"10.0.{number // 250}.{number % 250}:1" for number in range(800)]
    written = [
        deferred_openings.on_open(ev.SessionOpened(session=f"{number}", routing_id=f"r{number}", peer=peer))
        for number, peer in enumerate(peers)
    ]
    assert sum(each is not None for each in written) == 500
    assert deferred_openings.on_first_event("799") is not None
    assert deferred_openings.on_close("798")
