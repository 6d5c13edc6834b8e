"""Who wants a kind of objects, remembered over changes: the same as if every group were asked each time."""

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bussrv.bus.generation import Generation
from bussrv.bus.groups import receivers as module
from bussrv.bus.groups.fanout import OBJECT_FRAMES, Fanout
from bussrv.bus.groups.receivers import Receivers
from bussrv.bus.interest.interests import Kind, mode_interest, rule_interest
from bussrv.settings import Settings
from tests.bus.harness import NO_ECHO, TEXT, RecordingLink, member
from tests.bus.reference import names

LIMITS = Settings()
INTERESTS = [
    *(mode_interest("all", types, LIMITS) for types in (None, [], ["text/*"], ["*/png"], ["*e*"])),
    mode_interest("events_only", None, LIMITS),
    *(rule_interest(rules, LIMITS) for rules in (["*"], ["*", "!@ping"], ["text/*"], ["#n"])),
]
KINDS = [
    *(Kind(None, content_type) for content_type in ("", "text/plain", "image/png")),
    *(Kind(event) for event in ("ping", "pong")),
    Kind(None, "x/y", ("n",)),
    Kind(None, "x/y", (), True, "tv"),
    Kind("ping", "text/plain", (), True, "radio"),
]
NONE = mode_interest("none", None, LIMITS)
SERVICES = ["tv", "radio"]
WANTED = ["tv", "radio", "+", "tv/#"]


def receivers_of_nobody():
    generation = Generation()
    return Receivers(Fanout(generation), generation)


def covers(wanted, service):
    return any(names(each, service) for each in wanted)


class Changes(RuleBasedStateMachine):
    """Sessions come, change what they want, and go; in between kinds are asked for, old and new ones.

    ``wanted``: the interest of each session, if it is a member, and the services that it is subscribed to.
    """

    def __init__(self):
        super().__init__()
        self.receivers = receivers_of_nobody()
        self.sessions = []
        self.wanted = {}
        self.numbers = itertools.count()

    @rule(interest=st.none() | st.sampled_from([*INTERESTS, NONE]), services=st.sets(st.sampled_from(WANTED)))
    def join(self, interest, services):
        session_id = f"s{next(self.numbers)}"
        self.receivers.add(session_id, RecordingLink({None: OBJECT_FRAMES}))
        self.sessions.append(session_id)
        self.wanted[session_id] = None, set()
        if interest is not None:
            self.join_with(session_id, interest, services)

    def join_with(self, session_id, interest, services):
        self.receivers.join(session_id, interest, "objects", services=frozenset(services))
        self.wanted[session_id] = interest, services

    @rule(
        data=st.data(),
        interest=st.sampled_from([*INTERESTS, NONE]),
        services=st.none() | st.sets(st.sampled_from(WANTED)),
    )
    def change(self, data, interest, services):
        if self.sessions:
            session_id = data.draw(st.sampled_from(self.sessions))
            self.join_with(session_id, interest, self.wanted[session_id][1] if services is None else services)

    @rule(data=st.data(), service=st.sampled_from(WANTED), subscribes=st.booleans())
    def subscribe(self, data, service, subscribes):
        able = [each for each in self.sessions if service in SERVICES or self.wanted[each][0] is not None]
        if able:
            session_id = data.draw(st.sampled_from(able))
            interest, services = self.wanted[session_id]
            if subscribes:
                self.receivers.subscribe(session_id, service, None)
            else:
                self.receivers.unsubscribe(session_id, service)
            self.wanted[session_id] = interest, services | {service} if subscribes else services - {service}

    @rule(data=st.data())
    def leave(self, data):
        if self.sessions:
            self.receivers.remove(self.sessions.pop(data.draw(st.integers(0, len(self.sessions) - 1))))

    @rule(kind=st.sampled_from(KINDS))
    def ask(self, kind):
        groups = self.receivers._member_groups.values()
        interested = [group for group in groups if group.wants_broadcast(kind)]
        wanting = list(self.receivers.wanting(kind))
        subscribed = [group for group in groups if kind.service and covers(group.services, kind.service)]
        assert wanting[: len(interested)] == interested
        assert set(wanting[len(interested) :]) == {*subscribed} - {*interested}
        assert len({*wanting}) == len(wanting)

    @invariant()
    def subscribers_are_in_one_group_of_each_service(self):
        """Members are in that of their interest; who receives nothing is in none of a service."""
        for service in SERVICES:
            members, others = (
                [session_id for group in some(service) for session_id in group.links]
                for some in (self.receivers.members_on, self.receivers.subscribed_to)
            )
            wanting = {each for each in self.sessions if covers(self.wanted[each][1], service)}
            are_members = {each for each in wanting if self.wanted[each][0] is not None}
            assert sorted(members) == sorted(each for each in are_members if self.wanted[each][0] is not NONE)
            assert sorted(others) == sorted(wanting - are_members)
            assert self.receivers.has_subscribers(service) == bool(members or others)

    @invariant()
    def groups_have_members(self):
        assert all(group.links for group in self.receivers._member_groups.values())


