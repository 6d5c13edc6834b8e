"""The write-ahead rule: durable first, and then told."""

import pytest

from bussrv.registry.state.session import Claims
from bussrv.testing.journal import SteeredJournal
from tests.journal.support import fold
from tests.registry.support import EVERYTHING, close, outcome_of, unregister_all


def changes(bench, session_id):
    registry = bench.registry
    return {
        "identify": lambda: registry.identify(Claims(session_id=session_id, name="n"), EVERYTHING),
        "register": lambda: registry.register_service(session_id, "tv"),
        "unregister": lambda: registry.unregister_service(session_id, "old tv"),
        "subscribe": lambda: registry.subscribe(session_id, "clock", {"version": 2}),
        "renew": lambda: registry.subscribe(session_id, "old clock"),
        "unsubscribe": lambda: registry.unsubscribe(session_id, "old clock"),
    }


@pytest.fixture(params=["identify", "register", "unregister", "subscribe", "renew", "unsubscribe"])
def change(request, bench):
    """Something that a session asks for, and the session."""
    session_id = bench.open()
    bench.registry.register_service(session_id, "old tv")
    bench.registry.subscribe(session_id, "old clock")
    bench.clock.advance(1)
    return changes(bench, session_id)[request.param], session_id


def test_a_change_is_durable_before_anybody_is_told(bench, change):
    ask, _ = change
    before, told, written = bench.state.copy(), list(bench.watcher.told), list(bench.journal.records)
    bench.journal.hold()
    outcome = outcome_of(ask())
    assert (outcome, bench.state, bench.watcher.told, bench.journal.records) == ([], before, told, written)
    bench.journal.release()
    assert len(outcome) == 1
    assert bench.state != before
    assert bench.state == fold(bench.journal.records) == bench.watcher.view
    assert bench.watcher.told[len(told) :] == bench.records()[len(written) :] != []


def test_a_change_that_cannot_be_written_is_not_made(bench, change):
    ask, _ = change
    before, told = bench.state.copy(), list(bench.watcher.told)
    bench.journal.fail("full")
    assert outcome_of(ask()) == ["journal-unavailable"]
    bench.journal.fail(None)
    bench.journal.hold()
    outcome = outcome_of(ask())
    bench.journal.fail("full")
    assert outcome == ["journal-unavailable"]
    assert (bench.state, bench.watcher.told) == (before, told)
    bench.journal.fail(None)
    assert outcome_of(ask()) != ["journal-unavailable"]
    assert bench.state == fold(bench.journal.records) != before


def test_a_change_of_a_session_that_closed_meanwhile_is_refused(bench, change):
    ask, session_id = change
    bench.journal.hold()
    outcome = outcome_of(ask())
    close(bench, session_id)
    told = list(bench.watcher.told)
    assert outcome_of(ask()) == ["session-closed"]
    bench.journal.release()
    assert outcome == ["session-closed"]
    assert bench.watcher.told == told
    assert bench.state == fold(bench.journal.records) == bench.watcher.view
    assert bench.state.sessions == {}


def test_a_change_that_cannot_be_encoded_hurts_nobody_else(bench, monkeypatch):
    session_id = bench.open()
    with monkeypatch.context() as patch:
        patch.setattr(SteeredJournal, "append_change", lambda self, stamped, waiter: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            bench.registry.register_service(session_id, "tv")
    bench.journal.hold()
    outcome = outcome_of(bench.registry.register_service(session_id, "tv"))
    assert outcome == []
    bench.journal.release()
    assert bench.names() == ["session.opened", "service.registered"]


@pytest.mark.parametrize("what", ["services", "subscriptions"])
def test_a_loss_supersedes_no_more_than_its_own_events(bench, what):
    """A pending change is about several, and what it says of the others holds."""
    registry, session_id = bench.registry, bench.open()
    for name in ("tv", "radio"):
        registry.register_service(session_id, name)
        registry.subscribe(session_id, name)
    bench.journal.hold()
    if what == "services":
        outcome = unregister_all(bench, session_id)
        registry.lose_service(session_id, "tv", "permission-withdrawn")
    else:
        outcome = outcome_of(registry.identify(Claims(session_id=session_id), EVERYTHING, services=["clock"]))
        registry.lose_subscription(session_id, "tv", "permission-withdrawn")
    bench.journal.release()
    assert [isinstance(each, str) for each in outcome] == [False], "refused"
    if what == "services":
        assert bench.state.services == {}
    else:
        assert bench.state.subscribed_by(session_id) == {"clock"}
    assert bench.state == fold(bench.journal.records) == bench.watcher.view
