"""The ways into a cluster: TLS, logins, and sentences about those that are closed.

TLS ends at the relay before the broker. That a login succeeds is not tested: Tansu in memory has no way to make a user.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka.errors import AuthenticationFailedError, KafkaConnectionError

from bussrv.client.tls import Tls
from bussrv.errors import ConfigError
from bussrv.uplink.kafka.cluster import Cluster, Sasl, parse
from bussrv.uplink.kafka.faults import lasting
from tests.certificates import Authority
from tests.forked_uplink import ForkedUplink
from tests.journal.kept import Kept
from tests.uplink.kafka.broker import Broker

NO_FILES = Tls()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def authority(place: Path) -> Authority:
    return Authority(place / "ca")


@pytest.fixture(scope="module")
def secure(place: Path, authority: Authority) -> Iterator[Broker]:
    """A broker that wants a certificate of its clients."""
    pair = authority.pair(place / "broker")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.file)
    context.load_cert_chain(pair.certificate, pair.key)
    context.verify_mode = ssl.CERT_REQUIRED
    with Broker(place / "log", context) as found:
        yield found


def complaint(cluster: Cluster) -> str:
    with pytest.raises(KafkaConnectionError) as caught:
        asyncio.run(cluster.check())
    return str(caught.value)


@pytest.mark.processes
def test_events_go_over_tls(secure: Broker, authority: Authority, place: Path, journal: Path) -> None:
    server = Kept(journal)
    server.write("ann")
    pair = authority.pair(place / "uplink")
    files = (
        "--kafka-ca",
        str(authority.file),
        "--kafka-certificate",
        str(pair.certificate),
        "--kafka-key",
        str(pair.key),
    )
    # The broker creates the topic.
    with ForkedUplink(secure.url, "--events", "--journal", str(journal), *files, "--metrics", "0") as uplink:
        assert "127.0.0.1:" in uplink.wait_for("metrics on")
        uplink.wait_for("after record 0")
        server.end()
        assert uplink.stop() == 0
    assert "events sent 1, events failures 0, events missing 0" in uplink.wait_for("stopped")


@pytest.mark.processes
def test_what_is_wrong_with_tls_is_said(secure: Broker, authority: Authority, place: Path) -> None:
    stranger = Authority(place / "stranger")
    address = secure.address
    assert "self-signed certificate" in complaint(parse(secure.url, None, Tls(stranger.file)))
    elsewhere = secure.url.replace("localhost", "127.0.0.1")
    assert "IP address mismatch" in complaint(parse(elsewhere, None, Tls(authority.file)))
    assert f"{address}: " in complaint(parse(f"kafka://{address}", None, NO_FILES))


def test_a_broker_that_is_not_there_is_said() -> None:
    cluster = parse("kafka://127.0.0.1:1,localhost:1", None, NO_FILES)
    said = complaint(cluster)
    assert "127.0.0.1:1: Connect call failed" in said
    assert "localhost:1: " in said


@pytest.mark.processes
def test_a_login_that_is_refused_is_one_sentence(tmp_path: Path) -> None:
    with Broker(tmp_path / "log", options=["--authentication"]) as broker:
        cluster = parse(broker.url, Sasl("scram-sha-512", "ann", "secret"), NO_FILES)
        with pytest.raises(AuthenticationFailedError) as caught:
            asyncio.run(cluster.check())
    sentence = str(lasting(caught.value, "a-topic", cluster))
    assert sentence.startswith(f"{cluster.name} does not accept the login of user ann: the broker does not know")
    assert "secret" not in repr(cluster)


@pytest.mark.parametrize(
    ("url", "servers"),
    [
        ("kafka://hall", (("hall", 9092),)),
        ("kafka://hall:9093,[::1]:9094/", (("hall", 9093), ("::1", 9094))),
        ("kafkas://[::1]", (("::1", 9092),)),
    ],
)
def test_addresses(url: str, servers: tuple[tuple[str, int], ...]) -> None:
    found = parse(url, None, NO_FILES)
    assert (found.servers, found.tls is not None) == (servers, url.startswith("kafkas"))


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("kafka://ann:secret@hall", "a password does not belong into an URL"),
        ("kafka://hall/topic", "has hosts and ports only"),
        ("kafka://hall:0", "'hall:0' is no HOST or HOST:PORT"),
        ("kafka://hall:x", "'hall:x' is no HOST"),
        ("kafka://hall,,cellar", "'' is no HOST"),
        ("kafka://[::1", "'[::1' is no HOST"),
        ("kafka://[::1]9092", "is no HOST"),
    ],
)
def test_addresses_that_are_none(url: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(url, None, NO_FILES)
    assert sentence in str(caught.value)


def test_a_password_does_not_cross_the_network_as_it_is(tmp_path: Path) -> None:
    plain, scram = Sasl("plain", "ann", "secret"), Sasl("scram-sha-512", "ann", "secret")
    with pytest.raises(ConfigError, match="would be readable on the way"):
        parse("kafka://127.0.0.1,hall", plain, NO_FILES)
    parse("kafka://127.0.0.1,localhost", plain, NO_FILES)
    parse("kafka://hall", plain, NO_FILES, insecure=True)
    parse("kafka://hall", scram, NO_FILES)
    parse("kafkas://hall", plain, NO_FILES)
    with pytest.raises(ConfigError, match="without TLS, and files for TLS are given"):
        parse("kafka://hall", None, Tls(tmp_path))
    with pytest.raises(ConfigError, match=r"No such file or directory: .*nothing"):
        parse("kafkas://hall", None, Tls(tmp_path / "nothing"))
