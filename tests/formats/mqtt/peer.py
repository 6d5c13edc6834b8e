"""A client of MQTT in memory."""

from __future__ import annotations

from typing import Any

from bussrv.testing.mqtt import MqttClient
from bussrv.wire.mqtt.packets import VERSION_3_1_1, VERSION_5
from tests.formats.network import Connection, Network

VERSIONS = (VERSION_3_1_1, VERSION_5)


class MqttPeer(MqttClient):
    connection: Connection

    def __init__(
        self,
        network: Network,
        client_id: str = "ann",
        version: int = VERSION_5,
        connection: Connection | None = None,
        *,
        host: str = "10.0.0.1",
        **asked: Any,
    ) -> None:
        made = network.connect("mqtt", host) if connection is None else connection
        super().__init__(made, client_id, version, **asked)

    @property
    def session_id(self) -> str:
        return self.connection.protocol.session_id
