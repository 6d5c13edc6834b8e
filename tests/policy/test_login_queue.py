"""Logins that wait: none is lost, delays are kept, the same secret is checked once, and no flood holds others back."""

from collections import Counter
from itertools import count

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bussrv.policy.login_queue import Check, LoginQueue

MOST = 8
ADDRESSES, USERS, SECRETS = "AB", "xy", "12"


class Queueing(RuleBasedStateMachine):
    """Against a model: the logins that wait, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.address_due: dict[str, float] = {}
        self.user_due: dict[tuple[str, str], float] = {}
        self.queue: LoginQueue[int, str] = LoginQueue(
            MOST,
            lambda address: self.address_due.get(address, 0.0),
            lambda address, user: self.user_due.get((address, user), 0.0),
        )
        self.waiting: dict[int, tuple[str, str, str]] = {}
        self.numbers = count()

    def due(self, login: int) -> float:
        address, user, _ = self.waiting[login]
        return max(self.address_due.get(address, 0.0), self.user_due.get((address, user), 0.0))

    @rule(address=st.sampled_from(ADDRESSES), user=st.sampled_from(USERS), secret=st.sampled_from(SECRETS))
    def put(self, address: str, user: str, secret: str) -> None:
        login = next(self.numbers)
        self.waiting[login] = address, user, secret
        displaced = self.queue.put(login, address, f"{user}{secret}".encode(), user, secret.encode())
        assert (displaced is None) == (len(self.waiting) <= MOST)
        if displaced is not None:
            held = Counter(each for each, _, _ in self.waiting.values())
            loser = self.waiting.pop(displaced)[0]
            assert held[loser] == max(held.values())
            if held[address] == held[loser]:
                assert displaced == login

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        login = data.draw(st.sampled_from(sorted(self.waiting)))
        address, _, _ = self.waiting.pop(login)
        self.queue.leave(login, address)
        self.queue.leave(login, address)

    @rule(address=st.sampled_from(ADDRESSES), delay=st.integers(0, 3))
    def delay_address(self, address: str, delay: int) -> None:
        self.address_due[address] = self.now + delay

    @rule(address=st.sampled_from(ADDRESSES), user=st.sampled_from(USERS), delay=st.integers(0, 3))
    def delay_user(self, address: str, user: str, delay: int) -> None:
        self.user_due[address, user] = self.now + delay

    @rule(seconds=st.integers(1, 3))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    def take(self) -> None:
        check = self.queue.take(self.now)
        ready = [login for login in self.waiting if self.due(login) <= self.now]
        assert (check is None) == (not ready)
        if check is not None:
            self.taken(check, ready)

    def taken(self, check: Check[int, str], ready: list[int]) -> None:
        asked = check.user, check.secret.decode()
        same = {login: place for login, (place, *rest) in self.waiting.items() if tuple(rest) == asked}
        assert check.logins == same
        assert same.keys() & set(ready)
        for login in same:
            del self.waiting[login]

    @invariant()
    def agrees(self) -> None:
        assert len(self.queue) == len(self.waiting)
        assert self.queue.next_due() == min(map(self.due, self.waiting), default=None)


TestQueueing = Queueing.TestCase


def order(logins: list[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """In which order checks are taken of logins that came in that order: user and secret."""
    queue: LoginQueue[int, str] = LoginQueue(10_000, lambda address: 0, lambda address, user: 0)
    for number, (address, user, secret) in enumerate(logins):
        queue.put(number, address, f"{user}:{secret}".encode(), user, secret.encode())
    checks = iter(lambda: queue.take(0), None)
    return [(check.user, check.secret.decode()) for check in checks]


@given(st.permutations([*(("A", "ann", str(number)) for number in range(60)), ("B", "ann", "right")]))
def test_another_address_waits_for_nobody(logins: list[tuple[str, str, str]]) -> None:
    assert order(logins).index(("ann", "right")) <= 1


@given(st.permutations([*(("A", "ann", str(number)) for number in range(60)), ("A", "bob", "right")]))
def test_another_user_at_the_same_address_waits_for_nobody(logins: list[tuple[str, str, str]]) -> None:
    assert order(logins).index(("bob", "right")) <= 1


def test_of_one_user_the_latest_and_the_oldest_take_turns() -> None:
    logins = [("A", "ann", str(number)) for number in range(6)]
    assert [secret for _, secret in order(logins)] == ["5", "0", "4", "1", "3", "2"]


@given(st.permutations([*((f"A{number}", "ann", str(number)) for number in range(60)), *[("A0", "ann", "right")] * 3]))
def test_what_most_wait_for_is_checked_soon(logins: list[tuple[str, str, str]]) -> None:
    assert order(logins).index(("ann", "right")) == 0
