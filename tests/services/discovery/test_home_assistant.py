"""Devices of Home Assistant come with their services and go with them, also while it or the server was away."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from bussrv.plugin import HostedService, matches
from bussrv.services.discovery import home_assistant, remembered
from bussrv.services.discovery.configs import Sensors
from bussrv.services.discovery.home_assistant import GRACE, HomeAssistant
from bussrv.spool.file import SpoolFile
from bussrv.spool.spool import Spool
from bussrv.wire.mqtt.packets import Publish
from bussrv.wire.mqtt.reasons import ReasonCode
from tests.formats.mqtt.peer import MqttPeer
from tests.formats.network import SERVER, Member
from tests.services.discovery.scene import Believer, use_policy, wait
from tests.services.scene import DOOR, Hosting
from tests.size import sized
from tests.spool.support import Reactor
from tests.tables import each_row

SENSORS = Sensors(SERVER)
EVERYTHING = "homeassistant/#"


class Home(Hosting):
    """A server that announces devices. :param directory: of its spool; ``None``: in memory."""

    reactor: Reactor

    def __init__(self, directory: Path | None = None, *plugins: HostedService, **more: Any) -> None:
        super().__init__(*plugins, reactor=Reactor(), **more)
        bus = self.bus
        bus.spool = Spool(SpoolFile(directory), bus.settings, bus.counters, self, self.reactor)
        self.announced = HomeAssistant(bus, self.reactor)
        self.reactor.wait(self.announced.start())
        self.settle()

    def settle(self) -> None:
        """Let what is announced be remembered, and looked at."""
        self.reactor.wait(self.bus.spool.owner(remembered.OWNER))
        wait(self)

    def utc(self) -> int:
        return self.bus.utc()

    def mono(self) -> int:
        return self.bus.utc()

    def provider(self, *services: str, announce: object = True, **subscription: Any) -> Member:
        """A member that wants its services announced."""
        member = self.member(**subscription)
        for name in services:
            member.send({"event": "services/register", "name": name, "announce": announce})
        self.settle()
        return member

    def stop(self) -> None:
        self.announced.stop()
        self.reactor.wait(self.bus.spool.close())


@pytest.fixture
def homes() -> Iterator[Callable[..., Home]]:
    """Makes servers, which are stopped in the end."""
    made: list[Home] = []

    def make(*parameters: Any, **more: Any) -> Home:
        made.append(Home(*parameters, **more))
        return made[-1]

    yield make
    for each in made:
        if each.bus.spool.unavailable is None:
            each.stop()


@pytest.fixture
def home(homes: Callable[..., Home]) -> Home:
    return homes()


def devices(believer: Believer) -> dict[str, str]:
    """The names of the devices that Home Assistant shows as available, by service."""
    configs = [json.loads(each) for topic, each in believer.hear().items() if topic.endswith("/config")]
    online = [each for each in configs if believer.known.get(each["availability_topic"]) == b"online"]
    return {each["state_topic"]: each["device"]["name"] for each in online}


def test_a_device_comes_with_its_service_and_goes_with_its_lease(home: Home) -> None:
    before = Believer(home, EVERYTHING)
    home.udp.publish("hall/temp", b"21")
    home.settle()
    assert devices(before) == {"hall/temp": "10.0.0.3"}
    assert {each.topic for each in before.heard} == {
        SENSORS.config_topic("hall/temp"),
        SENSORS.availability_topic("hall/temp"),
    }
    assert devices(Believer(home, EVERYTHING)) == {"hall/temp": "10.0.0.3"}
    home.reactor.advance(home.bus.settings.inbus_lease)
    home.reactor.pump([60] * 3)
    assert "hall/temp" not in home.registry.state.services
    home.settle()
    assert before.hear() == {}
    assert [each.payload for each in before.heard] == [b"", b""]


def test_home_assistant_that_was_away_is_told_what_is_gone(home: Home) -> None:
    provider = home.provider("hall/temp")
    hub = Believer(home, "homeassistant/+/+/+/config")
    home.settle()
    assert hub.hear()
    hub.connection.close()
    provider.connection.close()
    home.settle()
    again = Believer(home, "homeassistant/+/+/+/config")
    assert [(each.topic, each.payload) for each in again.heard] == [(SENSORS.config_topic("hall/temp"), b"")]


@each_row(("announce", "is_announced"), [(True, True), (False, False), ("true", False), (1, False), (None, False)])
def test_a_member_says_whether_its_service_is_announced(home: Home, announce: object, is_announced: bool) -> None:
    service = f"as {announce!r}"
    home.provider(service, announce=announce)
    assert (service in devices(Believer(home, EVERYTHING))) == is_announced


def test_a_refused_service_is_not_announced(home: Home) -> None:
    home.provider("bus/x", "hall/#", "a+b")
    assert Believer(home, EVERYTHING).known == {}


def test_services_of_plugins_are_announced_except_bus(homes: Callable[..., Home]) -> None:
    home = homes(None, DOOR)
    home.settle()
    assert devices(Believer(home, EVERYTHING)) == {"door": f"bussrv {SERVER}"}


def test_clients_of_mqtt_announce_themselves(home: Home) -> None:
    peer = MqttPeer(home, "sensor")
    peer.publish("hall/temp", b"21")
    peer.publish("homeassistant/sensor/mine/temp/config", b"{}", retain=True)
    assert list(Believer(home, EVERYTHING).known) == ["homeassistant/sensor/mine/temp/config"]


def test_nobody_else_speaks_for_the_server(home: Home) -> None:
    home.provider("hall/temp")
    (refused,) = MqttPeer(home, "liar").publish(SENSORS.config_topic("hall/temp"), b"", 1, retain=True)
    assert refused.code == ReasonCode.TOPIC_INVALID  # type: ignore[union-attr]
    assert devices(Believer(home, EVERYTHING)) != {}


def test_the_last_provider_that_goes_takes_the_device(home: Home) -> None:
    one, other = home.provider("hall/temp"), home.provider("hall/temp")
    hub = Believer(home, EVERYTHING)
    one.send({"event": "services/unregister", "name": "hall/temp"})
    home.settle()
    assert devices(hub) == {"hall/temp": "10.0.0.1"}
    other.connection.close()
    home.settle()
    assert devices(hub) == {}


def test_the_policy_hides_devices_and_their_providers(home: Home) -> None:
    use_policy(
        home,
        '[[rule]]\nnetworks = "10.0.0.9/32"\nwatch = ["homeassistant/#", "homeassistant/*", "hall/temp"]\n'
        '[[rule]]\nnetworks = "10.0.0.1/32"\nsend = "*"\nprovide = "*"\naddress = "*"\nwatch = "*"\n',
    )
    home.provider("hall/temp", "hall/secret")
    hidden = Believer(home, EVERYTHING, host="10.0.0.9")
    assert devices(hidden) == {"hall/temp": f"bussrv {SERVER}"}
    assert b"secret" not in b"".join(hidden.known.values())
    assert set(devices(Believer(home, EVERYTHING))) == {"hall/temp", "hall/secret"}


@pytest.mark.parametrize("wanted", [EVERYTHING, "#", SENSORS.config_topic("hall/secret")])
def test_a_change_of_the_policy_gives_and_withdraws_devices(home: Home, wanted: str) -> None:
    """Also to a hub that subscribed to one topic. What it could never see is not named to it."""

    def allow(*services: str) -> None:
        use_policy(
            home,
            f'[[rule]]\nnetworks = "10.0.0.9/32"\nwatch = {json.dumps(["#", "homeassistant/*", wanted, *services])}\n'
            '[[rule]]\nnetworks = "10.0.0.1/32"\nsend = "*"\nprovide = "*"\naddress = "*"\nwatch = "*"\n',
        )
        home.settle()

    allow("hall/temp")
    home.provider("hall/temp", "hall/secret", "hall/hidden")
    hub = Believer(home, wanted, host="10.0.0.9")
    before = dict(hub.known)
    assert SENSORS.config_topic("hall/secret") not in before
    allow("hall/temp", "hall/secret")
    assert SENSORS.config_topic("hall/secret") in hub.hear()
    assert {each.topic: each.payload for each in hub.heard}.items() >= before.items()
    allow("hall/temp")
    assert hub.hear() == before
    topics = {SENSORS.config_topic("hall/secret"), SENSORS.availability_topic("hall/secret")}
    assert {each.topic for each in hub.heard if not each.payload} == {each for each in topics if matches(wanted, each)}
    allow()
    assert hub.hear() == {}
    assert b"hidden" not in b"".join(each.topic.encode() + each.payload for each in hub.heard)


def test_a_restart_removes_what_does_not_come_back(homes: Callable[..., Home], tmp_path: Path) -> None:
    first = homes(tmp_path / "spool")
    first.provider("stays", "goes")
    first.stop()
    second = homes(tmp_path / "spool")
    hub = Believer(second, EVERYTHING)
    # Until they are back, Home Assistant keeps the sensors, and shows them as unavailable.
    assert hub.known == {SENSORS.availability_topic(name): b"offline" for name in ("stays", "goes")}
    second.provider("stays")
    second.settle()
    assert devices(hub) == {"stays": "10.0.0.1"}
    second.reactor.advance(GRACE)
    second.settle()
    assert devices(hub) == {"stays": "10.0.0.1"}
    assert SENSORS.availability_topic("goes") not in hub.known
    again = Believer(second, SENSORS.config_topic("goes"))
    assert [each.payload for each in again.heard] == [b""]


def test_devices_stay_when_the_server_stops(home: Home) -> None:
    provider = home.provider("hall/temp")
    hub = Believer(home, EVERYTHING)
    home.announced.stop()
    provider.connection.close()
    home.settle()
    assert devices(hub) == {"hall/temp": "10.0.0.1"}


def test_what_is_announced_and_remembered_has_bounds(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_assistant, "MOST", 2)
    monkeypatch.setattr(remembered, "MOST", 3)
    home.provider("a", "b", "c")
    assert set(devices(Believer(home, EVERYTHING))) == {"a", "b"}
    assert home.bus.counters["discovery-full"] == 1
    (session_id,) = home.registry.state.services["b"]
    home.registry.lose_service(session_id, "b", "closed-by-operator")
    for name in ("d", "e", "f"):
        home.provider(name).connection.close()
    hub = Believer(home, EVERYTHING)
    topics = {each.topic for each in hub.heard if each.topic.endswith("/config")}
    assert topics == {SENSORS.config_topic(name) for name in ("a", "e", "f")}
    assert set(devices(hub)) == {"a"}
    kept = home.reactor.wait(home.bus.spool.page(remembered.OWNER, remembered.KIND))
    assert {each.key for each in kept.entries} == {"a", "e", "f"}


class Machine(RuleBasedStateMachine):
    """Providers come and go; what Home Assistant shows is what is provided."""

    def __init__(self) -> None:
        super().__init__()
        self.home = Home()
        self.hub = Believer(self.home, EVERYTHING)
        self.members: list[Member] = []

    @rule(name=st.sampled_from(["tv", "hall/temp", "é_"]))
    def publish(self, name: str) -> None:
        self.home.udp.publish(name, b"1")

    @rule(seconds=st.sampled_from([1.0, 2000.0]))
    def pass_time(self, seconds: float) -> None:
        self.home.reactor.advance(seconds)

    @rule(name=st.sampled_from(["tv", "hall/temp", "radio"]))
    def join(self, name: str) -> None:
        if len(self.members) < 3:
            self.members.append(self.home.provider(name))

    @rule(which=st.integers(0, 2))
    def close(self, which: int) -> None:
        for each in self.members[which : which + 1]:
            each.connection.close()
            self.members.remove(each)

    @rule(name=st.sampled_from(["tv", "radio"]), which=st.integers(0, 2))
    def unregister(self, which: int, name: str) -> None:
        for each in self.members[which : which + 1]:
            each.send({"event": "services/unregister", "name": name})

    @rule()
    def reconnect(self) -> None:
        former = self.hub
        former.hear()
        former.connection.close()
        self.hub = Believer(self.home, EVERYTHING)
        heard = {each.topic: each.payload for each in self.hub.heard}
        self.hub.known = {topic: payload for topic, payload in {**former.known, **heard}.items() if payload}

    @rule()
    def look(self) -> None:
        self.home.settle()

    def teardown(self) -> None:
        self.home.settle()
        services = {name for name in self.home.registry.state.services if not name.startswith("bus/")}
        assert set(devices(self.hub)) == services
        configs = {topic for topic in self.hub.known if topic.endswith("/config")}
        assert configs == set(map(SENSORS.config_topic, services))
        self.home.stop()


TestHomeAssistant = Machine.TestCase
TestHomeAssistant.settings = settings(max_examples=sized(60), stateful_step_count=25, deadline=None)


def test_a_config_is_a_retained_message(home: Home) -> None:
    home.provider("hall/temp")
    (config,) = Believer(home, SENSORS.config_topic("hall/temp")).heard
    assert isinstance(config, Publish)
    assert (config.retain, config.properties.content_type) == (True, "application/json")
