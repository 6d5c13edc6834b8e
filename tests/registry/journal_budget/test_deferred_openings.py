"""Openings that are written at once, later, or never."""

from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv import events as ev
from bussrv.counts.throttle import STRANGER_BURST as BURST
from bussrv.counts.throttle import STRANGER_RATE as RATE
from bussrv.registry.journal_budget import deferred_openings
from bussrv.registry.journal_budget.deferred_openings import DeferredOpenings
from bussrv.registry.state.session import Claims
from bussrv.values import ModeInterest, Traffic
from tests.journal.support import fold
from tests.registry.support import Bench, unregister_all


def opened(session_id, host="10.0.0.1"):
    return ev.SessionOpened(session=session_id, peer=f"{host}:1", routing_id=f"r{session_id}")


steps = st.lists(
    st.tuples(st.sampled_from(["arrives", "acts", "leaves", "waits"]), st.integers(0, 9), st.sampled_from("ab")),
    max_size=60,
)


@given(steps, st.integers(1, 3))
def test_everybody_is_written_or_counted_and_the_active_written(steps, burst):
    now, there, written = 0.0, {}, []
    arrived, told, tokens, left = Counter(), Counter(), defaultdict(lambda: burst), Counter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deferred_openings, "STRANGER_BURST", burst)
        tested = DeferredOpenings(lambda: now)

    def write(event, host):
        assert event.suppressed == (left.pop(host, 0) or None)
        written.append(event.session)
        told[host] += 1 + (event.suppressed or 0)

    for number, (step, which, host) in enumerate(steps):
        known = sorted(there)
        session_id = known[which % len(known)] if known else None
        if step == "waits":
            now += 1.0
            tokens.clear()
        elif step == "arrives":
            there[f"{number:03}"] = host
            arrived[host] += 1
            event = tested.on_open(opened(f"{number:03}", host))
            assert (event is not None) == (tokens[host] > 0)
            if event is not None:
                tokens[host] -= 1
                write(event, host)
        elif session_id is not None and step == "acts":
            event = tested.on_first_event(session_id)
            assert (event is None) == (session_id in written)
            if event is not None:
                write(event, there[session_id])
        elif session_id is not None:
            host = there.pop(session_id)
            is_unwritten = tested.on_close(session_id)
            assert is_unwritten == (session_id not in written)
            left[host] += is_unwritten
            assert tested.on_first_event(session_id) is None
    assert len(written) == len({*written})
    waiting = Counter(host for session_id, host in there.items() if session_id not in written)
    assert arrived == told + left + waiting


def test_only_so_many_addresses_are_remembered(monkeypatch):
    monkeypatch.setattr(deferred_openings, "STRANGER_BURST", 0)
    monkeypatch.setattr(deferred_openings, "MAX_KEYS", 2)
    tested = DeferredOpenings(lambda: 0.0)
    for number in range(3):
        tested.on_open(opened(f"{number}", f"10.0.0.{number}"))
        assert tested.on_close(f"{number}")
    # What is not known of its address any more is told with whoever comes next.
    for number, told in enumerate([1, 1, 1]):
        tested.on_open(opened("again", f"10.0.0.{number}"))
        assert tested.on_first_event("again").suppressed == told


@pytest.fixture
def bench():
    return Bench()


def flood(bench, number, peer="10.0.0.1:1000"):
    for _ in range(number):
        bench.registry.close_session(bench.open(peer), "bad-json", Traffic())


def test_who_only_connects_leaves_little(bench):
    flood(bench, BURST + 30)
    flood(bench, 1, "10.0.0.2:1000")
    assert bench.names() == ["session.opened", "session.closed"] * (BURST + 1)
    assert len(bench.watcher.told) == 2 * (BURST + 31)
    bench.clock.advance(2 / RATE)
    flood(bench, 4)
    assert [each.suppressed for each in bench.records(ev.SessionOpened)][BURST + 1 :] == [30, None]


@pytest.mark.parametrize(
    ("act", "names"),
    [
        (
            lambda registry, session_id: registry.identify(Claims(session_id=session_id), ModeInterest()),
            ["session.identified", "subscription.added"],
        ),
        (lambda registry, session_id: registry.register_service(session_id, "tv"), ["service.registered"]),
        (lambda registry, session_id: registry.subscribe(session_id, "tv"), ["subscription.added"]),
        (
            lambda registry, session_id: registry.subscribe(session_id, "a\nb").addErrback(lambda _: None),
            ["subscription.refused"],
        ),
        (
            lambda registry, session_id: registry.note(ev.AuthSucceeded(actor="ann", session=session_id)),
            ["auth.succeeded"],
        ),
    ],
)
def test_who_does_something_is_written_before_that(bench, act, names):
    flood(bench, BURST)
    quiet, session_id = bench.open(), bench.open()
    before = len(bench.journal.records)
    bench.clock.advance(100)
    act(bench.registry, session_id)
    assert bench.names()[before:] == ["session.opened", *names]
    record = bench.journal.records[before]
    assert (record.event.session, record.event.suppressed) == (session_id, None)
    assert bench.state.sessions[session_id].opened == record.time
    assert fold(bench.journal.records).sessions.keys() == bench.state.sessions.keys() - {quiet}
    bench.clock.advance(100)
    bench.registry.close_session(session_id, "client-closed", Traffic())
    last = bench.journal.records[-1]
    assert last.event.duration == last.time - record.time
    assert bench.names().count("session.opened") == bench.names().count("session.closed") == BURST + 1


def test_who_changes_nothing_has_done_nothing(bench):
    flood(bench, BURST)
    before = len(bench.journal.records)
    session_id = bench.open()
    unregister_all(bench, session_id)
    bench.registry.close_session(session_id, "client-closed", Traffic())
    assert bench.names()[before:] == []
