"""The codec of MQTT: what it writes it reads, however it is cut, and what it cannot read it refuses."""

import sys
from itertools import chain

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bussrv.errors import RemoteProtocolError
from bussrv.wire.mqtt import packets as mqtt
from bussrv.wire.mqtt import topics, writer
from bussrv.wire.mqtt.bodies import MOST_FILTERS
from bussrv.wire.mqtt.packets import Properties
from bussrv.wire.mqtt.properties import MOST_REPEATED, TABLE
from bussrv.wire.mqtt.reader import LONGEST_BATCH, MAX_PACKET, MqttReader
from bussrv.wire.mqtt.reasons import ANSWERS, CODES, RETURN_CODES, ReasonCode
from bussrv.wire.mqtt.writer import confirmations, encode, numbered_publish, publish, refusal
from tests.tables import each_row
from tests.wire import chunks as chunked
from tests.wire.chunks import chunks_of, in_bytes
from tests.wire.mqtt.drawn import PACKETS, SIDES, VERSIONS, connects, names, publishes, sides, versions

LIMIT = 30_000


class PlainReader(MqttReader):
    """Reads no packet ahead."""

    def _read_ahead(self, version):
        return []


class RunReader(MqttReader):
    """Takes PUBACKs in runs, and returns them one by one all the same."""

    taken = ()

    def next_event(self):
        if self.taken:
            number, *self.taken = self.taken
            return mqtt.Puback(number)
        found = super().next_event()
        if isinstance(found, mqtt.Puback):
            _, *self.taken = self.take_confirmed(found)
        return found


def read(reader, chunks):
    """The packets, and the reason, the message and the position of the error at the end, or ``None``."""
    events, held, error = chunked.read(reader, chunks)
    assert max(held, default=0) <= LIMIT
    return [*chain.from_iterable(events)], error and (error.reason, error.message, error.position)


def read_every_way(side, version, stream, data):
    """What is read, which is the same however the stream is cut and whether packets are read ahead."""
    found = read(MqttReader(side, version, LIMIT), [stream])
    assert read(MqttReader(side, version, LIMIT), data.draw(chunks_of(stream))) == found
    assert read(PlainReader(side, version, LIMIT), [stream]) == found
    assert read(RunReader(side, version, LIMIT), data.draw(chunks_of(stream))) == found
    if len(stream) < 500:
        assert read(MqttReader(side, version, LIMIT), in_bytes(stream)) == found
    return found


@given(sides, versions, st.data())
def test_what_is_written_is_read(side, version, data):
    sent = data.draw(st.lists(PACKETS[side, version], max_size=6))
    stream = b"".join(encode(each, version) for each in sent)
    assert read_every_way(side, version, stream, data) == (sent, None)


@given(sides, versions, st.data())
def test_pubacks_are_taken_in_runs(side, version, data):
    plain = st.builds(mqtt.Puback, st.integers(1, 3))
    sent = data.draw(st.lists(st.one_of(plain, plain, plain, PACKETS[side, version]), max_size=20))
    stream = bytearray(b"".join(encode(each, version) for each in sent))
    place = data.draw(st.integers(0, len(stream)))
    stream[place : place + 1] = data.draw(st.sampled_from([stream[place : place + 1], b"", b"\0", b"\x40\3\0\1\0"]))
    read_every_way(side, version, bytes(stream), data)
    numbers = data.draw(st.lists(st.integers(1, 0xFFFF), min_size=1))
    reader = MqttReader(side, version)
    reader.feed(b"".join(confirmations(numbers)) + b"\x40\2\0\0")
    assert reader.take_confirmed(reader.next_event()) == numbers
    with pytest.raises(RemoteProtocolError, match="identifier is 0"):
        reader.next_event()


@given(versions, st.data())
def test_messages_that_begin_alike_are_told_apart(version, data):
    alike = data.draw(st.lists(publishes("client", version), min_size=1, max_size=2))
    sent = data.draw(st.lists(st.sampled_from(alike), min_size=2, max_size=8))
    stream = bytearray(b"".join(encode(each, version) for each in sent))
    for _ in range(data.draw(st.integers(0, 2))):
        place = data.draw(st.integers(0, len(stream) - 1))
        stream[place : place + 1] = data.draw(st.sampled_from([b"", b"\0", b"#", b"\1\1", b"\xff"]))
    read_every_way("client", version, bytes(stream), data)


