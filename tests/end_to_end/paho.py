"""A client of MQTT that others wrote: paho-mqtt."""

from __future__ import annotations

import queue
import ssl
import threading

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion

from bussrv.testing.server import PATIENCE, RunningServer
from tests.certificates import Pair
from tests.net.tls.tls_clients import Place

VERSIONS = {4: MQTTProtocolVersion.MQTTv311, 5: MQTTProtocolVersion.MQTTv5}


class Paho:
    """A client, as a context manager: it has connected, or was refused.

    :param name: the port: ``mqtt`` or ``websocket``.
    :param place: has the authority, if the port has TLS.
    :param pair: its own key and certificate.
    :ivar code: of its CONNACK; ``None``: there was none.
    """

    def __init__(
        self,
        server: RunningServer,
        name: str,
        client_id: str,
        version: int = 5,
        *,
        place: Place | None = None,
        pair: Pair | None = None,
    ) -> None:
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id,
            protocol=VERSIONS[version],
            transport="websockets" if name == "websocket" else "tcp",
            reconnect_on_failure=False,
        )
        self._messages: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()
        self._is_answered = threading.Event()
        self._ends: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._granted: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.client.on_connect = lambda client, data, flags, code, properties: self._connected(code.value)
        self.client.on_disconnect = lambda client, data, flags, code, properties: self._ends.put(code.value)
        self.client.on_subscribe = lambda client, data, number, codes, properties: self._granted.put(codes[0].value)
        self.client.on_message = lambda client, data, message: self._messages.put(
            (message.topic, bytes(message.payload))
        )
        if place is not None:
            key, certificate = (None, None) if pair is None else (str(pair.key), str(pair.certificate))
            self.client.tls_set(str(place.authority.file), certificate, key)
        self._address = "localhost" if place else "127.0.0.1", server.port(name)
        self.code: int | None = None

    def __enter__(self) -> Paho:
        self.client.connect(*self._address)
        self.client.loop_start()
        assert self._is_answered.wait(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.disconnect()
        self.client.loop_stop()

    def why_not(self) -> str:
        """Connect, and wait until the connection is gone. :returns: how it ended, as TLS or paho has it."""
        try:
            self.client.connect(*self._address)
            while not (fault := self.client.loop(PATIENCE)):
                pass
        except ssl.SSLError as error:
            return str(error.reason)
        return MQTTErrorCode(fault).name.removeprefix("MQTT_ERR_")

    def _connected(self, code: int) -> None:
        self.code = code
        self._is_answered.set()

    def subscribe(self, name: str, qos: int = 0) -> int:
        self.client.subscribe(name, qos)
        return self._granted.get(timeout=PATIENCE)

    def publish(self, topic: str, payload: bytes, qos: int = 0, *, retain: bool = False) -> None:
        """Publish, and wait for what the QoS promises."""
        self.client.publish(topic, payload, qos, retain).wait_for_publish(PATIENCE)

    def message(self) -> tuple[str, bytes]:
        return self._messages.get(timeout=PATIENCE)

    def end(self) -> int:
        """The code that the server ended the session with."""
        return self._ends.get(timeout=PATIENCE)
