"""The fold: total, and its indexes are what sessions and services say."""

import copy

from hypothesis import given
from hypothesis import strategies as st

from bussrv import events as ev
from bussrv.journal.record import Stamped
from bussrv.registry.state.event_fold import EventFold, is_own
from bussrv.registry.state.session import Session
from bussrv.registry.state.state import RegistryState
from bussrv.values import InEffect, ModeInterest
from tests.journal.strategies import events as any_events

SESSIONS = ["s1", "s2", "s3"]
ROUTING_IDS = ["r1", "r2", "r3", "r4"]
SERVICES = ["tv", "radio"]
INTERESTS = [None, ModeInterest(), ModeInterest(receive="none")]
OPTIONS = [None, {"version": 1}, {"version": 2}]

sessions = st.sampled_from([*SESSIONS, None, ""])
routing_ids = st.sampled_from([*ROUTING_IDS, None, ""])
services = st.sampled_from([*SERVICES, None])
shared = st.lists(st.sampled_from(ROUTING_IDS), max_size=3).map(tuple)

# From few names, so that events meet: sessions that are open, routing ids that are taken, services that are provided.
small_events = st.one_of(
    st.builds(
        ev.SessionOpened, session=sessions, routing_id=routing_ids, protocol=st.none() | st.just("spp"), peer=st.none()
    ),
    st.builds(ev.SessionIdentified, session=sessions, routing_id=routing_ids, routing_ids=shared, role=st.none()),
    st.builds(ev.SessionClosed, session=sessions, duration=st.just(0)),
    st.builds(ev.ServiceRegistered, session=sessions, service=services),
    st.builds(ev.ServiceUnregistered, session=sessions, service=services),
    st.builds(
        ev.SubscriptionAdded,
        session=sessions,
        service=services,
        interest=st.sampled_from(INTERESTS),
        options=st.sampled_from(OPTIONS),
    ),
    st.builds(ev.SubscriptionRemoved, session=sessions, service=services),
    st.builds(ev.SubscriptionRenewed, session=sessions, service=services, options=st.sampled_from(OPTIONS)),
)
histories = st.lists(small_events, max_size=60)


def fold(events, state=None):
    state = RegistryState() if state is None else state
    for time, event in enumerate(events, start=1):
        state.apply(event, time)
    return state


def contents(state):
    """Everything that a state says of its present, entries as well as indexes."""
    return copy.deepcopy({name: value for name, value in vars(state).items() if name != "service_changes"})


def check_indexes(state):
    entries = state.sessions.values()
    assert all(session.id == key for key, session in state.sessions.items())
    own = {session.routing_id: session.id for session in entries}
    assert len(own) == len(entries)
    for routing_id in [*ROUTING_IDS, "", "unknown"]:
        sharing = {session.id for session in entries if routing_id in session.routing_ids}
        owners = {session.id for session in entries if session.routing_id == routing_id}
        assert state.sessions_at(routing_id) == sharing | owners
        assert state.owner(routing_id) == own.get(routing_id)
        assert state.is_shared(routing_id) == bool(sharing)
    for session_id in [*SESSIONS, "", "unknown"]:
        provided = {name for name, providers in state.services.items() if session_id in providers}
        assert state.provided_by(session_id) == provided
    homes = [(state.sessions[each].home, name) for name, providers in state.services.items() for each in providers]
    assert state.own_services == sum(home is None and not name.startswith("bus/") for home, name in homes)


def check_entries(state):
    """Nothing is left of sessions that are gone, and nothing empty."""
    providers = [provider for each in state.services.values() for provider in each]
    assert {*providers, *state.subscriptions} <= state.sessions.keys()
    assert all(state.services.values())
    assert all(state.subscriptions.values())
    for session_id, held in state.subscriptions.items():
        for service, subscription in held.items():
            assert (subscription.session, subscription.service) == (session_id, service)
            assert state.subscription(session_id, service) is subscription
            assert subscription.added <= subscription.renewed
    assert sorted(map(id, state.all_subscriptions())) == sorted(
        id(each) for held in state.subscriptions.values() for each in held.values()
    )


@given(histories)
def test_whatever_happens_indexes_are_what_the_entries_say(history):
    state = RegistryState()
    for time, event in enumerate(history):
        state.apply(event, time)
        check_indexes(state)
        check_entries(state)


@given(st.lists(any_events | small_events, max_size=30))
def test_every_event_can_be_applied_to_every_state(history):
    check_entries(fold(history))


class PlainState(RegistryState):
    """Folds as :class:`EventFold` says, and sets services in plain steps."""

    def apply(self, event, time):
        if isinstance(event, (ev.ServerStarted, ev.ConfigReloaded)):
            self.in_effect = event.in_effect
        EventFold.apply(self, event, time)

    def _set_service(self, session, service, time):
        providers, names = self.services.setdefault(service, {}), self._provided.setdefault(session.id, set())
        if time is not None:
            providers[session.id] = time
            names.add(service)
        else:
            del providers[session.id]
            names.remove(service)
        self.services = {name: each for name, each in self.services.items() if each}
        self._provided = {each: provided for each, provided in self._provided.items() if provided}
        self.service_changes += 1
        self.own_services += is_own(session, service) * (-1 if time is None else 1)


# Services that are not counted: of other servers, and of the server itself.
not_own = st.one_of(
    st.builds(ev.SessionOpened, session=sessions, routing_id=routing_ids, home=st.just("attic")),
    st.builds(ev.ServiceRegistered, session=sessions, service=st.just("bus/clock")),
    st.builds(ev.ServiceUnregistered, session=sessions, service=st.just("bus/clock")),
)


