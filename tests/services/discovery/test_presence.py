"""``$bus/…``: what a subscriber believes is what the registry says, as far as it may see that."""

from __future__ import annotations

import json

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bussrv.bus.services.hosted_subscribers import seen_with
from bussrv.services.discovery.presence import PresenceKind
from bussrv.services.discovery.presence import Present as Thing
from bussrv.wire.mqtt.packets import Publish, Will
from bussrv.wire.mqtt.reasons import ReasonCode
from tests.formats.mqtt.durable.test_sessions import away, durable
from tests.formats.mqtt.peer import MqttPeer
from tests.formats.network import Member
from tests.services.discovery.scene import Believer, Present, use_policy
from tests.size import sized
from tests.tables import each_row

POLICY = """\
[[rule]]
networks = "10.0.0.9/32"
watch = ["tv", "radio", "$bus/*"]
address = ["ann*", "boot*"]

[[rule]]
networks = "10.0.0.8/32"
watch = "$bus/*"
admin = "read"

[[rule]]
networks = "10.0.0.1/32"
provide = "*"
publish = "*"
watch = "*"
address = "*"
send = "*"
observe = "*"
"""

NARROW = POLICY.replace('["tv", "radio", "$bus/*"]', '["tv", "$bus/*"]').replace('"ann*", ', "")
"""Some of those who may see something see less."""


def truth(network: Present, believer: Believer) -> dict[str, bytes]:
    """What somebody may see of the registry."""
    state, bus = network.registry.state, network.bus
    may = bus.access.of(state.sessions[believer.session_id])
    seen = seen_with(may)
    things: dict[str, bytes] = {}
    for name, providers in state.services.items():
        number = sum(seen.sees_session(state.sessions[each].routing_id) for each in providers)
        if seen.sees_service(name):
            things[Thing(PresenceKind.SERVICE, name).topic] = (
                json.dumps({"providers": number}).replace(" ", "").encode()
            )
    for session in state.sessions.values():
        if seen.sees_session(session.routing_id):
            things[Thing(PresenceKind.SESSION, session.routing_id).topic] = network.presence._session(session)
    return {topic: payload for topic, payload in things.items() if may.may("watch", topic)}


class Machine(RuleBasedStateMachine):
    """Sessions and services come, change and go; three subscribers, of whom two may not see everything, are told."""

    def __init__(self) -> None:
        super().__init__()
        self.network = Present()
        use_policy(self.network, POLICY)
        self.members: list[Member] = []
        self.believers: list[Believer] = []

    @rule(host=st.sampled_from(["10.0.0.8", "10.0.0.9"]))
    def subscribe(self, host: str) -> None:
        if len(self.believers) < 3:
            self.believers.append(Believer(self.network, host=host))

    @rule(which=st.integers(0, 2))
    def subscribe_again(self, which: int) -> None:
        for each in self.believers[which : which + 1]:
            each.send_subscribe("$bus/#")

    @rule(which=st.integers(0, 2))
    def leave(self, which: int) -> None:
        for each in self.believers[which : which + 1]:
            each.connection.close()
            self.believers.remove(each)

    @rule()
    def connect(self) -> None:
        if len(self.members) < 4:
            self.members.append(Member(self.network.connect("objects")))

    @rule(which=st.integers(0, 3), wanted=st.sampled_from(["ann", "ann/1", "ben", "hid%"]))
    def identify(self, which: int, wanted: str) -> None:
        for each in self.members[which : which + 1]:
            each.send({"event": "routing/subscribe", "routing-id": wanted})

    @rule(which=st.integers(0, 3), name=st.sampled_from(["tv", "radio", "hid/den", "a+b"]), is_new=st.booleans())
    def provide(self, which: int, name: str, is_new: bool) -> None:
        for each in self.members[which : which + 1]:
            each.send({"event": f"services/{'register' if is_new else 'unregister'}", "name": name})

    @rule(which=st.integers(0, 3))
    def close(self, which: int) -> None:
        for each in self.members[which : which + 1]:
            each.connection.close()
            self.members.remove(each)

    @rule(policy=st.sampled_from([POLICY, NARROW]))
    def change_the_policy(self, policy: str) -> None:
        use_policy(self.network, policy)

    @rule()
    def look(self) -> None:
        self.network.wait()

    def teardown(self) -> None:
        self.network.wait()
        for each in self.believers:
            assert each.hear() == truth(self.network, each)

    @invariant()
    def nobody_believes_what_it_may_not_see(self) -> None:
        for each in self.believers:
            hidden = [topic for topic in each.hear() if "hid" in topic or "ben" in topic]
            assert not hidden or each.host != "10.0.0.9"


