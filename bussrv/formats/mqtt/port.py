"""The port of MQTT: what its connections are made of, and what earlier boots left.

While it is open, clients on the port of WebSocket may speak MQTT, too.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from twisted.internet.defer import Deferred

from bussrv.formats.mqtt.over_websocket import MqttSocketProtocol
from bussrv.formats.mqtt.protocol import MqttFactory, MqttProtocol
from bussrv.formats.mqtt.publishing import Publishing
from bussrv.formats.mqtt.requests import Requests
from bussrv.formats.mqtt.subscribing import Subscribing
from bussrv.plugin import IBus, StreamListener
from bussrv.wire.mqtt.over_websocket import SUBPROTOCOL
from bussrv.wire.mqtt.packets import Packet, Publish, Pubrel, Subscribe, Unsubscribe


class MqttParts:
    """The parts of a connection."""

    __slots__ = ("_publishing", "_subscribing", "requests")

    def __init__(self, connection: MqttProtocol) -> None:
        self.requests = Requests(connection)
        self._publishing = Publishing(connection, self.requests)
        self._subscribing = Subscribing(connection, self.requests)

    def serve(self, packet: Packet) -> bool:
        """Serve a packet, if it is one for them. :returns: whether it is."""
        if isinstance(packet, Publish):
            self._publishing.receive(packet)
        elif isinstance(packet, Pubrel):
            self._publishing.release(packet)
        elif isinstance(packet, Subscribe):
            self._subscribing.subscribe(packet)
        elif isinstance(packet, Unsubscribe):
            self._subscribing.unsubscribe(packet)
        else:
            return False
        return True

    def end(self) -> None:
        """The session is closed."""
        self.requests.end()


def make_factory(bus: IBus, reactor: Any) -> MqttFactory:
    """The factory of connections."""
    return MqttFactory(bus, reactor, MqttParts)


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
    return MqttListener(make_factory(bus, reactor), endpoint, reactor)
