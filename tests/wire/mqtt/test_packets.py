"""Packets of MQTT byte for byte, written by hand from the standards."""

import json
from itertools import chain
from pathlib import Path

from bussrv.errors import REASONS
from bussrv.wire.mqtt import packets as mqtt
from bussrv.wire.mqtt.packets import PacketType
from bussrv.wire.mqtt.properties import TABLE
from bussrv.wire.mqtt.reader import MqttReader
from bussrv.wire.mqtt.reasons import ANSWERS
from bussrv.wire.mqtt.writer import encode
from tests.tables import each_row
from tests.wire import chunks as chunked
from tests.wire.chunks import in_bytes

VECTORS = json.loads(Path(__file__).parents[2].joinpath("vectors", "mqtt.json").read_text("utf-8"))["vectors"]
SOUND = [vector for vector in VECTORS if "error" not in vector]

# These say the same as shorter packets, which the writer prefers.
LONGER = {"a length that takes more bytes than it needs, 3.1.1", "puback with a code and no properties, 5.0"}

BINARY = ("payload", "password", "correlation_data", "authentication_data")


def value(name, given):
    """The value of a field as the vectors write it."""
    if name in BINARY:
        return bytes.fromhex(given)
    if name == "properties":
        return mqtt.Properties(**{each: value(each, found) for each, found in given.items()})
    if name == "will":
        return mqtt.Will(**{each: value(each, found) for each, found in given.items()})
    if isinstance(given, list):
        return tuple(item(each) for each in given)
    return given


def item(given):
    if isinstance(given, dict):
        return mqtt.WantedFilter(**given)
    return tuple(given) if isinstance(given, list) else given


def packet(fields):
    fields = dict(fields)
    kind = getattr(mqtt, fields.pop("type"))
    return kind(**{name: value(name, given) for name, given in fields.items()})


def read(vector, chunks):
    events, _, error = chunked.read(MqttReader(vector["side"], vector["version"]), chunks)
    return [*chain.from_iterable(events)], error and {"reason": error.reason, "position": error.position}


def version_of(vector):
    return vector["version"] or packet(vector["events"][0]).version


@each_row("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
@each_row("cut", [lambda data: [data], in_bytes], ids=["whole", "byte by byte"])
def test_packets_are_read(vector, cut):
    events = [packet(fields) for fields in vector["events"]]
    assert read(vector, cut(bytes.fromhex(vector["hex"]))) == (events, vector.get("error"))


@each_row("vector", SOUND, ids=[vector["name"] for vector in SOUND])
@each_row("cut", [lambda data: [data], in_bytes], ids=["whole", "byte by byte"])
def test_what_follows_a_packet_is_read(vector, cut):
    events = [packet(fields) for fields in vector["events"]]
    after = mqtt.Publish("after", b"it")
    stream = bytes.fromhex(vector["hex"]) + encode(after, version_of(vector)) + b"\x30"
    assert read(vector, cut(stream)) == ([*events, after], None)


@each_row("vector", SOUND, ids=[vector["name"] for vector in SOUND])
def test_packets_are_written(vector):
    written = encode(packet(vector["events"][0]), version_of(vector)).hex()
    if vector["name"] in LONGER:
        assert len(written) < len(vector["hex"])
    elif not vector["events"][0].get("properties"):
        assert written == vector["hex"]
    else:
        # The order of properties means nothing.
        assert sorted(written) == sorted(vector["hex"])
        assert read(vector, [bytes.fromhex(written)]) == ([packet(vector["events"][0])], None)


def test_vectors_show_every_packet_property_and_fault():
    shown = {(version_of(vector), vector["events"][0]["type"].upper()) for vector in SOUND}
    types = {each.name for each in PacketType} - {"WILL"}
    assert shown == {(4, name) for name in types - {"AUTH"}} | {(5, name) for name in types}
    found = [fields for vector in SOUND for fields in vector["events"]]
    found += [fields["will"] for fields in found if "will" in fields]
    named = {name for fields in found for name in fields.get("properties", {})}
    assert named == {row.name for row in TABLE} == {*mqtt.Properties.__struct_fields__}
    reasons = {vector["error"]["reason"] for vector in VECTORS if "error" in vector}
    assert reasons | {"too-many-parts", "inbound-full", "not-binary", "bad-frame"} == ANSWERS.keys()
    assert ANSWERS.keys() <= REASONS.keys()