TestPresence = Machine.TestCase
TestPresence.settings = settings(max_examples=sized(150), stateful_step_count=30, deadline=None)


def test_a_session_is_shown_as_it_is() -> None:
    network = Present()
    member = network.member(**{"routing-id": "ann"})
    ann = Believer(network, "$bus/sessions/ann", client_id="thermostat").known
    about = {"protocol": "objects", "since": "2023-11-14T22:13:20.000000Z", "away": False}
    assert json.loads(ann["$bus/sessions/ann"]) == about
    everyone = Believer(network, "$bus/sessions/+")
    assert "thermostat" in {json.loads(each).get("name") for each in everyone.known.values()}
    member.connection.close()
    network.wait()
    assert "$bus/sessions/ann" not in everyone.hear()


def test_a_session_with_another_routing_id_has_another_topic() -> None:
    network = Present()
    member = Member(network.connect("objects"))
    former = Thing(
        PresenceKind.SESSION, network.registry.state.sessions[member.connection.protocol.session_id].routing_id
    )
    hub = Believer(network, "$bus/sessions/#")
    assert former.topic in hub.known
    member.send({"event": "routing/subscribe", "routing-id": "ann/1"})
    network.wait()
    assert former.topic not in hub.hear()
    assert "$bus/sessions/ann%2F1" in hub.known


def test_a_durable_session_without_its_client_is_away() -> None:
    network = Present()
    hub = Believer(network, "$bus/sessions/+")
    ann = durable(network)
    for is_away in (False, True, False):
        network.wait()
        found = [json.loads(each) for each in hub.hear().values()]
        assert [each["away"] for each in found if each.get("name") == "ann"] == [is_away]
        if is_away:
            ann = durable(network)
        else:
            ann.connection.close()


def test_a_subscriber_that_is_away_is_told_when_it_is_back() -> None:
    network = Present()
    away(network, "$bus/services/hall/#")
    network.member().send({"event": "services/register", "name": "hall/tv"})
    network.wait()
    back = durable(network)
    heard = [(each.topic, each.payload) for each in (*back.rest, *back.received()) if isinstance(each, Publish)]
    assert heard == [("$bus/services/hall/tv", b'{"providers":1}')]


def test_users_are_not_shown_if_the_journal_has_pseudonyms() -> None:
    network = Present()
    network.presence._shows_users = False
    network.business(user="ann", name="radio")
    shown = [json.loads(each) for each in Believer(network, "$bus/sessions/+").known.values()]
    assert "radio" in {each.get("name") for each in shown}
    assert not any("claimed" in each or "actor" in each for each in shown)


def test_members_of_the_object_network_are_told_of_changes() -> None:
    network = Present()
    member, provider = network.member(services=["$bus/services/#"]), network.member()
    member.received()
    provider.send({"event": "services/register", "name": "hall/tv"})
    network.wait()
    ((fields, payload),) = member.received()
    assert (fields["sender"], fields["type"], payload) == (
        "$bus/services/hall/tv",
        "application/json",
        b'{"providers":1}',
    )
    provider.connection.close()
    network.wait()
    assert ("$bus/services/hall/tv", b"") in [(fields.get("sender"), payload) for fields, payload in member.received()]


