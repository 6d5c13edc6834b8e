"""The queue of a subscription, against a history of everything that was put into it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bussrv.client.core.inbox import Inbox
from bussrv.client.errors import Closed, Overflowed
from bussrv.client.events import Gap, Message
from tests.size import sized


class InboxMachine(RuleBasedStateMachine):
    """Whatever is put is taken, in order, or a gap between its neighbours says that it was dropped.

    :ivar history: messages, and the reasons of gaps.
    :ivar place: the place in the history after the last message that was taken.
    :ivar gaps: the gaps that were taken since then.
    """

    @initialize(
        policy=st.sampled_from(["drop-oldest", "pause", "fail"]), most=st.integers(1, 5), size=st.integers(1, 20)
    )
    def make(self, policy: str, most: int, size: int) -> None:
        self.policy, self.most, self.most_bytes = policy, most, size
        self.inbox: Inbox[Message] = Inbox(most, policy, size)
        self.inbox.filled, self.inbox.relieved, self.inbox.wake = self.fill, self.relieve, self.wake
        self.history: list[Message | str] = []
        self.place = self.put_in = self.dropped = 0
        self.gaps: list[Gap] = []
        self.is_full = self.is_woken = False

    def fill(self) -> None:
        self.is_full = True

    def relieve(self) -> None:
        assert self.is_full
        assert len(self.inbox) <= self.most // 2
        self.is_full = False

    def wake(self) -> None:
        self.is_woken = True

    @rule(sizes=st.lists(st.integers(0, 12), min_size=1, max_size=4))
    def put_several(self, sizes: list[int]) -> None:
        for size in sizes:
            self.put(size)

    def put(self, size: int) -> None:
        was_open, self.is_woken = self.inbox.error is None, False
        message = Message("tv", bytes(size))
        waiting = [*self.waiting(), message]
        fits = len(waiting) <= self.most and not self.is_over(waiting)
        self.inbox.put(message, size)
        assert self.is_woken == was_open
        self.put_in += was_open
        if was_open and (fits or self.policy != "fail"):
            self.history.append(message)
            assert self.inbox.error is None
            assert fits or self.is_full or self.policy == "drop-oldest"
        elif was_open:
            assert isinstance(self.inbox.error, Overflowed)
            self.dropped += 1

    @rule(reason=st.sampled_from(["connection-lost", "silent"]))
    def gap(self, reason: str) -> None:
        waiting = len(self.inbox)
        self.inbox.gap(reason)
        if len(self.inbox) > waiting:
            assert self.inbox.error is None
            self.history.append(reason)
        elif self.inbox.error is None:
            assert isinstance(self.history[-1], str), "one gap after another says nothing more"

    @precondition(lambda self: len(self.history) > 5)
    @rule()
    def end(self) -> None:
        was_open = self.inbox.error is None
        error = Closed("over")
        self.inbox.end(error)
        assert (self.inbox.error is error) == was_open

    @rule(most=st.sampled_from([1, 1, 2, 9]))
    def take(self, most: int) -> None:
        taken = self.inbox.take_many(most)
        messages = [each for each in taken if isinstance(each, Message)]
        if self.policy == "drop-oldest":
            assert len(messages) <= self.most
            assert not self.is_over(messages)
        for each in taken:
            self.check(each)
        if len(taken) < most:
            assert self.inbox.take() is None
            assert len(self.inbox) == 0
            self.check_gaps(len(self.history))
            self.place, self.gaps = len(self.history), []

    def check(self, each: Message | Gap) -> None:
        if isinstance(each, Gap):
            self.gaps.append(each)
            return
        place = next(place for place, other in enumerate(self.history) if other is each)
        assert place >= self.place, "out of order, or twice"
        self.check_gaps(place)
        self.place, self.gaps = place + 1, []

    def check_gaps(self, until: int) -> None:
        """The gaps before a message say what is missing there."""
        skipped = self.history[self.place : until]
        missing = sum(isinstance(each, Message) for each in skipped)
        known = [each.lost for each in self.gaps if each.lost is not None]
        reasons = {each.reason for each in self.gaps if each.lost is None}
        self.dropped += missing
        if missing == len(skipped):
            assert not reasons
            assert sum(known) == missing
        else:
            assert reasons
            assert reasons <= set(skipped)
            assert sum(known) <= missing
        assert all(known), "a gap of nothing"
        assert self.policy == "drop-oldest" or missing == 0

    def waiting(self) -> list[Message | str]:
        """What waits, if nothing was dropped; a gap that was taken waits no more."""
        return self.history[self.place + len(self.gaps) :]

    def is_over(self, waiting: Sequence[Message | Gap | str]) -> bool:
        """Whether that is too many bytes; those of one message never are."""
        sizes = sizes_of(waiting)
        return sum(sizes) > max(self.most_bytes, *sizes[-1:], 0)

    @invariant()
    def it_counts(self) -> None:
        assert self.inbox.received == self.put_in
        assert self.inbox.is_full == self.is_full
        if self.policy == "drop-oldest":
            assert len(self.inbox) <= self.most + 2, "a gap before the messages, and one after them"
        else:
            assert len(self.inbox) == len(self.waiting())
        if self.policy == "pause":
            waiting = self.waiting()
            is_half = len(waiting) <= self.most // 2 and sum(sizes_of(waiting)) <= self.most_bytes // 2
            assert not (self.is_full and is_half)

    def teardown(self) -> None:
        if hasattr(self, "inbox"):
            self.take(1000)
            assert self.inbox.dropped == self.dropped


def sizes_of(waiting: Sequence[Message | Gap | str]) -> list[int]:
    return [len(each.payload) for each in waiting if isinstance(each, Message)]


InboxMachine.TestCase.settings = settings(max_examples=sized(120), stateful_step_count=30)
TestInbox = InboxMachine.TestCase


@pytest.mark.parametrize("arguments", [(0, "pause", 1), (1, "pause", 0), (1, "drop-newest", 1)])
def test_a_queue_holds_something_and_has_a_policy(arguments: tuple[int, str, int]) -> None:
    with pytest.raises(ValueError, match=r"queue|overflow"):
        Inbox(*arguments)
