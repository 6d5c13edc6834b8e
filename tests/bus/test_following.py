"""What the bus keeps stays in step with the registry, between any two objects."""

import json

from bussrv.policy.permissions.permissions import EVERYTHING
from tests.bus.harness import NO_ECHO, TEXT, member
from tests.bus.reference import spp_info


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
