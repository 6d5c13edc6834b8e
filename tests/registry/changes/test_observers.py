"""What observers are told, in which order, whatever they do meanwhile."""

from bussrv import events as ev
from bussrv.registry.state.session import Claims
from tests.journal.support import fold
from tests.registry.support import EVERYTHING, Bench, Watcher, close, outcome_of


class Meddler(Watcher):
    """Does something to the registry when it is told of a kind of event."""

    def __init__(self, kind, do):
        super().__init__()
        self._kind, self._do = kind, do

    def registry_changed(self, stamped):
        super().registry_changed(stamped)
        if isinstance(stamped.event, self._kind):
            self._do(stamped.event)


def meddling(kind, do):
    """A bench with an observer before and one behind the meddler."""
    bench = Bench()
    bench.meddler, bench.last = Meddler(kind, lambda event: do(bench, event)), Watcher()
    bench.registry.observe(bench.meddler)
    bench.registry.observe(bench.last)
    return bench


def check_all_heard_the_same(bench):
    assert bench.watcher.told == bench.meddler.told == bench.last.told
    assert bench.watcher.view == bench.last.view == bench.state == fold(bench.journal.records)


def test_observers_hear_in_order_even_if_one_closes_sessions():
    bench = meddling(ev.ServiceRegistered, lambda bench, event: close(bench, "boot.1", "slow-consumer"))
    slow, other = bench.open(), bench.open()
    bench.registry.subscribe(slow, "tv")
    assert outcome_of(bench.registry.register_service(other, "tv")) == [None]
    assert bench.last.names()[-2:] == ["service.registered", "session.closed"]
    check_all_heard_the_same(bench)


def test_a_session_that_is_closed_while_its_own_change_is_told():
    bench = meddling(ev.SubscriptionAdded, lambda bench, event: close(bench, event.session, "slow-consumer"))
    session_id = bench.open()
    claims = Claims(session_id=session_id)
    assert outcome_of(bench.registry.identify(claims, EVERYTHING)) == ["session-closed"]
    check_all_heard_the_same(bench)


def test_a_session_closed_while_its_end_is_told_is_closed_once():
    bench = meddling(ev.ServiceUnregistered, lambda bench, event: close(bench, event.session, "slow-consumer"))
    session_id = bench.open()
    for service in ("tv", "radio", "clock"):
        bench.registry.register_service(session_id, service)
    close(bench, session_id)
    assert [event.reason for event in bench.records(ev.SessionClosed)] == ["client-closed"]
    assert len(bench.records(ev.ServiceUnregistered)) == 3
    check_all_heard_the_same(bench)


def test_a_session_that_is_closed_while_its_opening_is_told():
    bench = meddling(ev.SessionOpened, lambda bench, event: close(bench, event.session, "replaced"))
    assert bench.registry.open_session("objects", "10.0.0.1:1").id == "boot.1"
    assert bench.state.sessions == {}
    check_all_heard_the_same(bench)


def test_what_an_observer_asks_for_is_told_behind():
    def provide(bench, event):
        bench.registry.register_service(event.session, "tv")

    bench = meddling(ev.SessionOpened, provide)
    bench.open()
    assert bench.last.names() == ["session.opened", "service.registered"]
    check_all_heard_the_same(bench)


def test_an_observer_that_fails_hurts_nobody_else():
    bench = meddling(ev.Event, lambda bench, event: 1 / 0)
    session_id = bench.open()
    assert outcome_of(bench.registry.register_service(session_id, "tv")) == [None]
    close(bench, session_id)
    check_all_heard_the_same(bench)
