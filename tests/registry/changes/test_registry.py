"""Sessions, what they ask for, and what is refused."""

import sys
from collections import Counter

import pytest
from twisted.internet.task import Clock
from zope.interface.verify import verifyClass, verifyObject

from bussrv import events as ev
from bussrv.counts.throttle import STRANGER_BURST, STRANGER_RATE
from bussrv.errors import NotAllowed
from bussrv.registry.changes import registry as module
from bussrv.registry.changes.registry import Registry
from bussrv.registry.interfaces import IRegistry, IRegistryObserver
from bussrv.registry.state.session import Claims, ISession, Session
from bussrv.settings import Settings
from bussrv.testing.journal import SteeredJournal
from bussrv.values import Traffic
from tests.journal.support import fold
from tests.registry.support import EVERYTHING, NOTHING, SERVER, Bench, close, outcome_of, unregister_all

# The interfaces.


def test_it_is_a_registry(bench):
    assert verifyClass(IRegistry, Registry)
    assert verifyObject(IRegistry, bench.registry)
    assert verifyObject(IRegistryObserver, bench.watcher)


def test_what_it_opens_is_a_session(bench):
    session = bench.registry.open_session("objects", "10.0.0.1:1000")
    assert verifyClass(ISession, Session)
    assert verifyObject(ISession, session)
    assert (session.id, session.routing_id, session.opened) == ("boot.1", "fresh1", bench.clock.utc())
    with pytest.raises(AttributeError):
        session.routing_id = "another"


# Sessions.


def test_a_session_is_opened_and_closed_at_once_and_once(bench):
    bench.journal.hold()
    session_id = bench.open()
    assert bench.state.sessions.keys() == {session_id}
    bench.clock.advance(2.5)
    bench.registry.close_session(session_id, "connection-lost", Traffic(1, 2, 3, 4))
    for _ in range(2):
        bench.registry.close_session(session_id, "client-closed", Traffic())
    assert bench.state.sessions == {}
    bench.journal.release()
    assert bench.names() == bench.watcher.names() == ["session.opened", "session.closed"]
    closed = bench.records()[1]
    assert (closed.reason, closed.duration, closed.session) == ("connection-lost", 2_500_000, session_id)
    assert (closed.objects_in, closed.objects_out, closed.bytes_in, closed.bytes_out) == (1, 2, 3, 4)
    assert (closed.protocol, closed.routing_id, closed.peer) == ("objects", "fresh1", "10.0.0.1:1000")


def test_a_clock_that_is_set_back_makes_no_negative_duration(bench):
    session_id = bench.open()
    bench.clock.now_utc -= 7_000_000
    close(bench, session_id)
    assert bench.records(ev.SessionClosed)[0].duration == 0


def test_services_of_a_session_are_unregistered_before_its_end(bench):
    session_id = bench.open()
    for service in ("tv", "radio"):
        bench.registry.register_service(session_id, service)
    bench.registry.subscribe(session_id, "clock")
    told = len(bench.watcher.told)
    close(bench, session_id, "lease-expired")
    ended = bench.watcher.told[told:]
    assert [(ev.event_name(event), event.service, event.reason) for event in ended] == [
        ("service.unregistered", "radio", "lease-expired"),
        ("service.unregistered", "tv", "lease-expired"),
        ("session.closed", None, "lease-expired"),
    ]
    assert bench.records()[-3:] == ended
    assert (bench.state.services, bench.state.subscriptions) == ({}, {})


# Changes that are several, or wait.


def test_a_change_that_waited_and_cannot_be_encoded_is_told(monkeypatch):
    reactor, settings = Clock(), Settings(journal_session_rate=100, journal_session_burst=1000)
    bench = Bench(settings=settings)
    bench.registry.spending.enforce(reactor.callLater, Counter())
    session_id, outcomes = bench.open(), []
    while not bench.registry.spending.waiting:
        bench.registry.ask_to_register(session_id, f"tv{len(outcomes)}", outcomes.append)
    told = len(outcomes)
    monkeypatch.setattr(SteeredJournal, "append_change", lambda self, stamped, waiter: 1 / 0)
    bench.clock.advance(60)
    reactor.advance(60)
    assert outcomes[:told] == [None] * told
    assert [type(each) for each in outcomes[told:]] == [ZeroDivisionError]


