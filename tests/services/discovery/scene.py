"""A server in memory that says who and what is there, and a client of MQTT that believes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bussrv.policy.permissions.file import parse_policy
from bussrv.services.discovery.changed_keys import PAUSE
from bussrv.services.discovery.presence import Presence
from bussrv.wire.mqtt.packets import Publish, WantedFilter
from tests.formats.mqtt.peer import MqttPeer
from tests.formats.network import Network
from tests.services.scene import Hosting

FORMATS = ("objects", "spp", "inbus", "business", "mqtt")


class Present(Hosting):
    """Says who and what is there."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.presence = Presence(self.bus, self.reactor)

    def wait(self) -> None:
        wait(self)


def wait(network: Network) -> None:
    """Let the server look at what changed."""
    network.reactor.pump([PAUSE, 0, 0])


def use_policy(network: Network, text: str) -> None:
    network.bus.access.policy = parse_policy(text, Path("policy.toml"), FORMATS)
    network.bus.policy_changed()


class Believer(MqttPeer):
    """Keeps what is retained, by topic."""

    def __init__(
        self, network: Network, wanted: str = "$bus/#", *, client_id: str = "", host: str = "10.0.0.1"
    ) -> None:
        self.host = host
        super().__init__(network, client_id, host=host)
        self.known: dict[str, bytes] = {}
        self.heard: list[Publish] = []
        self.send_subscribe(wanted)

    def send_subscribe(self, wanted: str) -> None:
        self.known.clear()
        self.believe(self.subscribe(WantedFilter(wanted, 1, retain_as_published=True)))

    def believe(self, packets: list[Any]) -> None:
        self.heard = [each for each in packets if isinstance(each, Publish)]
        for each in self.heard:
            assert each.retain
            self.known[each.topic] = each.payload
        self.known = {topic: payload for topic, payload in self.known.items() if payload}

    def hear(self) -> dict[str, bytes]:
        """What it believes by now."""
        self.believe(self.received())
        return self.known
