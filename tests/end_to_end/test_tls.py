"""TLS on real sockets: every format, certificates of clients, and other kinds of endpoints. One server for all."""

import contextlib
import re
import socket
import ssl
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bussrv import events as ev
from bussrv.addresses import parse_address
from bussrv.client.business import BusinessClient
from bussrv.client.objects import BusError, ObjectsClient
from bussrv.client.spp import SppClient
from bussrv.client.tls import Tls
from bussrv.wire import spp
from bussrv.wire.objects import encode
from tests.certificates import Authority, Pair
from tests.end_to_end.journals import events_of
from tests.forked import ForkedServer
from tests.net.tls.tls_clients import Place

MOST = 1_000_000
PATIENCE = 30


class Secured:
    """A server, the files that its clients need, and its journal.

    Object System lets clients in without a certificate, Business Object does not, SPP asks for none.
    """

    def __init__(self, directory: Path) -> None:
        self.place = Place(directory)
        self.journal = directory / "journal"
        asked = f"{self.place.port}:clientCA={self.place.authority.file}"
        options = ["--objects", f"{asked}:clientCert=optional", "--business", asked, "--spp", self.place.port]
        # On a busy machine, a client that is cut begins to read later than after ten seconds.
        options += ["--close-timeout", "120"]
        options += ["--inbus", "off", "--max-outbound", str(MOST), "--server-id", "hall", "--link-allow", "127.0.0.1"]
        self.server = ForkedServer(self.journal, options)
        self.stranger = Authority(directory / "strangers").pair(directory / "stranger")

    def tls(self, pair: Pair | None = None) -> Tls:
        """What clients with a certificate, or without one, connect with."""
        key, certificate = pair or (None, None)
        return Tls(ca=self.place.authority.file, certificate=certificate, key=key, server_name="localhost")

    def objects(self, pair: Pair | None = None) -> ObjectsClient:
        return ObjectsClient(port=self.server.port("objects"), tls=self.tls(pair))

    def statistics(self) -> dict[str, Any]:
        with self.objects() as client:
            client.subscribe()
            found: dict[str, Any] = msgspec.json.decode(client.request("bus/statistics").payload)
            return found


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("secured"))
    with made.server:
        yield made
        assert made.server.stop() == 0
    assert not any("Traceback" in line for line in made.server.lines)


def test_every_format_is_served(secured: Secured) -> None:
    payload = bytes(range(256)) * 1024
    with (
        secured.objects() as client,
        BusinessClient(port=secured.server.port("business"), tls=secured.tls(secured.place.client)) as office,
        SppClient(port=secured.server.port("spp"), tls=secured.tls()) as subscriber,
    ):
        client.subscribe()
        client.register("tv")
        office.register()
        subscriber.wait_for(lambda event: event == spp.Offer("tv"))
        subscriber.subscribe("tv")
        assert subscriber.wait_for(lambda event: isinstance(event, spp.Info)) == spp.Info("tv", b"")
        client.send({"type": "video/x", "sender": "tv"}, payload)
        assert subscriber.wait_for(lambda event: isinstance(event, spp.Info)) == spp.Info("tv", payload)
        assert office.wait_for(lambda each: each.metadata.get("type") == "video/x").payload == payload
        assert client.wait_for(lambda each: each.metadata.get("type") == "video/x").payload == payload


def test_certificates_of_clients_are_asked_for_and_checked(secured: Secured) -> None:
    port = secured.server.port("business")
    for pair, said in ((None, "wants a certificate"), (secured.stranger, "does not accept the certificate")):
        with (
            pytest.raises(ConnectionError, match=f"broke: the server {said} of this client"),
            BusinessClient(port=port, tls=secured.tls(pair)) as office,
        ):
            office.receive()
    with secured.objects(secured.place.client) as client, secured.objects() as other:
        assert client.subscribe()
        assert other.subscribe()