def test_services_that_need_very_many_changes_are_unregistered(bench, monkeypatch):
    monkeypatch.setattr(module, "MOST_TOGETHER", 1)
    session_id = bench.open()
    for number in range(sys.getrecursionlimit()):
        bench.registry.register_service(session_id, f"tv{number}")
    assert unregister_all(bench, session_id) == [None]
    assert bench.state.services == {}


def test_a_change_that_is_refused_ends_those_that_follow_it(bench, monkeypatch):
    monkeypatch.setattr(module, "MOST_TOGETHER", 1)
    session_id = bench.open()
    for service in ("tv", "radio", "door"):
        bench.registry.register_service(session_id, service)
    bench.journal.hold()
    outcome = unregister_all(bench, session_id)
    bench.journal.release(1)
    bench.journal.fail("full")
    assert outcome == ["journal-unavailable"]
    assert len(bench.state.services) == 2


def test_the_end_of_a_session_ends_changes_that_follow(bench, monkeypatch):
    """An observer of the first change ends the session, before the second one begins."""
    monkeypatch.setattr(module, "MOST_TOGETHER", 1)
    session_id = bench.open()
    for service in ("tv", "radio"):
        bench.registry.register_service(session_id, service)
    told = bench.watcher.registry_changed

    def ends(stamped):
        told(stamped)
        if bench.watcher.names()[-1] == "service.unregistered":
            close(bench, session_id)

    monkeypatch.setattr(bench.watcher, "registry_changed", ends)
    assert unregister_all(bench, session_id) == ["session-closed"]
    assert bench.state.services == {}


# Checks see what is on its way.


def test_of_two_who_ask_for_one_routing_id_the_first_gets_it(bench):
    first, second = bench.open(), bench.open()
    bench.journal.hold()
    outcomes = [
        outcome_of(bench.registry.identify(Claims(session_id=each, routing_id="door"), EVERYTHING))
        for each in (first, second)
    ]
    bench.journal.release()
    assert [outcome[0].routing_id for outcome in outcomes] == ["door", "fresh2"]
    assert [event.routing_id for event in bench.records(ev.SessionIdentified)] == ["door", "fresh2"]
    assert bench.state.owner("door") == first


def test_a_routing_id_whose_release_fails_is_not_given_away(bench):
    """Who gives it up keeps it then, and who asked for it has to ask again."""
    first, second = bench.open(), bench.open()
    bench.registry.identify(Claims(session_id=first, routing_id="door"), EVERYTHING)
    bench.journal.hold()
    given_up = outcome_of(bench.registry.identify(Claims(session_id=first, routing_id="gate"), EVERYTHING))
    taken = outcome_of(bench.registry.identify(Claims(session_id=second, routing_id="door"), EVERYTHING))
    bench.journal.fail("full")
    bench.journal.fail(None)
    assert (given_up, taken) == (["journal-unavailable"], ["journal-unavailable"])
    again = outcome_of(bench.registry.identify(Claims(session_id=second, routing_id="door"), EVERYTHING))
    assert (bench.state.owner("door"), again[0].routing_id) == (first, "fresh2")


def test_asking_again_upon_a_refusal_is_a_request_of_its_own(bench):
    session_id = bench.open()
    bench.journal.hold()
    again = []

    def ask_again(_):
        bench.journal.fail(None)
        bench.journal.hold()
        again.append(outcome_of(bench.registry.register_service(session_id, "tv")))

    bench.registry.register_service(session_id, "tv").addErrback(ask_again)
    second = outcome_of(bench.registry.register_service(session_id, "radio"))
    bench.journal.fail("full")
    assert (second, again) == (["journal-unavailable"], [[]])
    # It is on its way, and known to be.
    third = outcome_of(bench.registry.register_service(session_id, "tv"))
    bench.journal.release()
    assert (again, third) == ([[None]], [None])
    assert bench.names() == ["session.opened", "service.registered"]
    assert bench.state == fold(bench.journal.records)


