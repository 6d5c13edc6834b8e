"""Answers that a core waits for: each question is answered once, or forgotten."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from bussrv.client.core.requests import Questions
from bussrv.client.errors import BusError, Lost, TimedOut
from bussrv.client.events import Reply
from tests.size import sized

REPLY = Reply("tv", b"on")


class QuestionsMachine(RuleBasedStateMachine):
    """
    :ivar open: the number and the deadline of each question that nobody has answered.
    :ivar told: the answers that questions were given since the last step.
    """

    questions = Bundle("questions")

    @initialize()
    def make(self) -> None:
        self.core = Questions()
        self.now, self.said, self.sent = 0.0, 0, 0
        self.open: dict[str, tuple[int, float | None]] = {}
        self.told: dict[str, Reply | BusError] = {}

    @rule(target=questions, seconds=st.none() | st.integers(-1, 9), others=st.lists(questions, max_size=2))
    def ask(self, seconds: int | None, others: list[str]) -> str:
        """One that is told forgets others, as programs do."""
        identifier = self.core.new_id()
        deadline = None if seconds is None else self.now + seconds

        def done(answer: Reply | BusError) -> None:
            assert identifier in self.open, "it was answered, or forgotten, before"
            self.told[identifier] = answer
            for each in (identifier, *others):
                self.core.forget(each)
                self.open.pop(each, None)

        self.said += 1
        self.open[identifier] = self.said, deadline
        self.core.add(identifier, done, "the question", self.said, deadline)
        return identifier

    @rule()
    def send(self) -> None:
        self.sent = self.said

    @rule(identifier=st.one_of(questions, questions, st.sampled_from([None, 7, "of another"])))
    def answer(self, identifier: object) -> None:
        is_open = identifier in self.open
        assert self.core.answer(identifier, REPLY) == is_open
        assert self.taken() == ({identifier: REPLY} if is_open else {})

    @rule(identifier=questions)
    def forget(self, identifier: str) -> None:
        self.open.pop(identifier, None)
        self.core.forget(identifier)

    @rule(seconds=st.integers(0, 5))
    def wait(self, seconds: int) -> None:
        self.now += seconds
        self.core.expire(self.now)
        assert all(isinstance(each, TimedOut) for each in self.taken().values())
        assert all(deadline is None or deadline > self.now for _, deadline in self.open.values())

    @rule()
    def lose(self) -> None:
        numbers = {identifier: number for identifier, (number, _) in self.open.items()}
        self.core.lose(BusError("silent", "nothing came"), self.sent)
        assert not self.open
        for identifier, error in self.taken().items():
            assert isinstance(error, Lost)
            assert error.reason == "silent"
            assert error.maybe_done == (numbers[identifier] <= self.sent)

    def taken(self) -> dict[str, Reply | BusError]:
        told, self.told = self.told, {}
        return told

    @invariant()
    def nobody_else_was_told(self) -> None:
        assert not self.told
        assert len(self.core) == len(self.open)
        deadlines = [deadline for _, deadline in self.open.values() if deadline is not None]
        assert self.core.next_deadline() == min(deadlines, default=None)


QuestionsMachine.TestCase.settings = settings(max_examples=sized(120), stateful_step_count=30)
TestQuestions = QuestionsMachine.TestCase


def test_ids_of_two_clients_differ() -> None:
    one, other = Questions(), Questions()
    assert len({one.new_id(), one.new_id(), other.new_id(), other.new_id()}) == 4
