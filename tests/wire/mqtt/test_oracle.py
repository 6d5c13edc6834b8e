"""The codec of MQTT 5.0 against another one: mqtt5, which is written in Rust.

What each writes the other reads as the same packet. Where they disagree on what may be read, the standard decides: see
:data:`DISPUTED`.
"""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.wire.mqtt import packets as mqtt
from bussrv.wire.mqtt.packets import PacketType, Properties
from bussrv.wire.mqtt.reader import MqttReader
from bussrv.wire.mqtt.writer import encode
from tests.tables import each_row
from tests.wire import chunks as chunked
from tests.wire.mqtt.drawn import PACKETS, connects, sides
from tests.wire.mqtt.test_packets import VECTORS

oracle = pytest.importorskip("mqtt5")

# Our names of fields, where the oracle's are others.
NAMES = {
    "id": "packet_id",
    "dup": "duplicate",
    "filter": "pattern",
    "assigned_client_identifier": "assigned_client_id",
    "maximum_packet_size": "max_packet_size",
    "maximum_qos": "max_qos",
    "receive_maximum": "receive_max",
    "topic_alias_maximum": "topic_alias_max",
    "reason_string": "reason_str",
    "request_problem_information": "request_problem_info",
    "request_response_information": "request_response_info",
    "response_information": "response_info",
    "subscription_identifiers": "subscription_ids",
    "subscription_identifiers_available": "subscription_id_available",
}

# The oracle has no way to tell a value that is left out from one that is stated.
DEFAULTS = {
    "payload_format_indicator": 0,
    "will_delay_interval": 0,
    "receive_maximum": 65535,
    "topic_alias_maximum": 0,
    "request_problem_information": 1,
    "request_response_information": 0,
    "maximum_qos": 2,
    "retain_available": 1,
    "wildcard_subscription_available": 1,
    "subscription_identifiers_available": 1,
    "shared_subscription_available": 1,
}

DISPUTED = {
    "auth without anything, 5.0": "section 3.15.2.1 allows it; the oracle refuses it",
    # All others the oracle takes, although the standard does not allow them.
    "connect with the QoS of a will, but no will": "[MQTT-3.1.2-11]",
    "connect with authentication data, but no method, 5.0": "section 3.1.2.11.10",
    "connack that refuses, with a session": "[MQTT-3.2.2-6]",
    "publish of QoS 0, sent before": "[MQTT-3.3.1-2]",
    "publish with a subscription identifier of a client, 5.0": "[MQTT-3.3.4-6]",
    "a property with another value than 0 or 1, 5.0": "section 3.3.2.3.2",
    "a response topic with a wildcard, 5.0": "[MQTT-3.3.2-14]",
    "subscribe without filters, 5.0": "[MQTT-3.8.3-2]",
    "subscribe with the packet identifier 0": "[MQTT-2.2.1-3]",
    "subscribe with a reserved option, 5.0": "[MQTT-3.8.3-5]",
    "a shared filter with No Local, 5.0": "[MQTT-3.8.3-4]",
    "a shared filter without a group, 5.0": "[MQTT-4.8.2-1]",
    "a shared filter that is empty, 5.0": "[MQTT-4.8.2-2]",
    "a group with a wildcard, 5.0": "[MQTT-4.8.2-2]",
    "a filter with # in a level": "[MQTT-4.7.1-1]",
    "a filter with + in a level": "[MQTT-4.7.1-2]",
    "suback without codes, 5.0": "section 3.9.3",
    "unsubscribe without filters": "[MQTT-3.10.3-2]",
    "disconnect of a server with a session expiry interval, 5.0": "[MQTT-3.14.2-2]",
    "auth without a method, 5.0": "section 3.15.2.2.2",
    # The oracle knows neither sides nor what came before.
    "another packet before connect": "[MQTT-3.1.0-1]",
    "connack of a client": "section 3.2",
    "subscribe of a server": "section 3.8",
}
"""The vectors that only one of us takes, and where the standard says that we are right."""


