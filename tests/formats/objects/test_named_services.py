"""Members that subscribe to services by name: what they are given, what they are answered, and what is journaled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bussrv import events as ev
from bussrv.bus.send_rights import MOST_STEPS
from bussrv.policy.permissions.file import parse_policy
from tests.formats.network import Member, Network, drain, limits
from tests.journal.support import fold
from tests.tables import each_row

FORMATS = ("objects", "spp", "inbus", "business")
POLICY = """
[[rule]]
users = "anonymous"
networks = "10.0.0.1"
address = "*"
send = "*"
observe = "*"
provide = "*"
publish = "*"
watch = %s
"""


def provider(network: Network, *names: str, **subscription: Any) -> Member:
    """Who provides these services, and receives nothing unless it says so."""
    member = network.member(**{"receive_mode": "none", **subscription})
    for name in names:
        member.send({"event": "services/register", "name": name})
    return member


def allow(network: Network, *watched: str) -> None:
    """Set a policy by which clients may watch these services."""
    network.bus.access.policy = parse_policy(POLICY % list(watched), Path("policy.toml"), FORMATS)
    network.bus.policy_changed()


def called(member: Member) -> list[Any]:
    return [fields["called"] for fields in member.heads() if "called" in fields]


SENT: dict[str, dict[str, Any]] = {
    "tv": {"type": "text/plain", "sender": "tv"},
    "tv without a payload": {"type": "image/png", "sender": "tv", "size": 0},
    "an event on tv": {"event": "lamp/on", "type": "text/plain", "sender": "tv"},
    "radio": {"type": "text/plain", "sender": "radio"},
    "somebody's": {"type": "text/plain", "sender": "somebody"},
    "content": {"type": "text/plain"},
    "an event": {"event": "lamp/on"},
    "to nobody": {"type": "text/plain", "sender": "tv", "to": "nobody"},
}
TV = ["tv", "tv without a payload", "an event on tv"]


@each_row(
    ("asked", "given"),
    [
        ({"types": "none"}, [*TV, "an event"]),
        ({"receive_mode": "events_only"}, [*TV, "an event"]),
        ({"types": ["text/*"]}, [*TV, "radio", "somebody's", "content", "an event"]),
        ({"types": "all"}, [each for each in SENT if each != "to nobody"]),
        ({"receive_mode": "none"}, []),
        ({"subscriptions": []}, TV),
        ({"subscriptions": ["*", "!@lamp/*"]}, [*TV, "radio", "somebody's", "content"]),
        ({"subscriptions": ["!*", "@lamp/*"]}, [*TV, "an event"]),
    ],
)
def test_services_come_besides_what_else_is_asked_for(asked: dict[str, Any], given: list[str]) -> None:
    network = Network()
    sender, listener = provider(network, "tv", "radio"), network.member(services=["tv"], **asked)
    for name, fields in SENT.items():
        payload = b"x" if "type" in fields and "size" not in fields else b""
        sender.send({**fields, "called": name}, payload)
    assert called(listener) == given


@each_row(("mode", "own"), [("all", True), ("no_echo", False), ("events_only", True), ("none", False)])
def test_its_own_publications_come_as_the_mode_says(mode: str, own: bool) -> None:
    network = Network()
    member = network.member(receive_mode=mode, types="none", services=["tv"])
    other = network.member(types="none", services=["tv"])
    for each in (member, other):
        each.send({"event": "services/register", "name": "tv"})
    drain([member, other])
    member.send({"type": "text/plain", "called": "mine"}, b"x")
    other.send({"type": "text/plain", "called": "other's"}, b"x")
    assert called(member) == [*(["mine"] if own else []), *(["other's"] if mode != "none" else [])]
    assert called(other) == ["mine", "other's"]


def test_subscribing_again_replaces_and_writes_only_what_changes() -> None:
    network = Network()
    member = network.member(services=["tv", "clock", "tv"])
    for services, changes in (
        (["clock", "radio"], [("subscription.removed", "tv"), ("subscription.added", "radio")]),
        (None, [("subscription.removed", "clock"), ("subscription.removed", "radio")]),
        ([], []),
    ):
        before = len(network.journal.records)
        member.send({"event": "routing/subscribe", **({} if services is None else {"services": services})})
        assert member.only_reply().get("services") == services
        events = [record.event for record in network.journal.records[before:]]
        assert [(ev.event_name(each), each.service) for each in events if each.service is not None] == changes
        held = network.registry.state.subscribed_by(member.connection.protocol.session_id)
        assert held == set(services or ())
    assert network.registry.state == fold(network.journal.records)


@each_row("name", ["objects", "business"])
def test_the_reply_names_each_service_once(name: str) -> None:
    network = Network()
    sender, member = provider(network, "tv"), Member(network.connect(name))
    network.journal.hold()
    event = "routing/subscribe" if name == "objects" else "client/register"
    member.send({"event": event, "services": ["tv", "later", "tv"], "types": "none", "subscribe": "none"})
    sender.send({"type": "text/plain"}, b"early")
    assert member.received() == []
    network.journal.release()
    sender.send({"type": "text/plain"}, b"x")
    network.udp.publish("later", b"y")
    (reply, _), *given = member.received()
    assert (reply["event"], reply["services"]) == (f"{event}/reply", ["tv", "later"])
    assert [(fields["sender"], payload) for fields, payload in given if "sender" in fields] == [("later", b"y")]
    assert [payload for _, payload in given] == [b"x", b"y"]


@each_row(
    ("services", "reason"),
    [
        ("tv", "bad-subscription"),
        (["tv", 7], "bad-subscription"),
        ({"tv": 1}, "bad-subscription"),
        (["a", "b", "c", "d"], "bad-subscription"),
        (["tv", ""], "bad-service-name"),
        (["tv", "a\nb"], "bad-service-name"),
        (["x" * 256], "bad-service-name"),
        (["a", "b", "c"], "too-many-subscriptions"),
        (["tv", "secret"], "not-allowed"),
    ],
)
def test_one_wrong_service_refuses_the_whole_subscription(services: Any, reason: str) -> None:
    network = Network(max_subscriptions=2, max_patterns=3)
    allow(network, "tv", "a", "b", "c", "old")
    member = network.member(services=["old"], **{"routing-id": "me"})
    state, told = network.registry.state.copy(), network.registry.changes
    member.send({"event": "routing/subscribe", "id": 1, "services": services, "routing-id": "other", "types": "none"})
    error = member.only_reply()
    assert (error["event"], error["in-reply-to"], error["reason"]) == ("error", 1, reason)
    assert (network.registry.state, network.registry.changes) == (state, told)
    refused = [each.reason for each in network.events(ev.SubscriptionRefused)]
    assert refused == ([reason] if reason in ("bad-service-name", "too-many-subscriptions") else [])
    denied = [each.target for each in network.events(ev.AccessDenied)]  # type: ignore[attr-defined]
    assert denied == (["secret"] if reason == "not-allowed" else [])
    hit = {"too-many-subscriptions": ("max-subscriptions", 2), "bad-subscription": ("max-patterns", 3)}
    assert [each[:2] for each in limits(network)] == ([hit[reason]] if len(services) > 2 else [])


def test_what_the_policy_takes_away_comes_no_more() -> None:
    network = Network()
    allow(network, "*")
    sender, member = provider(network, "tv", "radio"), network.member(types="none", services=["tv", "radio"])

    def given() -> list[Any]:
        for service in ("tv", "radio"):
            sender.send({"type": "text/plain", "sender": service, "called": service}, b"x")
        return called(member)

    assert given() == ["tv", "radio"]
    allow(network, "radio")
    assert given() == ["radio"]
    (removed,) = [each for each in network.events(ev.SubscriptionRemoved) if each.service is not None]
    assert (removed.service, removed.reason) == ("tv", "permission-withdrawn")
    network.journal.hold()
    member.send({"event": "routing/subscribe", "services": ["radio"]})
    allow(network, "nothing")
    network.journal.release()
    assert member.only_reply()["services"] == []
    assert network.registry.state == fold(network.journal.records)


def test_a_subscription_that_an_operator_ended_comes_no_more() -> None:
    network = Network()
    sender, member = provider(network, "tv", "radio"), network.member(types="none", services=["tv", "radio"])
    network.registry.lose_subscription(member.connection.protocol.session_id, "tv", "closed-by-operator")
    for service in ("tv", "radio"):
        sender.send({"type": "text/plain", "sender": service, "called": service}, b"x")
    assert called(member) == ["radio"]


def test_publications_of_other_servers_come_once() -> None:
    network = Network()
    member, server = network.member(types="none", services=["radio"]), network.server()
    drain([member, server])
    about = {"routing-id": "far", "route": ["far", "cellar"]}
    server.send({"event": "services/register", "name": "radio", **about, "id": "1"})
    for number in (2, 2, 3):
        fields = {"type": "text/plain", "sender": "radio", "id": f"{number}", "route": ["far", "cellar"]}
        server.send({**fields, "called": number}, b"x")
    assert called(member) == [2, 3]
    assert called(server) == []


def test_who_names_services_registers_what_it_serves() -> None:
    """So nobody waits for its answer to a request for a service that nobody registered."""
    network = Network()
    server = network.member(subscriptions=["@services/*"], services=[])
    asker = network.member(types="none")
    server.send({"event": "services/register", "name": "tv"})
    server.received()
    for name, is_answered in (("tv", True), ("radio", False)):
        asker.send({"event": "services/request", "id": name, "name": name})
        asked = [fields for fields, _ in server.received() if fields["event"] == "services/request"]
        assert [each["name"] for each in asked] == [name]
        server.send({"event": "services/reply", "in-reply-to": name})
        (answer, _) = next(each for each in asker.received() if each[0].get("in-reply-to") == name)
        assert answer["event"] == ("services/reply" if is_answered else "error")
    server.send({"event": "routing/subscribe", "subscriptions": ["@services/*"]})
    asker.send({"event": "services/request", "id": 1, "name": "radio"})
    server.received()
    server.send({"event": "services/reply", "in-reply-to": 1})
    assert [fields["event"] for fields, _ in asker.received()][-1] == "services/reply"


def test_patterns_that_take_long_to_compare_allow_few_services() -> None:
    """Judging 256 names by 16,384 characters of wildcards would take most of a second, in one go."""
    network = Network()
    patterns = [f"{'?a' * 30}*b*{number:03}" for number in range(200)]
    text = f"[[rule]]\nsend = '*'\nwatch = ['a*', {', '.join(map(repr, patterns))}]"
    network.bus.access.policy = parse_policy(text, Path("policy.toml"), FORMATS)
    most = MOST_STEPS // network.bus.access.of_user(None, "10.0.0.1:1", "objects").effort("watch")
    member = network.member()
    for number in (most, most + 1):
        member.send({"event": "routing/subscribe", "services": [f"{'a' * 60}{each}" for each in range(number)]})
    assert [fields.get("reason") for fields in member.heads()] == [None, "bad-subscription"]
    assert 0 < most < 256
