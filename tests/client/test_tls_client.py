"""Clients over TLS: the same calls, the same patience; errors say what is wrong with whose certificate."""

import socket
import ssl
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from bussrv.client.objects import ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.client.tls import Tls
from bussrv.wire import spp
from tests.certificates import BEGIN, Authority
from tests.net.tls.tls_clients import Place
from tests.tables import check_each


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return Place(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def secure(serve, place):
    """Start a server that runs ``script(peer)`` over TLS. :returns: its port."""

    def start(script, pair=place.server, authority=None):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        if authority is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(authority.file)

        def shake_hands(peer):
            try:
                peer.connection = context.wrap_socket(peer.connection, server_side=True)
            except (ssl.SSLError, ConnectionError):
                return
            script(peer)

        return serve(shake_hands)

    return start


def here(place, **more):
    return Tls(ca=place.authority.file, server_name="localhost", **more)


def until_closed(peer):
    """Read as others do, which are told of the end and tell it, too."""
    while peer.chunk():
        pass
    peer.connection.unwrap()


def test_settings_of_the_standard_library_will_do(secure, place):
    port = secure(lambda peer: peer.send(spp.offer("a")))
    context = place.context()
    context.check_hostname = False
    with SppClient(port=port, tls=context) as client:
        assert client.next_event() == spp.Offer("a")


def test_what_came_in_one_record_is_there_at_once(secure, place):
    """Bytes that TLS has already read are not lost on a client that looks only at what has arrived."""

    def offer(peer):
        peer.send(spp.offer("a") + spp.offer("b") * 5000)
        until_closed(peer)

    with SppClient(port=secure(offer), tls=here(place)) as client:
        assert client.next_event() == spp.Offer("a")
        assert [client.next_event() for _ in range(5000)] == [spp.Offer("b")] * 5000
        with pytest.raises(TimeoutError):
            client.next_event(0)
        with pytest.raises(TimeoutError):
            client.next_event(0.01)


def test_what_was_sent_last_arrives_and_the_end_is_said(secure, place):
    got = []

    def read(peer):
        peer.send(spp.offer("a") * 1000)
        while data := peer.chunk():  # Without the end of TLS this would raise.
            got.append(data)

    with SppClient(port=secure(read), tls=here(place)) as client:
        client._send(b"x" * 1_000_000)
    assert client._closed
    client.close()


def test_the_end_of_the_server_is_noticed(secure, place):
    with (
        SppClient(port=secure(lambda peer: peer.connection.unwrap()), tls=here(place)) as client,
        pytest.raises(ConnectionError, match=r"closed the connection$"),
    ):
        client.next_event()


def test_a_client_without_tls_asks_whether_the_port_speaks_it(serve):
    """If the server closed the connection without a word. Over TLS it has spoken before."""

    def reset(peer):
        assert peer.exactly(len(go)) == go
        peer.reset()

    go = spp.subscribe("go")
    for script in (lambda peer: peer.exactly(len(go)), reset):
        with SppClient(port=serve(script)) as client:
            client.subscribe("go")
            with pytest.raises(ConnectionError, match=r", before .*: does that port speak TLS\?$"):
                client.next_event()


def test_a_server_that_does_not_take_what_is_sent(secure, place):
    released = threading.Event()
    client = SppClient(port=secure(lambda peer: released.wait(30)), tls=here(place))
    client.timeout = 0.1
    try:
        with pytest.raises(TimeoutError, match=r"did not take 67108864 bytes within 0\.1 s"):
            client._send(bytes(64 << 20))
    finally:
        released.set()


def test_who_does_not_prove_who_it_is_is_not_spoken_to(secure, place, tmp_path):
    other = Authority(tmp_path / "other")
    expired = place.authority.pair(tmp_path / "expired", end=BEGIN.replace(year=2021))

    def check(row):
        tls, pair, said = row
        port = secure(until_closed, pair)
        with pytest.raises(ConnectionError) as caught:
            ObjectsClient(port=port, tls=tls)
        begin = f"no TLS with 127.0.0.1 port {port}: the certificate of the server is not accepted: "
        assert str(caught.value).startswith(begin + said)

    check_each(
        [
            ("wrong authority", (Tls(ca=other.file, server_name="localhost"), place.server, "unable to get local")),
            ("wrong name", (Tls(ca=place.authority.file), place.server, "IP address mismatch")),
            ("expired", (here(place), expired, "certificate has expired")),
        ],
        check,
    )


def test_a_server_without_tls(serve, place):
    port = serve(lambda peer: peer.send(b"hello, this is no TLS"))
    with pytest.raises(ConnectionError, match=f"no TLS with .* port {port}: the server does not speak TLS there"):
        ObjectsClient(port=port, tls=here(place))


def test_a_server_that_never_shakes_hands(place):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(TimeoutError, match=f"port {port} did not finish the TLS handshake within 0.05 s"):
            ObjectsClient(port=port, tls=here(place), timeout=0.05)


def test_a_certificate_of_the_client(secure, place):
    def whose(peer):
        (((_, name),),) = peer.connection.getpeercert()["subject"]
        peer.send(spp.offer(name))
        until_closed(peer)

    own = {"certificate": place.client.certificate, "key": place.client.key}
    with SppClient(port=secure(whose, authority=place.authority), tls=here(place, **own)) as client:
        assert client.next_event() == spp.Offer("ann")
    port = secure(whose, authority=place.authority)
    with (
        SppClient(port=port, tls=here(place)) as client,
        pytest.raises(ConnectionError, match="the server wants a certificate of this client"),
    ):
        client.next_event()


def test_files_that_cannot_be_used(place, tmp_path):
    (tmp_path / "junk").write_text("junk")
    stranger = Authority(tmp_path / "strangers").pair(tmp_path / "stranger")
    key = load_pem_private_key(place.client.key.read_bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    (tmp_path / "locked").write_bytes(locked)

    def check(row):
        settings, kind, said = row
        with pytest.raises(kind) as caught:
            ObjectsClient(tls=Tls(**settings))
        assert said in str(caught.value)

    mine: Path = place.client.certificate
    check_each(
        [
            ("no ca", ({"ca": tmp_path / "none"}, FileNotFoundError, "/none")),
            ("junk ca", ({"ca": tmp_path / "junk"}, ValueError, "junk has no certificates in PEM")),
            ("no key", ({"certificate": mine, "key": tmp_path / "none"}, FileNotFoundError, "/none")),
            ("foreign key", ({"certificate": mine, "key": stranger.key}, ValueError, "key values mismatch")),
            ("locked", ({"certificate": mine, "key": tmp_path / "locked"}, ValueError, "locked: ")),
            ("junk", ({"certificate": tmp_path / "junk"}, ValueError, "junk cannot be used: ")),
            ("key alone", ({"key": stranger.key}, ValueError, "needs its certificate")),
        ],
        check,
    )
