"""Logins that wait: none is lost, delays are kept, the same secret is checked once, and no flood holds others back."""

from collections import Counter
from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bussrv.policy.logins.login_history import OF_ADDRESS, LoginHistory, LoginOrigin
from bussrv.policy.logins.login_queue import DEFAULT_LIMITS, LoginLimits, LoginQueue, SecretCheck

MOST, MOST_OF_PAIR, SECONDS = 8, 3, 0.5
PLACES = [LoginOrigin("A", "AB"), LoginOrigin("B", "AB"), LoginOrigin("C", "C", is_exempt=True)]
USERS, SECRETS = "xy", "12345"


class Queueing(RuleBasedStateMachine):
    """Against a model: the logins that wait, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.history = LoginHistory()
        self.queue: LoginQueue[int] = LoginQueue(self.history, Random(0), LoginLimits(MOST, MOST_OF_PAIR, SECONDS))
        self.waiting: dict[int, tuple[LoginOrigin, str, str]] = {}
        self.since: dict[int, float] = {}
        self.numbers = count()

    def due(self, login: int) -> float:
        origin, user, _ = self.waiting[login]
        return self.history.due(origin, user)

    def of_pair(self, origin: LoginOrigin, user: str) -> set[str]:
        """The secrets that wait for a pair."""
        return {secret for place, name, secret in self.waiting.values() if (place, name) == (origin, user)}

    @rule(origin=st.sampled_from(PLACES), user=st.sampled_from(USERS), secret=st.sampled_from(SECRETS))
    def put(self, origin: LoginOrigin, user: str, secret: str) -> None:
        login = next(self.numbers)
        self.waiting[login] = origin, user, secret
        self.since[login] = self.now
        key = f"{user}{secret}".encode()
        displaced = self.queue.put(login, origin, key, user, secret.encode(), self.now)
        if len(self.of_pair(origin, user)) > MOST_OF_PAIR:
            gone = {self.waiting[each] for each in displaced}
            assert {each[:2] for each in gone} == {(origin, user)}
            assert len(gone) == 1
            same = [each for each, what in self.waiting.items() if what in gone]
            assert sorted(displaced) == same
        else:
            assert len(displaced) == (len(self.waiting) > MOST)
            held = Counter(place for place, _, _ in self.waiting.values())
            for each in displaced:
                loser = self.waiting[each][0]
                assert held[loser] == max(held.values())
                assert each == login or held[origin] != held[loser]
        for each in displaced:
            del self.waiting[each]

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        login = data.draw(st.sampled_from(sorted(self.waiting)))
        origin, _, _ = self.waiting.pop(login)
        self.queue.leave(login, origin)
        self.queue.leave(login, origin)

    @rule(origin=st.sampled_from(PLACES), user=st.sampled_from(USERS), times=st.integers(1, 12))
    def fail(self, origin: LoginOrigin, user: str, times: int) -> None:
        for _ in range(times):
            self.history.failed([origin], user, b"", self.now)

    @rule(origin=st.sampled_from(PLACES), user=st.sampled_from(USERS))
    def succeed(self, origin: LoginOrigin, user: str) -> None:
        self.history.succeeded([origin], user)

    @rule(seconds=st.sampled_from([0.1, 0.25, 100.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def take(self) -> None:
        check = self.queue.take(self.now)
        ready = [login for login in self.waiting if self.due(login) <= self.now]
        assert (check is None) == (not ready)
        if check is not None:
            self.taken(check, ready)

    def taken(self, check: SecretCheck[int], ready: list[int]) -> None:
        asked = check.user, check.secret.decode()
        same = {login: place for login, (place, *rest) in self.waiting.items() if tuple(rest) == asked}
        assert check.logins == same
        assert same.keys() & set(ready)
        for login in same:
            del self.waiting[login]

    @rule()
    def overdue(self) -> None:
        gone = []
        # In the order in which they came, or were found to be alone.
        for login in sorted(self.waiting, key=lambda login: (self.since[login], login)):
            origin, user, _ = self.waiting[login]
            if self.now - self.since[login] < SECONDS:
                continue
            if len(self.of_pair(origin, user)) == 1:
                self.since[login] = self.now
            else:
                del self.waiting[login]
                gone.append(login)
        assert self.queue.overdue(self.now) == gone

    @invariant()
    def agrees(self) -> None:
        assert len(self.queue) == len(self.waiting)
        assert self.queue.next_due() == min(map(self.due, self.waiting), default=None)


TestQueueing = Queueing.TestCase

HOME = LoginOrigin("10.0.0.1", "10.0.0.0/24")
ELSEWHERE = LoginOrigin("10.9.9.9", "10.9.9.0/24")


class Waiting:
    """Logins of a while."""

    def __init__(self, seed: int = 0) -> None:
        self.now = 0.0
        self.history = LoginHistory()
        self.queue: LoginQueue[int] = LoginQueue(self.history, Random(seed))
        self.numbers = count()
        self.refused = 0
        self.given: dict[int, tuple[LoginOrigin, str]] = {}

    def put(self, origin: LoginOrigin, user: str, secret: str) -> bool:
        """:returns: whether it waits."""
        login = next(self.numbers)
        self.given[login] = origin, secret
        displaced = self.queue.put(login, origin, f"{user}:{secret}".encode(), user, secret.encode(), self.now)
        self.refused += len(displaced)
        return login not in displaced

    def check(self) -> str | None:
        """Check one; only ``right`` is right. :returns: its secret."""
        check = self.queue.take(self.now)
        if check is None:
            return None
        if check.secret == b"right":
            self.history.succeeded(check.origins(), check.user)
        else:
            self.history.failed(check.origins(), check.user, check.key, self.now)
        return check.secret.decode()

    def checks_until_right(self) -> int:
        """How many checks are made until the right one, at the rate of one in a quarter of a second."""
        for number in count(1):
            if self.check() == "right":
                return number
            self.put(ELSEWHERE, "ann", f"another {number}")
            self.now += 0.25
        raise AssertionError


def guessing(waiting: Waiting, origins: list[LoginOrigin], rounds: int) -> None:
    """Addresses that keep three guesses waiting each, while some are checked."""
    number = count()
    for origin in origins:
        for _ in range(3):
            waiting.put(origin, "ann", f"guess {next(number)}")
    for _ in range(rounds):
        waiting.check()
        waiting.now += 0.25
        waiting.put(origins[next(number) % len(origins)], "ann", f"guess {next(number)}")


def addresses(networks: int, each: int) -> list[LoginOrigin]:
    return [LoginOrigin(f"10.1.{net}.{host}", f"10.1.{net}.0/24") for net in range(networks) for host in range(each)]


@pytest.mark.parametrize("origins", [addresses(600, 1), addresses(3, 200)], ids=["600 networks", "3 networks"])
def test_a_pair_that_succeeded_before_has_a_way_of_its_own(origins: list[LoginOrigin]) -> None:
    waiting = Waiting()
    waiting.history.succeeded([HOME], "ann")
    for _ in range(20):
        waiting.history.failed([HOME], "bob", b"", 0.0)
    guessing(waiting, origins, 50)
    waiting.put(HOME, "ann", "right")
    assert waiting.checks_until_right() <= 4


@pytest.mark.parametrize("origins", [addresses(600, 1), addresses(3, 200)], ids=["600 networks", "3 networks"])
def test_an_address_without_failures_is_soon_served(origins: list[LoginOrigin]) -> None:
    waiting = Waiting()
    guessing(waiting, origins, 50)
    waiting.put(HOME, "ann", "right")
    assert waiting.checks_until_right() <= 4


def test_networks_take_turns() -> None:
    waiting = Waiting()
    for _ in range(OF_ADDRESS.free):
        waiting.history.failed([HOME], "bob", b"", 0.0)
    guessing(waiting, addresses(3, 200), 50)
    waiting.put(HOME, "ann", "right")
    # One way in four, and four networks.
    assert waiting.checks_until_right() <= 16


@given(st.integers(0, 100), st.integers(4, 30))
def test_a_retried_login_is_soon_in_despite_guesses_beside_it(seed: int, rate: int) -> None:
    """A quarter of a second is one check, ``rate`` guesses that are never the same, and perhaps one more try."""
    waiting = Waiting(seed)
    number = count()

    def quarter() -> str | None:
        for _ in range(rate):
            waiting.put(HOME, "ann", f"guess {next(number)}")
        checked = waiting.check()
        waiting.now += 0.25
        return checked

    for _ in range(40):
        quarter()
    for _ in range(20):
        # The one before was refused, or is still waiting: a second client of the same user does as well.
        waiting.put(HOME, "ann", "right")
        if quarter() == "right":
            break
    else:
        raise AssertionError("not in within 20 checks")
    assert waiting.refused > 40


@pytest.mark.parametrize("origins", [addresses(600, 1), addresses(3, 200)], ids=["600 networks", "3 networks"])
@pytest.mark.parametrize("seed", range(5))
def test_a_retried_login_is_soon_in_among_addresses_that_guess(origins: list[LoginOrigin], seed: int) -> None:
    """Each address keeps three guesses waiting; a quarter of a second is one check."""
    waiting = Waiting(seed)
    guessing(waiting, origins, 50)
    waiting.put(origins[-1], "ann", "right")
    for number in range(100):
        if waiting.check() == "right":
            break
        waiting.now += 0.25
        for login in waiting.queue.overdue(waiting.now):
            origin, secret = waiting.given[login]
            waiting.put(origin, "ann", secret if secret == "right" else f"another guess {number} {login}")
    assert waiting.now - 50 * 0.25 < 10


def test_a_secret_once_wrong_is_dropped_first_and_checked_last() -> None:
    waiting = Waiting()
    for number in range(DEFAULT_LIMITS.secrets):
        waiting.history.failed([ELSEWHERE], "eve", f"ann:wrong {number}".encode(), 0.0)
        waiting.put(HOME, "ann", f"wrong {number}")
        waiting.put(HOME, "ann", f"wrong {number}")
    assert waiting.put(HOME, "ann", "right")
    assert waiting.refused == 2
    assert waiting.check() == "right"


def order(logins: list[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """In which order checks are taken of logins that came in that order: user and secret."""
    queue: LoginQueue[int] = LoginQueue(LoginHistory(), Random(0))
    for number, (address, user, secret) in enumerate(logins):
        queue.put(number, LoginOrigin(address, address), f"{user}:{secret}".encode(), user, secret.encode(), 0)
    checks = iter(lambda: queue.take(0), None)
    return [(check.user, check.secret.decode()) for check in checks]


@given(st.permutations([*(("A", "ann", str(number)) for number in range(12)), ("B", "ann", "right")]))
def test_another_address_waits_for_nobody(logins: list[tuple[str, str, str]]) -> None:
    assert order(logins).index(("ann", "right")) <= 1


@given(st.permutations([*(("A", "ann", str(number)) for number in range(12)), ("A", "bob", "right")]))
def test_another_user_at_the_same_address_waits_for_nobody(logins: list[tuple[str, str, str]]) -> None:
    assert order(logins).index(("bob", "right")) <= 1


@given(st.permutations([*((f"A{number}", "ann", str(number)) for number in range(60)), *[("A0", "ann", "right")] * 3]))
def test_what_most_wait_for_is_checked_soon(logins: list[tuple[str, str, str]]) -> None:
    assert order(logins).index(("ann", "right")) <= 1
