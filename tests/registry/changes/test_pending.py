"""Losses supersede changes that are on their way to the disk."""

import pytest

from tests.journal.support import fold
from tests.registry.support import close, outcome_of


@pytest.mark.parametrize(
    ("asked", "lose", "reason"),
    [
        (["unregister"], "lose_service", "not-registered"),
        (["unregister", "register"], "lose_service", "not-registered"),
        (["subscribe"], "lose_subscription", "no-such-subscription"),
        (["unsubscribe"], "lose_subscription", "no-such-subscription"),
        (["unsubscribe", "subscribe"], "lose_subscription", "no-such-subscription"),
    ],
)
@pytest.mark.parametrize("fails", [False, True])
def test_what_is_over_overtakes_what_was_asked_about_it(bench, asked, lose, reason, fails):
    session_id, registry = bench.open(), bench.registry
    registry.register_service(session_id, "tv")
    registry.subscribe(session_id, "tv", {"version": 1})
    ask = {
        "register": registry.register_service,
        "unregister": registry.unregister_service,
        "subscribe": registry.subscribe,
        "unsubscribe": registry.unsubscribe,
    }
    bench.journal.hold()
    other = outcome_of(registry.subscribe(session_id, "other"))
    outcomes = [outcome_of(ask[each](session_id, "tv")) for each in asked]
    getattr(registry, lose)(session_id, "tv", "lease-expired")
    told = list(bench.watcher.told)
    bench.journal.fail("full") if fails else bench.journal.release()
    bench.journal.fail(None)
    assert outcomes == [["journal-unavailable" if fails else reason]] * len(asked)
    assert other == ["journal-unavailable" if fails else None]
    assert bench.planned == {}
    assert bench.state == fold(bench.journal.records) == bench.watcher.view
    assert [event for event in bench.watcher.told[len(told) :] if event.service == "tv"] == []
    # It can be asked for anew.
    assert outcome_of(registry.register_service(session_id, "tv")) == [None]
    assert outcome_of(registry.subscribe(session_id, "tv")) == [None]
    assert bench.state == fold(bench.journal.records) == bench.watcher.view


def test_a_service_being_registered_while_its_session_closes(bench):
    session_id = bench.open()
    bench.journal.hold()
    bench.registry.register_service(session_id, "tv").addErrback(lambda _: None)
    close(bench, session_id)
    bench.journal.release()
    assert bench.names() == ["session.opened", "service.registered", "service.unregistered", "session.closed"]
    assert bench.watcher.names() == ["session.opened", "session.closed"]
    assert bench.planned == {}


@pytest.mark.parametrize("fails", [False, True])
def test_a_service_being_unregistered_while_its_session_closes(bench, fails):
    """Everybody hears that it is gone, whatever becomes of the record that it asked for."""
    session_id = bench.open()
    bench.registry.register_service(session_id, "tv")
    bench.journal.hold()
    bench.registry.unregister_service(session_id, "tv").addErrback(lambda _: None)
    close(bench, session_id)
    bench.journal.fail("full") if fails else bench.journal.release()
    names = ["session.opened", "service.registered", "service.unregistered", "session.closed"]
    assert bench.watcher.names() == names
    assert bench.names() == ([names[0], names[1], names[3]] if fails else names)
