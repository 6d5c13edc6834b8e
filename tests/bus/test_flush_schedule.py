"""When what connections sent is passed on."""

import pytest
from twisted.internet.task import Clock

from bussrv.bus.flush_schedule import MOST_PUT_OFF, FlushSchedule


class Passing:
    """Counts how often something is sent."""

    def __init__(self):
        self.count = 0
        self.costs = 0.0
        self.sends = True
        self.clock = Clock()
        self.put_off = 0
        self.is_behind = False
        self.schedule = FlushSchedule(self, self.clock)

    def flush(self):
        self.count += 1
        self.clock.rightNow += self.costs
        return self.sends


def test_who_is_alone_in_sending_is_served_at_once():
    passing = Passing()
    passing.schedule.flush_soon("a", 1)
    passing.clock.advance(0)
    for served in range(2, 5):
        passing.schedule.flush_soon("a", 1)
        assert passing.count == served
    assert not passing.clock.getDelayedCalls()


def test_others_are_served_together_at_the_end_of_the_turn():
    passing = Passing()
    for name in "abcabc":
        passing.schedule.flush_soon(name, 1)
    assert passing.count == 0
    passing.clock.advance(0)
    assert passing.count == 1
    assert not passing.clock.getDelayedCalls()


def test_who_is_polled_together_is_served_when_all_are_read():
    passing = Passing()
    for names, served in (("a", 1), ("ba", 2), ("", 2), ("aa", 4), ("b", 5)):
        passing.schedule.poll_begins()
        for name in names:
            passing.schedule.flush_soon(name, 1)
        passing.schedule.poll_ends()
        assert passing.count == served
    assert not passing.clock.getDelayedCalls()


def test_who_is_read_after_a_poll_does_not_wait_for_the_next_one():
    passing = Passing()
    passing.schedule.poll_begins()
    passing.schedule.poll_ends()
    passing.schedule.flush_soon("a", 1)
    passing.clock.advance(0)
    assert passing.count == 1


def test_a_session_alone_waits_for_the_turn_others_were_read_in():
    passing = Passing()
    for name in "abb":
        passing.schedule.flush_soon(name, 1)
    assert passing.count == 0
    passing.clock.advance(0)
    passing.schedule.flush_soon("b", 1)
    assert passing.count == 2


def test_no_more_is_put_off_than_is_read_of_a_few():
    passing = Passing()
    for name in "ab":
        passing.schedule.flush_soon(name, MOST_PUT_OFF // 2)
    assert passing.count == 0
    passing.schedule.flush_soon("c", 1)
    assert passing.count == 1
    passing.schedule.flush_soon("d", MOST_PUT_OFF)
    assert passing.count == 1
    passing.clock.advance(0)
    assert passing.count == 2


def test_delivery_is_timed_from_the_input_that_came_first():
    passing = Passing()
    passing.clock.advance(100.0)
    passing.costs = 0.002
    passing.schedule.flush_soon("a", 1, 99.999)
    passing.schedule.flush_soon("b", 1, 99.9)
    passing.schedule.flush_soon("c", 1)
    passing.clock.advance(0)
    assert sum(passing.schedule.delivery.counts) == 1
    assert passing.schedule.delivery.total == pytest.approx(0.102)
    # What is sent without any input, such as an announcement, has no time; neither has input of which nothing came.
    passing.schedule.wait()
    passing.clock.advance(0)
    passing.sends = False
    passing.schedule.send(passing.clock.seconds())
    assert sum(passing.schedule.delivery.counts) == 1
    passing.sends = True
    passing.schedule.send(passing.clock.seconds())
    assert sum(passing.schedule.delivery.counts) == 2
    assert passing.schedule.delivery.total == pytest.approx(0.104)
