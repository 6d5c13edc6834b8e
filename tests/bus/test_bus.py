"""The bus, one thing at a time; the many things at once are in ``test_fanout``."""

import json

import pytest
from zope.interface.verify import verifyObject

from bussrv.bus.bus import Bus
from bussrv.bus.groups import receivers
from bussrv.bus.interest.interests import Kind
from bussrv.bus.interfaces import IBus, ISessionLink
from bussrv.bus.sessions.membership import MembershipAnnouncer
from bussrv.policy.permissions.permissions import EVERYTHING
from bussrv.registry.changes.registry import Registry
from bussrv.registry.interfaces import IRegistryObserver
from bussrv.settings import Settings
from bussrv.values import Publication, Traffic
from tests.bus.harness import SERVER, BusHarness, RecordingLink
from tests.bus.reference import frame, inbus_publish, spp_info
from tests.tables import each_row

TEXT = {"type": "text/plain"}
NO_ECHO = {"receive": "no_echo"}


@pytest.fixture
def harness():
    return BusHarness()


def member(harness, subscription=None, **identity):
    handle = harness.open()
    handle.join(subscription, **identity)
    return handle


def events(handle):
    """The events that a member was given, by name."""
    return [json.loads(each.split(b"\0")[0]).get("event") for each in handle.got]


def test_interfaces(harness):
    assert verifyObject(IBus, harness.bus)
    assert verifyObject(IRegistryObserver, MembershipAnnouncer(harness.bus))
    assert verifyObject(ISessionLink, RecordingLink({}))


# Order.


def test_nobody_gets_what_was_sent_before_it_joined(harness):
    sender, early, late = member(harness, NO_ECHO), member(harness), harness.open()
    sender.send({**TEXT, "n": 1})
    late.join()
    sender.send({**TEXT, "n": 2})
    harness.bus.flush()
    assert [json.loads(each[:-1])["n"] for each in early.got] == [1, 2]
    assert [json.loads(each[:-1])["n"] for each in late.got] == [2]


def test_nobody_misses_what_was_sent_before_it_left(harness):
    sender, leaving = member(harness, NO_ECHO), member(harness)
    sender.send({**TEXT, "n": 1})
    leaving.close()
    sender.send({**TEXT, "n": 2})
    harness.bus.flush()
    assert [json.loads(each[:-1])["n"] for each in leaving.got] == [1]


def test_a_new_interest_begins_behind_what_was_sent(harness):
    sender, changing = member(harness, NO_ECHO), member(harness)
    sender.send({**TEXT, "n": 1})
    changing.join({"receive": "events_only"})
    sender.send({**TEXT, "n": 2})
    harness.bus.flush()
    assert len(changing.got) == 1


def test_subscribers_join_and_leave_between_publications(harness):
    sender, first, second = member(harness), harness.open("spp"), harness.open("spp")
    sender.register("tv")
    first.subscribe("tv")
    sender.send(TEXT, b"1")
    second.subscribe("tv")
    sender.send(TEXT, b"2")
    first.unsubscribe("tv")
    sender.send(TEXT, b"3")
    harness.bus.flush()
    assert first.got == [spp_info("tv", b"1"), spp_info("tv", b"2")]
    assert second.got == [spp_info("tv", b"2"), spp_info("tv", b"3")]


def test_a_subscriber_of_services_gets_publications_in_order(harness):
    sender, both, one = member(harness), harness.open("spp"), harness.open("spp")
    for service in ("tv", "lamp"):
        sender.register(service)
        both.subscribe(service)
    one.subscribe("tv")
    for service in ("tv", "lamp", "lamp", "tv"):
        sender.send({**TEXT, "sender": service}, service.encode())
    harness.bus.flush()
    assert both.got == [spp_info(each, each.encode()) for each in ("tv", "lamp", "lamp", "tv")]
    assert one.got == [spp_info("tv", b"tv")] * 2


def test_services_without_common_subscribers_wait_for_nobody(harness):
    sender, first, second = member(harness), harness.open("spp"), harness.open("spp")
    for service, subscriber in (("tv", first), ("lamp", second)):
        sender.register(service)
        subscriber.subscribe(service)
    for service in ("tv", "lamp", "tv", "lamp"):
        sender.send({**TEXT, "sender": service}, b"x")
    assert (first.got, second.got) == ([], [])
    harness.bus.flush()
    assert (len(first.link.batches), len(second.link.batches)) == (1, 1)


