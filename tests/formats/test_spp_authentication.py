"""Clients that have to say who they are: what they are told, what is written down, and that nobody waits for them."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import LogLevel, globalLogPublisher
from zope.interface import implementer
from zope.interface.verify import verifyObject

from bussrv import events as ev
from bussrv.formats.spp_authentication import MAX_CHECKING, MAX_WAITING, UserList, make_authenticator
from bussrv.formats.spp_users import SecretHash
from bussrv.interfaces import IAuthenticator
from bussrv.settings import Settings
from bussrv.wire import spp
from bussrv.wire.spp import Info, Offer, Other, Removed
from tests.formats.network import Network, Watcher
from tests.formats.test_spp import service

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
    network.factory("spp").authenticator = authenticator or UserList(USERS, at_once)  # type: ignore[attr-defined]
    return network


def log_in(watcher: Watcher, secret: str = "s3cret", user: str = "ann") -> None:
    watcher.connection.send_bytes(spp.authenticate(user, secret))


@pytest.mark.parametrize("authenticator", [Held(), UserList(USERS, at_once)], ids=lambda each: type(each).__name__)
def test_authenticators_are_ones(authenticator: IAuthenticator) -> None:
    assert verifyObject(IAuthenticator, authenticator)


def test_without_a_list_of_users_authentication_is_ignored_and_counted() -> None:
    network = Network()
    service(network, "tv")
    watcher = network.watcher()
    log_in(watcher)
    watcher.connection.send_bytes(spp.other(32, b"\0\0\0\2a"))
    assert watcher.received() == [Offer("tv")]
    assert network.bus.counters["spp-ignored"] == 2


def test_a_client_is_offered_nothing_until_it_said_who_it_is() -> None:
    network = guarded()
    member = service(network, "tv", "door")
    watcher = network.watcher()
    member.send({"event": "services/unregister", "name": "door"})
    member.send({"event": "services/register", "name": "radio"})
    assert watcher.received() == []
    log_in(watcher)
    assert watcher.received() == [ACCEPTED, Offer("radio"), Offer("tv")]
    member.send({"event": "services/unregister"})
    assert watcher.received() == [Removed("radio"), Removed("tv")]


def test_nobody_subscribes_before_and_that_is_written_down() -> None:
    network = guarded()
    member = service(network, "tv")
    watcher = network.watcher()
    watcher.subscribe("tv")
    watcher.subscribe("never")
    watcher.unsubscribe("tv")
    member.send({"type": "a/b"}, b"1")
    assert watcher.received() == []
    refused = network.events(ev.SubscriptionRefused)
    assert [(each.service, each.reason) for each in refused] == [
        ("tv", "not-authenticated"),
        ("never", "not-authenticated"),
    ]
    assert network.bus.counters["not-authenticated"] == 2
    log_in(watcher)
    watcher.subscribe("tv")
    assert watcher.received() == [ACCEPTED, Offer("tv"), Info("tv", b"1")]


def test_the_journal_says_who_it_was_and_never_the_secret() -> None:
    network = guarded()
    watcher = network.watcher()
    log_in(watcher, "s3crets")
    log_in(watcher)
    (failed,) = network.events(ev.AuthFailed)
    (succeeded,) = network.events(ev.AuthSucceeded)
    assert (failed.reason, failed.protocol, failed.peer) == ("bad-credentials", "spp", "10.0.0.1:4711")
    assert (succeeded.actor, succeeded.session) == ("ann", watcher.connection.protocol.session_id)
    assert not any("s3cret" in repr(record) for record in network.journal.records)


@pytest.mark.parametrize(
    ("user", "secret"), [("ann", ""), ("ann", "S3cret"), ("bob", "s3cret"), ("", ""), ("ann ", "s3cret")]
)
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


@pytest.mark.parametrize(
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
    for _ in range(200):
        watcher = network.watcher()
        for _ in range(3):
            log_in(watcher, "x")
    assert len(network.events(ev.AuthFailed)) == 50
    network.reactor.advance(60)
    log_in(network.watcher(), "x")
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


@pytest.mark.parametrize("answer", [True, False])
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


def test_how_many_secrets_are_checked_at_a_time_is_bounded_and_so_is_who_waits() -> None:
    threads = Threads()
    users = UserList(USERS, threads)
    results: list[bool] = []
    for _ in range(MAX_CHECKING + MAX_WAITING):
        users.authenticate("ann", b"s3cret", "10.0.0.1:1").addCallback(results.append)
    assert (len(threads.running), results) == (MAX_CHECKING, [])
    users.authenticate("ann", b"s3cret", "10.0.0.1:1").addCallback(results.append)
    assert results == [False]
    for number in range(MAX_CHECKING + MAX_WAITING):
        threads.running[number].callback(True)
        assert len(threads.running) <= number + 1 + MAX_CHECKING
    assert results == [False, *[True] * (MAX_CHECKING + MAX_WAITING)]


@pytest_twisted.ensureDeferred
async def test_secrets_are_checked_in_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    matches = SecretHash.matches

    def watched(known: SecretHash, secret: bytes) -> bool:
        threads.append(threading.current_thread())
        return matches(known, secret)

    monkeypatch.setattr(SecretHash, "matches", watched)
    (tmp_path / "users").write_text(f"ann:{USERS['ann']}\n")
    authenticator = make_authenticator(Settings(spp_users=tmp_path / "users"), reactor)
    assert authenticator is not None
    assert await authenticator.authenticate("ann", b"s3cret", "10.0.0.1:1")
    assert not await authenticator.authenticate("ann", b"guess", "10.0.0.1:1")
    assert threading.main_thread() not in threads
    assert make_authenticator(Settings(), reactor) is None


def test_somebody_unknown_takes_as_long_as_somebody_known() -> None:
    threads = Threads()
    UserList(USERS, threads).authenticate("nobody", b"x", "10.0.0.1:1")
    assert len(threads.running) == 1


def test_with_an_empty_list_nobody_may_watch() -> None:
    results: list[bool] = []
    UserList({}, at_once).authenticate("ann", b"", "10.0.0.1:1").addCallback(results.append)
    assert results == [False]


def test_a_check_that_fails_is_logged_and_refuses() -> None:
    logged: list[Any] = []
    results: list[bool] = []
    globalLogPublisher.addObserver(logged.append)
    users = UserList(USERS, lambda *_: fail(MemoryError("no room")))
    users.authenticate("ann", b"s3cret", "10.0.0.1:1").addCallback(results.append)
    globalLogPublisher.removeObserver(logged.append)
    assert results == [False]
    assert [event["log_level"] for event in logged] == [LogLevel.critical]
