"""Packets in messages of a WebSocket: whatever messages, fragments and chunks they come in, and what is malformed."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bussrv.errors import RemoteProtocolError
from bussrv.wire.frames import MOST_FRAGMENTS, PIECE, ClosedByClient, Pinged, Upgrade
from bussrv.wire.mqtt.over_websocket import FramedMqttReader
from bussrv.wire.mqtt.packets import Connect, Disconnect, Packet, Pingreq, Publish, Subscribe, WantedFilter
from bussrv.wire.mqtt.reader import MqttReader
from bussrv.wire.mqtt.writer import encode
from tests.tables import each_row
from tests.wire.chunks import cut, in_bytes
from tests.wire.test_websocket import BINARY, CLOSE, CONTINUED, PING, PONG, REQUEST, TEXT, frame

CONNECT = Connect("ann", 5)
MOST = 1000

packets = st.sampled_from(
    [Pingreq(), Publish("hall/tv", b"on"), Publish("hall/tv", b"x" * 300, 1, id=7), Subscribe(1, (WantedFilter("#"),))]
)
between = st.sampled_from([b"", frame(b"p" * 125, PING), frame(b"", PONG)])


def opened() -> FramedMqttReader:
    reader = FramedMqttReader(MqttReader("client", max_packet=MOST))
    reader.feed(REQUEST.replace(b"\r\n\r\n", b"\r\nSec-WebSocket-Protocol: x, mqtt\r\n\r\n"))
    assert reader.next_event() is None
    assert isinstance(reader.take_control(), Upgrade)
    assert b"\r\nSec-WebSocket-Protocol: mqtt\r\n" in reader.frames.accept()
    return reader


def read(reader: FramedMqttReader, data: bytes) -> list[Any]:
    """All packets and controls in their order; an error that ends them is the last."""
    found: list[Any] = []
    reader.feed(data)
    try:
        while (event := reader.next_event() or reader.take_control()) is not None or reader.has_more:
            if event is not None:
                found.append(event)
    except RemoteProtocolError as error:
        return [*found, error.reason]
    return found


def framed(sent: list[Packet]) -> bytes:
    return frame(b"".join(encode(each, 5) for each in sent))


@given(st.lists(packets, max_size=8), st.data())
def test_messages_fragments_and_chunks_mean_nothing(sent: list[Packet], data: st.DataObject) -> None:
    stream = b"".join(encode(each, 5) for each in (CONNECT, *sent))
    frames, opcode = b"", BINARY
    for part in cut(stream, data.draw(st.lists(st.integers(0, len(stream)), max_size=8))):
        is_last = data.draw(st.booleans())
        frames += frame(part, opcode, final=is_last) + data.draw(between)
        opcode = BINARY if is_last else CONTINUED
    reader = opened()
    found: list[Any] = []
    for chunk in cut(frames, data.draw(st.lists(st.integers(0, len(frames)), max_size=8))):
        found += read(reader, chunk)
    assert [each for each in found if not isinstance(each, Pinged)] == [CONNECT, *sent]
    assert (len(reader), reader.size) == (0, len(stream))


def test_frames_in_single_bytes_are_read() -> None:
    reader = opened()
    sent = (
        framed([CONNECT]) + frame(b"now", PING) + framed([Publish("tv", b"x" * 200), Disconnect()]) + frame(b"", CLOSE)
    )
    found = [event for byte in in_bytes(sent) for event in read(reader, byte)]
    assert found == [CONNECT, Pinged(b"now"), Publish("tv", b"x" * 200), Disconnect(), ClosedByClient()]


@each_row(
    ("data", "reason"),
    {
        "a text": (frame(encode(Pingreq(), 5), TEXT), "not-binary"),
        "an empty text": (frame(b"", TEXT), "not-binary"),
        "a text that goes on": (frame(b"", TEXT, final=False), "not-binary"),
        "a text that is none": (frame(b"\xff", TEXT), "not-binary"),
        "a text in a message": (frame(b"\xc0", final=False) + frame(b"", TEXT), "not-binary"),
        "no packet": (frame(b"\x00\x00"), "malformed-packet"),
        "a packet over the limit": (frame(encode(Publish("tv", b"x" * MOST), 5)), "packet-too-large"),
        "no mask": (b"\x82\x02\xc0\x00", "bad-frame"),
        "nothing to go on with": (frame(b"", CONTINUED), "bad-frame"),
    }.values(),
)
def test_faults_come_after_the_packets_before_them(data: bytes, reason: str) -> None:
    reader = opened()
    assert read(reader, framed([CONNECT, Pingreq()]) + data + framed([Pingreq()])) == [CONNECT, Pingreq(), reason]
    assert read(reader, framed([Pingreq()])) == [reason], "the fault lasts"


def test_a_huge_frame_costs_nothing() -> None:
    """A frame may be of any length, and no packet may."""
    reader = opened()
    read(reader, framed([CONNECT]))
    packet = encode(Publish("tv", b"x" * 600), 5)
    assert read(reader, b"\x82\xff" + (1 << 62).to_bytes(8, "big") + bytes(4)) == []
    for _ in range(200):
        assert len(read(reader, packet * 20)) == 20
        assert len(reader) <= PIECE
    assert read(reader, packet[:-1]) == []
    assert len(reader) == len(packet) - 1


def test_frames_that_bring_nothing_are_left_for_later() -> None:
    reader = opened()
    read(reader, framed([CONNECT]))
    empty = frame(b"", final=False) + frame(b"", CONTINUED, final=False) * 3 * MOST_FRAGMENTS
    reader.feed(empty + frame(encode(Pingreq(), 5), CONTINUED))
    assert [reader.next_event() for _ in range(4)] == [None, None, None, Pingreq()]
    assert not reader.has_more