def test_an_answer_comes_behind_what_was_sent_before(harness):
    sender, asking = member(harness, NO_ECHO), member(harness)
    sender.send({**TEXT, "id": "o"})
    harness.bus.tell(asking.id, {"event": "pong"})
    assert asking.got == [
        frame({**TEXT, "id": "o", "route": [sender.routing_id, SERVER]}),
        frame({"event": "pong"}),
    ]


def test_what_is_told_carries_a_payload(harness):
    asking = harness.open()
    harness.bus.tell(asking.id, {"event": "list"}, b"[]")
    assert asking.got == [frame({"event": "list", "size": 2}, b"[]")]
    asking.close()
    harness.bus.tell(asking.id, {"event": "list"})
    assert len(asking.got) == 1


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


def test_without_echo_a_member_does_not_get_its_own_request(harness):
    asking, bystander, provider = member(harness, NO_ECHO), member(harness, NO_ECHO), member(harness)
    provider.register("tv")
    assert asking.send({"event": "services/request", "name": "tv"}) == 2
    harness.bus.flush()
    assert (len(asking.got), len(bystander.got), len(provider.got)) == (0, 1, 1)


# Who is there.


def test_who_is_no_member_is_routed_nothing_from(harness):
    stranger, listener = harness.open(), member(harness)
    assert stranger.send(TEXT) == 0
    harness.bus.flush()
    assert listener.got == []
    assert harness.bus.counters["not-subscribed"] == 1


def test_a_closed_session_publishes_nothing(harness):
    publisher, subscriber = harness.open("inbus"), harness.open("spp")
    publisher.register("tv")
    subscriber.subscribe("tv")
    publisher.close()
    publisher.publish("tv", b"x")
    harness.bus.flush()
    assert subscriber.got == []
    assert harness.bus.last("tv", EVERYTHING) == b""


def test_an_unknown_recipient_is_counted(harness):
    sender = member(harness)
    assert sender.send({**TEXT, "to": "nobody"}) == 0
    assert sender.send({**TEXT, "to": []}) == 0
    assert harness.bus.counters["no-such-recipient"] == 2
    assert sender.send({**TEXT, "to": ["nobody", sender.routing_id]}) == 0
    assert harness.bus.counters["no-such-recipient"] == 2


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
    monkeypatch.setattr(receivers, "MAX_REMEMBERED", 3 * (receivers.KIND_COSTS + 1))
    listener = member(harness)
    remembered = harness.bus._receivers._by_kind
    for number in range(10):
        harness.bus._receivers.wanting(Kind(f"event/{number}"))
        assert len(remembered) <= 3
    assert [len(group.links) for group in harness.bus._receivers.wanting(Kind("event/0"))] == [1]
    listener.send({"event": "e" * 2000, "natures": ["n" * 500] * 2})
    assert max(kind.length() for kind in remembered) <= receivers.MAX_KIND_LENGTH
    harness.bus.flush()
    assert len(listener.got) == 1


@pytest.mark.parametrize("kind", [Kind("e" * 1025), Kind(None, "t" * 1025), Kind(None, "", ("n",) * 600)])
def test_large_kinds_are_not_remembered(harness, kind):
    member(harness)
    assert len(harness.bus._receivers.wanting(kind)) == 1
    assert kind not in harness.bus._receivers._by_kind


# Requests.


def test_providers_take_turns_and_others_merely_observe(harness):
    asking, observing = member(harness, NO_ECHO), member(harness)
    first, second = member(harness), member(harness)
    first.register("tv")
    second.register("tv")
    for _ in range(4):
        assert asking.send({"event": "services/request", "name": "tv"}) == 2
    harness.bus.flush()
    assert [len(each.got) for each in (first, second, observing)] == [2, 2, 4]


def test_the_name_of_a_service_may_stand_in_either_attribute(harness):
    asking = member(harness, NO_ECHO)
    for _ in range(2):
        member(harness).register("tv")
    assert asking.send({"event": "services/request", "service": "tv"}) == 1
    member(harness, {"subscriptions": ["*"]})
    assert asking.send({"event": "services/request", "name": "radio", "service": "tv"}) == 3


