"""The planned registry against a plain one: a copy of the state to which everything is applied at once."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bussrv import events as ev
from bussrv.journal.record import Stamped
from bussrv.registry.changes.planned import PlannedState
from bussrv.registry.state.state import RegistryState
from tests.registry.state.test_state import INTERESTS, ROUTING_IDS, SESSIONS
from tests.size import sized

SERVICES = ["tv", "radio", "bus/clock"]

sessions = st.sampled_from(SESSIONS)
routing_ids = st.sampled_from(ROUTING_IDS)
services = st.sampled_from(SERVICES)
shared = st.lists(routing_ids, max_size=2).map(tuple)


class PlannedMachine(RuleBasedStateMachine):
    """Pending changes settle in the order in which they were planned, as in the journal."""

    def __init__(self):
        super().__init__()
        self.planned = PlannedState(RegistryState())
        self.state, self.expected = RegistryState(), RegistryState()
        self.pending = []
        self.time = 0

    def stamp(self, event):
        self.time += 1
        return Stamped(self.time, self.time, event)

    def plan(self, session_id, *events):
        stamped = [self.stamp(event) for event in events]
        self.planned.plan(session_id, stamped)
        for each in stamped:
            self.expected.apply(each.event, each.time)
        self.pending.append([session_id, stamped])

    # Changes that are asked for.

    @rule(session=sessions, routing_id=routing_ids, home=st.sampled_from([None, "attic"]))
    def plans_a_session(self, session, routing_id, home):
        if self.expected.session(session) is None and not any(each == session for each, _ in self.pending):
            self.plan(session, ev.SessionOpened(session=session, routing_id=routing_id, home=home))

    @rule(session=sessions, routing_id=routing_ids, routing_ids=shared, interest=st.sampled_from(INTERESTS))
    def identifies(self, session, routing_id, routing_ids, interest):
        if self.expected.session(session) is None:
            return
        # As the registry grants it.
        if self.expected.owner(routing_id) is not None or self.state.owner(routing_id) is not None:
            routing_id = self.expected.session(session).routing_id
        self.plan(
            session,
            ev.SessionIdentified(session=session, routing_id=routing_id, routing_ids=routing_ids, role=None),
            ev.SubscriptionRemoved(session=session),
            ev.SubscriptionAdded(session=session, interest=interest),
        )

    @rule(session=sessions, names=st.lists(services, max_size=3))
    def registers(self, session, names):
        if self.expected.session(session) is not None:
            self.plan(session, *(ev.ServiceRegistered(session=session, service=name) for name in names))

    @rule(session=sessions, name=services)
    def unregisters(self, session, name):
        if self.expected.session(session) is not None:
            self.plan(session, ev.ServiceUnregistered(session=session, service=name))

    @rule(session=sessions, name=services, is_renewed=st.booleans())
    def subscribes(self, session, name, is_renewed):
        if self.expected.session(session) is not None:
            kind = ev.SubscriptionRenewed if is_renewed else ev.SubscriptionAdded
            self.plan(session, kind(session=session, service=name))

    @rule(session=sessions, name=services)
    def unsubscribes(self, session, name):
        if self.expected.session(session) is not None:
            self.plan(session, ev.SubscriptionRemoved(session=session, service=name))

    # What becomes of them.

    @precondition(lambda self: self.pending)
    @rule()
    def settles(self):
        session, stamped = self.pending.pop(0)
        if stamped is None:
            self.planned.discard(session)
            return
        self.planned.apply_durable(session, stamped)
        for each in stamped:
            self.state.apply(each.event, each.time)

    @precondition(lambda self: self.pending)
    @rule()
    def the_disk_fails(self):
        self.pending.clear()
        self.planned.discard_all()
        self.expected = self.state.copy()

    # What happens at once.

    def happens(self, event, is_overtaken):
        stamped = self.stamp(event)
        self.planned.apply_fact(stamped)
        for state in (self.state, self.expected):
            state.apply(event, stamped.time)
        for each in self.pending:
            if each[0] == event.session and each[1] is not None and is_overtaken(each[1]):
                each[1] = None

    @rule(session=sessions, routing_id=routing_ids)
    def opens(self, session, routing_id):
        is_free = all(state.owner(routing_id) is None for state in (self.state, self.expected))
        if is_free and self.expected.session(session) is None and not any(each == session for each, _ in self.pending):
            self.happens(ev.SessionOpened(session=session, routing_id=routing_id), lambda _: False)

    @rule(session=sessions)
    def closes(self, session):
        if self.state.session(session) is not None:
            self.happens(ev.SessionClosed(session=session, duration=0), lambda _: True)

    @rule(session=sessions, name=services)
    def loses_a_service(self, session, name):
        if self.state.provides(session, name):
            kinds = ev.ServiceRegistered, ev.ServiceUnregistered
            self.happens(
                ev.ServiceUnregistered(session=session, service=name),
                lambda stamped: any(isinstance(each.event, kinds) and each.event.service == name for each in stamped),
            )

    @rule(session=sessions, name=services)
    def loses_a_subscription(self, session, name):
        if self.state.subscription(session, name) is not None:
            kinds = ev.SubscriptionAdded, ev.SubscriptionRenewed, ev.SubscriptionRemoved
            self.happens(
                ev.SubscriptionRemoved(session=session, service=name),
                lambda stamped: any(isinstance(each.event, kinds) and each.event.service == name for each in stamped),
            )

    @rule(session=sessions)
    def proves_its_actor(self, session):
        if self.state.session(session) is not None:
            self.happens(ev.AuthSucceeded(session=session, actor="ann"), lambda _: False)

    @rule(session=sessions, time=st.integers(1000, 1001))
    def was_opened_later(self, session, time):
        if self.state.session(session) is not None:
            for state in (self.planned, self.state, self.expected):
                state.opened_at(session, time)

    # What is always so.

    @invariant()
    def the_state_is_what_was_settled_and_what_happened(self):
        assert self.planned.state == self.state

    @invariant()
    def everything_that_is_asked_of_it_is_as_in_the_plain_one(self):
        found, expected = self.planned, self.expected
        assert found.own_services == expected.own_services
        for routing_id in ROUTING_IDS:
            assert found.owner(routing_id) == expected.owner(routing_id)
            for other_than in (None, *SESSIONS):
                assert found.is_shared(routing_id, other_than) == expected.is_shared(routing_id, other_than)
        for session in SESSIONS:
            assert found.session(session) == expected.session(session)
            assert found.provided_by(session) == expected.provided_by(session)
            assert found.service_count(session) == len(expected.provided_by(session))
            assert found.subscription_count(session) == len(expected.subscriptions.get(session, ()))
            for name in (None, *SERVICES):
                assert found.subscription(session, name) == expected.subscription(session, name)
                assert found.provides(session, name) == expected.provides(session, name)

    @invariant()
    def nothing_is_kept_of_what_is_settled(self):
        if not self.pending:
            kept = {name: value for name, value in vars(self.planned).items() if name != "state" and value}
            assert kept == {}


PlannedMachine.TestCase.settings = settings(max_examples=sized(300), stateful_step_count=40)
TestPlanned = PlannedMachine.TestCase
