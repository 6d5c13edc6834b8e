"""Clients of the object network that have to say who they are; and secrets, which nobody else may see."""

import json
from typing import Any

import pytest

from bussrv import events as ev
from bussrv.formats.objects.members import STRANGERS_METADATA
from bussrv.policy.permissions.permissions import EVERYTHING, NOTHING, Permissions
from tests.formats.network import Member, Network
from tests.logins import USERS, Held, ask, asking
from tests.tables import each_row

JOINS = [("objects", "routing/subscribe"), ("business", "client/register"), ("business", "clients/register")]
ANN = {"user": "ann", "secret": "s3cret"}
USERS_OF_TWO = {"ann": USERS["ann"], "bob": USERS["ann"]}


def client(network: Network, name: str = "objects") -> Member:
    return Member(network.connect(name))


def reasons(member: Member) -> list[Any]:
    """The event, or the reason of an error, of everything since the last time."""
    return [fields.get("reason", fields["event"]) for fields in member.heads()]


@each_row(("name", "event"), JOINS)
def test_only_who_logs_in_becomes_a_member(name: str, event: str) -> None:
    network = asking()
    member = client(network, name)
    member.send({"event": event, "id": 1, "user": "ann"})
    member.send({"event": event, "id": 2, "user": "ann", "secret": "guess"})
    member.send({"event": "services/register", "name": "tv"})
    assert [(each["in-reply-to"], each["reason"]) for each in member.heads()] == [
        (1, "not-authenticated"),
        (2, "bad-credentials"),
    ]
    member.send({"event": event, "id": 3, "name": "x", **ANN})
    member.send({"event": "services/register", "name": "tv"})
    assert member.names() == [f"{event}/reply", "services/register/reply"]
    session = network.registry.state.sessions[member.connection.protocol.session_id]
    assert (session.actor, session.claimed, session.name) == ("ann", None, "x")
    (failed,) = network.events(ev.AuthFailed)
    (succeeded,) = network.events(ev.AuthSucceeded)
    assert (failed.actor, failed.claimed, failed.method, failed.reason) == (None, "ann", "password", "bad-credentials")
    assert (failed.protocol, failed.peer) == (name, "10.0.0.1:4711")
    assert (succeeded.actor, succeeded.method, succeeded.session) == ("ann", "password", session.id)


@each_row(("name", "event"), JOINS)
def test_a_login_too_many_is_no_failure(name: str, event: str) -> None:
    network = asking()
    held = Held()
    ask(network, held)
    member = client(network, name)
    for number in range(4):
        member.send({"event": event, **ANN})
        held.refuse_unchecked(number)
    member.send({"event": event, **ANN})
    held.answer(4, right=True)
    assert reasons(member) == ["too-many-logins"] * 4 + [f"{event}/reply"]


@each_row(
    "wrong",
    [
        {"user": "ann", "secret": 7},
        {"user": "ann", "secret": None},
        {"user": "ann", "secret": ["MARKER"]},
        {"user": 7, "secret": "MARKER"},
        {"secret": "MARKER"},
        {"token": {"MARKER": 1}},
        {"user": "ann", "secret": "MARKER", "token": "MARKER"},
    ],
)
def test_credentials_of_a_wrong_kind_are_not_quoted(wrong: dict[str, Any]) -> None:
    network = asking()
    member = client(network)
    member.send({"event": "routing/subscribe", "id": 1, **wrong})
    error = member.only_reply()
    assert (error["reason"], error["in-reply-to"]) == ("bad-subscription", 1)
    assert "MARKER" not in json.dumps(error)
    assert network.events(ev.AuthFailed) == []


def test_after_three_failures_the_connection_is_closed() -> None:
    network = asking()
    member = client(network)
    for number in range(4):
        member.send({"event": "routing/subscribe", "user": "ann", "secret": str(number)})
    assert reasons(member) == ["bad-credentials"] * 3
    assert not member.connection.is_open
    assert network.events(ev.SessionClosed)[-1].reason == "authentication-failed"


def test_the_actor_is_fixed() -> None:
    network = asking(USERS_OF_TWO)
    member = client(network)
    for again in (ANN, ANN, {}, {"user": "bob"}):
        member.send({"event": "routing/subscribe", **again})
        assert reasons(member) == ["routing/subscribe/reply"]
    member.send({"event": "routing/subscribe", "user": "bob", "secret": "s3cret"})
    assert reasons(member) == ["actor-fixed"]
    member.send({"event": "ping"})
    assert member.names() == ["pong"]
    assert len(network.events(ev.AuthSucceeded)) == 1
    (failed,) = network.events(ev.AuthFailed)
    assert (failed.actor, failed.claimed, failed.reason) == ("ann", "bob", "actor-fixed")


def test_a_needless_login_makes_no_actor_and_writes_no_secret() -> None:
    network = Network()
    member = client(network)
    member.send({"event": "routing/subscribe", **ANN})
    assert member.names() == ["routing/subscribe/reply"]
    session = network.registry.state.sessions[member.connection.protocol.session_id]
    assert (session.actor, session.claimed) == (None, "ann")
    assert not any("s3cret" in repr(record) for record in network.journal.records)