@given(st.lists(any_events | small_events | not_own, max_size=60), st.integers(0, 60))
def test_events_may_be_applied_one_by_one_or_together(history, cut):
    expected, together = fold(history, PlainState()), RegistryState()
    stamped = [Stamped(time, time, event) for time, event in enumerate(history, start=1)]
    together.apply_all(stamped[:cut])
    together.apply_all(stamped[cut:])
    for state in (fold(history), together):
        assert vars(state) == vars(expected)
        # Snapshots show the order.
        assert [list(each.items()) for each in state.services.values()] == [
            list(each.items()) for each in expected.services.values()
        ]
        assert list(state.services) == list(expected.services)


@given(histories, histories)
def test_a_copy_changes_independently(before, after):
    state = fold(before)
    entries, twin = contents(state), state.copy()
    assert twin == state
    assert contents(twin) == entries
    fold(after, twin)
    assert contents(state) == entries
    check_indexes(twin)
    twin = state.copy()
    entries = contents(twin)
    fold(after, state)
    assert contents(twin) == entries


def test_a_copy_shares_nothing_that_changes():
    state = fold(
        [
            opened(),
            ev.SessionIdentified(session="s", routing_ids=("a",)),
            ev.ServiceRegistered(session="s", service="tv"),
            ev.SubscriptionAdded(session="s", service="tv"),
            ev.ConfigReloaded(in_effect=InEffect(asks=True)),
        ]
    )
    twin = vars(state.copy())
    for name, entries in vars(state).items():
        assert entries
        if isinstance(entries, (int, InEffect)):
            assert twin[name] == entries
            continue
        assert twin[name] is not entries
        for key, entry in entries.items():
            assert twin[name][key] == entry
            assert twin[name][key] is not entry or not isinstance(entry, (dict, set))


@given(histories, histories)
def test_states_are_equal_when_everything_in_them_is(one, other):
    first, second = fold(one), fold(other)
    said = [(state.sessions, state.services, state.subscriptions, state.in_effect) for state in (first, second)]
    assert (first == second) == (said[0] == said[1])


@given(histories)
def test_nothing_that_is_closed_is_left(history):
    state = fold(history)
    for session_id in tuple(state.sessions):
        state.apply(ev.SessionClosed(session=session_id, duration=0), 0)
    assert contents(state) == contents(RegistryState())


# A few examples by hand; the rest is said by the properties above.


def opened(session="s", routing_id="r", **fields):
    return ev.SessionOpened(session=session, routing_id=routing_id, **fields)


def test_a_state_is_no_other_thing():
    assert RegistryState() != object()
    assert RegistryState() == RegistryState()


def test_a_session_is_as_its_events_say():
    state = fold(
        [
            opened(protocol="objects", peer="127.0.0.1:5", persistent=True),
            ev.SessionIdentified(
                session="s",
                routing_id="hall",
                routing_ids=("a", "b"),
                actor="anna",
                claimed="ben",
                name="n",
                role="server",
                vocabulary="v",
            ),
        ]
    )
    assert state.sessions == {
        "s": Session(
            id="s",
            protocol="objects",
            routing_id="hall",
            peer="127.0.0.1:5",
            opened=1,
            persistent=True,
            routing_ids=("a", "b"),
            actor="anna",
            claimed="ben",
            name="n",
            role="server",
            vocabulary="v",
        )
    }
    assert [state.sessions_at(address) for address in ("hall", "a", "b", "r")] == [{"s"}, {"s"}, {"s"}, set()]


def test_opening_again_changes_nothing():
    state = fold([opened(peer="first"), opened(peer="second", routing_id="other")])
    assert (state.sessions["s"].peer, state.owner("other")) == ("first", None)


def test_no_two_sessions_have_one_routing_id():
    state = fold([opened("s1", "r1"), opened("s2", "r2"), opened("s3", "r1")])
    assert state.sessions.keys() == {"s1", "s2"}
    state.apply(ev.SessionIdentified(session="s2", routing_id="r1", name="n"), 9)
    assert (state.sessions["s2"].routing_id, state.sessions["s2"].name) == ("r2", "n")
    state.apply(ev.SessionClosed(session="s1", duration=0), 10)
    state.apply(ev.SessionIdentified(session="s2", routing_id="r1"), 11)
    assert (state.owner("r1"), state.owner("r2")) == ("s2", None)


def test_registering_again_keeps_the_first_time():
    state = fold([opened(), *[ev.ServiceRegistered(session="s", service="tv")] * 2])
    assert state.services == {"tv": {"s": 2}}


def test_a_renewal_keeps_what_it_does_not_say():
    added = ev.SubscriptionAdded(session="s", service="tv", options={"version": 2})
    state = fold([opened(), added, ev.SubscriptionRenewed(session="s", service="tv")])
    subscription = state.subscription("s", "tv")
    assert (subscription.added, subscription.renewed, subscription.options) == (2, 3, {"version": 2})
    state.apply(ev.SubscriptionRenewed(session="s", service="tv", options={"version": 1}), 7)
    assert state.subscription("s", "tv").options == {"version": 1}
    state.apply(ev.SubscriptionRenewed(session="s", service="radio"), 8)
    assert state.subscription("s", "radio") is None


def test_an_interest_in_objects_subscribes_to_no_service():
    state = fold([opened(), ev.SubscriptionAdded(session="s", interest=ModeInterest())])
    assert state.subscription("s", None).interest == ModeInterest()
    state.apply(ev.SubscriptionRemoved(session="s"), 9)
    assert state.subscriptions == {}
