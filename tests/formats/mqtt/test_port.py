"""The port of MQTT: while it is open, and only then, clients on the port of WebSocket may speak MQTT."""

from bussrv.formats.mqtt.port import listen
from bussrv.formats.websocket.protocol import WebSocketProtocol
from tests.formats.mqtt.peer import MqttPeer
from tests.formats.mqtt.sockets import MqttSocket
from tests.formats.network import Network
from tests.net.test_listening import Reactor


def test_clients_over_websocket_come_and_go_with_the_port() -> None:
    network, reactor = Network(), Reactor()
    network.bus.streams.subprotocols.clear()
    assert isinstance(MqttSocket(network).protocol, WebSocketProtocol)
    port = listen(network.bus, "tcp:1883:interface=127.0.0.1", reactor)
    assert isinstance(MqttSocket(network).protocol, WebSocketProtocol)
    port.startService()
    page = MqttPeer(network, connection=MqttSocket(network))
    assert page.is_open
    port.drain(5)
    reactor.advance(6)
    assert not page.is_open
    assert isinstance(MqttSocket(network).protocol, WebSocketProtocol)


def test_a_port_that_stops_ends_its_sessions_over_websocket() -> None:
    network, reactor = Network(), Reactor()
    port = listen(network.bus, "tcp:1883:interface=127.0.0.1", reactor)
    port.startService()
    socket = MqttSocket(network)
    page = MqttPeer(network, connection=socket)
    port.stopService()
    assert not page.is_open
    assert socket.close_frame() == (1001, "server-stopped")
    assert not network.bus.streams.subprotocols