def test_what_changes_often_is_told_once() -> None:
    network = Present()
    hub = Believer(network, "$bus/services/#")
    providers = [network.member() for _ in range(50)]
    for each in providers:
        each.send({"event": "services/register", "name": "tv"})
        each.send({"event": "services/register", "name": "short"})
        each.send({"event": "services/unregister", "name": "short"})
    network.wait()
    hub.hear()
    assert [(each.topic, each.payload) for each in hub.heard] == [
        ("$bus/services/tv", b'{"providers":50}'),
        ("$bus/services/short", b""),
    ]


def test_nothing_is_done_while_nobody_is_subscribed() -> None:
    network = Present()
    Believer(network, "hall/#")
    network.member().send({"event": "services/register", "name": "tv"})
    assert (len(network.presence._changed), network.presence._shown) == (0, {})
    hub = Believer(network)
    network.member()
    assert len(network.presence._changed)
    hub.connection.close()
    assert (len(network.presence._changed), network.presence._shown) == (0, {})


def test_no_topic_is_in_the_journal() -> None:
    network = Present()
    Believer(network)
    network.member(**{"routing-id": "ann"}).send({"event": "services/register", "name": "tv"})
    before = len(network.journal.records)
    network.wait()
    assert len(network.journal.records) == before
    assert not any(name.startswith("$bus/") for name in network.registry.state.services)


@each_row("topic", ["$bus/sessions/ann", "$BUS/services/tv", "\uff04bus/x"])
def test_nobody_else_speaks_there(topic: str) -> None:
    network = Present()
    hub = Believer(network)
    liar = MqttPeer(network, "liar", will=Will(topic, b"lie"))
    assert liar.answer is not None
    assert liar.answer.code == ReasonCode.TOPIC_INVALID  # type: ignore[union-attr]
    liar = MqttPeer(network, "liar")
    (refused,) = liar.publish(topic, b"lie", 1, retain=True)
    assert refused.code == ReasonCode.TOPIC_INVALID  # type: ignore[union-attr]
    member = network.member()
    member.send({"event": "services/register", "name": topic})
    assert member.only_reply()["reason"] == "reserved-name"
    network.udp.publish(topic, b"lie")
    network.wait()
    hub.hear()
    assert b"lie" not in {each.payload for each in hub.heard}
    assert network.bus.retained.services() == []


def test_a_policy_that_names_all_services_does_not_name_these() -> None:
    network = Present()
    use_policy(network, '[[rule]]\nwatch = "*"\naddress = "*"\n')
    assert Believer(network).known == {}
    use_policy(network, '[[rule]]\nwatch = "$bus/services/*"\naddress = "*"\n')
    assert {topic.split("/")[1] for topic in Believer(network, "$bus/services/#").known} == set()


def test_what_may_not_be_seen_any_more_is_taken_back() -> None:
    network = Present()
    use_policy(network, POLICY)
    network.member(**{"routing-id": "ann"}).send({"event": "services/register", "name": "radio"})
    network.wait()
    hub = Believer(network, host="10.0.0.9")
    hidden = {"$bus/sessions/ann", "$bus/services/radio"}
    assert hidden <= hub.known.keys()
    use_policy(network, NARROW)
    network.wait()
    assert not hidden & hub.hear().keys()
    assert {each.topic for each in hub.heard if not each.payload} == hidden, "nothing else is named"
    use_policy(network, POLICY)
    network.wait()
    assert hidden <= hub.hear().keys()


@pytest.mark.parametrize("wanted", ["$bus/#", "$bus/services/#", "$bus/+/tv"])
def test_providers_that_are_hidden_are_not_counted(wanted: str) -> None:
    network = Present()
    use_policy(network, POLICY)
    for name in ("ann", "hid"):
        network.member(**{"routing-id": name}).send({"event": "services/register", "name": "tv"})
    for host, number in (("10.0.0.8", 2), ("10.0.0.9", 1)):
        known = Believer(network, wanted=wanted, host=host).known
        assert known["$bus/services/tv"] == b'{"providers":%d}' % number