def test_who_proved_who_it_is_stays_that_whatever_it_claims(bench):
    session_id = bench.open()
    proof = {**bench.state.sessions[session_id].about(), "actor": "anna"}
    bench.registry.note(ev.AuthSucceeded(method="password", **proof))
    claim = Claims(session_id=session_id, claimed="ben")
    session = outcome_of(bench.registry.identify(claim, NOTHING))[0]
    assert (session.actor, session.claimed) == ("anna", "ben")
    assert bench.watcher.names()[:3] == ["session.opened", "auth.succeeded", "session.identified"]
    assert bench.state == fold(bench.journal.records)
    bench.registry.close_session(session_id, "client-closed", Traffic())
    closed = bench.journal.records[-1].event
    assert (closed.actor, closed.claimed) == ("anna", "ben")


def test_an_identity_replaces_the_one_before(bench):
    session_id = bench.open()
    identify = bench.registry.identify
    identify(Claims(session_id=session_id, routing_id="door", routing_ids=("a", "a", SERVER), claimed="anna"), NOTHING)
    session = outcome_of(identify(Claims(session_id=session_id, name="panel"), EVERYTHING))[0]
    assert session is bench.state.sessions[session_id]
    assert (session.routing_id, session.routing_ids, session.claimed, session.name) == ("door", (), None, "panel")
    assert bench.state.subscription(session_id, None).interest == EVERYTHING
    assert bench.watcher.names()[1:] == [
        "session.identified",
        "subscription.added",
        "session.identified",
        "subscription.removed",
        "subscription.added",
    ]
    assert bench.records(ev.SessionIdentified)[0].routing_ids == ("a",)


def test_services_of_an_identity_replace_those_before(bench):
    """Those that stay are not written again."""
    session_id = bench.open()
    identify = bench.registry.identify
    written = []
    for services in (("tv", "radio", "tv"), ("tv", "clock"), None, ()):
        before = len(bench.journal.records)
        assert len(outcome_of(identify(Claims(session_id=session_id), EVERYTHING, services=services))) == 1
        changes = bench.records()[before:]
        written.append([(ev.event_name(each), each.service) for each in changes if each.service is not None])
        assert bench.state == fold(bench.journal.records) == bench.watcher.view
    assert written == [
        [("subscription.added", "tv"), ("subscription.added", "radio")],
        [("subscription.removed", "radio"), ("subscription.added", "clock")],
        [],
        [("subscription.removed", "clock"), ("subscription.removed", "tv")],
    ]
    assert bench.state.subscribed_by(session_id) == set()


@pytest.mark.parametrize(
    ("services", "reason", "journaled"),
    [
        (["tv", "a\0b"], "bad-service-name", "a\0b"),
        (["tv", "clock", "radio"], "too-many-subscriptions", "radio"),
        (["tv", "secret"], "not-allowed", None),
    ],
)
def test_an_identity_with_a_refused_service_changes_nothing(services, reason, journaled):
    bench = Bench(settings=Settings(max_subscriptions=2))
    session_id = bench.open()

    def check(service):
        if service == "secret":
            raise NotAllowed("it is secret")

    identify = bench.registry.identify
    identify(Claims(session_id=session_id), NOTHING, services=["old"])
    before, told = bench.state.copy(), list(bench.watcher.told)
    claims = Claims(session_id=session_id, routing_id="door")
    assert outcome_of(identify(claims, EVERYTHING, services=services, check_service=check)) == [reason]
    assert (bench.state, bench.watcher.told) == (before, told)
    assert [(each.service, each.reason) for each in bench.records(ev.SubscriptionRefused)] == (
        [] if journaled is None else [(journaled, reason)]
    )


def test_registering_again_changes_nothing(bench):
    session_id = bench.open()
    assert outcome_of(bench.registry.register_service(session_id, "tv")) == [None]
    assert outcome_of(bench.registry.register_service(session_id, "tv")) == [None]
    assert bench.names() == ["session.opened", "service.registered"]


@pytest.mark.parametrize("fails", [False, True])
def test_registering_again_is_not_answered_before_the_first_time(bench, fails):
    session_id = bench.open()
    bench.journal.hold()
    outcomes = [outcome_of(bench.registry.register_service(session_id, "tv")) for _ in range(2)]
    assert outcomes == [[], []]
    bench.journal.fail("full") if fails else bench.journal.release()
    assert outcomes == [["journal-unavailable"] if fails else [None]] * 2
    assert bench.records(ev.ServiceRegistered) == bench.watcher.told[1:]
    assert len(bench.watcher.told) == 1 + (not fails)