def test_a_provider_that_does_not_want_it_is_passed_over(harness):
    asking = member(harness, NO_ECHO)
    deaf, provider = member(harness, {"receive": "none"}), member(harness)
    deaf.register("tv")
    provider.register("tv")
    for _ in range(3):
        assert asking.send({"event": "services/request", "name": "tv"}) == 1
    harness.bus.flush()
    assert len(provider.got) == 3


def test_without_echo_a_requester_is_not_chosen_as_provider(harness):
    asking, other = member(harness, NO_ECHO), member(harness, NO_ECHO)
    asking.register("tv")
    other.register("tv")
    for _ in range(2):
        assert asking.send({"event": "services/request", "name": "tv"}) == 1
    harness.bus.flush()
    assert (len(asking.got), len(other.got)) == (0, 2)


def test_turns_begin_anew_with_the_service(harness):
    asking = member(harness, NO_ECHO)
    first, second = member(harness), member(harness)
    for _ in range(2):
        first.register("tv")
        second.register("tv")
        asking.send({"event": "services/request", "name": "tv"})
        first.unregister("tv")
        second.unregister("tv")
    harness.bus.flush()
    assert [len(each.got) for each in (first, second)] == [2, 0]
    assert not harness.bus.audience.provider_round


def test_a_reply_finds_who_asked_and_only_that_one(harness):
    asking, provider, other = member(harness, NO_ECHO), member(harness, NO_ECHO), member(harness, NO_ECHO)
    asking.send({"event": "services/request", "id": 1, "name": "tv"})
    harness.bus.flush()
    assert provider.send({"event": "services/reply", "in-reply-to": 1}) == 1
    for another in (1.0, True, [1], "1", None):
        assert provider.send({"event": "services/reply", "in-reply-to": another}) == 0
    assert provider.send({"event": "services/reply"}) == 0
    harness.bus.flush()
    assert (len(asking.got), len(other.got)) == (1, 1)
    asking.close()
    assert provider.send({"event": "services/reply", "in-reply-to": 1}) == 0
    assert harness.bus.counters["no-such-request"] == 7


# Publications.


def test_a_service_that_is_gone_has_no_last_value(harness):
    first, second = member(harness), member(harness)
    first.register("tv")
    second.register("tv")
    first.send(TEXT, b"1")
    first.unregister("tv")
    assert harness.bus.last("tv", EVERYTHING) == b"1"
    second.close()
    assert harness.bus.last("tv", EVERYTHING) == b""
    assert harness.bus.last("radio", EVERYTHING) == b""


def test_a_payload_without_a_type_is_a_publication_of_bytes(harness):
    seen = []
    harness.bus._router._publisher.publish_one = lambda delivery, publication: seen.append(publication)
    sender = member(harness)
    sender.register("tv")
    sender.send({}, b"x")
    assert seen == [Publication("tv", "application/octet-stream", b"x", 1)]


def test_sessions_of_an_earlier_boot_get_what_they_subscribed_to(harness):
    subscriber = harness.open("inbus")
    subscriber.subscribe("tv", 2)
    subscriber.subscribe("lamp", 1)
    again = Registry(
        harness.journal, harness.clock, harness.new_id, server_id=SERVER, boot="c", state=harness.registry.state
    )
    bus = Bus(again, Settings(), SERVER, harness.new_id, harness.clock, harness.reactor)
    publisher = bus.open("inbus", "10.0.0.2", RecordingLink(harness.encodings["inbus"]))
    bus.publish(publisher.id, Publication("tv", "text/plain", b"too early"))
    link = RecordingLink(harness.encodings["inbus"])
    bus.resume(subscriber.id, link)
    for service in ("tv", "lamp", "radio"):
        bus.publish(publisher.id, Publication(service, "text/plain", b"x", 7))
    bus.flush()
    assert link.got == [inbus_publish("tv", 7, b"x", 2), inbus_publish("lamp", 7, b"x", 1)]
    bus.close(subscriber.id, "unsubscribed", Traffic())
    bus.publish(publisher.id, Publication("tv", "text/plain", b"y"))
    bus.flush()
    assert len(link.got) == 2


def test_resuming_a_member_does_not_subscribe_it_to_nothing(harness):
    listener = member(harness)
    harness.bus.resume(listener.id, listener.link)
    assert listener.send(TEXT) == 0


# Announcing members.


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
