"""Clients that have to say who they are: what they are told, what is written down, and that nobody waits for them."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.logger import LogLevel, globalLogPublisher
from zope.interface import implementer
from zope.interface.verify import verifyObject

from bussrv import events as ev
from bussrv.formats.login_delays import OF_ADDRESS, OF_USER_AT_ADDRESS
from bussrv.formats.spp_authentication import MAX_CHECKING, UserList, make_authenticator
from bussrv.formats.spp_users import MAX_SECRET, MAX_USER, SecretHash
from bussrv.formats.verified_secrets import KEPT
from bussrv.interfaces import IAuthenticator
from bussrv.wire import spp
from bussrv.wire.spp import Info, Offer, Other
from tests.formats.network import Network, Watcher
from tests.formats.test_spp import service
from tests.tables import each_row

ACCEPTED, REFUSED = (Other(33, code.to_bytes(4, "big")) for code in (0, 1))
USERS = {"ann": SecretHash(b"salt", bytes(32), 2, 1, 1).made_of(b"s3cret")}


@implementer(IAuthenticator)
class Held:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes, str]] = []
        self.answers: list[Deferred[bool]] = []

    def authenticate(self, user: str, secret: bytes, peer: str) -> Deferred[bool]:
        self.asked.append((user, secret, peer))
        self.answers.append(Deferred())
        return self.answers[-1]


def at_once(function: Callable[..., bool], *arguments: Any) -> Deferred[bool]:
    return succeed(function(*arguments))


def guarded(authenticator: IAuthenticator | None = None, **settings: Any) -> Network:
    network = Network(**settings)
    network.factory("spp").authenticator = authenticator or UserList(USERS, at_once, network.reactor)  # type: ignore[attr-defined]
    return network


def log_in(watcher: Watcher, secret: str = "s3cret", user: str = "ann") -> None:
    watcher.connection.send_bytes(spp.authenticate(user, secret))


@each_row("authenticator", [Held(), UserList(USERS, at_once, Clock())], ids=lambda each: type(each).__name__)
def test_authenticators_are_ones(authenticator: IAuthenticator) -> None:
    assert verifyObject(IAuthenticator, authenticator)


def test_the_journal_says_who_it_was_and_never_the_secret() -> None:
    network = guarded()
    watcher = network.watcher()
    log_in(watcher, "s3crets")
    log_in(watcher)
    (failed,) = network.events(ev.AuthFailed)
    (succeeded,) = network.events(ev.AuthSucceeded)
    assert (failed.reason, failed.protocol, failed.peer) == ("bad-credentials", "spp", "10.0.0.1:4711")
    assert (failed.actor, failed.claimed, failed.method) == (None, "ann", "password")
    session_id = watcher.connection.protocol.session_id
    assert (succeeded.actor, succeeded.method, succeeded.session) == ("ann", "password", session_id)
    session = network.registry.state.sessions[session_id]
    assert (session.actor, session.claimed) == ("ann", None)
    watcher.connection.close()
    (closed,) = network.events(ev.SessionClosed)
    assert (closed.actor, closed.claimed) == ("ann", None)
    assert not any("s3cret" in repr(record) for record in network.journal.records)


def test_of_a_user_that_was_tried_no_more_is_journaled_than_of_a_name() -> None:
    network = guarded()
    log_in(network.watcher(), "guess", "x" * 10_000)
    (failed,) = network.events(ev.AuthFailed)
    assert failed.claimed == "x" * 255


@each_row(("user", "secret"), [("ann", ""), ("ann", "S3cret"), ("bob", "s3cret"), ("", ""), ("ann ", "s3cret")])
def test_whoever_is_not_known_is_refused_and_may_try_again(user: str, secret: str) -> None:
    network = guarded()
    watcher = network.watcher()
    for _ in range(2):
        log_in(watcher, secret, user)
    log_in(watcher)
    assert watcher.received() == [REFUSED, REFUSED, ACCEPTED]


def test_after_three_failures_the_connection_is_closed() -> None:
    network = guarded()
    watcher, other = network.watcher(), network.watcher()
    log_in(other)
    watcher.connection.send_bytes(spp.authenticate("ann", "x") * 3 + spp.authenticate("ann", "s3cret"))
    assert watcher.received() == [REFUSED] * 3
    assert (watcher.connection.is_open, other.connection.is_open) == (False, True)
    assert network.events(ev.SessionClosed)[-1].reason == "authentication-failed"
    assert network.bus.counters["bad-credentials"] == 3


def test_once_accepted_a_client_stays_who_it_is() -> None:
    network = guarded()
    watcher = network.watcher()
    log_in(watcher)
    for _ in range(5):
        log_in(watcher, "x")
    watcher.connection.send_bytes(spp.other(32, b""))
    assert watcher.received() == [ACCEPTED]
    assert network.bus.counters["spp-ignored"] == 6
    assert len(network.events(ev.AuthSucceeded, ev.AuthFailed)) == 1


@each_row(
    ("data", "reason"),
    [
        (b"", "packet-too-short"),
        (b"\0\0\0\4ann", "string-overruns-packet"),
        (b"\0\0\0\3ann", "packet-too-short"),
        (b"\0\0\0\3ann\0\0\0\2x", "string-overruns-packet"),
        (b"\0\0\0\1\xff\0\0\0\0", "bad-utf8"),
        (b"\0\0\0\3ann\0\0\0\1\xff", "bad-utf8"),
    ],
)
def test_malformed_credentials_end_the_connection(data: bytes, reason: str) -> None:
    network = guarded()
    watcher = network.watcher()
    watcher.connection.send_bytes(spp.other(32, data))
    assert (watcher.received(), watcher.connection.is_open) == ([], False)
    assert network.events(ev.SessionClosed)[-1].reason == reason


def test_a_flood_of_failures_does_not_fill_the_journal() -> None:
    network = guarded()
    for number in range(200):
        watcher = Watcher(network.connect("spp", "127.0.0.1"))
        for _ in range(3):
            log_in(watcher, "x", str(number))
    assert len(network.events(ev.AuthFailed)) == 50
    network.reactor.advance(60)
    log_in(Watcher(network.connect("spp", "127.0.0.1")), "x")
    assert network.events(ev.AuthFailed)[-1].suppressed == 550


# While a secret is being checked.


def test_what_a_client_sends_meanwhile_waits_and_nobody_else_does() -> None:
    held = Held()
    network = guarded(held)
    member = service(network, "tv")
    watcher, other = network.watcher(), network.watcher()
    watcher.connection.send_bytes(spp.authenticate("ann", "s3cret") + spp.subscribe("tv"))
    watcher.subscribe("tv")
    assert held.asked == [("ann", b"s3cret", "10.0.0.1:4711")]
    assert watcher.connection.transport.producerState == "paused"
    log_in(other)
    held.answers[1].callback(True)
    member.send({"type": "a/b"}, b"1")
    assert (watcher.received(), other.received()) == ([], [ACCEPTED, Offer("tv")])
    held.answers[0].callback(True)
    assert watcher.received() == [ACCEPTED, Offer("tv"), Info("tv", b"1"), Info("tv", b"1")]
    assert network.events(ev.SubscriptionRefused) == []


@each_row("answer", [True, False])
def test_a_client_that_leaves_meanwhile_is_not_answered(answer: bool) -> None:
    held = Held()
    network = guarded(held)
    watcher = network.watcher()
    log_in(watcher)
    watcher.connection.close()
    held.answers[0].callback(answer)
    assert network.events(ev.AuthSucceeded, ev.AuthFailed) == []
    assert len(network.events(ev.SessionClosed)) == 1


def test_a_client_that_only_stops_sending_is_answered() -> None:
    held = Held()
    network = guarded(held)
    watcher = network.watcher()
    log_in(watcher)
    watcher.connection.protocol.readConnectionLost()
    held.answers[0].callback(True)
    assert (watcher.received(), watcher.connection.is_open) == ([ACCEPTED], False)


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
def users(threads: Threads, clock: Clock) -> UserList:
    return UserList({**USERS, "bob": USERS["ann"]}, threads, clock)


def answers(logins: Sequence[Deferred[bool]]) -> list[bool | None]:
    """What each login was answered so far; ``None``: nothing."""
    return [getattr(login, "result", None) for login in logins]


def finish(threads: Threads, number: int) -> None:
    """Let checks end, one after the other."""
    for _ in range(number):
        threads.running.pop(0).callback(True)


def test_few_secrets_are_checked_at_a_time_and_the_same_ones_once(users: UserList, threads: Threads) -> None:
    logins = [users.authenticate("ann", b"%d" % (number % 3), f"10.0.0.{number}:1") for number in range(30)]
    assert (len(threads.running), set(answers(logins))) == (MAX_CHECKING, {None})
    finish(threads, 3)
    assert (threads.running, set(answers(logins))) == ([], {False})


@pytest.mark.parametrize("host", ["10.0.0.1", "10.0.0.2", "127.0.0.1"])
def test_three_hundred_guesses_do_not_keep_the_right_secret_out(
    users: UserList, threads: Threads, clock: Clock, host: str
) -> None:
    guesses = [users.authenticate("ann", b"%d" % number, f"10.0.0.1:{number + 1}") for number in range(300)]
    right = [users.authenticate("ann", b"s3cret", f"{host}:{port}") for port in range(1000)]
    checks = 0
    while answers(right) != [True] * 1000:
        checks += 1
        finish(threads, 1)
        clock.advance(0.25)
    assert checks <= 10
    assert answers(guesses).count(None) > 280


def test_a_secret_that_was_right_is_remembered_for_a_while(users: UserList, threads: Threads, clock: Clock) -> None:
    users.authenticate("ann", b"s3cret", "10.0.0.1:1")
    finish(threads, 1)
    again = users.authenticate("ann", b"s3cret", "10.0.0.9:1")
    assert (answers([again]), threads.running) == ([True], [])
    others = [users.authenticate("bob", b"s3cret", "10.0.0.9:1"), users.authenticate("ann", b"s3cre", "10.0.0.9:1")]
    assert (answers(others), len(threads.running)) == ([None, None], 2)
    finish(threads, 2)
    clock.advance(KEPT)
    assert answers([users.authenticate("ann", b"s3cret", "10.0.0.1:1")]) == [None]


@pytest.mark.parametrize("while_checking", [True, False])
def test_other_users_are_known_at_once(users: UserList, threads: Threads, while_checking: bool) -> None:
    login = users.authenticate("ann", b"s3cret", "10.0.0.1:1")
    if not while_checking:
        finish(threads, 1)
    users.replace({"ann": USERS["ann"].made_of(b"other")}, ())
    if while_checking:
        finish(threads, 1)
    assert answers([login]) == [not while_checking]
    again = users.authenticate("ann", b"s3cret", "10.0.0.1:1")
    finish(threads, 1)
    assert answers([again]) == [False]


def test_failures_delay_only_the_address_that_failed(users: UserList, threads: Threads, clock: Clock) -> None:
    for number in range(40):
        users.authenticate("ann", b"%d" % number, "10.0.0.1:1")
        clock.advance(1)
        finish(threads, 1)
    delayed = users.authenticate("ann", b"s3cret", "10.0.0.1:1")
    of_address = users.authenticate("bob", b"s3cret", "10.0.0.1:1")
    assert threads.running == []
    elsewhere = users.authenticate("ann", b"x", "10.0.0.2:1")
    assert len(threads.running) == 1
    clock.advance(OF_ADDRESS.most)
    finish(threads, 2)
    assert answers([delayed, of_address, elsewhere]) == [None, True, False]
    clock.advance(OF_USER_AT_ADDRESS.most)
    finish(threads, 1)
    assert answers([delayed]) == [True]
    assert clock.getDelayedCalls() == []


def test_this_machine_is_delayed_only_for_the_user(users: UserList, threads: Threads, clock: Clock) -> None:
    for number in range(40):
        users.authenticate("ann", b"%d" % number, "127.0.0.1:1")
        clock.advance(1)
        finish(threads, 1)
    users.authenticate("bob", b"s3cret", "127.0.0.1:1")
    users.authenticate("ann", b"s3cret", "127.0.0.1:1")
    assert len(threads.running) == 1


def test_a_client_that_leaves_is_not_checked(users: UserList, threads: Threads, clock: Clock) -> None:
    logins = [users.authenticate("ann", b"%d" % number, "10.0.0.1:1") for number in range(5)]
    for login in logins:
        login.addErrback(lambda failure: None)
        login.cancel()
    finish(threads, 2)
    assert (threads.running, clock.getDelayedCalls()) == ([], [])


def test_how_many_wait_is_bounded(monkeypatch: pytest.MonkeyPatch, threads: Threads) -> None:
    monkeypatch.setattr("bussrv.formats.spp_authentication.MAX_WAITING", 2)
    users = UserList(USERS, threads, Clock())
    logins = [users.authenticate("ann", b"%d" % number, "10.0.0.1:1") for number in range(4)]
    logins.append(users.authenticate("ann", b"x", "10.0.0.2:1"))
    logins.append(users.authenticate("ann", b"y", "10.0.0.2:1"))
    assert answers(logins) == [None, None, None, False, None, False]


@pytest.mark.parametrize(("user", "secret"), [("ann", b"x" * (MAX_SECRET + 1)), ("\u00e4" * MAX_USER, b"x")])
def test_what_nobody_can_have_is_not_kept_in_memory(
    users: UserList, threads: Threads, user: str, secret: bytes
) -> None:
    assert (answers([users.authenticate(user, secret, "10.0.0.1:1")]), threads.running) == ([False], [])


@pytest_twisted.ensureDeferred
async def test_secrets_are_checked_in_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    matches = SecretHash.matches

    def recorded(known: SecretHash, secret: bytes) -> bool:
        threads.append(threading.current_thread())
        return matches(known, secret)

    monkeypatch.setattr(SecretHash, "matches", recorded)
    (tmp_path / "users").write_text(f"ann:{USERS['ann']}\n")
    bus = Network(spp_users=tmp_path / "users").bus
    authenticator = make_authenticator(bus, lambda users: None, reactor)
    assert authenticator is not None
    assert await authenticator.authenticate("ann", b"s3cret", "10.0.0.1:1")
    assert not await authenticator.authenticate("ann", b"guess", "10.0.0.1:1")
    assert threading.main_thread() not in threads
    assert make_authenticator(Network().bus, lambda users: None, reactor) is None


def test_somebody_unknown_takes_as_long_as_somebody_known() -> None:
    threads = Threads()
    UserList(USERS, threads, Clock()).authenticate("nobody", b"x", "10.0.0.1:1")
    assert len(threads.running) == 1


def test_with_an_empty_list_nobody_may_watch() -> None:
    results: list[bool] = []
    UserList({}, at_once, Clock()).authenticate("ann", b"", "10.0.0.1:1").addCallback(results.append)
    assert results == [False]


def test_a_check_that_fails_is_logged_and_refuses() -> None:
    logged: list[Any] = []
    results: list[bool] = []
    globalLogPublisher.addObserver(logged.append)
    users = UserList(USERS, lambda *_: fail(MemoryError("no room")), Clock())
    users.authenticate("ann", b"s3cret", "10.0.0.1:1").addCallback(results.append)
    globalLogPublisher.removeObserver(logged.append)
    assert results == [False]
    assert [event["log_level"] for event in logged] == [LogLevel.critical]


def test_who_logs_in_and_leaves_without_end_cannot_fill_the_journal() -> None:
    network = guarded(journal_session_rate=1000, journal_session_burst=10_000)
    last = network.journal.taken
    for _ in range(1000):
        watcher = network.watcher()
        log_in(watcher)
        watcher.connection.close()
        last = network.journal.taken
    # Openings and closings beside, 50 of each at once.
    assert last < 60_000
    waiting = network.watcher()
    log_in(waiting)
    assert ACCEPTED not in waiting.received()
    network.reactor.pump([1.0] * 60)
    assert ACCEPTED in waiting.received()