def test_who_speaks_no_tls_gets_nothing(secured: Secured) -> None:
    with (
        socket.create_connection(secured.server.addresses["objects"], PATIENCE) as plain,
        contextlib.suppress(ConnectionResetError),
    ):
        plain.sendall(encode({"event": "routing/subscribe"}))
        assert plain.recv(1) == b""
    found = secured.statistics()
    assert found["sessions"] == {"objects": 1, "bus": 1}
    assert found["counters"]["tls-failed"] >= 1
    assert found["certificates"].keys() == {"objects", "business", "spp"}
    assert found["certificates"]["objects"]["days-left"] > 10_000


def test_a_client_that_does_not_read_is_cut_others_are_served(secured: Secured) -> None:
    with secured.objects() as stalled, secured.objects() as sender:
        stalled.subscribe(**{"routing-id": "stalled"})
        sender.subscribe(receive_mode="no_echo")
        for _ in range(200):
            sender.send({"type": "x/y", "id": "x"}, bytes(1 << 18))
        # Clients of earlier tests may still be going.
        gone = {"event": "routing/disconnect", "routing-id": "stalled"}
        sender.wait_for(lambda each: gone.items() <= each.metadata.items())
        with pytest.raises(ConnectionError, match="slow-consumer"):
            stalled.wait_for(lambda each: False)
        sender.register("later")  # then all before is on the disk
    (closed,) = [each for each in events_of(secured.journal, ev.SessionClosed) if each.reason == "slow-consumer"]
    assert closed.routing_id == "stalled"


def test_a_client_that_only_asks_is_not_cut_for_what_others_send(secured: Secured) -> None:
    """It is idle meanwhile, and reads nothing."""
    with secured.objects() as asker, secured.objects() as sender:
        asker.subscribe_for_requests(**{"routing-id": "asker"})
        sender.subscribe(types="none")
        for _ in range(200):
            sender.send({"type": "image/png", "id": "x"}, bytes(1 << 18))
        sender.ping()
        assert asker.request("bus/clock").payload
        with pytest.raises(BusError, match="no-such-service"):
            asker.request("nobody's")