@given(versions, st.data())
def test_connect_tells_the_version(version, data):
    sent = [data.draw(connects(version)), *data.draw(st.lists(PACKETS["client", version], max_size=3))]
    stream = b"".join(encode(each, version) for each in sent)
    assert read_every_way("client", None, stream, data) == (sent, None)
    reader = MqttReader("client")
    reader.feed(stream)
    assert (reader.level, reader.next_event(), reader.level) == (0, sent[0], version)


@given(sides, versions, st.data())
def test_altered_packets_are_read_or_refused(side, version, data):
    sent = data.draw(st.lists(PACKETS[side, version], min_size=1, max_size=4))
    stream = bytearray(b"".join(encode(each, version) for each in sent))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(stream)))
        stream[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    packets, error = read_every_way(side, version, bytes(stream), data)
    assert error is None or error[0] in ANSWERS
    # What was taken can be written, and says the same.
    again = b"".join(encode(each, version) for each in packets)
    assert read(MqttReader(side, version, LIMIT), [again]) == (packets, None)


@given(versions, st.data())
def test_an_altered_connect_is_read_or_refused(version, data):
    stream = bytearray(encode(data.draw(connects(version)), version))
    for _ in range(data.draw(st.integers(1, 3))):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    packets, error = read_every_way("client", None, bytes(stream), data)
    assert error is None or error[0] in ANSWERS
    again = b"".join(encode(each, packets[0].version) for each in packets)
    assert read(MqttReader("client"), [again]) == (packets, None)


@given(sides, st.sampled_from([4, 5, None]), st.binary(max_size=60), st.data())
@example("client", None, b"GET / HTTP/1.1\r\n\r\n", None)
@example("client", None, b"\x16\x03\x01\x02\x00\x01\x00", None)
def test_any_bytes_are_read_or_refused(side, version, stream, data):
    if side == "server" and version is None:
        version = 5
    if data is None:
        assert read(MqttReader(side, version), [stream])[1] is not None
    else:
        read_every_way(side, version, stream, data)


@given(versions, st.data())
def test_a_numbered_publish_differs_in_its_identifier_only(version, data):
    packet = data.draw(publishes("server", version).filter(lambda each: each.qos))
    shared = numbered_publish(packet, version)
    assert b"".join(shared.pieces(packet.id)) == encode(packet, version)
    assert shared.pieces(1)[0] is shared.pieces(2)[0]
    assert shared.pieces(1)[2] is shared.pieces(2)[2]


@given(versions, st.data())
def test_a_plain_publish_is_made_in_one_go(version, data):
    packet = data.draw(publishes("server", version).filter(lambda each: not each.qos))
    made = publish(packet.topic, packet.payload, version, retain=packet.retain, properties=packet.properties)
    assert made == encode(packet, version)


@each_row("version", VERSIONS)
@each_row("side", SIDES)
def test_many_packets_are_read_ahead_in_order(side, version):
    sent = [mqtt.Publish(f"tv/{number}", b"x" * (number % 200)) for number in range(3 * LONGEST_BATCH)]
    stream = b"".join(encode(each, version) for each in sent)
    assert read(MqttReader(side, version), [stream]) == (sent, None)
    reader = MqttReader(side, version)
    reader.feed(stream)
    assert [reader.next_event() for _ in range(3)] == sent[:3]
    reader.clear()
    assert (reader.next_event(), len(reader)) == (None, 0)


@each_row("side", SIDES)
@each_row("length", [b"\xff\xff\x3f", b"\x80\x80\x80\x01", b"\xff\xff\xff\x7f"])
def test_a_packet_over_the_limit_is_refused_at_its_header(side, length):
    events, error = read(MqttReader(side, 5), [b"\x30" + length[:-1]])
    assert (events, error) == ([], None)
    assert read(MqttReader(side, 5), [b"\x30" + length])[1][0] == "packet-too-large"


@each_row("chunk", [1 << 10, 1 << 30], ids=["pieces", "whole"])
def test_the_limit_counts_the_header(chunk):
    packet = publish("tv", bytes(MAX_PACKET - 9), 5)
    assert len(packet) == MAX_PACKET
    chunks = [packet[begin : begin + chunk] for begin in range(0, len(packet), chunk)]
    assert chunked.read(MqttReader("client", 5), chunks)[0][-1] == [mqtt.Publish("tv", bytes(MAX_PACKET - 9))]
    reader = MqttReader("client", 5)
    reader.limit(MAX_PACKET - 1)
    assert chunked.read(reader, chunks)[2].reason == "packet-too-large"
    small = MqttReader("client", 4, 10)
    assert read(small, [publish("tv", bytes(4), 4)])[1] is None
    assert read(small, [publish("tv", bytes(5), 4)])[1][0] == "packet-too-large"


def test_an_error_stays():
    reader = MqttReader("client", 4)
    reader.feed(publish("a", b"", 4) + b"\0\0")
    assert reader.next_event() == mqtt.Publish("a", b"")
    with pytest.raises(RemoteProtocolError) as first:
        reader.next_event()
    reader.feed(publish("a", b"", 4))
    for _ in range(2):
        with pytest.raises(RemoteProtocolError) as again:
            reader.next_event()
        assert again.value is first.value


def _counted(properties=(), filters=1):
    found = Properties(user_properties=tuple(properties))
    return encode(mqtt.Subscribe(1, tuple(mqtt.WantedFilter(str(each)) for each in range(filters)), found), 5)


@each_row(
    ("least", "most"),
    [
        (_counted([("k", "v")] * (MOST_REPEATED + 1)), _counted([("k", "v")] * MOST_REPEATED)),
        (_counted(filters=MOST_FILTERS + 1), _counted(filters=MOST_FILTERS)),
        (
            encode(mqtt.Unsubscribe(1, ("a",) * (MOST_FILTERS + 1)), 4),
            encode(mqtt.Unsubscribe(1, ("a",) * MOST_FILTERS), 4),
        ),
    ],
    ids=["properties", "filters", "filters of unsubscribe"],
)
def test_too_many_parts_are_refused(least, most):
    version = 4 if least[0] >> 4 == 10 else 5
    assert read(MqttReader("client", version), [least])[1][0] == "too-many-parts"
    assert read(MqttReader("client", version), [most])[1] is None


def _steps(stream, size):
    """How many functions are called to read a stream in chunks of ``size``."""
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    reader = MqttReader("client", 5)
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for begin in range(0, len(stream), size):
            reader.feed(stream[begin : begin + size])
            while reader.next_event() is not None:
                pass
    finally:
        sys.setprofile(before)
    assert not len(reader)
    return calls


@pytest.mark.dear
@each_row(
    "make",
    [
        lambda n: publish("a", bytes(n), 5),
        lambda n: publish("a/" * n, b"", 5, properties=Properties(content_type="x" * n)),
        lambda n: publish("a", b"", 5, properties=Properties(user_properties=(("k" * n, "v" * n),) * 60)),
        lambda n: encode(mqtt.Unsubscribe(1, ("+/" * n + "#",) * 20), 5),
        lambda n: encode(mqtt.Publish("a", b"", 1, id=1), 5) * n,
        lambda n: publish("a", b"", 5) * n,
        lambda n: publish("a", b"", 5, properties=Properties(topic_alias=1)) * n,
    ],
    ids=["payload", "texts", "properties", "filters", "QoS 1", "QoS 0", "topic aliases"],
)
@each_row("size", [1, 1 << 20], ids=["byte by byte", "whole"])
def test_reading_takes_linear_time(make, size):
    assert _steps(make(800), size) <= 4.5 * _steps(make(200), size)


@each_row(
    ("text", "is_name", "is_filter"),
    [
        ("", False, False),
        ("/", True, True),
        ("a//b", True, True),
        (" ", True, True),
        ("$SYS/a", True, True),
        ("a/+/b", False, True),
        ("+", False, True),
        ("+/+", False, True),
        ("#", False, True),
        ("a/#", False, True),
        ("+/#", False, True),
        ("a#", False, False),
        ("#/", False, False),
        ("#/a", False, False),
        ("a/#/b", False, False),
        ("##", False, False),
        ("a+", False, False),
        ("a/b+/c", False, False),
        ("++", False, False),
        ("+#", False, False),
    ],
)
def test_names_and_filters_of_topics(text, is_name, is_filter):
    assert (topics.is_name(text), topics.is_filter(text)) == (is_name, is_filter)


@each_row(
    ("text", "shared"),
    [
        ("$share/g/a", ("g", "a")),
        ("$share/g/a/#", ("g", "a/#")),
        ("$share/g//", ("g", "/")),
        ("$share/g/+", ("g", "+")),
        ("$share/g", None),
        ("$share/g/", None),
        ("$share//a", None),
        ("$share/+/a", None),
        ("$share/g#/a", None),
        ("$share/g/a#", None),
    ],
)
def test_shared_filters(text, shared):
    assert topics.is_shared(text)
    assert topics.split_shared(text) == (shared and topics.SharedFilter(*shared))
    assert not topics.is_shared(text[1:])


@each_row("text", ["$share", "$shared/g/a"])
def test_filters_that_only_look_shared(text):
    assert not topics.is_shared(text)


@each_row(
    ("packet", "version"),
    [
        (mqtt.Pingreq(), 3),
        (mqtt.Connect("a", 3), 5),
        (mqtt.Connect("a", 4, password=b""), 4),
        (mqtt.Connect("a\0"), 5),
        (mqtt.Connect("\ud800"), 5),
        (mqtt.Connect("a" * 65536), 5),
        (mqtt.Connect("a", keep_alive=65536), 5),
        (mqtt.Connect("a", will=mqtt.Will("a", b"", 3)), 5),
        (mqtt.Connect("a", will=mqtt.Will("+", b"")), 5),
        (mqtt.Connect("a", properties=Properties(authentication_data=b"")), 5),
        (mqtt.Connack(6), 4),
        (mqtt.Connack(1), 5),
        (mqtt.Connack(0x80, True), 5),
        (mqtt.Publish("", b""), 4),
        (mqtt.Publish("", b"", properties=Properties(topic_alias=1)), 4),
        (mqtt.Publish("", b""), 5),
        (mqtt.Publish("a/#", b""), 5),
        (mqtt.Publish("a", b"", 1), 5),
        (mqtt.Publish("a", b"", 1, id=65536), 5),
        (mqtt.Publish("a", b"", 3, id=1), 5),
        (mqtt.Publish("a", b"", id=1), 5),
        (mqtt.Publish("a", b"", dup=True), 5),
        (mqtt.Publish("a", b"", properties=Properties(topic_alias=0)), 5),
        (mqtt.Publish("a", b"", properties=Properties(payload_format_indicator=2)), 5),
        (mqtt.Publish("a", b"", properties=Properties(receive_maximum=1)), 5),
        (mqtt.Publish("a", b"", properties=Properties(subscription_identifiers=(0,))), 5),
        (mqtt.Publish("a", b"", properties=Properties(subscription_identifiers=(1 << 28,))), 5),
        (mqtt.Publish("a", b"", properties=Properties(response_topic="+")), 5),
        (mqtt.Puback(0), 4),
        (mqtt.Puback(1, 0x92), 4),
        (mqtt.Subscribe(1, ()), 4),
        (mqtt.Subscribe(1, (mqtt.WantedFilter("a", 3),)), 4),
        (mqtt.Subscribe(1, (mqtt.WantedFilter("a#"),)), 4),
        (mqtt.Subscribe(1, (mqtt.WantedFilter("a", retain_handling=3),)), 5),
        (mqtt.Subscribe(1, (mqtt.WantedFilter("$share/g/a", no_local=True),)), 5),
        (mqtt.Subscribe(1, (mqtt.WantedFilter("$share/g"),)), 5),
        (mqtt.Subscribe(1, (mqtt.WantedFilter("a"),), Properties(subscription_identifiers=(1, 2))), 5),
        (mqtt.Suback(1, ()), 4),
        (mqtt.Suback(1, (3,)), 4),
        (mqtt.Unsubscribe(1, ()), 5),
        (mqtt.Unsuback(1, ()), 5),
        (mqtt.Disconnect(1), 5),
        (mqtt.Auth(), 4),
        (mqtt.Auth(0x18), 5),
    ],
    ids=repr,
)
def test_what_must_not_be_sent_is_not_written(packet, version):
    with pytest.raises(ValueError, match=r"."):
        encode(packet, version)


def test_a_publish_of_qos_0_has_no_identifier_to_share():
    with pytest.raises(ValueError, match="QoS 0"):
        numbered_publish(mqtt.Publish("a", b""), 5)


def test_packets_beyond_the_greatest_length_are_not_written():
    with pytest.raises(ValueError, match="268435455"):
        writer._length(1 << 28)
    assert writer._length((1 << 28) - 1) == b"\xff\xff\xff\x7f"


@each_row("code", [0x87, 0x97])
def test_older_clients_are_told_less(code):
    found = Properties(reason_string="because", user_properties=(("a", "b"),))
    assert encode(mqtt.Puback(1, code, found), 4) == encode(mqtt.Puback(1), 4)
    assert encode(mqtt.Suback(1, (1, code), found), 4) == encode(mqtt.Suback(1, (1, 0x80)), 4)
    assert encode(mqtt.Unsuback(1, (0,), found), 4) == encode(mqtt.Unsuback(1), 4)
    said = Properties(content_type="a/b")
    assert encode(mqtt.Publish("a", b"b", properties=said), 4) == encode(mqtt.Publish("a", b"b"), 4)


@each_row("reason", ANSWERS)
@each_row("is_connected", [False, True])
def test_every_fault_is_answered_as_the_version_has_it(reason, is_connected):
    told = refusal(reason, 5, is_connected=is_connected)
    expected = mqtt.Disconnect if is_connected else mqtt.Connack
    (packet,), error = read(MqttReader("server", 5), [told])
    assert (type(packet), error) == (expected, None)
    others = {("bad-topic-alias", False), ("unsupported-version", True)}
    assert packet.code == (ReasonCode.PROTOCOL_ERROR if (reason, is_connected) in others else ANSWERS[reason])
    assert refusal(reason, 0, is_connected=False) == refusal(reason, 4, is_connected=False)
    assert refusal(reason, 4, is_connected=True) == b""


@each_row(
    ("stream", "answer"),
    [
        (b"\x10\x0f\0\4MQTT\6\2\0\0\0\0\2c1", b"\x20\3\0\x84\0"),
        (b"\x10\x0e\0\6MQIsdp\3\2\0\0\0\0", b"\x20\2\0\1"),
        (b"\x10\x0c\0\4MQTT\3\2\0\0\0\0", b"\x20\2\0\1"),
        (b"\x10\x0d\0\4MQTT\5\3\0\0\0\0\0", b"\x20\3\0\x81\0"),
        (b"\x10\x0c\0\4MQTT\4\3\0\0\0\0", b""),
        (b"GET / HTTP/1.1", b""),
    ],
    ids=["level 6", "MQTT 3.1", "level 3", "malformed, 5.0", "malformed, 3.1.1", "HTTP"],
)
def test_a_bad_connect_is_answered(stream, answer):
    reader = MqttReader("client")
    _, (reason, _, _) = read(reader, [stream])
    assert refusal(reason, reader.level, is_connected=False) == answer


@each_row(
    ("version", "packet", "message"),
    [
        (
            None,
            b"\x10\x0e\0\6MQIsdp\3\2\0\0\0\0",
            "the client speaks MQTT 3.1, which is not supported: use 3.1.1 or 5.0",
        ),
        (
            None,
            b"\x10\x0c\0\4MQTT\3\2\0\0\0\0",
            "the client speaks level 3 of MQTT; supported are 4 (3.1.1) and 5 (5.0)",
        ),
        (None, b"\xc0\0", "the first packet is PINGREQ, not CONNECT"),
        (4, b"\x20\2\0\0", "a client sent CONNACK, which it may not send, or not again"),
        (4, b"\x80\0", "the flags of SUBSCRIBE are 0000"),
        (4, b"\x30\5\0\4a/b", "the topic has 4 bytes, the packet only 3 more"),
        (4, b"\x30\4\0\2a\xff", "the topic is not UTF-8: invalid start byte at byte 5"),
        (4, b"\xc0\2\0\0", "the packet has 2 bytes after its last field"),
        (5, b"\x30\x09\0\3a/b\3\x13\0\1", "PUBLISH has no property 0x13"),
        (5, b"\x30\x0a\0\3a/b\4\1\1\1\1", "PUBLISH has payload_format_indicator twice"),
        (5, b"\x30\x09\0\3a/b\3\x23\0\0", "topic_alias is 0, which is not allowed"),
        (5, b"\x30\x80\x80\x40", "a packet of 1048580 bytes, the most is 1048576"),
    ],
)
def test_messages_say_what_is_wrong(version, packet, message):
    assert read(MqttReader("client", version), [packet])[1][1] == message


@each_row(("side", "version"), [("server", None), ("client", 3), ("server", 0)])
def test_an_unknown_version_is_our_own_mistake(side, version):
    with pytest.raises(ValueError, match="version"):
        MqttReader(side, version)


def test_tables_know_what_they_name():
    assert {each.identifier for each in TABLE} <= set(range(0x80))
    assert len(TABLE) == len({each.identifier for each in TABLE}) == 27
    known = {*ReasonCode}
    assert {code for codes in CODES.values() for code in codes} == known
    assert {*RETURN_CODES} <= CODES[mqtt.PacketType.CONNACK]


@given(names, st.booleans())
def test_packets_never_change(topic, retain):
    packet = mqtt.Publish(topic, b"", retain=retain)
    with pytest.raises(AttributeError):
        packet.topic = ""
    assert hash(packet) == hash(mqtt.Publish(topic, b"", retain=retain))
