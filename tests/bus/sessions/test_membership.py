"""Members are told of those who come and leave, in their own words."""

import json

from bussrv.bus.sessions.membership import MembershipAnnouncer
from tests.bus.harness import NO_ECHO, SERVER, BusHarness, member
from tests.tables import each_row


def events(handle):
    """The events that a member was given, by name."""
    return [json.loads(each.split(b"\0")[0]).get("event") for each in handle.got]


def test_members_hear_of_each_other_in_their_own_words():
    harness = BusHarness("members")
    seed, deployed, business = member(harness), member(harness, {"subscriptions": ["*"]}), harness.open()
    business.join(vocabulary="business")
    for each in (seed, deployed, business):
        each.got.clear()
    new = member(harness, routing_id="mine", routing_ids=("tv",), role="server")
    new.close()
    about = {"routing-id": "mine", "routing-ids": ["tv"], "role": "server"}
    left = {"event": "routing/disconnect", "routing-id": "mine"}

    def told(handle):
        fields = [json.loads(each[:-1]) for each in handle.got]
        assert all(each.pop("route") == [SERVER] and each.pop("id") for each in fields)
        return fields

    assert told(seed) == [{"event": "routing/subscribe/notify", **about}, left]
    assert told(deployed) == [{"event": "routing/subscribe/notification", **about}, left]
    assert business.got == []
    assert new.got == []


def test_a_member_without_a_role_is_announced_without_one():
    harness = BusHarness("members")
    listener = member(harness)
    member(harness)
    assert "role" not in json.loads(listener.got[0][:-1])


def test_only_members_that_let_it_pass_are_told():
    harness = BusHarness("members")
    deaf, picky = member(harness, {"receive": "none"}), member(harness, {"subscriptions": ["*", "!@routing/*"]})
    events_only = member(harness, {"receive": "events_only"})
    member(harness)
    assert (len(deaf.got), len(picky.got), len(events_only.got)) == (0, 0, 1)


def test_sessions_that_never_joined_or_left_are_not_announced():
    harness = BusHarness("members")
    listener = member(harness)
    harness.open().close()
    harness.open("spp").subscribe("tv")
    assert listener.got == []


def test_joining_again_is_announced_again_and_leaving_once():
    harness = BusHarness("members")
    listener, changing = member(harness), member(harness)
    changing.join(NO_ECHO)
    changing.close()
    changing.close()
    assert events(listener) == ["routing/subscribe/notify"] * 2 + ["routing/disconnect"]


def test_those_who_left_are_forgotten():
    harness = BusHarness("members")
    announcer = MembershipAnnouncer(harness.bus)
    harness.registry.observe(announcer)
    member(harness).close()
    assert announcer._announced == {}


@each_row("announce", ["servers", "off"])
def test_no_member_is_told(announce):
    harness = BusHarness(announce)
    listener = member(harness)
    member(harness).close()
    assert listener.got == []
