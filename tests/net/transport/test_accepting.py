"""How many connections may wait at a port, and what happens when it cannot accept them."""

import contextlib
import socket

from twisted.internet import reactor
from twisted.internet.task import Clock
from twisted.logger import Logger, capturedLogs

from bussrv.net.listening import StreamListener, with_backlog
from bussrv.net.transport.accepting import MOST_ACCEPTED, REST, watch_accepting
from tests.formats.network import Connection, Network
from tests.tables import each_row


@each_row(
    ("description", "expected"),
    [
        ("tcp:7890", "tcp:7890:backlog=1024"),
        ("tcp:7890:interface=127.0.0.1:backlog=7", "tcp:7890:interface=127.0.0.1:backlog=7"),
        ("ssl:7890:privateKey=a.pem", "ssl:7890:privateKey=a.pem:backlog=1024"),
        ("haproxy:tcp:7890", "haproxy:tcp:7890:backlog=1024"),
        ("unix:/run/bus", "unix:/run/bus:backlog=1024"),
        ("systemd:domain=INET:index=0", "systemd:domain=INET:index=0"),
    ],
)
def test_a_port_has_the_set_backlog_or_that_of_its_description(description, expected):
    assert with_backlog(description, 1024) == expected


def test_the_backlog_reaches_the_port():
    network = Network(listen_backlog=77)
    for description in ("tcp:0:interface=127.0.0.1", "haproxy:tcp:0:interface=127.0.0.1"):
        listener = StreamListener(network.factory("objects"), description, reactor)
        listener.startService()
        assert listener._port.backlog == 77
        listener.stopService()


def test_without_descriptors_a_connection_is_closed_at_once():
    network = Network()
    factory = network.factory("objects")
    factory.in_turns = True
    network.bus.streams.most_connections = 2
    first = network.connect("objects"), network.connect("spp")
    third = Connection(factory.buildProtocol(None))
    assert third.transport.aborted
    assert (network.bus.counters["no-descriptors"], len(network.registry.state.sessions)) == (1, 2)
    first[0].close()
    assert network.connect("objects").is_open


def test_a_flood_of_connections_is_accepted_a_few_at_a_time():
    network = Network()
    listener = StreamListener(network.factory("objects"), "tcp:0:interface=127.0.0.1", reactor)
    listener.startService()
    port = listener._port
    address = ("127.0.0.1", port.getHost().port)
    with contextlib.ExitStack() as stack:
        for _ in range(3 * MOST_ACCEPTED):
            stack.enter_context(socket.create_connection(address, 10))
        for reads in (1, 2, 3):
            port.doRead()
            assert len(network.registry.state.sessions) == reads * MOST_ACCEPTED
        port.doRead()
        assert len(network.registry.state.sessions) == 3 * MOST_ACCEPTED
        for protocol in tuple(network.factory("objects").protocols):
            protocol.transport.abortConnection()
    listener.stopService()


class FullPort:
    """A port, and whether it is read from."""

    connected, disconnecting, is_read = True, False, True
    _logger = Logger()

    def stopReading(self):
        self.is_read = False

    def startReading(self):
        self.is_read = True


def test_a_port_that_can_accept_nothing_rests_and_says_so():
    port, clock = FullPort(), Clock()
    watch_accepting(port, "tcp:7890", clock)
    with capturedLogs() as logged:
        for _ in range(100):
            port._logger.info("EMFILE encountered; releasing reserved file descriptor.")
            port._logger.info("EMFILE recovery: Closed socket from {address}", address=("10.0.0.1", 1))
        assert port.is_read
        port._logger.info("Could not accept new connection ({acceptError})", acceptError="EMFILE")
        assert not port.is_read
        clock.advance(REST)
        assert port.is_read
        port._logger.info("Could not accept new connection ({acceptError})", acceptError="EMFILE")
        port.disconnecting = True
        clock.advance(20)
        assert not port.is_read
        port._logger.info("EMFILE recovery: Closed socket from {address}", address=("10.0.0.1", 1))
    assert [(event["why"], event["suppressed"]) for event in logged] == [
        ("too many open files", 0),
        ("too many open files", 101),
    ]