def properties(values, packet):
    """The properties of a packet as both see them."""
    defaults = {**DEFAULTS, "session_expiry_interval": 0} if packet is PacketType.CONNECT else DEFAULTS
    found = {}
    for name, value in values.items():
        if isinstance(value, list):
            value = tuple(value)
        elif isinstance(value, int):
            value = int(value)
        if value is not None and value != () and (name not in defaults or value != defaults[name]):
            found[name] = value
    return Properties(**found)


def normal(packet):
    """One of our packets as both see it."""
    kind = type(packet)
    fields = {name: getattr(packet, name) for name in kind.__struct_fields__}
    if "properties" in fields:
        values = {name: getattr(packet.properties, name) for name in Properties.__struct_fields__}
        fields["properties"] = properties(values, PacketType[kind.__name__.upper()])
    if fields.get("will") is not None:
        fields["will"] = normal(fields["will"])
    return kind(**fields)


def ours(theirs, name=None):
    """A packet of the oracle as ours."""
    name = name or type(theirs).__name__.removesuffix("Packet")
    kind = getattr(mqtt, name.capitalize())
    packet = PacketType[name.upper()]
    given = {each: getattr(theirs, NAMES.get(each, each), None) for each in Properties.__struct_fields__}
    given["subscription_identifiers"] = _identifiers(theirs)
    special = {
        "properties": lambda: properties(given, packet),
        "version": lambda: 5,
        "code": lambda: int(theirs.reason_code),
        "codes": lambda: tuple(map(int, theirs.reason_codes)),
        "filters": lambda: (
            tuple(theirs.patterns) if name == "Unsubscribe" else tuple(map(_wanted, theirs.topic_filters))
        ),
        "qos": lambda: int(theirs.qos),
        "id": lambda: theirs.packet_id or 0,
        "will": lambda: theirs.will and ours(theirs.will, "Will"),
        "payload": lambda: theirs.payload or b"",
    }
    values = {
        each: special.get(each, lambda each=each: getattr(theirs, NAMES.get(each, each)))
        for each in kind.__struct_fields__
    }
    return kind(**{each: value() for each, value in values.items()})


def _identifiers(theirs):
    one = getattr(theirs, "subscription_id", None)
    return getattr(theirs, "subscription_ids", None) or (() if one is None else (one,))


def _wanted(each):
    return mqtt.WantedFilter(
        each.pattern, int(each.max_qos), each.no_local, each.retain_as_published, int(each.retain_handling)
    )


def read(side, data):
    """Our packets."""
    events, _, error = chunked.read(MqttReader(side, None if data[0] >> 4 == PacketType.CONNECT else 5), [data])
    assert error is None
    return [*chain.from_iterable(events)]


@given(sides, st.data())
def test_each_reads_what_the_other_writes(side, data):
    drawn = PACKETS[side, 5] | connects(5) if side == "client" else PACKETS[side, 5]
    # Of the disputed, only this one may be written.
    sent = data.draw(drawn.filter(lambda packet: packet != mqtt.Auth()))
    written = encode(sent, 5)
    theirs, size = oracle.read(memoryview(written))
    assert (ours(theirs), size) == (normal(sent), len(written))
    assert [normal(each) for each in read(side, theirs.write())] == [normal(sent)]


def is_comparable(vector):
    """Whether a vector is of 5.0 alone. With bytes that are not UTF-8, the oracle panics."""
    spoken = "3.1" not in vector["name"] and vector["version"] != 4
    return spoken and vector.get("error", {}).get("reason") != "bad-utf8"


@each_row("vector", filter(is_comparable, VECTORS), ids=lambda vector: vector["name"])
def test_what_is_disputed_is_known(vector):
    data = bytes.fromhex(vector["hex"])
    try:
        is_taken = oracle.read(memoryview(data))[1] == len(data)
    except (ValueError, IndexError):
        is_taken = False
    assert vector["name"] in DISPUTED or is_taken == ("error" not in vector)


def test_only_vectors_are_disputed():
    assert DISPUTED.keys() <= {vector["name"] for vector in VECTORS}
