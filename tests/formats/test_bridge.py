"""What is published in any format reaches the subscribers of every format, byte for byte: in the ways that the kit of
:mod:`bussrv.testing.conformance` does not try."""

import base64
import json
from collections.abc import Callable

import pytest

from bussrv.wire import inbus
from bussrv.wire.mqtt.packets import NO_PROPERTIES, VERSION_5, Properties, WantedFilter
from tests.formats.mqtt.peer import MqttPeer
from tests.formats.network import Network
from tests.tables import each_row

PAYLOADS = {
    "text": ("text/plain; charset=UTF-8", "Omega – 0:45".encode()),
    "JSON": ("application/json", b'{"on":1.0}'),
    "binary with NULs": ("application/octet-stream", b"\0\xff\0{}\0"),
    "empty": ("text/plain; charset=UTF-8", b""),
    "60 KB of text": ("text/plain", b"text" * 15_000),
    "60 KB of bytes": ("application/octet-stream", bytes(range(256)) * 234),
}
SOURCES = ("objects", "business", "inbus 1", "inbus 2", "mqtt 4", "mqtt 5")
RECEIVERS = (
    *("objects", "business", "objects by name", "business by name", "spp", "inbus 1", "inbus 2"),
    *("mqtt 4", "mqtt 5", "mqtt 5 durable"),
)
BY_NAME: dict[str, dict[str, object]] = {
    "objects": {},
    "business": {},
    "objects by name": {"types": "none", "services": ["tv"]},
    "business by name": {"subscribe": "none", "services": ["tv"]},
}


def as_sent_by_inbus(version: int, payload: bytes) -> bytes:
    """A payload as subscribers of a version are sent it: bytes that are no text go in base64 to those of version 1."""
    try:
        payload.decode()
    except UnicodeDecodeError:
        return base64.b64encode(payload) if version == 1 else payload
    return payload


def fits(name: str, payload: bytes) -> bool:
    """Whether a message of a format can carry a payload."""
    if not name.startswith("inbus"):
        return True
    version = int(name[-1])
    return len(inbus.publish("tv", 1, as_sent_by_inbus(version, payload), version)) <= inbus.MAX_DATAGRAM


def can_publish(name: str, payload: bytes) -> bool:
    return fits(name, payload) and (name != "inbus 1" or as_sent_by_inbus(1, payload) == payload)


JUDGED = ("objects", "business", "inbus 2", "mqtt 5")
"""The kit publishes over these, and subscribes over those and SPP; members by the name of the service."""


def is_judged(source: str, to: str, payload: bytes) -> bool:
    """Whether the kit tries that with every format: tests/testing/conformance/test_formats.py."""
    receivers = ("objects by name", "business by name", "spp", "inbus 2", "mqtt 5")
    return source in JUDGED and to in receivers and fits(to, payload)


MATRIX = [
    (source, to, kind)
    for source in SOURCES
    for to in RECEIVERS
    for kind, (_, payload) in PAYLOADS.items()
    if can_publish(source, payload) and not is_judged(source, to, payload)
]

Publish = Callable[[str, bytes], None]


def publisher(network: Network, name: str) -> Publish:
    if name.startswith("inbus"):
        version = int(name[-1])
        return lambda content_type, payload: network.udp.publish("tv", payload, version=version)
    if name.startswith("mqtt"):
        version = int(name[-1])
        peer = MqttPeer(network, "publisher", version)

        def publish(content_type: str, payload: bytes) -> None:
            about = Properties(content_type=content_type) if version == VERSION_5 else NO_PROPERTIES
            peer.publish("tv", payload, 1, properties=about)

        return publish
    member = network.member(receive_mode="none") if name == "objects" else network.business(receive="no_echo")
    member.send({"event": "services/register", "name": "tv"})
    return lambda content_type, payload: member.send({"type": content_type, "size": len(payload)}, payload)


def received(network: Network, name: str, publish: Callable[[], None]) -> list[bytes]:
    """What a subscriber of that format is given when something is published."""
    if name == "spp":
        network.udp.publish("tv", b"before", source="10.0.0.9")
        watcher = network.watcher()
        watcher.subscribe("tv")
        watcher.received()
        publish()
        return watcher.messages()
    if name.startswith("inbus"):
        network.udp.subscribe("tv", version=int(name[-1]))
        publish()
        datagrams = [datagram for datagram, _ in network.udp.taken()]
        assert all(json.loads(datagram)["version"] == int(name[-1]) for datagram in datagrams)
        return [inbus.decode(datagram).payload for datagram in datagrams]
    if name.startswith("mqtt"):
        about = Properties(session_expiry_interval=60) if name.endswith("durable") else NO_PROPERTIES
        peer = MqttPeer(network, "subscriber", int(name.split()[1]), properties=about)
        peer.subscribe(WantedFilter("+", 1))
        publish()
        return [payload for _, payload in peer.messages()]
    join, wanted = (network.member if name.startswith("objects") else network.business), BY_NAME[name]
    member = join(receive="no_echo", **wanted)
    publish()
    return [payload for fields, payload in member.received() if "type" in fields]


@pytest.mark.dear
@each_row(("source", "to", "kind"), MATRIX)
def test_the_whole_matrix(source: str, to: str, kind: str) -> None:
    content_type, payload = PAYLOADS[kind]
    network = Network()
    publish = publisher(network, source)
    got = received(network, to, lambda: publish(content_type, payload))
    if fits(to, payload):
        assert got == [as_sent_by_inbus(int(to[-1]), payload) if to.startswith("inbus") else payload]
        assert network.bus.counters["datagram-too-large"] == 0
    else:
        assert got == []
        assert network.bus.counters["datagram-too-large"] == 1


def test_services_appear_and_go_across_formats_when_durable() -> None:
    network = Network()
    watcher = network.watcher()
    business = network.business()
    network.journal.hold()
    network.udp.publish("gauge", b"1")
    assert watcher.received() == []
    network.journal.release()
    assert [type(event).__name__ for event in watcher.received()] == ["Offer"]
    business.received()
    business.send({"event": "services/list"})
    ((_, names),) = business.received()
    assert json.loads(names) == ["gauge"]
    network.reactor.pump([60] * 70)
    assert [type(event).__name__ for event in watcher.received()] == ["Removed"]
