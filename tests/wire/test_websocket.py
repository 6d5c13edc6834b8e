"""Messages of WebSocket as objects: whatever fragments and chunks they come in, and whatever is no message."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wsproto import ConnectionType
from wsproto import events as ws
from wsproto.connection import Connection

from bussrv.errors import RemoteProtocolError
from bussrv.wire.frames import MAX_REQUEST, MOST_FRAGMENTS, ClosedByClient, Control, Pinged, Upgrade, as_messages
from bussrv.wire.objects import BusObject, encode
from bussrv.wire.websocket import WebSocketReader
from tests.tables import each_row
from tests.wire.chunks import cut, in_bytes

REQUEST = (
    b"GET /any HTTP/1.1\r\nHost: hall:7892\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
TEXT, BINARY, CONTINUED, CLOSE, PING, PONG = 1, 2, 0, 8, 9, 10
FINAL = 0x80


def frame(payload: bytes = b"", opcode: int = BINARY, final: bool = True, mask: bytes = b"mask") -> bytes:
    """A frame of a client."""
    size = len(payload)
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 1 << 16:
        length = bytes([0x80 | 126]) + struct.pack("!H", size)
    else:
        length = bytes([0x80 | 127]) + struct.pack("!Q", size)
    masked = bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))
    return bytes([opcode | FINAL * final]) + length + mask + masked


def opened(**limits: int) -> WebSocketReader:
    reader = WebSocketReader(**limits)
    reader.feed(REQUEST)
    assert reader.next_event() is None
    assert reader.take_control() == Upgrade("hall:7892", ())
    reader.frames.accept()
    return reader


def read(reader: WebSocketReader, data: bytes = b"") -> list[Any]:
    """All objects and controls in their order; an error that ends them is the last."""
    found: list[Any] = []
    reader.feed(data)
    try:
        while True:
            event: Any = reader.next_event() or reader.take_control()
            if event is not None:
                found.append(event)
            elif not reader.has_more:
                return found
    except RemoteProtocolError as error:
        return [*found, error.reason]


objects = st.builds(
    lambda payload, more: encode({"type": "a/b", **more}, payload),
    st.binary(max_size=300),
    st.sampled_from([{}, {"event": "ping"}, {"x": "é"}]),
)
controls = st.sampled_from([frame(b"p", PING), frame(b"", PONG), frame(b"p" * 125, PING)])


@given(st.data())
def test_objects_are_the_same_in_whatever_fragments_and_chunks(data: st.DataObject) -> None:
    sent, expected = b"", []
    for message in data.draw(st.lists(objects, max_size=8)):
        parts = cut(message, data.draw(st.lists(st.integers(0, len(message)), max_size=4)))
        for place, part in enumerate(parts):
            sent += frame(part, BINARY if place == 0 else CONTINUED, final=place == len(parts) - 1)
            if data.draw(st.booleans()):
                sent += data.draw(controls)
        metadata, _, payload = message.partition(b"\0")
        expected.append((metadata, payload))
    reader = opened()
    reader.end_batches_at({"ping"})
    found: list[Any] = []
    for chunk in cut(sent, data.draw(st.lists(st.integers(0, len(sent)), max_size=8))):
        found += read(reader, chunk)
    assert [(each.metadata, each.payload) for each in found if isinstance(each, BusObject)] == expected
    assert {type(each) for each in found} <= {BusObject, Pinged}
    assert len(reader) == 0


def test_a_text_message_needs_no_nul_and_its_size_is_in_bytes() -> None:
    whole, short = '{"type":"a/b","size":2}\0é', '{"event":"x"}'
    found = read(opened(), frame(whole.encode(), TEXT) + frame(short.encode(), TEXT) + frame(short.encode()))
    assert [each.payload for each in found] == ["é".encode(), b"", b""]
    assert [each.metadata for each in found[1:]] == [short.encode()] * 2


@each_row(
    ("data", "reason"),
    {
        "two objects": (frame(b"{}\0{}\0"), "bad-message"),
        "an object and a NUL": (frame(b"{}\0\0"), "bad-message"),
        "nothing": (frame(b""), "bad-message"),
        "half a payload": (frame(b'{"size":4}\0ab'), "bad-message"),
        "a payload without NUL": (frame(b'{"size":4}'), "bad-message"),
        "no JSON": (frame(b"x\0"), "bad-json"),
        "no JSON, and no NUL": (frame(b"x", TEXT), "bad-json"),
        "metadata over the limit": (frame(b"x" * 2000), "metadata-too-large"),
        "metadata over the limit, not ended": (frame(b"x" * 1500, final=False), "metadata-too-large"),
        "a payload over the limit": (frame(b'{"size":2000}\0', final=False), "payload-too-large"),
        "text that is not UTF-8": (frame(b'{"x":"\xff"}\0', TEXT), "bad-utf8"),
        "text that ends in a character": (frame(b'{"x":"\xc3', TEXT), "bad-utf8"),
        "no mask": (b"\x82\x03{}\0", "bad-frame"),
        "a reserved bit": (b"\xc2\x83mask{}\0", "bad-frame"),
        "a reserved opcode": (frame(b"", 3), "bad-frame"),
        "a continuation of nothing": (frame(b"", CONTINUED), "bad-frame"),
        "a message in a message": (frame(b"{", final=False) + frame(b"}"), "bad-frame"),
        "a ping in two frames": (frame(b"", PING, final=False), "bad-frame"),
        "a ping of 126 bytes": (frame(b"p" * 126, PING), "bad-frame"),
        "a length in too many bytes": (b"\x82\xfe\0\x03mask{}\0", "bad-frame"),
        "a length of 64 bits": (b"\x82\xff" + b"\xff" * 8 + b"mask", "bad-frame"),
        "a close frame of 126 bytes": (frame(b"x" * 126, CLOSE), "bad-frame"),
    }.values(),
)
def test_a_message_that_is_no_object_ends_the_connection_there(data: bytes, reason: str) -> None:
    for cuts in ([data], in_bytes(data)):
        reader = opened(max_metadata=1000, max_payload=1000)
        assert len(read(reader, frame(b"{}\0"))) == 1
        found: list[Any] = []
        for chunk in cuts:
            if reason not in found:
                found += read(reader, chunk)
        assert found == [reason]
        assert read(reader, frame(b"{}\0")) == [reason], "the error lasts"


@each_row("length", [2002, 70_000, 1 << 40, 1 << 62])
def test_a_frame_too_large_for_any_message_is_refused_by_header(length: int) -> None:
    header = b"\xff" + length.to_bytes(8, "big") if length >> 16 else b"\xfe" + length.to_bytes(2, "big")
    for cuts in ([b"\x82" + header + b"mask"], in_bytes(b"\x02" + header + b"mask")):
        reader = opened(max_metadata=1000, max_payload=1000)
        *before, last = [read(reader, chunk) for chunk in cuts]
        assert (before, last) == ([[]] * len(before), ["payload-too-large"])
        assert len(reader) == 0


@each_row("code", [0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535])
def test_a_close_frame_with_a_forbidden_code_is_malformed(code: int) -> None:
    for text in (b"", b"bye"):
        assert read(opened(), frame(code.to_bytes(2, "big") + text, CLOSE)) == ["bad-frame"]


@each_row("code", [1000, 1001, 1003, 1007, 1011, 1014, 3000, 4999])
def test_a_close_frame_with_any_other_is_one(code: int) -> None:
    for text in (b"", "schön".encode(), b"x" * 123):
        assert read(opened(), frame(code.to_bytes(2, "big") + text, CLOSE)) == [ClosedByClient()]


def test_half_a_code_and_a_text_that_is_not_utf8_are_malformed() -> None:
    assert read(opened(), frame(b"\x03", CLOSE)) == ["bad-frame"]
    assert read(opened(), frame(b"\x03\xe8\xc3", CLOSE)) == ["bad-utf8"]
    assert read(opened(), frame(b"", CLOSE)) == [ClosedByClient()]


def fault(request: bytes) -> str:
    reader = WebSocketReader()
    reader.feed(request)
    with pytest.raises(RemoteProtocolError) as refused:
        reader.next_event()
    assert refused.value.reason == "bad-upgrade"
    return refused.value.message


KEY, VERSION = b"dGhlIHNhbXBsZSBub25jZQ==", b"Sec-WebSocket-Version: 13\r\n"
NO_KEY = "Sec-WebSocket-Key is not one key of 16 bytes in base64"


@each_row(
    ("old", "new", "sentence"),
    [
        (b"HTTP/1.1", b"HTTP/1.0", "a WebSocket is asked for in HTTP/1.1"),
        (
            VERSION,
            VERSION.replace(b"13", b"8"),
            "this server speaks version 13 of WebSocket, and the request is for another",
        ),
        (VERSION, b"", "that is no request for a WebSocket: Missing header, 'Sec-WebSocket-Version'"),
        (KEY, b"dGhlIHNhbXBsZSBub25j", NO_KEY),
        (KEY, b"not base64", NO_KEY),
        (KEY, b"", NO_KEY),
        (KEY, KEY + b"\r\nSec-WebSocket-Key: " + KEY, NO_KEY),
    ],
)
def test_a_request_that_is_not_quite_valid_is_refused_with_why(old: bytes, new: bytes, sentence: str) -> None:
    assert fault(REQUEST.replace(old, new)) == sentence


def test_payloads_of_strangers_are_not_gathered() -> None:
    reader = opened()
    reader.gather(1000)
    message = encode({"type": "a/b"}, bytes(100_000))
    for start in range(0, len(message), 1000):
        part = message[start : start + 1000]
        found = read(reader, frame(part, CONTINUED if start else BINARY, start + 1000 >= len(message)))
        assert len(reader) <= 1000
    assert [len(each.payload) for each in found] == [0]


def test_others_are_served_while_empty_fragments_come() -> None:
    """Each takes as long as a whole message, and brings nothing: so the reader stops after some, and says so."""
    reader = opened()
    reader.feed(frame(b"", final=False) + frame(b"", CONTINUED, final=False) * (10 * MOST_FRAGMENTS))
    stops = 0
    while reader.next_event() is None and reader.has_more:
        stops += 1
    assert stops >= 10
    assert len(reader) == 0


def test_what_comes_after_a_close_frame_is_not_read() -> None:
    for said in (b"", b"\x03\xe8bye", b"\x0b\xb8"):
        found = read(opened(), frame(b"{}\0") + frame(said, CLOSE) + frame(b"x\0"))
        assert [type(each) for each in found] == [BusObject, ClosedByClient]


def test_a_request_may_come_byte_by_byte_and_messages_after_it() -> None:
    reader = WebSocketReader()
    controls: list[Control] = []
    for byte in in_bytes(REQUEST.replace(b"Host", b"Origin: http://a\r\nHost") + frame(b"{}\0")):
        found = read(reader, byte)
        controls += found
        if found and isinstance(found[0], Upgrade):
            reader.frames.accept()
    assert controls[0] == Upgrade("hall:7892", ("http://a",))
    assert [type(each) for each in controls] == [Upgrade, BusObject]


@each_row(
    "request_",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\r\n\r\n",
        b'{"event":"routing/subscribe"}\0\r\n\r\n',
        b"x" * MAX_REQUEST,
        REQUEST.replace(b"GET", b"POST"),
        REQUEST.replace(b": 13", b": 8"),
        REQUEST.replace(b"hall:7892", b"\xff"),
        REQUEST.replace(b"Host: hall:7892\r\n", b""),
        REQUEST.replace(b": Upgrade", b": \xff"),
        REQUEST.replace(b"HTTP/1.1", b"HTTP/9"),
    ],
)
def test_a_request_for_something_else_is_refused(request_: bytes) -> None:
    assert read(WebSocketReader(), request_) == ["bad-upgrade"]


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
def test_a_message_of_the_server_is_one_frame_that_clients_read(size: int) -> None:
    client = Connection(ConnectionType.CLIENT)
    client.receive_data(b"".join(as_messages([bytes(size)])))
    (event,) = client.events()
    assert isinstance(event, ws.BytesMessage)
    assert (len(event.data), event.message_finished) == (size, True)
    assert as_messages([b"a", b"b"]) == [*as_messages([b"a"]), *as_messages([b"b"])]
