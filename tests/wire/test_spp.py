"""Packets of the Service providing protocol, to events and back."""

import json
import struct
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bussrv.errors import REASONS, RemoteProtocolError
from bussrv.wire import spp
from tests.tables import each_row
from tests.wire import chunks as chunked
from tests.wire.chunks import chunks_of, in_bytes

VECTORS = json.loads(Path(__file__).parents[1].joinpath("vectors", "spp.json").read_text("utf-8"))["vectors"]
SIDES = ("client", "server")
# Drawn, not parametrized: pytest-twisted wraps a Hypothesis test again for every parameter, and then into itself.
sides = st.sampled_from(SIDES)

every_vector = each_row("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])


def event(fields):
    """An event as the vectors write it."""
    fields = dict(fields)
    kind = getattr(spp, fields.pop("type"))
    return kind(**{key: bytes.fromhex(value) if key in ("message", "data") else value for key, value in fields.items()})


def drain(reader):
    events = []
    while (found := reader.next_event()) is not None:
        events.append(found)
    return events


def read(side, chunks, max_packet=spp.MAX_PACKET):
    """The events of a connection, and the reason and position of the error at its end, or ``None``."""
    events, held, error = chunked.read(spp.SppReader(side, max_packet), chunks)
    assert max(held, default=0) <= max_packet + 8
    return [*chain.from_iterable(events)], error and (error.reason, error.position)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
integers = st.integers(0, 0xFFFFFFFF)


def packed(msgtype, data):
    return struct.pack(">II", msgtype, len(data)) + data


def ignored(types):
    return st.builds(lambda t, data: (spp.Ignored(t), packed(t, data)), st.sampled_from(types), st.binary(max_size=40))


others = st.builds(lambda t, data: (spp.Other(t, data), spp.other(t, data)), st.integers(32, 0xFFFFFFFF), st.binary())
packets = {
    "client": st.one_of(
        st.builds(lambda s: (spp.Subscribe(s), spp.subscribe(s)), texts),
        st.builds(lambda s: (spp.Unsubscribe(s), spp.unsubscribe(s)), texts),
        others,
        ignored([0, *range(3, 32)]),
    ),
    "server": st.one_of(
        st.builds(lambda s: (spp.Offer(s), spp.offer(s)), texts),
        st.builds(lambda s: (spp.Removed(s), spp.removed(s)), texts),
        st.builds(lambda s, m: (spp.Info(s, m), spp.info(s, m)), texts, st.binary(max_size=40)),
        others,
        ignored([0, *range(3, 16), *range(17, 32)]),
    ),
}
malformed = st.sampled_from(
    [
        packed(1, b""),
        packed(1, b"\0\0\0"),
        packed(1, b"\0\0\0\5abc"),
        packed(2, b"\0\0\0\1\xff"),
        struct.pack(">II", 1, 1001),
        struct.pack(">II", 0, 1001),
        struct.pack(">II", 77, 0xFFFFFFFF),
    ]
)


@every_vector
@each_row("cut", [lambda data: [data], in_bytes], ids=["whole", "byte by byte"])
@each_row("tail", [False, True], ids=["alone", "with a tail"])
def test_vectors(vector, cut, tail):
    data = bytes.fromhex(vector["hex"])
    events = [event(fields) for fields in vector["events"]]
    error = (vector["error"]["reason"], vector["error"]["position"]) if "error" in vector else None
    if tail and "not whole" not in vector["name"]:
        data += spp.other(40, b"tail") + b"\0\0\0"
        events += [] if error else [spp.Other(40, b"tail")]
    assert read(vector["side"], cut(data)) == (events, error)


def test_vectors_show_every_event_and_every_error():
    shown = {fields["type"] for vector in VECTORS for fields in vector["events"]}
    assert shown == {"Subscribe", "Unsubscribe", "Offer", "Removed", "Info", "Ignored", "Other"}
    reasons = {vector["error"]["reason"] for vector in VECTORS if "error" in vector}
    assert reasons == {"packet-too-large", "packet-too-short", "string-overruns-packet", "bad-utf8"}
    assert reasons <= REASONS.keys()


@each_row(
    ("name", "packet"),
    [
        ("subscribe", spp.subscribe("clock")),
        ("unsubscribe", spp.unsubscribe("clock")),
        ("offer", spp.offer("clock")),
        ("removed", spp.removed("clock")),
        ("info", spp.info("clock", b"12:00")),
        ("service id beyond ASCII", spp.subscribe("météo/東京")),
        ("authenticate", spp.authenticate("ann", "s3cret")),
        ("authentication result", spp.auth_result(0)),
        ("the greatest type", spp.other(0xFFFFFFFF, b"\1\2")),
    ],
)
def test_encoders_write_the_vectors(name, packet):
    assert [vector["hex"] for vector in VECTORS if vector["name"] == name] == [packet.hex()]


@given(sides, st.data())
def test_every_chunking_gives_the_same_events(side, data):
    sent = data.draw(st.lists(packets[side], max_size=6))
    events = [each for each, _ in sent]
    stream = b"".join(packet for _, packet in sent)
    assert read(side, [stream], 1000) == (events, None)
    assert read(side, in_bytes(stream), 1000) == (events, None)
    assert read(side, data.draw(chunks_of(stream)), 1000) == (events, None)


@given(sides, st.data())
def test_every_chunking_of_a_malformed_stream_gives_the_same(side, data):
    sent = data.draw(st.lists(packets[side], max_size=4))
    stream = b"".join(packet for _, packet in sent) + data.draw(malformed) + data.draw(st.binary(max_size=20))
    events, error = read(side, [stream], 1000)
    assert events == [each for each, _ in sent]
    assert error is not None
    assert read(side, in_bytes(stream), 1000) == (events, error)
    assert read(side, data.draw(chunks_of(stream)), 1000) == (events, error)


@given(sides, st.data())
def test_any_bytes_give_events_or_a_protocol_error(side, data):
    chunks = data.draw(st.lists(st.binary(max_size=60), max_size=6))
    assert read(side, chunks, 100) == read(side, [b"".join(chunks)], 100)


@given(sides, st.data())
def test_altered_packets_give_the_same_however_they_are_cut(side, data):
    sent = data.draw(st.lists(packets[side], min_size=1, max_size=4))
    stream = bytearray(b"".join(packet for _, packet in sent))
    for index in data.draw(st.lists(st.integers(0, len(stream) - 1), min_size=1, max_size=4)):
        stream[index] = data.draw(st.integers(0, 255))
    events, error = read(side, [bytes(stream)], 1000)
    assert error is None or error[0] in REASONS
    assert read(side, in_bytes(bytes(stream)), 1000) == (events, error)
    assert read(side, data.draw(chunks_of(bytes(stream))), 1000) == (events, error)


@each_row("side", SIDES)
@each_row("msgtype", [0, 1, 2, 3, 16, 32, 0xFFFFFFFF])
def test_a_length_over_the_limit_is_refused_at_the_header(side, msgtype):
    header = struct.pack(">II", msgtype, 101)
    events, error = read(side, [header[:7]], 100)
    assert (events, error) == ([], None)
    assert read(side, [header], 100) == ([], ("packet-too-large", 4))
    assert read(side, [struct.pack(">II", msgtype, 100)], 100)[1] is None


def test_a_packet_of_the_greatest_length_is_read():
    packet = spp.info("clock", bytes(spp.MAX_PACKET - 13))
    assert len(packet) == spp.MAX_PACKET + 8
    assert read("server", [packet]) == ([spp.Info("clock", bytes(spp.MAX_PACKET - 13))], None)
    assert read("server", [spp.info("clock", bytes(spp.MAX_PACKET - 12))])[1] == ("packet-too-large", 4)


@each_row("side", SIDES)
def test_what_is_ignored_is_not_gathered(side):
    reader = spp.SppReader(side)
    reader.feed(struct.pack(">II", 0, spp.MAX_PACKET))
    assert drain(reader) == [spp.Ignored(0)]
    for _ in range(spp.MAX_PACKET >> 16):
        reader.feed(bytes(1 << 16))
        assert drain(reader) == []
        assert len(reader) == 0
    reader.feed(spp.other(32, b"x"))
    assert drain(reader) == [spp.Other(32, b"x")]


@each_row("side", SIDES)
def test_an_error_stays(side):
    reader = spp.SppReader(side)
    reader.feed(packed(1, b""))
    with pytest.raises(RemoteProtocolError) as first:
        reader.next_event()
    reader.feed(spp.other(32, b"") * 3)
    for _ in range(2):
        with pytest.raises(RemoteProtocolError) as again:
            reader.next_event()
        assert again.value is first.value


@each_row(
    "event",
    [
        spp.Subscribe("a"),
        spp.Unsubscribe("a"),
        spp.Offer("a"),
        spp.Removed("a"),
        spp.Info("a", b""),
        spp.Ignored(0),
        spp.Other(32, b""),
    ],
    ids=lambda event: type(event).__name__,
)
def test_events_never_change(event):
    with pytest.raises(AttributeError):
        setattr(event, event.__struct_fields__[0], None)
    assert isinstance(hash(event), int)


def test_messages_say_what_is_wrong_and_where():
    for packet, message in (
        (packed(1, b"\0\0\0\3ab"), "the service has 3 bytes, the packet only 2 more"),
        (packed(16, b"\0\0\0\1a\0\0"), "the packet ends before the length of its message"),
        (packed(2, b"\0\0\0\2a\xff"), "the service is not UTF-8: invalid start byte at byte 13"),
        (struct.pack(">II", 1, 0xFFFFFFFF), "a packet of 4294967295 bytes, the most is 1048576"),
    ):
        reader = spp.SppReader("server")
        reader.feed(packet)
        with pytest.raises(RemoteProtocolError) as caught:
            reader.next_event()
        assert caught.value.message == message


def test_an_unknown_side_is_our_own_mistake():
    with pytest.raises(KeyError):
        spp.SppReader("neither")


@given(texts, texts, st.binary(max_size=5))
def test_credentials(user, secret, tail):
    reader = spp.SppReader("client")
    reader.feed(spp.authenticate(user, secret))
    sent = reader.next_event()
    assert sent.msgtype == spp.AUTHENTICATE == 32
    assert spp.credentials(sent.data) == (user, secret)
    assert spp.credentials(sent.data + tail) == (user, secret)


@given(st.binary(max_size=30))
@example(b"\0\0\0\1a\0\0\0\1\xff")
def test_any_credentials_are_read_or_refused(data):
    again, reason = None, None
    try:
        again = spp.authenticate(*spp.credentials(data))[8:]
    except RemoteProtocolError as error:
        reason = error.reason
    if again is None:
        assert reason in {"packet-too-short", "string-overruns-packet", "bad-utf8"}
    else:
        assert data.startswith(again)


@each_row(
    ("data", "reason", "position"),
    [
        (b"", "packet-too-short", 8),
        (b"\0\0\0\2a", "string-overruns-packet", 8),
        (b"\0\0\0\1a", "packet-too-short", 13),
        (b"\0\0\0\1a\0\0\0\1", "string-overruns-packet", 13),
        (b"\0\0\0\1\xff\0\0\0\0", "bad-utf8", 12),
        (b"\0\0\0\1a\0\0\0\6secre\xff", "bad-utf8", 22),
    ],
)
def test_malformed_credentials(data, reason, position):
    with pytest.raises(RemoteProtocolError) as caught:
        spp.credentials(data)
    assert (caught.value.reason, caught.value.position) == (reason, position)
    assert "secre\\" not in caught.value.message


@given(integers)
def test_authentication_results(code):
    packet = spp.auth_result(code)
    assert packet == struct.pack(">III", 33, 4, code)
    assert spp.auth_code(packet[8:]) == code
    assert spp.auth_code(packet[8:] + b"x") == code


def test_an_authentication_result_without_a_code():
    with pytest.raises(RemoteProtocolError) as caught:
        spp.auth_code(b"\0\0\0")
    assert (caught.value.reason, caught.value.position) == ("packet-too-short", 8)


@each_row("code", [-1, 1 << 32])
def test_a_code_that_is_no_integer(code):
    with pytest.raises(ValueError, match=str(code)):
        spp.auth_result(code)


@each_row("msgtype", [-1, 0, 1, 16, 31, 1 << 32])
def test_types_of_the_protocol_are_no_other_messages(msgtype):
    with pytest.raises(ValueError, match="types from 32"):
        spp.other(msgtype, b"")


@each_row("encode", [spp.subscribe, spp.unsubscribe, spp.offer, spp.removed])
def test_names_that_are_no_text_are_refused(encode):
    with pytest.raises(ValueError, match="surrogates not allowed"):
        encode("\ud800")


@given(st.text(max_size=9), st.lists(st.binary(max_size=9)))
def test_packets_made_in_one_go_equal_those_made_one_by_one(service, messages):
    assert spp.infos(service, messages) == [spp.info(service, message) for message in messages]
