"""Who asked whom what."""

from collections import Counter

import pytest

from bussrv.bus.requests import OpenRequests


class Seconds:
    now = 0.0

    def __call__(self):
        return self.now


class Bench:
    def __init__(self, max_requests=10, max_age=300):
        self.seconds = Seconds()
        self.counters = Counter()
        self.requests = OpenRequests(self.seconds, max_requests, max_age, self.counters)
        self.remember, self.asker = self.requests.remember, self.requests.asker


def test_a_request_is_remembered_and_may_have_several_replies():
    bench = Bench()
    bench.remember("r1", "ann", "tv")
    assert bench.asker("r1", "tv") == bench.asker("r1", "tv") == "ann"
    assert bench.asker("r2", "tv") is None


def test_the_same_id_asked_of_two_is_two_requests():
    bench = Bench()
    bench.remember("1", "ann", "tv")
    bench.remember("1", "bob", "radio")
    assert bench.asker("1", "tv") == "ann"
    assert bench.asker("1", "radio") == "bob"
    assert bench.asker("1", "somebody else") is None


def test_what_was_asked_of_nobody_alone_may_be_answered_by_anybody():
    bench = Bench()
    bench.remember("1", "ann", None)
    bench.remember("1", "bob", "radio")
    assert bench.asker("1", "tv") == "ann"
    assert bench.asker("1", "radio") == "bob"


@pytest.mark.parametrize("another", ["1", 1.0, True, None, [1], {}])
def test_ids_of_another_kind_are_others(another):
    bench = Bench()
    bench.remember(1, "ann", "tv")
    assert bench.asker(another, "tv") is None
    bench.remember(another, "bob", "tv")
    assert bench.asker(1, "tv") == "ann"


def test_those_who_ask_the_same_of_the_same_are_replied_to_in_turn():
    bench = Bench(max_age=10)
    bench.remember("r1", "first", "tv")
    bench.seconds.now = 6
    bench.remember("r1", "second", "tv")
    assert [bench.asker("r1", "tv") for _ in range(3)] == ["first", "second", "second"]
    bench.seconds.now = 7
    bench.remember("r1", "third", "tv")
    bench.seconds.now = 16.5
    assert bench.asker("r1", "tv") == "third"
    bench.seconds.now = 17.5
    assert bench.asker("r1", "tv") is None


def test_requests_are_forgotten_when_they_are_old():
    bench = Bench()
    bench.remember("r1", "ann", "tv")
    bench.seconds.now = 300
    assert bench.asker("r1", "tv") == "ann"
    bench.seconds.now += 0.001
    assert bench.asker("r1", "tv") is None
    bench.remember("r2", "ann", "tv")
    assert len(bench.requests) == 1
    assert not bench.counters["request-forgotten"]


def test_the_oldest_are_forgotten_when_there_are_too_many_and_counted():
    bench = Bench(max_requests=100)
    for number in range(101):
        bench.remember(number, "ann", "tv")
    assert bench.asker(0, "tv") is None
    assert bench.asker(1, "tv") == bench.asker(100, "tv") == "ann"
    assert len(bench.requests) == 100
    assert bench.counters["request-forgotten"] == 1
