"""The registry against a simple model, whatever is asked for in whatever order, and whatever the journal does.

The model holds two plain dictionaries: what is there, and what would be there if everything on its way got through.
"""

from copy import deepcopy

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule
from msgspec import UNSET

from bussrv import events as ev
from bussrv.registry.journal_budget import deferred_openings
from bussrv.registry.state.session import Claims
from bussrv.testing.journal import SteeredJournal
from bussrv.values import ModeInterest, Traffic
from tests.journal.support import fold
from tests.registry.support import SERVER, Bench, Watcher

SERVICES = st.sampled_from(["tv", "radio"])
NAMES = st.sampled_from(["tv", "radio", "bus/x", "a\nb"])
OTHERS_OWN = "that of another session"
ROUTING_IDS = ["door", "gate", "hall", SERVER, OTHERS_OWN]
INTERESTS = [ModeInterest(), ModeInterest(receive="none")]
REFUSALS = {"bus/x": "reserved-name", "a\nb": "bad-service-name"}


class WatchedJournal(SteeredJournal):
    """Remembers which events nobody waits for, and which somebody does."""

    def __init__(self):
        super().__init__("hall", "boot")
        self.noted = []
        self.asked = []

    def append_change(self, stamped, waiter):
        self.asked.append([each.event for each in stamped])
        super().append_change(stamped, waiter)

    def append_fact(self, stamped):
        self.noted.append(stamped.event)
        super().append_fact(stamped)


class Meddler(Watcher):
    """Closes a session as soon as it is told of anything."""

    def __init__(self, close):
        super().__init__()
        self.victim = None
        self._close = close

    def registry_changed(self, stamped):
        super().registry_changed(stamped)
        if self.victim is not None:
            victim, self.victim = self.victim, None
            self._close(victim)


class Entry:
    """What the model knows of a session."""

    def __init__(self, own):
        self.own, self.further, self.interest = own, (), None
        self.services, self.wanted = set(), {}
        self.expiry, self.until = UNSET, None

    def contents(self):
        return self.own, self.further, self.interest, self.services, self.wanted, self.expiry, self.until


class Asked:
    """A change on its way.

    ``about`` is the service or subscription that it is about alone, ``wanted`` the subscriptions that it begins or ends
    among others.
    """

    def __init__(self, session_id, change, about, proof, wanted):
        self.session_id, self.change, self.about, self.proof = session_id, change, about, proof
        self.wanted = wanted
        self.overtaken = None
        self.events = None


def contents(state):
    """A registry state in the words of the model."""
    found = {}
    for session in state.sessions.values():
        entry = found[session.id] = Entry(session.routing_id)
        entry.further, entry.expiry = session.routing_ids, session.expiry
        entry.until = session.away.until if session.is_away else None
        entry.services = {name for name, providers in state.services.items() if session.id in providers}
        entry.wanted = {name: each.options for name, each in state.subscriptions.get(session.id, {}).items()}
        if None in entry.wanted:
            del entry.wanted[None]
            entry.interest = state.subscription(session.id, None).interest
    return {session_id: entry.contents() for session_id, entry in found.items()}


