"""Objects in bytes, and in messages of a WebSocket: whatever chunks they come in, and whatever is none."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from wsproto import ConnectionType, WSConnection
from wsproto import events as ws

from bussrv.client.address import Address
from bussrv.client.core.framing import Arrived, Framing, PlainFraming, WebSocketFraming
from bussrv.errors import RemoteProtocolError
from bussrv.wire.frames import Upgrade, as_messages, refusal
from bussrv.wire.objects import MAX_ADDED, MAX_METADATA, BadObject, ObjectReader, encode
from bussrv.wire.websocket import WebSocketReader
from tests.tables import each_row
from tests.wire.chunks import cut, in_bytes

MOST = 1000
LONGEST = MAX_METADATA + MAX_ADDED

values = st.one_of(st.sampled_from(["tv", "é", 7, -1, 1 << 70, None, True, ["a"], {"b": []}, 1.5, "[[{{"]), st.text())
fields = st.dictionaries(st.sampled_from(["event", "type", "sender", "name", "in-reply-to", "id", "x"]), values)
objects = st.builds(encode, fields, st.binary(max_size=30))
junk = st.sampled_from(
    [
        b"\0",
        b"[]\0",
        b'{"size":-1}\0',
        b'{"size":true}\0',
        b'{"size":1001}\0',
        b'{"size":' + b"9" * 5000 + b"}\0",
        b'{"x":"\xff"}\0',
        b'{"x":"\\ud800"}\0',
        b"\xef\xbb\xbf{}\0",
        b'{"x":' + b"[" * 70 + b"]" * 70 + b"}\0",
        b'{"x":1e999,"size":1}\0',
        b'{"to":5,"size":2,"event":7}\0',
    ]
)


def take(framing: Framing, chunks: Iterable[bytes]) -> tuple[list[Arrived], list[str], bytes]:
    """The objects in chunks, the reason that ended them, and what is to be sent."""
    found: list[Arrived] = []
    output = b""
    try:
        for chunk in filter(None, chunks):
            output += framing.feed(chunk, found)
    except RemoteProtocolError as error:
        return found, [error.reason], output
    return found, [], output


def as_the_server_reads(data: bytes) -> tuple[list[tuple[bytes, bytes] | None], list[str]]:
    """The objects; instead of one that a client takes and the server does not, ``None``."""
    reader, found = ObjectReader(LONGEST, MOST), []
    reader.feed(data)
    try:
        while (each := reader.next_event()) is not None:
            found.append(None if isinstance(each, BadObject) else (each.metadata, each.payload))
    except RemoteProtocolError as error:
        return found, [error.reason]
    return found, []


@given(st.lists(st.one_of(objects, objects, junk, st.binary(max_size=3)), max_size=6), st.lists(st.integers(0, 400)))
@example([b'{"size":2}\0ab', b'{"x":', b'{"size":3}\0abc'], [12])
def test_a_client_reads_what_the_server_does_in_any_chunks(pieces: list[bytes], places: list[int]) -> None:
    data = b"".join(pieces)
    found, reasons, output = take(PlainFraming(MOST), cut(data, places))
    expected, expected_reasons = as_the_server_reads(data)
    assert reasons == expected_reasons
    assert [each and (mine.raw, mine.payload) for each, mine in zip(expected, found, strict=True)] == expected
    assert output == b""


@given(fields, st.binary(max_size=9))
def test_attributes_of_another_kind_are_absent(fields: dict[str, Any], payload: bytes) -> None:
    ((arrived,), _, _) = take(PlainFraming(MOST), [encode(fields, payload)])
    for name in ("event", "type", "sender", "name"):
        value = fields.get(name)
        assert getattr(arrived, name) == (value if isinstance(value, str) else None)
    answered = fields.get("in-reply-to")
    assert arrived.in_reply_to == (answered if isinstance(answered, (str, int)) else None)


@each_row(
    ("data", "reason"),
    [
        (b'{"size":1000}\0' + bytes(1000), None),
        (b'{"size":1001}\0', "payload-too-large"),
        (b'{"x":"' + b"a" * (LONGEST - 8) + b'"}\0', None),
        (b'{"x":"' + b"a" * (LONGEST - 7) + b'"}\0', "metadata-too-large"),
        (b" " * LONGEST, None),
        (b" " * (LONGEST + 1), "metadata-too-large"),
    ],
)
def test_limits_hold_before_everything_is_there(data: bytes, reason: str | None) -> None:
    for cuts in ([data], cut(data, [5, len(data) - 1])):
        assert take(PlainFraming(MOST), cuts)[1] == ([reason] if reason else [])


# WebSocket.


def websocket() -> WebSocketFraming:
    return WebSocketFraming(Address("websocket", "hall", 80, path="/bus"), MOST)


def accepted(framing: WebSocketFraming) -> tuple[WebSocketReader, bytes]:
    """The server's reader of what the client sends, and the server's answer to its greeting."""
    reader = WebSocketReader()
    reader.feed(framing.greeting())
    assert reader.next_event() is None
    assert reader.take_control() == Upgrade("hall:80", ())
    return reader, reader.frames.accept()


def opened() -> WebSocketFraming:
    framing = websocket()
    assert take(framing, [accepted(framing)[1]]) == ([], [], b"")
    return framing


@given(st.lists(objects, max_size=4), st.data())
def test_messages_come_in_any_fragments_and_chunks(messages: list[bytes], data: st.DataObject) -> None:
    framing = websocket()
    server = WSConnection(ConnectionType.SERVER)
    server.receive_data(framing.greeting())
    assert [event.target for event in server.events() if isinstance(event, ws.Request)] == ["/bus"]
    sent = server.send(ws.AcceptConnection(subprotocol="objects"))
    pinged = []
    for message in messages:
        parts = cut(message, data.draw(st.lists(st.integers(0, len(message)), max_size=3)))
        for place, part in enumerate(parts):
            sent += server.send(ws.BytesMessage(part, message_finished=place == len(parts) - 1))
            if data.draw(st.booleans()):
                pinged.append(b"%d" % len(pinged))
                sent += server.send(ws.Ping(pinged[-1]))
    found, reasons, output = take(framing, cut(sent, data.draw(st.lists(st.integers(0, len(sent)), max_size=5))))
    server.receive_data(output)
    assert [bytes(event.payload) for event in server.events()] == pinged
    assert reasons == []
    assert [each.raw + b"\0" + each.payload for each in found] == messages


@given(st.lists(objects, max_size=4), st.integers(0, 4), st.lists(st.integers(0, 300), max_size=4))
def test_what_is_said_before_the_upgrade_is_sent_after_it(objects: list[bytes], early: int, places: list[int]) -> None:
    framing = websocket()
    reader, answer = accepted(framing)
    assert [framing.frame(each) for each in objects[:early]] == [b""] * len(objects[:early])
    assert framing.farewell() == b""
    _, _, output = take(framing, cut(answer, places))
    for each in objects[early:]:
        output += framing.frame(each)
    reader.feed(output)
    for each in objects:
        found = reader.next_event()
        assert isinstance(found, BadObject) or (found and found.metadata + b"\0" + found.payload == each)


WHOLE, TWO = as_messages([b"{}\0"])[0], as_messages([b"{}\0{}\0"])[0]


@each_row(
    ("data", "reason"),
    {
        "two objects": (TWO, "bad-message"),
        "an object and a half": (as_messages([b"{}\0{"])[0], "bad-message"),
        "half a payload": (as_messages([b'{"size":4}\0ab'])[0], "bad-message"),
        "nothing": (as_messages([b""])[0], "bad-json"),
        "no JSON": (as_messages([b"x\0"])[0], "bad-json"),
        "too much": (as_messages([b'{"size":1001}\0'])[0], "payload-too-large"),
        "a message without an end": (b"\x02\x7f" + (1 << 20).to_bytes(8, "big") + bytes(1 << 17), "payload-too-large"),
        "a mask": (b"\x82\x83mask{}\0", "bad-frame"),
        "a reserved opcode": (b"\x83\0", "bad-frame"),
        "text that is not UTF-8": (b"\x81\1\xff", "bad-frame"),
        "a close with a reason": (b"\x88\x10\x03\xe9server-stopped", "server-stopped"),
        "a close without one": (b"\x88\0", "connection-lost"),
        "many pings": (b"\x89\0" * 1100, "bad-frame"),
        "many parts without anything": (b"\2\0" + b"\0\0" * 1100, "bad-frame"),
    }.values(),
)
def test_what_came_before_the_end_is_taken_all_the_same(data: bytes, reason: str) -> None:
    for cuts in ([WHOLE + data], [*in_bytes(WHOLE + data[:40]), data[40:]]):
        framing = opened()
        found, reasons, _ = take(framing, cuts)
        assert (len(found), reasons) == (1, [reason])
        framing.farewell()
        assert framing.farewell() == b""


def test_nothing_is_sent_after_a_close_frame() -> None:
    for end in (WebSocketFraming.farewell, lambda framing: take(framing, [b"\x88\0"]) and b""):
        framing = opened()
        assert framing.frame(b"{}\0")
        end(framing)
        assert framing.frame(b"{}\0") == b""


@each_row(
    "answer",
    {
        "a refusal": refusal(HTTPStatus.FORBIDDEN, "Not from that page."),
        "without a body": b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        "another page": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        "no upgrade": b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    }.values(),
)
def test_a_refused_upgrade_says_so(answer: bytes) -> None:
    for cuts in ([answer], in_bytes(answer)):
        framing = websocket()
        framing.greeting()
        framing.frame(b"{}\0")
        found, reasons, output = take(framing, cuts)
        assert (found, output, len(reasons)) == ([], b"", 1)
        assert reasons[0] in ("bad-upgrade", "bad-frame")
        assert framing.farewell() == b""


@given(st.binary(max_size=60), st.booleans())
def test_nothing_but_a_protocol_error_comes_of_any_bytes(data: bytes, is_open: bool) -> None:
    framing = websocket()
    _, answer = accepted(framing)
    take(framing, [answer if is_open else b"HTTP/1.1 ", data, data])
