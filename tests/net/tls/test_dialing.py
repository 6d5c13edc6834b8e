"""Links over TLS: a session begins when the other server has proved who it is; until then there is a deadline."""

import ssl
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import CancelledError, Deferred, fail, succeed

from bussrv import events as ev
from bussrv.formats.objects.dialing import DialedProtocol, parse_link
from bussrv.net.session.factory import StreamFactory
from bussrv.net.tls.dialing import TlsLink
from bussrv.net.tls.ports import keep_certificates
from tests.formats.network import Network, Transport
from tests.net.tls.tls_clients import Place
from tests.tables import each_row

# What is dialed underneath is not.
pytestmark = pytest.mark.filterwarnings("ignore:Passing HostnameEndpoint a reactor:DeprecationWarning")

HALL = IPv4Address("TCP", "10.0.0.7", 7890)


class Far:
    """Another server that is dialed, as far as TLS goes.

    :ivar outcome: of the dial: the protocol, or a failure; ``None`` while there is none.
    """

    def __init__(self, place: Place, description: str = "", **settings: Any) -> None:
        self.network = Network(**settings)
        described = description or f"tls:localhost:7890:trustRoots={place.authority.file}"
        self.link: TlsLink = parse_link(described, self.network.bus, self.network.reactor)
        self.link.dialed = self
        self.transport = Transport(peerAddress=HALL)
        self.reached: Deferred[Any] | None = None
        self.outcome: Any = None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(place.server.certificate, place.server.key)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.got = b""

    def dial(self) -> "Deferred[Any]":
        dialing = self.link.connect(StreamFactory(DialedProtocol, self.network.bus, self.network.reactor))
        dialing.addBoth(lambda outcome: setattr(self, "outcome", outcome))
        return dialing

    def connect(self, factory: Any) -> "Deferred[Any]":
        """The endpoint that is dialed underneath."""
        if self.reached is not None:
            return self.reached
        self.protocol = factory.buildProtocol(HALL)
        self.transport.protocol = self.protocol
        self.protocol.makeConnection(self.transport)
        return succeed(self.protocol)

    def turn(self) -> None:
        """Say and hear what there is until nothing comes any more."""
        is_ready = False
        while True:
            try:
                if not is_ready:
                    self.tls.do_handshake()
                    is_ready = True
                self.got += self.tls.read(1 << 16)
            except ssl.SSLError:
                pass
            said = self._outgoing.read()
            if said and self.transport.connected:
                self.protocol.dataReceived(said)
            self.network.reactor.advance(0)
            heard = self.transport.value()
            self.transport.clear()
            if not said and not heard:
                return
            self._incoming.write(heard)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("tls"))


def pending(network: Network) -> int:
    """How many calls wait, the sweep of the Inbus port not counted."""
    return len(network.reactor.getDelayedCalls()) - 1


def test_the_session_begins_when_the_other_server_is_proved(place: Place) -> None:
    far = Far(place)
    far.dial()
    assert (far.outcome, far.network.registry.state.sessions) == (None, {})
    far.turn()
    assert isinstance(far.outcome, DialedProtocol)
    assert b'"role":"server"' in far.got
    assert [session.peer for session in far.network.registry.state.sessions.values()] == ["10.0.0.7:7890"]
    far.outcome.linked.addErrback(lambda failure: None)


@each_row(
    ("description", "why"),
    [
        ("tls:hall:7890:trustRoots=CA", "Hostname mismatch"),
        ("tls:localhost:7890:trustRoots=OWN", "self-signed|unable to get"),
        ("tls:localhost:7890", "self-signed|unable to get"),
    ],
)
def test_whoever_does_not_prove_it_gets_nothing(place: Place, description: str, why: str) -> None:
    described = description.replace("CA", str(place.authority.file)).replace("OWN", str(place.client.certificate))
    far = Far(place, described)
    far.dial()
    far.turn()
    with pytest.raises(ConnectionError, match=f"TLS failed: the certificate of the other end is not accepted: ({why})"):
        far.outcome.raiseException()
    assert (far.got, far.transport.connected, pending(far.network)) == (b"", False, 0)
    assert far.network.events(ev.SessionOpened) == []


def test_a_server_that_says_nothing_is_given_up(place: Place) -> None:
    far = Far(place, handshake_timeout=7)
    far.dial()
    far.network.reactor.advance(6.9)
    assert far.outcome is None
    far.network.reactor.advance(0.1)
    far.network.reactor.advance(0)
    with pytest.raises(ConnectionError, match="did not finish the TLS handshake in time"):
        far.outcome.raiseException()
    assert (far.transport.connected, pending(far.network)) == (False, 0)


def test_a_connection_that_ends_before_the_handshake(place: Place) -> None:
    far = Far(place)
    far.dial()
    far.transport.loseConnection()
    with pytest.raises(ConnectionError, match="closed during the TLS handshake"):
        far.outcome.raiseException()
    assert pending(far.network) == 0


def test_a_server_that_cannot_be_reached(place: Place) -> None:
    far = Far(place)
    far.reached = fail(OSError("no route"))
    far.dial()
    with pytest.raises(OSError, match="no route"):
        far.outcome.raiseException()


@each_row("is_reached", [True, False])
def test_a_server_that_stops_dials_no_more(place: Place, is_reached: bool) -> None:
    far = Far(place)
    if not is_reached:
        far.reached = Deferred()
    far.dial().cancel()
    assert far.outcome.check(CancelledError)
    assert pending(far.network) == 0
    if is_reached:
        assert far.transport.aborted


def test_certificates_are_read_again(place: Place, tmp_path: Path) -> None:
    mine = Place(tmp_path)
    own = f"certificate={mine.client.certificate}:privateKey={mine.client.key}"
    far = Far(place, f"tls:localhost:7890:trustRoots={mine.authority.file}:{own}")
    keep_certificates(far.network.bus, far.link.certificates)
    assert far.network.bus.reloadables[-1] is far.link.certificates
    days = far.network.bus.reports()["certificates"]
    assert isinstance(days, dict)
    assert days["link localhost:7890"]["days-left"] > 10_000
    mine.authority.file.write_bytes(place.authority.file.read_bytes())
    for each in far.network.bus.reloadables:
        each.prepare()()
    far.dial()
    far.turn()
    assert isinstance(far.outcome, DialedProtocol)
    far.outcome.linked.addErrback(lambda failure: None)