class RegistryMachine(RuleBasedStateMachine):
    BURST = deferred_openings.STRANGER_BURST
    sessions = Bundle("sessions")

    @initialize()
    def begin(self):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(deferred_openings, "STRANGER_BURST", self.BURST)
            self.bench = Bench(WatchedJournal())
        self.registry, self.journal = self.bench.registry, self.bench.journal
        self.meddler, self.last = Meddler(self.do_close), Watcher()
        self.registry.observe(self.meddler)
        self.registry.observe(self.last)
        self.mode = "open"
        self.there, self.planned = {}, {}
        self.pending = []
        self.refused, self.deferred = 0, 0
        self.opened, self.closed, self.acted, self.late = [], [], set(), set()

    # What clients do.

    @rule(target=sessions, port=st.integers(1, 3), expiry=st.none() | st.just(9))
    def open_session(self, port, expiry):
        session = self.registry.open_session("objects", f"10.0.0.1:{port}", expiry=expiry)
        self.opened.append(session.id)
        if session.id in self.unwritten():
            self.late.add(session.id)
        self.deferred += self.mode == "failing"
        assert self.mode != "failing" or session.id in self.late
        assert len(self.late) <= max(0, len(self.opened) - self.BURST) + self.deferred
        # It may have been closed at once by the meddler.
        if session.id not in self.closed:
            for world in (self.there, self.planned):
                world[session.id] = Entry(session.routing_id)
                world[session.id].expiry = UNSET if expiry is None else expiry
        return session.id

    def durable(self, session_id):
        return session_id in self.there and self.there[session_id].expiry is not UNSET

    @rule(session_id=sessions, until=st.integers(1, 5))
    def leave(self, session_id, until):
        if self.durable(session_id):
            self.acted.add(session_id)
            for world in (self.there, self.planned):
                for name in tuple(world[session_id].services):
                    world[session_id].services.discard(name)
                    self.overtake(session_id, ("service", name), "not-registered")
                world[session_id].until = until
            self.registry.leave_session(session_id, "connection-lost", until)

    @rule(session_id=sessions, expiry=st.integers(1, 5))
    def resume(self, session_id, expiry):
        if self.durable(session_id):
            self.acted.add(session_id)
            for world in (self.there, self.planned):
                world[session_id].until, world[session_id].expiry = None, expiry
            self.registry.resume_session(session_id, "10.0.0.9:9", expiry)
            assert session_id in self.closed or self.bench.state.sessions[session_id].peer == "10.0.0.9:9"

    @rule(session_id=sessions)
    def close_session(self, session_id):
        self.do_close(session_id)

    @rule(session_id=consumes(sessions))
    def close_session_for_good(self, session_id):
        self.do_close(session_id)

    def do_close(self, session_id):
        if session_id not in self.closed:
            self.closed.append(session_id)
        self.there.pop(session_id, None)
        self.planned.pop(session_id, None)
        self.registry.close_session(session_id, "client-closed", Traffic())

    @rule(session_id=sessions)
    def arm_the_meddler(self, session_id):
        self.meddler.victim = session_id

    @rule(
        session_id=sessions,
        wanted=st.none() | st.sampled_from(ROUTING_IDS),
        further=st.lists(st.sampled_from(ROUTING_IDS), max_size=3).map(tuple),
        interest=st.sampled_from(INTERESTS),
        services=st.none() | st.lists(st.one_of(SERVICES, SERVICES, NAMES), max_size=3),
        other=sessions,
    )
    def identify(self, session_id, wanted, further, interest, services, other):
        others_own = self.planned[other].own if other in self.planned else "free"
        wanted = others_own if wanted == OTHERS_OWN else wanted
        further = tuple(others_own if each == OTHERS_OWN else each for each in further)
        claims = Claims(session_id=session_id, routing_id=wanted, routing_ids=further, name="n")
        own, others, changed = None, (), {}
        if session_id in self.planned:
            own, others = self.granted(session_id, wanted, further)
            held = self.planned[session_id].wanted.keys()
            changed = {name: name in services for name in held ^ set(services)} if services is not None else {}

        def change(entry):
            entry.own, entry.further, entry.interest = own, others, interest
            for name, begins in changed.items():
                if begins:
                    entry.wanted[name] = None
                else:
                    entry.wanted.pop(name, None)

        self.ask(
            session_id,
            lambda: self.registry.identify(claims, interest, services=services),
            change,
            refusal="bad-service-name" if "a\nb" in (services or ()) else None,
            wanted=changed,
            result=lambda it: (it.id, it.routing_id, it.routing_ids) == (session_id, own, others),
        )

    def granted(self, session_id, wanted, further):
        mine = self.planned[session_id].own
        taken = {entry.own for entry in self.planned.values()}
        others = [entry for other, entry in self.planned.items() if other != session_id]
        shared = {each for entry in others for each in entry.further}
        own = mine if wanted is None or wanted in taken | shared | {SERVER} else wanted
        return own, tuple(each for each in dict.fromkeys(further) if each not in (taken - {mine}) | {SERVER})

    @rule(session_id=sessions, name=NAMES, is_short=st.booleans())
    def register(self, session_id, name, is_short):
        self.bench.take_short_way(is_short)
        entry = self.planned.get(session_id)
        again = entry is not None and name in entry.services
        durable = again and name in self.there[session_id].services
        self.ask(
            session_id,
            lambda: self.registry.register_service(session_id, name),
            None if durable else lambda entry: entry.services.add(name),
            refusal=REFUSALS.get(name),
            about=("service", name),
            # Even when it needs no record of its own.
            proof=lambda state: name in state.provided_by(session_id),
        )

    @rule(session_id=sessions, name=SERVICES, is_short=st.booleans())
    def unregister(self, session_id, name, is_short):
        self.bench.take_short_way(is_short)
        entry = self.planned.get(session_id)
        provided = entry is not None and name in entry.services
        self.ask(
            session_id,
            lambda: self.registry.unregister_service(session_id, name),
            lambda entry: entry.services.discard(name),
            refusal=None if provided else "not-registered",
            about=("service", name),
        )

    @rule(session_id=sessions, name=SERVICES, version=st.none() | st.integers(1, 2))
    def subscribe(self, session_id, name, version):
        options = None if version is None else {"version": version}

        def change(entry):
            entry.wanted[name] = entry.wanted.get(name) if options is None else options

        self.ask(
            session_id,
            lambda: self.registry.subscribe(session_id, name, options),
            change,
            about=("subscription", name),
        )

    @rule(session_id=sessions, name=SERVICES)
    def unsubscribe(self, session_id, name):
        entry = self.planned.get(session_id)
        self.ask(
            session_id,
            lambda: self.registry.unsubscribe(session_id, name),
            lambda entry: entry.wanted.pop(name, None),
            refusal=None if entry is not None and name in entry.wanted else "no-such-subscription",
            about=("subscription", name),
        )

    @rule(session_id=sessions, name=SERVICES)
    def lose_service(self, session_id, name):
        if session_id in self.there and name in self.there[session_id].services:
            for world in (self.there, self.planned):
                world[session_id].services.discard(name)
            self.overtake(session_id, ("service", name), "not-registered")
        self.registry.lose_service(session_id, name, "lease-expired")

    @rule(session_id=sessions, name=SERVICES)
    def lose_subscription(self, session_id, name):
        if session_id in self.there and name in self.there[session_id].wanted:
            for world in (self.there, self.planned):
                world[session_id].wanted.pop(name, None)
            self.overtake(session_id, ("subscription", name), "no-such-subscription")
        self.registry.lose_subscription(session_id, name, "lease-expired")

    def overtake(self, session_id, about, reason):
        for asked in self.pending:
            if asked.session_id == session_id and asked.about == about:
                asked.overtaken = reason
            elif asked.session_id == session_id and about[0] == "subscription":
                asked.wanted.pop(about[1], None)

    def ask(
        self,
        session_id,
        do,
        change,
        *,
        refusal=None,
        about=None,
        wanted=None,
        result=lambda it: it is None,
        proof=lambda state: True,
    ):
        """Do something that somebody waits for.

        :param change: what it does to an entry of the model; ``None`` when that is done already.
        :param refusal: why it is refused at once, unless the session is gone.
        :param wanted: see :class:`Asked`.
        :param result: whether the outcome is right.
        :param proof: whether what is durable when it is answered shows it.
        """
        self.bench.clock.advance(1)
        if session_id not in self.planned:
            refusal = "session-closed"
        elif refusal is not None and self.mode != "failing":
            self.refused += 1
            self.acted.add(session_id)
        elif refusal is None and change is not None and self.mode == "failing" and session_id in self.unwritten():
            # Neither is it tried, nor is the opening written for it.
            refusal = "journal-unavailable"
        outcomes = []
        if refusal is not None or change is None:
            do().addCallbacks(outcomes.append, lambda failure: outcomes.append(failure.value.reason))
            assert outcomes == [refusal]
            return
        self.acted.add(session_id)
        asked = Asked(session_id, change, about, proof, {} if wanted is None else wanted)
        change(self.planned[session_id])
        self.pending.append(asked)
        deferred = do()
        asked.events = self.journal.asked[-1]
        deferred.addCallbacks(self.made, self.not_made, callbackArgs=(asked, result), errbackArgs=(asked,))

    def made(self, value, asked, result):
        assert self.pending.pop(0) is asked
        assert self.mode != "failing"
        assert asked.overtaken is None
        assert result(value)
        durable = {id(record.event) for record in self.journal.records}
        assert all(id(event) in durable for event in asked.events)
        if asked.session_id in self.there:
            asked.change(self.there[asked.session_id])
        assert asked.session_id in self.closed or asked.proof(fold(self.journal.records))

    def not_made(self, failure, asked):
        assert self.pending.pop(0) is asked
        if self.mode == "failing":
            expected = "journal-unavailable"
            # Everything else that was on its way is lost with it.
            self.planned = deepcopy(self.there)
        elif asked.session_id in self.closed:
            expected = "session-closed"
        else:
            expected = asked.overtaken
        assert failure.value.reason == expected

    # What the journal does.

    @precondition(lambda self: self.mode == "open")
    @rule()
    def hold(self):
        self.mode = "held"
        self.journal.hold()

    @precondition(lambda self: self.mode == "held")
    @rule(count=st.integers(1, 3))
    def release_some(self, count):
        self.journal.release(count)

    @precondition(lambda self: self.mode == "held")
    @rule()
    def release(self):
        self.journal.release()
        self.mode = "open"

    @precondition(lambda self: self.mode != "failing")
    @rule()
    def fail(self):
        self.mode = "failing"
        self.journal.fail("full")

    @precondition(lambda self: self.mode == "failing")
    @rule()
    def recover(self):
        self.journal.fail(None)
        self.mode = "open"

    # What is always so.

    @invariant()
    def the_registry_is_what_the_model_says(self):
        assert contents(self.bench.state) == {session_id: entry.contents() for session_id, entry in self.there.items()}

    @invariant()
    def observers_see_what_is_there_and_all_the_same(self):
        assert self.bench.watcher.told == self.meddler.told == self.last.told
        view, state = self.bench.watcher.view, self.bench.state.copy()
        for session in view.sessions.values():
            # Written down later than it came.
            if session.id in self.late:
                assert session.opened <= state.sessions[session.id].opened
                state.opened_at(session.id, session.opened)
        assert view == state

    @invariant()
    def the_registry_is_the_fold_of_the_journal(self):
        if self.mode != "held":
            assert self.pending == []
            assert self.bench.planned == {}
            state = self.bench.state.copy()
            for session_id in self.unwritten():
                state.sessions.pop(session_id, None)
            assert state == fold(self.journal.records)

    def unwritten(self):
        """The sessions that there is no record of. None of them has done anything."""
        unwritten = {*self.opened} - {each.session for each in self.journal.noted if isinstance(each, ev.SessionOpened)}
        assert not unwritten & self.acted
        return unwritten

    @invariant()
    def nobody_heard_of_what_is_not_durable(self):
        written = {id(event) for event in self.journal.noted} | {id(event) for event in self.bench.records()}
        unwritten = self.unwritten()
        for event in self.last.told:
            # Services end with their session; one that was just being unregistered gets no second record.
            implied = isinstance(event, ev.ServiceUnregistered) and event.session in self.closed
            is_late = isinstance(event, ev.SessionOpened) and event.session in self.late
            may_wait = is_late or event.session in unwritten
            assert id(event) in written or implied or may_wait

    @invariant()
    def sessions_are_opened_and_closed_once(self):
        facts = self.journal.noted
        opened = [event.session for event in facts if isinstance(event, ev.SessionOpened)]
        closed = [event.session for event in facts if isinstance(event, ev.SessionClosed)]
        assert len(opened) == len(set(opened))
        unwritten = self.unwritten()
        assert closed == [session_id for session_id in self.closed if session_id not in unwritten]

    @invariant()
    def no_routing_id_is_granted_twice(self):
        own, shared = {}, {}
        for event in self.bench.records():
            if isinstance(event, ev.SessionClosed):
                own.pop(event.session)
                shared.pop(event.session, None)
            elif isinstance(event, (ev.SessionOpened, ev.SessionIdentified)):
                own[event.session] = event.routing_id
                shared[event.session] = getattr(event, "routing_ids", ())
            taken = [*own.values(), SERVER]
            assert len(taken) == len(set(taken))
            for session_id, further in shared.items():
                assert set(further).isdisjoint(set(taken) - {own[session_id]})

    @invariant()
    def refusals_are_written_down(self):
        kinds = (ev.ServiceRefused, ev.SubscriptionRefused)
        assert sum(isinstance(event, kinds) for event in self.journal.noted) == self.refused

    def teardown(self):
        if not hasattr(self, "mode"):
            return
        if self.mode == "held":
            self.release()
        elif self.mode == "failing":
            self.recover()
        for session_id in tuple(self.there):
            self.do_close(session_id)
        closed = [event.session for event in self.bench.records(ev.SessionClosed)]
        assert sorted(closed) == sorted(event.session for event in self.bench.records(ev.SessionOpened))
        assert [record.seq for record in self.journal.records] == list(range(1, len(self.journal.records) + 1))
        assert contents(self.bench.state) == contents(fold(self.journal.records)) == {}
        self.bench.clock.advance(1)
        self.bench.open()
        openings = self.bench.records(ev.SessionOpened)
        assert sum(1 + (each.suppressed or 0) for each in openings) == len(self.opened) + 1


class CrowdMachine(RegistryMachine):
    """The same where only few openings are written at once."""

    BURST = 1


TestRegistryMachine = RegistryMachine.TestCase
TestRegistryMachine.settings = settings(stateful_step_count=40)
TestCrowdMachine = CrowdMachine.TestCase
TestCrowdMachine.settings = settings(stateful_step_count=40)
