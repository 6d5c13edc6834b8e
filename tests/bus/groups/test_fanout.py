"""The bus against the plain reference: the same histories, and then the same bytes in the same order for everybody."""

import json

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from twisted.python.failure import Failure

from bussrv.errors import Refused
from bussrv.policy.permissions.permissions import EVERYTHING
from bussrv.values import Traffic
from tests.bus.harness import NO_ECHO, SERVER, TEXT, BusHarness, member
from tests.bus.reference import ReferenceBus
from tests.bus.strategies import SERVICES, SHARED, TYPES, naming, objects, payloads, subscriptions
from tests.size import sized

index = st.integers(0, 7)
joining = naming(subscriptions, [*SERVICES, "unknown"])
sent = st.tuples(st.just("sends"), index, objects, payloads)
published = st.tuples(
    st.just("publishes"), index, st.sampled_from(SERVICES), payloads, st.sampled_from(TYPES), st.integers(0, 9)
)


class Fanout(RuleBasedStateMachine):
    """Every rule does one thing to the bus and to the reference; what is on its way to the journal is done to the
    reference when it is done to the bus."""

    @initialize(
        announce=st.sampled_from(["members", "off"]),
        first=st.lists(joining, min_size=4, max_size=4),
        subscribed=st.lists(st.sampled_from(SERVICES), min_size=4, max_size=4),
        provided=st.lists(st.sampled_from(SERVICES), min_size=3, max_size=3),
    )
    def begin(self, announce, first, subscribed, provided):
        """Four members, two subscribers and somebody who publishes: what follows has something to work with."""
        self.real = BusHarness(announce)
        self.model = ReferenceBus(SERVER)
        if announce == "off":
            self.model.announce = lambda *about: None
        self.sessions = []
        self.gone = []
        self.failures = []
        self.held = False
        self.steps = 0
        for kind in ["objects", "objects", "objects", "objects", "spp", "inbus", "inbus"]:
            self.opens(kind)
        for number, subscription in enumerate(first):
            self.joins(number, subscription, False, set(), None)
        for number, service in enumerate(subscribed):
            self.subscribes(number % 2, service, 1 + number // 2)
        for number, service in enumerate(provided):
            self.registers(number, service)
        self.registers(5, provided[0])

    def step(self):
        self.steps += 1
        self.real.fresh = f"o{self.steps}"
        return self.real.fresh

    def pick(self, number, *kinds):
        """One of the sessions of these kinds, or ``None``."""
        found = [each for each in self.sessions if self.model.sessions[each.id].kind in kinds]
        return found[number % len(found)] if found else None

    def when_done(self, asked, change):
        """``change`` the reference as soon as the bus made what was ``asked`` for; not if it refuses."""

        def refused(failure: Failure):
            failure.trap(Refused)

        asked.addCallbacks(change, refused)
        asked.addErrback(self.failures.append)

    @precondition(lambda self: len(self.sessions) < 8)
    @rule(kind=st.sampled_from(["objects", "objects", "objects", "spp", "inbus"]))
    def opens(self, kind):
        self.step()
        handle = self.real.open(kind)
        self.sessions.append(handle)
        self.model.open(handle.id, kind, handle.routing_id)

    @rule(
        number=index,
        subscription=joining,
        business=st.booleans(),
        shared=st.sets(st.sampled_from(SHARED)),
        wanted=st.sampled_from([None, None, "mine"]),
    )
    def joins(self, number, subscription, business, shared, wanted):
        handle = self.pick(number, "objects")
        if handle is None:
            return
        vocabulary = "rules" if "subscriptions" in subscription else "business" if business else "objects"
        fresh = self.step()
        asked = handle.join(subscription, vocabulary, routing_id=wanted, routing_ids=tuple(sorted(shared)))
        self.when_done(
            asked,
            lambda session: self.model.join(
                session.id,
                session.routing_id,
                session.routing_ids,
                subscription,
                vocabulary,
                self.real.fresh or fresh,
            ),
        )

    @rule(number=index, service=st.sampled_from(SERVICES), version=st.sampled_from([1, 2]))
    def subscribes(self, number, service, version):
        handle = self.pick(number, "spp", "inbus")
        if handle is None:
            return
        version = version if self.model.sessions[handle.id].kind == "inbus" else None
        self.when_done(
            handle.subscribe(service, version), lambda _: self.model.subscribe_to(handle.id, service, version)
        )

    @rule(number=index, service=st.sampled_from(SERVICES))
    def unsubscribes(self, number, service):
        handle = self.pick(number, "spp", "inbus")
        if handle is not None:
            self.when_done(handle.unsubscribe(service), lambda _: self.model.unsubscribe_from(handle.id, service))

    @rule(number=index, service=st.sampled_from(SERVICES))
    def registers(self, number, service):
        handle = self.pick(number, "objects", "inbus")
        if handle is None:
            return
        self.when_done(
            handle.register(service),
            lambda _: service in self.model.provided(handle.id) or self.model.register(handle.id, service),
        )

    @rule(number=index, service=st.sampled_from(SERVICES))
    def unregisters(self, number, service):
        handle = self.pick(number, "objects", "inbus")
        if handle is not None:
            self.when_done(handle.unregister(service), lambda _: self.model.unregister(handle.id, service))

    @rule(chunk=st.lists(st.one_of(sent, sent, published), min_size=1, max_size=6))
    def chunk_comes(self, chunk):
        for what, *about in chunk:
            getattr(self, what)(*about)

    @rule(chunk=st.lists(sent, min_size=2, max_size=6))
    def objects_come(self, chunk):
        self.chunk_comes(chunk)

    def sends(self, number, fields, payload):
        handle = self.pick(number, "objects")
        if handle is None:
            return
        if payload:
            fields = {**fields, "size": len(payload)}
        if fields.get("in-reply-to") == "a":
            fields = {**fields, "in-reply-to": self.asked_last(handle)}
        fresh = self.step()
        others = handle.send(fields, payload)
        assert others == self.model.route(handle.id, fields, payload, fresh)

    def asked_last(self, handle):
        """The id of the last request that a session was given."""
        given = [json.loads(each.split(b"\0")[0]) for each in self.model.sessions[handle.id].got]
        return next((each["id"] for each in reversed(given) if each.get("event") == "services/request"), "a")

    def publishes(self, number, service, payload, content_type, app_type):
        handle = self.pick(number, "inbus")
        if handle is None or service not in self.model.provided(handle.id):
            return
        fresh = self.step()
        handle.publish(service, payload, content_type, app_type)
        self.model.publish(handle.id, service, content_type, payload, app_type, fresh)

    @rule(number=index)
    def is_told(self, number):
        handle = self.pick(number, "objects")
        if handle is not None:
            fields = {"event": "pong", "n": self.steps}
            self.real.bus.tell(handle.id, fields)
            self.model.tell(handle.id, fields)

    @rule(number=index)
    def leaves(self, number):
        handle = self.pick(number, "objects", "spp", "inbus")
        if handle is None:
            return
        fresh = self.step()
        self.sessions.remove(handle)
        everything = self.model.sessions[handle.id].got
        self.model.leave(handle.id, fresh)
        self.real.bus.close(handle.id, "client-closed", Traffic())
        assert handle.got == everything
        self.gone.append((handle, everything))

    @rule(seconds=st.sampled_from([1, 299, 301]))
    def waits(self, seconds):
        self.real.clock.advance(seconds)
        self.model.now += seconds

    @precondition(lambda self: not self.held)
    @rule()
    def journal_is_slow(self):
        self.held = True
        self.real.journal.hold()

    @precondition(lambda self: self.held)
    @rule(everything=st.booleans())
    def journal_catches_up(self, everything):
        self.step()
        if everything or not self.real.journal._held:
            self.held = False
            self.real.journal.release()
        else:
            self.real.journal.release(1)

    @rule()
    def flushes(self):
        self.real.bus.flush()
        for handle in self.sessions:
            assert handle.got == self.model.sessions[handle.id].got
        for service in SERVICES:
            assert self.real.bus.last(service, EVERYTHING) == self.model.last.get(service, b"")

    @invariant()
    def nobody_gets_what_is_not_for_it_or_out_of_order(self):
        for handle in getattr(self, "sessions", []):
            assert handle.got == self.model.sessions[handle.id].got[: len(handle.got)]
        for handle, everything in getattr(self, "gone", []):
            assert handle.got == everything
        assert getattr(self, "failures", []) == []

    def teardown(self):
        if hasattr(self, "real"):
            self.flushes()


# An example is a whole history, so a third of the examples of other tests takes as long as they do.
EXAMPLES = max(sized(150), settings.default.max_examples // 3)
Fanout.TestCase.settings = settings(max_examples=EXAMPLES, stateful_step_count=40)
TestFanout = Fanout.TestCase


def test_members_of_one_group_share_the_very_same_bytes(harness):
    sender = member(harness, NO_ECHO)
    first, second = member(harness), member(harness)
    for _ in range(3):
        sender.send(TEXT, b"x")
    harness.bus.flush()
    (one,), (other,) = first.link.batches, second.link.batches
    assert one is other
    assert one.joined is other.joined


def test_those_who_want_no_echo_get_everything_of_each_other(harness):
    first, second = member(harness, NO_ECHO), member(harness, NO_ECHO)
    for sender in (first, second, second, first):
        sender.send({**TEXT, "from": sender.id})
    harness.bus.flush()
    assert [json.loads(each[:-1])["from"] for each in first.got] == [second.id] * 2
    assert [json.loads(each[:-1])["from"] for each in second.got] == [first.id] * 2
