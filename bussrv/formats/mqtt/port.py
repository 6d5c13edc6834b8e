"""The port of MQTT: what its connections are made of, and what earlier boots left.

While it is open, clients on the port of WebSocket may speak MQTT, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred

from bussrv.formats.mqtt.over_websocket import MqttSocketProtocol
from bussrv.formats.mqtt.protocol import MqttFactory, MqttProtocol, Parts
from bussrv.formats.mqtt.publishing import Publishing
from bussrv.formats.mqtt.requests import Requests
from bussrv.formats.mqtt.subscribing import Subscribing
from bussrv.plugin import IBus, StreamListener
from bussrv.wire.mqtt.over_websocket import SUBPROTOCOL
from bussrv.wire.mqtt.packets import Publish, Pubrel, Subscribe, Unsubscribe


def parts_of(connection: MqttProtocol) -> Parts:
    """The parts of a connection."""
    requests = Requests(connection)
    publishing, subscribing = Publishing(connection, requests), Subscribing(connection, requests)
    serve: dict[type, Callable[[Any], object]] = {
        Publish: publishing.receive,
        Pubrel: publishing.release,
        Subscribe: subscribing.subscribe,
        Unsubscribe: subscribing.unsubscribe,
    }
    return Parts(serve, requests.end)


def make_factory(bus: IBus, reactor: Any) -> MqttFactory:
    """The factory of connections."""
    return MqttFactory(bus, reactor, parts_of)


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