def test_registering_again_is_refused_once_the_first_is_over(bench):
    session_id = bench.open()
    bench.journal.hold()
    outcomes = [outcome_of(bench.registry.register_service(session_id, "tv")) for _ in range(2)]
    bench.journal.release(1)
    bench.registry.lose_service(session_id, "tv", "lease-expired")
    bench.journal.release()
    assert outcomes == [[None], ["not-registered"]]
    assert bench.state == fold(bench.journal.records)


def test_subscribing_again_renews(bench):
    session_id = bench.open()
    bench.registry.subscribe(session_id, "tv", {"version": 1})
    bench.clock.advance(1)
    bench.registry.subscribe(session_id, "tv", {"version": 2})
    subscription = bench.state.subscription(session_id, "tv")
    assert (subscription.renewed - subscription.added, subscription.options) == (1_000_000, {"version": 2})
    assert bench.names()[1:] == ["subscription.added", "subscription.renewed"]


# What is over without anybody asking.


def test_a_lease_that_ran_out(bench):
    session_id = bench.open()
    bench.registry.register_service(session_id, "tv")
    bench.registry.subscribe(session_id, "tv")
    bench.journal.hold()
    bench.registry.lose_service(session_id, "tv", "lease-expired")
    bench.registry.lose_subscription(session_id, "tv", "lease-expired")
    for lose in (bench.registry.lose_service, bench.registry.lose_subscription):
        lose(session_id, "tv", "lease-expired")
        lose(session_id, "unknown", "lease-expired")
        lose("unknown", "tv", "lease-expired")
    assert (bench.state.services, bench.state.subscriptions) == ({}, {})
    bench.journal.release()
    assert [(name, event.reason) for name, event in zip(bench.names(), bench.records(), strict=True)][-2:] == [
        ("service.unregistered", "lease-expired"),
        ("subscription.removed", "lease-expired"),
    ]
    assert bench.watcher.told == bench.records()


# Refusals.


def refusals(bench, session_id):
    registry = bench.registry
    return [
        (registry.register_service, "bus/clock", ev.ServiceRefused, "reserved-name"),
        (registry.register_service, "", ev.ServiceRefused, "bad-service-name"),
        (registry.register_service, {"a": [7]}, ev.ServiceRefused, "bad-service-name"),
        (registry.unregister_service, "tv", ev.ServiceRefused, "not-registered"),
        (registry.unregister_service, ["tv"], ev.ServiceRefused, "bad-service-name"),
        (registry.subscribe, "a\0b", ev.SubscriptionRefused, "bad-service-name"),
        (registry.subscribe, "\ud800" * 400, ev.SubscriptionRefused, "bad-service-name"),
        (registry.unsubscribe, "tv", ev.SubscriptionRefused, "no-such-subscription"),
        (registry.unsubscribe, ["tv"], ev.SubscriptionRefused, "bad-service-name"),
    ]


@pytest.mark.parametrize("number", range(9))
def test_what_is_refused_is_journaled(bench, number):
    session_id = bench.open("10.0.0.1:1000")
    ask, service, kind, reason = refusals(bench, session_id)[number]
    before = bench.state.copy()
    assert outcome_of(ask(session_id, service)) == [reason]
    (refused,) = bench.records(kind)
    assert (refused.reason, refused.session, refused.peer, refused.suppressed) == (
        reason,
        session_id,
        "10.0.0.1:1000",
        None,
    )
    assert len(refused.service.encode()) <= 4 * 255
    assert bench.state == before
    assert bench.watcher.names() == ["session.opened"]


def test_a_refusal_by_a_wire_format_is_journaled(bench):
    session_id = bench.open()
    bench.registry.refuse_subscription(session_id, "tv", "no-such-service")
    (refused,) = bench.records(ev.SubscriptionRefused)
    assert (refused.service, refused.reason) == ("tv", "no-such-service")


def test_of_a_session_that_is_gone_nothing_is_journaled(bench):
    session_id = bench.open()
    close(bench, session_id)
    written = len(bench.journal.records)
    for ask, service, _, _ in refusals(bench, session_id):
        assert outcome_of(ask(session_id, service)) == ["session-closed"]
    assert outcome_of(bench.registry.identify(Claims(session_id=session_id), EVERYTHING)) == ["session-closed"]
    bench.registry.refuse_subscription(session_id, "tv", "no-such-service")
    assert len(bench.journal.records) == written