TestChanges = Changes.TestCase
TestChanges.settings = settings(stateful_step_count=40)


def join(receivers, number):
    receivers.add(f"s{number}", RecordingLink({None: OBJECT_FRAMES}))
    receivers.join(f"s{number}", mode_interest("all", [f"text/{number}"], LIMITS), "objects")


def test_a_change_makes_only_new_groups_be_asked():
    receivers = receivers_of_nobody()
    for number in range(100):
        join(receivers, number)
    kind = Kind(None, "text/7")
    assert len(receivers.wanting(kind)) == 1
    asked = receivers.groups_asked
    receivers.remove("s8")
    join(receivers, 100)
    assert len(receivers.wanting(kind)) == 1
    receivers.remove("s7")
    assert receivers.wanting(kind) == ()
    assert receivers.groups_asked - asked == 1


def test_groups_that_are_gone_are_not_remembered_for_long():
    receivers = receivers_of_nobody()
    for number in range(1000):
        join(receivers, number)
        receivers.wanting(Kind(None, f"text/{number}"))
        receivers.remove(f"s{number}")
    remembered = {group for wanting in receivers._by_kind.values() for group in wanting.groups}
    assert len(remembered) <= module.MOST_GONE + 2


def test_groups_go_with_their_last_member(harness):
    groups = harness.bus._receivers._member_groups.values
    first, second = member(harness), member(harness)
    third = member(harness, NO_ECHO)
    assert len(list(groups())) == 2
    first.close()
    third.close()
    assert len(list(groups())) == 1
    second.close()
    assert list(groups()) == []
    subscriber = harness.open("spp")
    subscriber.subscribe("tv")
    assert list(harness.bus._receivers.subscribed_to("tv")) != []
    subscriber.close()
    assert list(harness.bus._receivers.subscribed_to("tv")) == []


def test_a_new_interest_gets_kinds_that_were_sent_before(harness):
    sender = member(harness, NO_ECHO)
    sender.send(TEXT)
    listener = member(harness, {"types": ["text/*"]})
    assert sender.send(TEXT) == 1
    harness.bus.flush()
    assert len(listener.got) == 1


def test_a_group_that_came_back_is_found_again(harness):
    sender = member(harness, NO_ECHO)
    for _ in range(2):
        listener = member(harness, {"subscriptions": ["text/*"]})
        sender.send(TEXT)
        harness.bus.flush()
        assert len(listener.got) == 1
        listener.close()


def test_remembered_kinds_are_bounded(harness, monkeypatch):
    monkeypatch.setattr(module, "MAX_REMEMBERED", 3 * (module.KIND_COSTS + 1))
    listener = member(harness)
    remembered = harness.bus._receivers._by_kind
    for number in range(10):
        harness.bus._receivers.wanting(Kind(f"event/{number}"))
        assert len(remembered) <= 3
    assert [len(group.links) for group in harness.bus._receivers.wanting(Kind("event/0"))] == [1]
    listener.send({"event": "e" * 2000, "natures": ["n" * 500] * 2})
    assert max(kind.length() for kind in remembered) <= module.MAX_KIND_LENGTH
    harness.bus.flush()
    assert len(listener.got) == 1


@pytest.mark.parametrize("kind", [Kind("e" * 1025), Kind(None, "t" * 1025), Kind(None, "", ("n",) * 600)])
def test_large_kinds_are_not_remembered(harness, kind):
    member(harness)
    assert len(harness.bus._receivers.wanting(kind)) == 1
    assert kind not in harness.bus._receivers._by_kind