def test_threads_that_share_a_client_are_told_and_it_stays_sound(secured: Secured) -> None:
    """Each call of eight threads succeeds, or says that another thread uses the client."""

    def call() -> Any:
        try:
            client.send({"type": "x/y", "to": "echo"}, bytes(10_000))
            return client.request("bus/clock").payload.endswith(b"Z")
        except Exception as error:
            return type(error)

    def call_often() -> None:
        begun.wait()
        outcomes.update(call() for _ in range(200))

    outcomes: Counter[Any] = Counter()
    begun = threading.Barrier(8)
    with secured.objects() as client:
        client.subscribe(types="none", routing_ids=["echo"])
        threads = [threading.Thread(target=call_often) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(PATIENCE)
        assert outcomes.keys() <= {True, RuntimeError}
        assert outcomes[True]
        assert client.request("bus/clock").payload


def test_a_client_that_closes_is_no_lost_connection(secured: Secured) -> None:
    with secured.objects() as watcher:
        watcher.subscribe()
        with secured.objects() as client:
            client.subscribe(**{"routing-id": "orderly"})
            client.send({"type": "text/plain", "id": "last"}, b"x" * 100_000)
        assert watcher.wait_for(lambda each: each.metadata.get("id") == "last").payload == b"x" * 100_000
        watcher.wait_for(lambda each: each.metadata.get("event") == "routing/disconnect")
        watcher.register("later")  # then all before is on the disk
    reasons = [each.reason for each in events_of(secured.journal, ev.SessionClosed) if each.routing_id == "orderly"]
    assert reasons == ["client-closed"]


def test_servers_link_over_tls_with_certificates_of_both(secured: Secured, tmp_path: Path) -> None:
    place, port = secured.place, secured.server.port("objects")
    own = f"certificate={place.client.certificate}:privateKey={place.client.key}"
    here = f"tls:127.0.0.1:{port}"
    links = {
        f"{here}:trustRoots={place.authority.file}:serverName=localhost:{own}": "link to hall at .* is up",
        f"{here}:serverName=localhost": "the certificate of the other end is not accepted: (self-signed|unable to get)",
        f"{here}:trustRoots={place.authority.file}": "is not accepted: IP address mismatch",
        f"tls:127.0.0.1:{secured.server.port('business')}:trustRoots={place.directory}:serverName=localhost": (
            "the other end says: certificate required"
        ),
    }
    options = ["--server-id", "cellar", "--services", "bus/statistics", *(f"--link={each}" for each in links)]
    awaited = set(links.values())
    with ForkedServer(tmp_path / "cellar", options) as cellar:
        while awaited:
            line = cellar.next_line()
            awaited -= {said for said in awaited if re.search(said, line)}
        with secured.objects() as far, ObjectsClient(port=cellar.port("objects")) as near:
            near.subscribe(receive_mode="no_echo")
            far.subscribe(receive_mode="no_echo")
            for sender, receiver in ((near, far), (far, near)):
                payload = bytes(range(256)) * 4096
                receiver.send({"event": "greeting"})
                sender.wait_for(lambda each: each.metadata.get("event") == "greeting")
                sender.send({"type": "x/y", "id": "far"}, payload)
                assert receiver.wait_for(lambda each: each.metadata.get("id") == "far").payload == payload
            found = msgspec.json.decode(near.request("bus/statistics").payload)
        assert found["certificates"][f"link 127.0.0.1:{port}"]["days-left"] > 10_000
        assert cellar.stop() == 0
    assert not any("Traceback" in line for line in cellar.lines)


# Other kinds of endpoints.

ADOPTING = """
import os, sys
os.dup2(int(sys.argv.pop(1)), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="business")
from twisted.scripts.twistd import run
run()
"""
"""twistd with a socket that is open already, as systemd starts it."""


class Served:
    """A server on a UNIX socket, on a socket of systemd, and after a proxy that passes TLS on."""

    def __init__(self, directory: Path) -> None:
        self.place = Place(directory)
        self.socket, self.journal = directory / "socket", directory / "journal"
        with socket.create_server(("127.0.0.1", 0)) as adopted:
            self.adopted = adopted.getsockname()
            command = [sys.executable, "-c", ADOPTING, str(adopted.fileno()), "-n", "--pidfile=", "bussrv"]
            command += ["--objects", f"unix:{self.socket}", "--business", "systemd:domain=INET:name=business"]
            command += ["--spp", f"haproxy:{self.place.port}", "--inbus", "off", "--journal", str(self.journal)]
            self.process = subprocess.Popen(
                command, pass_fds=[adopted.fileno()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        self.spp = ("", 0)
        assert self.process.stdout is not None
        said = ""
        for line in self.process.stdout:
            said += line
            if found := re.search(r" spp on haproxy (\S+)", line):
                self.spp = parse_address(found[1])
            if "bussrv is ready" in line:
                return
        raise AssertionError(said)

    def stop(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    made = Served(tmp_path_factory.mktemp("served"))
    yield made
    made.stop()


def reply_of(connection: socket.socket, fields: dict[str, Any]) -> bytes:
    connection.settimeout(PATIENCE)
    connection.sendall(encode(fields))
    return connection.recv(1 << 16)


def test_unix_sockets(served: Served) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(served.socket))
        assert b"routing/subscribe/reply" in reply_of(connection, {"event": "routing/subscribe"})


def test_sockets_of_systemd(served: Served) -> None:
    with BusinessClient(*served.adopted) as client:
        assert client.register()["routing-id"]


def test_behind_a_proxy_the_true_address_counts(served: Served) -> None:
    context = ssl.create_default_context(cafile=served.place.authority.file)
    reader = spp.SppReader("server")
    plain = socket.create_connection(served.spp, PATIENCE)
    plain.sendall(b"PROXY TCP4 192.0.2.7 10.0.0.1 5555 3002\r\n")
    with context.wrap_socket(plain, server_hostname="localhost") as connection:
        connection.sendall(spp.subscribe("bus/clock"))
        while (event := reader.next_event()) is None or not isinstance(event, spp.Info):
            if event is None:
                reader.feed(connection.recv(1 << 16))
    assert "192.0.2.7:5555" in [event.peer for event in events_of(served.journal, ev.SessionOpened)]
