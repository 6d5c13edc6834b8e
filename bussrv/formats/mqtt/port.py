"""The port of MQTT: when it opens, it takes up what earlier boots left.

While it is open, clients on the port of WebSocket may speak MQTT, too.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from twisted.internet.defer import Deferred

from bussrv.formats.mqtt.over_websocket import MqttSocketProtocol
from bussrv.formats.mqtt.protocol import MqttFactory
from bussrv.plugin import IBus, StreamListener
from bussrv.wire.mqtt.over_websocket import SUBPROTOCOL


class MqttListener(StreamListener):
    """The port, its connections, and those over WebSocket."""

    def __init__(self, factory: MqttFactory, endpoint: str, reactor: Any) -> None:
        super().__init__(factory, endpoint, reactor)
        self._clients = factory.clients
        self._subprotocols = factory.bus.streams.subprotocols
        self._make = partial(factory.make_of, MqttSocketProtocol)

    def startService(self) -> None:
        """Listen; see :class:`StreamListener`."""
        super().startService()
        self._clients.recover()
        self._subprotocols[SUBPROTOCOL] = self._make

    def stop_listening(self) -> Deferred[Any]:
        """Close the port, also for those who come over WebSocket. :returns: fires when it is closed."""
        self._subprotocols.pop(SUBPROTOCOL, None)
        return super().stop_listening()


def listen(bus: IBus, endpoint: str, reactor: Any) -> MqttListener:
    """Serve MQTT; see :meth:`bussrv.interfaces.IWireFormat.listen`."""
    return MqttListener(MqttFactory(bus, reactor), endpoint, reactor)