class Policy:
    """Lets users do everything, or nothing."""

    def __init__(self, allowed: set[str]) -> None:
        self._allowed = allowed

    def permissions(self, user: str, peer: str, protocol: str) -> Permissions:
        return EVERYTHING if user in self._allowed else NOTHING


def test_with_a_policy_it_decides_who_joins() -> None:
    network = asking(USERS_OF_TWO)
    network.bus.access.policy = Policy({"anonymous", "bob"})
    anonymous, ann, bob = (client(network) for _ in range(3))
    anonymous.send({"event": "routing/subscribe"})
    ann.send({"event": "routing/subscribe", **ANN})
    bob.send({"event": "routing/subscribe", "user": "bob", "secret": "s3cret"})
    assert [reasons(each)[0] for each in (anonymous, ann, bob)] == [
        "routing/subscribe/reply",
        "not-allowed",
        "routing/subscribe/reply",
    ]
    (denied,) = network.events(ev.AccessDenied)
    assert (denied.actor, denied.action, denied.target, denied.reason) == ("ann", "join", "objects", "not-allowed")
    assert denied.rule == "no rule applies to this user"
    watcher = network.watcher()
    assert watcher.connection.protocol.is_watching  # type: ignore[attr-defined]


def test_while_a_secret_is_checked_the_login_time_stands_still() -> None:
    held, network = Held(), Network()
    ask(network, held)
    member, other = client(network), client(network)
    member.send({"event": "routing/subscribe", **ANN})
    member.send({"event": "ping"})
    other.send({"event": "routing/subscribe", **ANN})
    network.reactor.advance(60)
    held.answer(1, right=True)
    assert (member.names(), other.names()) == ([], ["routing/subscribe/reply"])
    held.answer(0, right=True)
    assert member.names() == ["routing/subscribe/reply", "pong"]


@each_row("right", [True, False])
def test_a_client_that_leaves_meanwhile_is_not_answered(right: bool) -> None:
    held, network = Held(), Network()
    ask(network, held)
    member = client(network)
    member.send({"event": "routing/subscribe", **ANN})
    member.connection.close()
    held.answers[0].addErrback(lambda _: None)
    held.answer(0, right=right)
    assert network.events(ev.AuthSucceeded, ev.AuthFailed) == []
    assert len(network.events(ev.SessionClosed)) == 1


@each_row(
    ("fields", "payload", "reason"),
    [
        ({"event": "x", "pad": "x" * STRANGERS_METADATA}, b"", "metadata-too-large"),
        ({"type": "a/b"}, b"x", "payload-too-large"),
        ({"event": "routing/subscribe", "type": "a/b", **ANN}, b"x", "payload-too-large"),
    ],
)
def test_a_stranger_may_send_little(fields: dict[str, Any], payload: bytes, reason: str) -> None:
    network = asking()
    stranger, member = client(network), client(network)
    member.send({"event": "routing/subscribe", "receive_mode": "no_echo", **ANN})
    assert member.names() == ["routing/subscribe/reply"]
    for each in (stranger, member):
        each.send(fields, payload)
    assert reasons(stranger) == [reason]
    assert (stranger.connection.is_open, member.connection.is_open) == (False, True)


# Secrets.

MARKER = "m4rk3r"


@pytest.mark.parametrize("is_asked", [True, False])
@pytest.mark.parametrize("event", [*dict.fromkeys(event for _, event in JOINS), "Routing/SUBSCRIBE", "CLIENT/register"])
@pytest.mark.parametrize("name", ["objects", "business"])
def test_nobody_sees_a_secret(name: str, event: str, is_asked: bool, logged: list[str]) -> None:
    """Whether it is right or wrong, whole or half, and whatever port it is sent to."""
    users = {"ann": USERS_OF_TWO["ann"].made_of(MARKER.encode())}
    network = asking(users) if is_asked else Network()
    network.proving = {"user": "ann", "secret": MARKER}
    observers = [network.member(), network.business(), network.server()] if not is_asked else [network.member()]
    watcher = network.watcher()
    for service in ("bus/registry", "bus/statistics"):
        watcher.subscribe(service)
    seen: list[str] = []
    member = network.member() if name == "objects" else network.business()
    for fields in (
        {"event": event, "user": "ann", "secret": MARKER},
        {"event": event, "user": "ann", "secret": f"{MARKER}x"},
        {"event": event, "token": MARKER},
        {"event": event, "secret": [MARKER], "id": "7"},
        {"event": event, "\u0073ecret": MARKER, "user": MARKER[:3], "to": observers[0].routing_id},
        {"event": event, "secret": MARKER, "types": {"a": 1}},
    ):
        for each in (member, client(network, name)):
            each.send(fields)
            seen += map(repr, each.received())
    for broken in (f'{{"event":"{event}","secret":"{MARKER}"', f'{{"event":"{event}","secret":"{MARKER}","size":-1}}'):
        stranger = client(network, name)
        stranger.connection.send_bytes(broken.encode() + b"\0")
        seen += map(repr, stranger.received())
    for each in observers:
        seen += map(repr, each.received())
    seen += map(repr, watcher.received())
    seen += map(repr, network.journal.records)
    seen += map(repr, network.registry.state.sessions.values())
    seen += logged
    assert [each for each in seen if MARKER in each] == []
