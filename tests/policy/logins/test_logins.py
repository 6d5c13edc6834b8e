"""Logins of all formats: how many are checked at a time, in which order, and what is remembered."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock
from twisted.logger import LogLevel, globalLogPublisher

from bussrv.errors import TOO_MANY_LOGINS
from bussrv.policy.logins.checkers import Users
from bussrv.policy.logins.credentials import Denial, Password, Proof
from bussrv.policy.logins.identity import Identity
from bussrv.policy.logins.login_history import KEPT, OF_ADDRESS, OF_USER_AT_ADDRESS
from bussrv.policy.logins.login_queue import DEFAULT_LIMITS, LoginLimits
from bussrv.policy.logins.logins import MAX_CHECKING, PAUSE
from bussrv.policy.logins.users import MAX_SECRET, MAX_USER, USERS_FILE, SecretHash
from tests.logins import USERS, identity_of


class Threads:
    """Threads that end when the test says so."""

    def __init__(self) -> None:
        self.running: list[Deferred[bool]] = []

    def __call__(self, matches: Callable[[bytes], bool], secret: bytes) -> Deferred[bool]:
        result = matches(secret)
        done: Deferred[bool] = Deferred()
        self.running.append(done)
        return done.addCallback(lambda _: result)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def threads() -> Threads:
    return Threads()


@pytest.fixture
def users(threads: Threads, clock: Clock) -> Identity:
    return using({**USERS, "bob": USERS["ann"]}, threads, clock)


def using(
    users: dict[str, SecretHash],
    in_thread: Callable[..., Deferred[Any]],
    clock: Clock,
    limits: LoginLimits = DEFAULT_LIMITS,
) -> Identity:
    identity = Identity(clock, in_thread)
    identity.use([Users(users)], limits=limits)
    return identity


def log_in(identity: Identity, user: str, secret: bytes, peer: str) -> Deferred[bool]:
    """Whether a login is accepted."""
    return identity.log_in(Password(user, secret), peer).addCallback(lambda outcome: isinstance(outcome, Proof))


def answers(logins: Sequence[Deferred[bool]]) -> list[bool | None]:
    """What each login was answered so far; ``None``: nothing."""
    return [getattr(login, "result", None) for login in logins]


def finish(threads: Threads, number: int) -> None:
    """Let checks end, one after the other."""
    for _ in range(number):
        threads.running.pop(0).callback(True)


def test_few_secrets_are_checked_at_a_time_and_equal_ones_once(users: Identity, threads: Threads) -> None:
    logins = [log_in(users, "ann", b"%d" % (number % 3), f"10.0.0.{number}:1") for number in range(30)]
    assert (len(threads.running), set(answers(logins))) == (MAX_CHECKING, {None})
    finish(threads, 3)
    assert (threads.running, set(answers(logins))) == ([], {False})


@pytest.mark.parametrize("host", ["10.0.0.1", "10.0.0.2", "127.0.0.1"])
def test_three_hundred_guesses_do_not_keep_the_right_secret_out(
    users: Identity, threads: Threads, clock: Clock, host: str
) -> None:
    for number in range(300):
        log_in(users, "ann", b"%d" % number, f"10.0.0.1:{number + 1}")
    # The secret that has to make room is drawn from those that were said least often. So the first few may be refused.
    right = [log_in(users, "ann", b"s3cret", f"{host}:{port}") for port in range(1005)][5:]
    checks = 0
    while answers(right) != [True] * 1000:
        checks += 1
        finish(threads, 1)
        clock.advance(0.25)
    assert checks <= 10


def test_a_login_too_many_is_told_so_later_if_its_client_stays(users: Identity, threads: Threads, clock: Clock) -> None:
    denials: list[Any] = []
    secrets = [b"%d" % number for number in range(MAX_CHECKING + DEFAULT_LIMITS.secrets + 2)]
    logins = [users.log_in(Password("ann", secret), "10.0.0.1:1") for secret in secrets]
    for login in logins:
        login.addCallbacks(denials.append, lambda failure: None)
    clock.advance(PAUSE / 2)
    assert denials == []
    pausing = [call.args[0] for call in clock.getDelayedCalls()]
    assert len(pausing) == 2
    pausing[0].cancel()
    clock.advance(PAUSE / 2)
    assert denials == [Denial("password", TOO_MANY_LOGINS, "ann")]
    assert len(threads.running) == MAX_CHECKING


def test_a_login_that_waits_too_long_beside_others_is_told_so(users: Identity, threads: Threads, clock: Clock) -> None:
    for number in range(MAX_CHECKING):
        log_in(users, "eve", b"%d" % number, "10.0.0.9:1")
    beside = [users.log_in(Password("ann", secret), "10.0.0.1:1") for secret in (b"1", b"2", b"2")]
    alone = log_in(users, "bob", b"s3cret", "10.0.0.1:1")
    clock.advance(DEFAULT_LIMITS.seconds)
    finish(threads, 1)
    clock.advance(PAUSE)
    unchecked = Denial("password", TOO_MANY_LOGINS, "ann")
    # The others are of one secret, which is the only one now.
    assert [getattr(each, "result", None) for each in (*beside, alone)] == [unchecked, None, None, None]


def test_a_secret_that_was_right_is_remembered_for_a_while(users: Identity, threads: Threads, clock: Clock) -> None:
    log_in(users, "ann", b"s3cret", "10.0.0.1:1")
    finish(threads, 1)
    again = log_in(users, "ann", b"s3cret", "10.0.0.9:1")
    assert (answers([again]), threads.running) == ([True], [])
    others = [log_in(users, "bob", b"s3cret", "10.0.0.9:1"), log_in(users, "ann", b"s3cre", "10.0.0.9:1")]
    assert (answers(others), len(threads.running)) == ([None, None], 2)
    finish(threads, 2)
    clock.advance(KEPT)
    assert answers([log_in(users, "ann", b"s3cret", "10.0.0.1:1")]) == [None]


@pytest.mark.parametrize("while_checking", [True, False])
def test_other_users_are_known_at_once(users: Identity, threads: Threads, while_checking: bool) -> None:
    login = log_in(users, "ann", b"s3cret", "10.0.0.1:1")
    if not while_checking:
        finish(threads, 1)
    users.use([Users({"ann": USERS["ann"].made_of(b"other")})])
    if while_checking:
        finish(threads, 1)
    assert answers([login]) == [not while_checking]
    again = log_in(users, "ann", b"s3cret", "10.0.0.1:1")
    finish(threads, 1)
    assert answers([again]) == [False]


def test_failures_delay_only_the_address_that_failed(users: Identity, threads: Threads, clock: Clock) -> None:
    for number in range(40):
        log_in(users, "ann", b"%d" % number, "10.0.0.1:1")
        clock.advance(1)
        finish(threads, 1)
    delayed = log_in(users, "ann", b"s3cret", "10.0.0.1:1")
    of_address = log_in(users, "bob", b"s3cret", "10.0.0.1:1")
    assert threads.running == []
    elsewhere = log_in(users, "ann", b"x", "10.0.0.2:1")
    assert len(threads.running) == 1
    finish(threads, 1)
    assert answers([delayed, of_address, elsewhere]) == [None, None, False]
    clock.advance(max(OF_ADDRESS.most, OF_USER_AT_ADDRESS.most))
    finish(threads, 2)
    assert answers([delayed, of_address]) == [True, True]
    assert clock.getDelayedCalls() == []


def test_this_machine_is_delayed_only_for_the_user(users: Identity, threads: Threads, clock: Clock) -> None:
    for number in range(40):
        log_in(users, "ann", b"%d" % number, "127.0.0.1:1")
        clock.advance(1)
        finish(threads, 1)
    log_in(users, "bob", b"s3cret", "127.0.0.1:1")
    log_in(users, "ann", b"s3cret", "127.0.0.1:1")
    assert len(threads.running) == 1


def test_a_client_that_leaves_is_not_checked(users: Identity, threads: Threads, clock: Clock) -> None:
    logins = [log_in(users, "ann", b"%d" % number, "10.0.0.1:1") for number in range(5)]
    for login in logins:
        login.addErrback(lambda failure: None)
        login.cancel()
    finish(threads, 2)
    assert (threads.running, clock.getDelayedCalls()) == ([], [])


def test_how_many_wait_is_bounded(threads: Threads) -> None:
    clock = Clock()
    users = using(USERS, threads, clock, LoginLimits(logins=2))
    logins = [log_in(users, "ann", b"%d" % number, "10.0.0.1:1") for number in range(4)]
    logins.append(log_in(users, "ann", b"x", "10.0.0.2:1"))
    logins.append(log_in(users, "ann", b"y", "10.0.0.2:1"))
    clock.advance(PAUSE)
    assert answers(logins) == [None, None, None, False, None, False]


@pytest.mark.parametrize(("user", "secret"), [("ann", b"x" * (MAX_SECRET + 1)), ("\u00e4" * MAX_USER, b"x")])
def test_what_nobody_can_have_is_not_kept_in_memory(
    users: Identity, threads: Threads, user: str, secret: bytes
) -> None:
    assert (answers([log_in(users, user, secret, "10.0.0.1:1")]), threads.running) == ([False], [])


@pytest_twisted.ensureDeferred
async def test_secrets_are_checked_in_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    matches = SecretHash.matches

    def recorded(known: SecretHash, secret: bytes) -> bool:
        threads.append(threading.current_thread())
        return matches(known, secret)

    monkeypatch.setattr(SecretHash, "matches", recorded)
    (tmp_path / "users").write_text(f"ann:{USERS['ann']}\n")
    identity = Identity(reactor)
    identity.use([Users(USERS_FILE.read(tmp_path / "users"))])
    assert await log_in(identity, "ann", b"s3cret", "10.0.0.1:1")
    assert not await log_in(identity, "ann", b"guess", "10.0.0.1:1")
    assert threading.main_thread() not in threads


def test_somebody_unknown_takes_as_long_as_somebody_known() -> None:
    threads = Threads()
    log_in(using(USERS, threads, Clock()), "nobody", b"x", "10.0.0.1:1")
    assert len(threads.running) == 1


def test_with_an_empty_list_nobody_may_watch() -> None:
    assert answers([log_in(identity_of({}, Clock()), "ann", b"", "10.0.0.1:1")]) == [False]


def test_a_check_that_fails_is_logged_and_refuses() -> None:
    logged: list[Any] = []
    results: list[bool] = []
    globalLogPublisher.addObserver(logged.append)
    users = using(USERS, lambda *_: fail(MemoryError("no room")), Clock())
    log_in(users, "ann", b"s3cret", "10.0.0.1:1").addCallback(results.append)
    globalLogPublisher.removeObserver(logged.append)
    assert results == [False]
    assert [event["log_level"] for event in logged] == [LogLevel.critical]
