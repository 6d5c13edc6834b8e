"""Members that subscribe to patterns over the names of services. BUS.md, section 13."""

from __future__ import annotations

from typing import Any

from bussrv import events as ev
from tests.formats.network import Member, Network, drain
from tests.formats.objects.test_named_services import allow, called, provider
from tests.journal.support import fold
from tests.services.scene import Hosting
from tests.tables import each_row

NAMES = ["hall", "hall/tv", "hall/tv/sound", "cellar/tv", "$lab/tv", "tv"]


@each_row(
    ("patterns", "given"),
    [
        (["#"], ["hall", "hall/tv", "hall/tv/sound", "cellar/tv", "tv"]),
        (["hall/#"], ["hall", "hall/tv", "hall/tv/sound"]),
        (["+/tv"], ["hall/tv", "cellar/tv"]),
        (["+"], ["hall", "tv"]),
        (["$lab/#", "+/+/sound"], ["hall/tv/sound", "$lab/tv"]),
        (["+/tv", "hall/#", "hall/tv", "tv"], ["hall", "hall/tv", "hall/tv/sound", "cellar/tv", "tv"]),
        (["hall+", "hall#", "/hall", "hall/"], []),
    ],
)
def test_each_publication_that_is_covered_comes_once(patterns: list[str], given: list[str]) -> None:
    """From members and from devices; of services that were there, and of such that come later."""
    network = Network()
    early = provider(network, *NAMES[:3])
    listener = network.member(subscriptions=[], services=patterns)
    late = provider(network, *NAMES[3:])
    for name in NAMES:
        sender = early if name in NAMES[:3] else late
        sender.send({"type": "text/plain", "sender": name, "called": name}, b"x")
    assert called(listener) == given
    for name in NAMES:
        network.udp.publish(name, b"y")
    assert [fields["sender"] for fields in listener.heads()] == given


def test_a_pattern_is_one_subscription_of_the_registry() -> None:
    network = Network(max_subscriptions=2)
    member = network.member(services=["hall/#", "tv"])
    session_id = member.connection.protocol.session_id
    assert network.registry.state.subscribed_by(session_id) == {"hall/#", "tv"}
    added = [each for each in network.events(ev.SubscriptionAdded) if each.service is not None]
    assert [(each.service, each.pattern) for each in added] == [("hall/#", True), ("tv", False)]  # type: ignore[attr-defined]
    member.received()
    member.send({"event": "routing/subscribe", "services": ["+/tv"]})
    assert member.only_reply()["services"] == ["+/tv"]
    sender = provider(network, "hall/tv", "hall/lamp")
    for name in ("hall/tv", "hall/lamp"):
        sender.send({"type": "text/plain", "sender": name, "called": name}, b"x")
    assert called(member) == ["hall/tv", "hall/lamp"]  # Its receive mode is "all" again.
    assert network.registry.state == fold(network.journal.records)


@each_row(
    ("event", "fields", "reason"),
    [
        ("routing/subscribe", {"services": ["hall/#/tv"]}, "bad-service-name"),
        ("services/register", {"name": "hall/+"}, "bad-service-name"),
        ("services/register", {"name": "#"}, "bad-service-name"),
    ],
)
def test_no_service_is_called_like_a_pattern(event: str, fields: dict[str, Any], reason: str) -> None:
    network = Network()
    member = network.member()
    member.received()
    member.send({"event": event, "id": 1, **fields})
    assert member.only_reply()["reason"] == reason


def test_names_are_judged_besides_the_pattern() -> None:
    network = Network()
    allow(network, "hall/*")
    sender = provider(network, "hall/tv", "hall/safe", "cellar/tv")
    stranger = Member(network.connect("objects"))
    stranger.send({"event": "routing/subscribe", "services": ["#"]})
    assert stranger.only_reply()["reason"] == "not-allowed"
    member = network.member(subscriptions=[], services=["hall/#"])
    for watched, given in ((["hall/*"], ["hall/tv", "hall/safe"]), (["hall/#", "hall/tv"], ["hall/tv"]), (["tv"], [])):
        allow(network, *watched)
        for name in ("hall/tv", "hall/safe", "cellar/tv"):
            sender.send({"type": "text/plain", "sender": name, "called": name}, b"x")
        assert called(member) == given, watched


def test_those_of_the_server_come_to_patterns_that_begin_so() -> None:
    network = Hosting()
    everything = network.member(subscriptions=[], services=["#", "+/clock"])
    member = network.member(subscriptions=[], services=["bus/+"])
    for each in (everything, member):
        each.received()

    def told() -> list[set[Any]]:
        network.member(receive_mode="none")  # Otherwise there is nothing new to tell.
        for seconds in (1, 0):
            network.tick(seconds)
        return [{fields["sender"] for fields in each.heads() if "sender" in fields} for each in (everything, member)]

    assert told() == [set(), {"bus/clock", "bus/registry", "bus/statistics"}]
    member.send({"event": "routing/subscribe", "subscriptions": []})
    drain([member])
    assert told() == [set(), set()]
