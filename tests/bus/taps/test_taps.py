"""Taps: which objects they show, to whom, with how many receivers, and that nobody waits for them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv.bus.taps.taps import MOST_PAYLOAD
from bussrv.policy.permissions.file import parse_policy
from bussrv.wire.objects import encode
from tests.bus.taps.scene import Scene, kinds, opened, sent, taken
from tests.formats.network import Network, drain
from tests.size import sized

FORMATS = ("objects", "business", "inbus", "spp", "websocket")


def test_each_formats_object_shows_once_with_sender_and_audience() -> None:
    scene = Scene()
    network, tap = scene.network, opened(scene.network)
    scene.maker.send({"type": "text/plain", "sender": "tv"}, b"news")
    scene.office.send({"event": "note"})
    scene.page.send({"type": "image/png", "to": "maker"}, b"png")
    network.udp.publish("lamp", b"on", source="10.0.0.9")
    network.reactor.advance(0)
    found = taken(tap)
    assert [(each.sender.protocol, each.sender.routing_id, each.to_count, each.service) for each in found] == [
        ("objects", "maker", 1 + 2, "tv"),  # the office; the watcher and the device
        ("business", "office", 2, None),  # the page gets events
        ("websocket", "page", 1, None),
        ("inbus", found[3].sender.routing_id, 2, "lamp"),
    ]
    assert [(each.event, each.type, each.size) for each in found] == [
        (None, "text/plain", 4),
        ("note", None, 0),
        (None, "image/png", 3),
        (None, "text/plain; charset=UTF-8", 2),
    ]
    assert {each.payload for each in found} == {None}
    assert json.loads(found[0].metadata)["sender"] == "tv"
    assert found[0].route == ["maker", "hall"]
    sessions = network.registry.state.sessions
    assert [each.sender.session for each in found] == [
        next(session.id for session in sessions.values() if session.routing_id == each.sender.routing_id)
        for each in found
    ]


def test_requests_and_replies_are_shown_but_not_server_commands() -> None:
    scene = Scene()
    tap = opened(scene.network)
    scene.office.send({"event": "services/request", "name": "tv", "id": "1"})
    (request,) = scene.maker.heads()
    scene.maker.send({"event": "services/reply", "in-reply-to": request["id"]})
    scene.maker.send({"event": "ping"})
    scene.maker.send({"event": "services/register", "name": "radio"})
    scene.maker.send({"event": "routing/subscribe", "user": "ann", "secret": "not for others"})
    scene.office.send({"event": "services/request", "name": "nobody's", "id": "2"})
    found = taken(tap)
    assert [(each.event, each.service, each.to_count) for each in found] == [
        ("services/request", "tv", 2),  # to the provider, and the page observes
        ("services/reply", None, 1),
        ("services/request", "nobody's", 2),
    ]


def test_payloads_are_shown_on_demand_and_only_their_beginning() -> None:
    scene = Scene()
    plain, full = opened(scene.network), opened(scene.network, payload=True)
    scene.maker.send({"type": "a/b"}, b"x" * (MOST_PAYLOAD + 1))
    assert [each.payload for each in taken(plain)] == [None]
    (shown,) = taken(full)
    assert (shown.payload, shown.size) == (b"x" * MOST_PAYLOAD, MOST_PAYLOAD + 1)


def test_an_object_of_a_linked_server_shows_once_by_any_route() -> None:
    network = Network()
    cellar, attic, member = network.server("cellar"), network.server("attic"), network.member()
    drain([cellar, attic, member])
    tap = opened(network)
    for number in range(3):
        for server, route in ((cellar, ["bob", "cellar"]), (attic, ["bob", "cellar", "attic"])):
            server.send({"type": "a/b", "id": f"n{number}", "route": route})
    cellar.send({"type": "a/b", "id": "n3", "route": ["bob", "cellar"], "to": member.routing_id})
    found = taken(tap)
    assert [(each.sender.routing_id, each.to_count) for each in found] == [("bob", 2)] * 3 + [("bob", 1)]
    assert {tuple(each.route) for each in found} == {("bob", "cellar", "hall")}


# Who may see.


POLICY = """
[[rule]]
users = "anonymous"
send = "*"
publish = "*"
provide = "*"
address = "*"
[[rule]]
users = ["ops"]
admin = "read"
observe = ["text/*", "@note"]
watch = ["tv"]
"""


def test_a_tap_shows_what_its_user_may_observe_or_watch() -> None:
    scene = Scene()
    network = scene.network
    network.bus.access.policy = parse_policy(POLICY, Path("policy.toml"), FORMATS)
    for session in tuple(network.registry.state.sessions):
        network.bus.permissions_changed(session)
    tap = opened(network, "ops", payload=True)
    for fields in ({"type": "text/x"}, {"type": "image/png"}, {"event": "note"}, {"event": "secret", "to": "maker"}):
        scene.office.send(fields)
    scene.maker.send({"event": "services/register", "name": "radio"})
    for service in ("tv", "radio"):
        scene.maker.send({"type": "video/x", "sender": service})
    assert kinds(tap) == ["text/x", "@note", "video/x"]
    assert tap.take_skipped() == 0


def test_a_policy_that_is_read_again_holds_for_open_taps() -> None:
    scene = Scene()
    network = scene.network
    network.bus.access.policy = parse_policy(POLICY, Path("policy.toml"), FORMATS)
    tap, other = opened(network, "ops"), opened(network, "someone")
    network.bus.access.policy = parse_policy(POLICY.replace('"@note"', '"@x"'), Path("policy.toml"), FORMATS)
    network.bus.policy_changed()
    network.reactor.advance(1)
    assert (tap.is_open, other.is_open) == (True, False)
    for event in ("note", "x"):
        scene.office.send({"event": event})
    assert kinds(tap) == ["@x"]
    network.bus.access.policy = parse_policy(POLICY.replace('"read"', '"none"'), Path("policy.toml"), FORMATS)
    network.bus.policy_changed()
    assert (tap.is_open, network.bus.taps.is_on) == (False, False)


# What it costs.


def test_taps_have_equal_shares_of_one_rate() -> None:
    scene = Scene(admin_max_tap_rate=12)
    taps = [opened(scene.network, rate=1000), opened(scene.network, rate=2)]
    sent(scene.maker, 30)
    assert [len(taken(each)) for each in taps] == [6, 2]
    assert scene.network.bus.counters["admin-max-tap-rate"] == 24
    scene.network.reactor.advance(1)
    taps += [opened(scene.network) for _ in range(20)]
    sent(scene.maker, 30)
    assert [len(taken(each)) for each in taps] == [1] * 22
    for each in taps[1:]:
        scene.network.bus.taps.close(each)
    scene.network.reactor.advance(1)
    sent(scene.maker, 30)
    assert len(taken(taps[0])) == 12


def test_a_tap_that_is_closed_leaves_nothing() -> None:
    scene = Scene()
    calls = len(scene.network.reactor.getDelayedCalls())
    tap = opened(scene.network, rate=1)
    told: list[None] = []
    sent(scene.maker, 3)
    taken(tap)
    tap.news().addCallback(told.append)
    scene.network.bus.taps.close(tap)
    scene.network.bus.taps.close(tap)
    assert (told, tap.is_open, scene.network.bus.taps.is_on) == ([None], False, False)
    assert len(scene.network.reactor.getDelayedCalls()) == calls
    sent(scene.maker, 3)
    assert taken(tap) == []


# Batches, and objects one by one.


class _Copy:
    """The same members twice, of which one network has a tap."""

    def __init__(self, tapped: bool) -> None:
        self.network = Network()
        self.sender = self.network.member(receive_mode="no_echo")
        self.sender.send({"event": "services/register", "name": "tv"})
        self.receivers = [self.network.member(types=["a/*"]), self.network.member(subscriptions=["@x"])]
        drain([self.sender, *self.receivers])
        self.tap = opened(self.network, rate=1000) if tapped else None

    def outcome(self) -> list[Any]:
        return [member.received() for member in (self.sender, *self.receivers)]


objects = st.builds(
    lambda fields, payload: encode(fields, payload),
    st.fixed_dictionaries(
        {},
        optional={
            "event": st.sampled_from(["x", "ping", "services/reply", "routing/disconnect", "note"]),
            "type": st.sampled_from(["a/b", "c/d", "A/B;x=y"]),
            "to": st.sampled_from(["nobody", ["nobody"]]),
            "sender": st.sampled_from(["tv", "other"]),
            "natures": st.just(["n"]),
            "id": st.integers(0, 3),
        },
    ),
    st.sampled_from([b"", b"payload"]),
)


@settings(max_examples=sized(120))
@given(st.lists(st.lists(objects, max_size=40), max_size=3))
def test_a_tap_changes_nothing_and_shows_each_routed_object_once(chunks: Sequence[Sequence[bytes]]) -> None:
    plain, tapped = _Copy(False), _Copy(True)
    for chunk in chunks:
        for copy in (plain, tapped):
            copy.sender.connection.send_bytes(b"".join(chunk))
    assert tapped.outcome() == plain.outcome()
    assert tapped.network.bus.counters == plain.network.bus.counters
    assert tapped.tap is not None
    sent = [obj.partition(b"\0")[0] for chunk in chunks for obj in chunk]
    assert [each.metadata for each in taken(tapped.tap)] == [each for each in sent if is_routed(json.loads(each))]


def is_routed(fields: dict[str, Any]) -> bool:
    """Whether the server neither serves nor refuses it."""
    event = fields.get("event")
    return event != "routing/disconnect" and (event != "ping" or "to" in fields)