def test_nobody_fills_the_journal_with_refusals(bench):
    """By address: a second connection of the same host does not help; another host is not held back."""
    first, second, other = bench.open("10.0.0.1:1000"), bench.open("10.0.0.1:1001"), bench.open("10.0.0.2:1000")

    def refuse(session_id, times):
        for _ in range(times):
            bench.registry.register_service(session_id, "bus/x").addErrback(lambda _: None)

    def journaled(session_id):
        return [event.suppressed for event in bench.records(ev.ServiceRefused) if event.session == session_id]

    refuse(first, 30)
    refuse(second, 100)
    assert journaled(first) == [None] * 30
    assert journaled(second) == [None] * (STRANGER_BURST - 30)
    refuse(other, 1)
    assert journaled(other) == [None]
    bench.registry.unsubscribe(second, "tv").addErrback(lambda _: None)
    assert len(bench.records(ev.SubscriptionRefused)) == 1
    bench.clock.advance(2 / STRANGER_RATE)
    refuse(first, 5)
    assert journaled(first)[30:] == [80, None]
    bench.clock.advance(1000)
    refuse(second, 1)
    assert journaled(second)[-1] == 3


@pytest.mark.parametrize(
    ("one", "another", "same"),
    [
        ("10.0.0.1:1", "10.0.0.1:2", True),
        ("10.0.0.1", "10.0.0.1:2", True),
        ("10.0.0.1:1", "10.0.0.2:1", False),
        ("[2001:db8::1]:1", "[2001:db8::1]:2", True),
        ("[2001:db8::1]:1", "[2001:db8::2]:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("/run/a.sock", "/run/b.sock", False),
        (None, None, True),
    ],
)
def test_an_address_is_a_host(bench, one, another, same):
    for peer in [one] * STRANGER_BURST + [another]:
        bench.registry.note_from_stranger(ev.LimitReached(limit="max-sessions", value=1, peer=peer))
    assert len(bench.journal.records) == STRANGER_BURST + (not same)


def test_what_changes_nothing_is_written_and_not_told(bench):
    bench.registry.note(ev.ServerStopped())
    assert bench.names() == ["server.stopped"]
    assert bench.watcher.told == []


# Names that could once be new, and routing ids that are held.

ODD = "\u200bbus"


def test_a_service_whose_name_could_not_be_new_is_like_any_other():
    bench = Bench()
    provider, watcher, other = bench.open(), bench.open(), bench.open()
    session = bench.state.sessions[provider]
    bench.state.apply(ev.ServiceRegistered(service=ODD, **session.about()), 0)
    registry = bench.registry
    for done in (registry.register_service(provider, ODD), registry.subscribe(watcher, ODD)):
        assert done.called
        assert done.result is None
    for refused in (registry.register_service(other, ODD), registry.subscribe(other, f"{ODD}!")):
        assert failed(refused) == "bad-service-name"
    assert registry.unregister_service(provider, ODD).result is None
    assert registry.unsubscribe(watcher, ODD).result is None
    assert failed(registry.register_service(provider, ODD)) == "bad-service-name"


def failed(deferred):
    reasons = []
    deferred.addErrback(lambda failure: reasons.append(failure.value.reason))
    return reasons[0]


def test_a_routing_id_is_held_for_its_actor_or_address():
    bench = Bench()

    def granted(peer, wanted=None, *further):
        session = bench.open(peer)
        bench.registry.identify(Claims(session_id=session, routing_id=wanted, routing_ids=further), None)
        identified = bench.state.sessions[session]
        bench.registry.close_session(session, "client-closed", Traffic())
        return [identified.routing_id, *identified.routing_ids]

    assert granted("10.0.0.1:1", "ann") == ["ann"]
    assert "ann" not in granted("10.0.0.2:1", "ann", "ann")
    assert "ann" in granted("10.0.0.1:2", None, "ann")
    bench.clock.advance(59.9)
    assert granted("10.0.0.1:3", "ann") == ["ann"]
    bench.clock.advance(59.9)
    assert "ann" not in granted("10.0.0.2:1", "ann")
    bench.clock.advance(0.2)
    assert granted("10.0.0.2:1", "ann") == ["ann"]
