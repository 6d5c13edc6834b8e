"""Clients that prove who they are by a TLS certificate, in every stream format."""

from typing import Any

import pytest
from twisted.internet.address import IPv4Address

from bussrv import events as ev
from bussrv.policy.logins.checkers import CertificateUsers, Users
from bussrv.policy.logins.identity import Identity
from bussrv.wire import spp
from bussrv.wire.objects import encode
from tests.formats.network import Network, Transport
from tests.logins import USERS, ask, at_once
from tests.net.tls.tls_clients import Place, Port, Secure
from tests.tables import each_row
from tests.wire.test_websocket import REQUEST, frame

JOIN = {
    "objects": encode({"event": "routing/subscribe", "user": "joe"}),
    "business": encode({"event": "client/register", "user": "joe"}),
    "spp": spp.subscribe("tv"),
    "websocket": REQUEST + frame(encode({"event": "routing/subscribe", "user": "joe"})),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("certificates"))


def asking(place: Place, name: str, field: str = "cn", wanted: str = "optional") -> tuple[Network, Port]:
    network = Network()
    identity = Identity(network.reactor, at_once)
    identity.use([CertificateUsers(field), Users(USERS)])
    ask(network, identity)
    return network, Port(network, f"{place.port}:clientCA={place.authority.file}:clientCert={wanted}", name)


def actors(network: Network) -> list[str | None]:
    return [each.actor for each in network.registry.state.sessions.values()]


@pytest.mark.parametrize("name", JOIN)
def test_a_certificate_is_a_login(name: str, place: Place) -> None:
    network, port = asking(place, name)
    client = Secure(port.connect(), place.context(place.client))
    client.send(JOIN[name])
    (succeeded,) = network.events(ev.AuthSucceeded)
    assert (succeeded.actor, succeeded.method, succeeded.protocol) == ("ann", "certificate", name)
    assert actors(network) == ["ann"]
    assert network.events(ev.AuthFailed) == []
    if name == "spp":
        (refused,) = network.events(ev.SubscriptionRefused)
        assert (refused.actor, refused.reason) == ("ann", "no-such-service")
    else:
        assert b"/reply" in client.take()


@pytest.mark.parametrize("name", JOIN)
def test_without_one_a_client_is_nobody(name: str, place: Place) -> None:
    """Also over TLS: a handshake alone is no login."""
    network, port = asking(place, name)
    client = Secure(port.connect(), place.context())
    client.send(JOIN[name])
    assert network.events(ev.AuthSucceeded, ev.AuthFailed) == []
    assert actors(network) == [None]
    if name == "spp":
        assert [each.reason for each in network.events(ev.SubscriptionRefused)] == ["not-authenticated"]
        assert client.take() == b""
    else:
        assert b'"not-authenticated"' in client.take()


def test_a_secret_may_follow_a_journaled_certificate_of_nobody(place: Place) -> None:
    network, port = asking(place, "objects", field="email")
    client = Secure(port.connect(), place.context(place.client))
    (failed,) = network.events(ev.AuthFailed)
    assert (failed.reason, failed.method, failed.actor, failed.claimed) == (
        "bad-certificate",
        "certificate",
        None,
        None,
    )
    client.send(encode({"event": "routing/subscribe", "user": "ann", "secret": "s3cret"}))
    assert b"routing/subscribe/reply" in client.take()
    assert actors(network) == ["ann"]


def test_without_such_a_checker_a_certificate_says_nothing(place: Place) -> None:
    network, port = asking(place, "objects")
    network.bus.identity.use([Users(USERS)])
    Secure(port.connect(), place.context(place.client))
    assert actors(network) == [None]
    assert network.events(ev.AuthSucceeded, ev.AuthFailed) == []


def test_a_user_by_certificate_cannot_become_somebody_else(place: Place) -> None:
    network, port = asking(place, "objects")
    network.bus.identity.use([CertificateUsers("cn"), Users({"bob": USERS["ann"]})])
    client = Secure(port.connect(), place.context(place.client))
    client.send(encode({"event": "routing/subscribe", "user": "bob", "secret": "s3cret"}))
    assert b'"actor-fixed"' in client.take()
    assert actors(network) == ["ann"]


class Verified:
    """The TLS side of a transport whose client has a certificate."""

    def getpeercert(self) -> dict[str, Any]:
        return {"subject": ((("commonName", "ann"),),)}


@pytest.mark.dear
@each_row("name", JOIN)
def test_endless_certificate_logins_do_not_fill_the_journal(name: str) -> None:
    network = Network(journal_session_rate=1000, journal_session_burst=10_000)
    identity = Identity(network.reactor, at_once)
    identity.use([CertificateUsers("cn")])
    ask(network, identity)
    for _ in range(1000):
        protocol = network.factory(name).buildProtocol(None)
        transport = Transport(peerAddress=IPv4Address("TCP", "10.0.0.1", 4711))
        transport.protocol, transport.tls = protocol, Verified()
        protocol.makeConnection(transport)
        if name == "websocket":
            protocol.dataReceived(REQUEST)  # a session begins with it
        transport.loseConnection()
    # Openings and closings beside, 50 of each at once.
    assert network.journal.bytes_accepted < 60_000
    assert 0 < len(network.events(ev.AuthSucceeded)) < 50
