"""Tapped objects as a packet capture, read by tshark."""

from __future__ import annotations

import json
from base64 import b64encode
from io import BytesIO
from pathlib import Path

import pytest

from bussrv.cli.traffic.capture import Capture
from tests.wireshark.shark import fields, needs_tshark

pytestmark = [needs_tshark, pytest.mark.processes]

SENDER = {"session": "5f1c2ab94e07.3", "routing_id": "90ab12cd34ef56ab78cd90ef", "protocol": "inbus"}
TAPPED = {
    "time": "2026-11-21T14:02:03.123456Z",
    "from": {**SENDER, "called": "provides doorbell"},
    "to_count": 2,
    "event": None,
    "type": "text/plain",
    "service": "doorbell",
    "bytes": 4,
    "metadata": {"sender": "doorbell", "type": "text/plain", "size": 4, "app-type": 1},
}
FIELDS = (
    *("frame.time_epoch", "frame.comment", "frame.len", "frame.cap_len"),
    *("bus.service", "bus.payload", "frame.drop_count"),
)


def test_each_object_is_a_packet_and_skipped_ones_are_counted(tmp_path: Path) -> None:
    written = BytesIO()
    capture = Capture(written.write, "hall port 7280")
    sizes = [written.tell()]
    for event, data in (
        ("object", {**TAPPED, "payload": b64encode(b"ring").decode()}),
        ("skipped", {"count": 7}),
        ("skipped", {"count": 2}),
        ("object", {**TAPPED, "from": {**SENDER, "protocol": None, "called": "a\u266b"}, "to_count": 0}),
        ("object", {**TAPPED, "bytes": 100_000, "payload": b64encode(b"ring").decode()}),
    ):
        capture.add(event, json.dumps(data))
        sizes.append(written.tell())
    head = len(json.dumps(TAPPED["metadata"])) + 21
    whole = written.getvalue()
    file = tmp_path / "tapped.pcapng"
    file.write_bytes(whole)
    moment = "1795269723.123456000"
    from_doorbell = "from provides doorbell over inbus, received by 2"
    rows = [
        [moment, from_doorbell, str(head + 4), str(head + 4), "doorbell", "72696e67", ""],
        [moment, "from a\u266b over a link, received by 0", str(head + 4), str(head), "doorbell", "", "9"],
        [moment, from_doorbell, str(head + 100_000), str(head + 4), "doorbell", "72696e67", ""],
    ]
    assert fields(file, *FIELDS) == rows
    # Whenever it is read, it is whole.
    file.write_bytes(whole[: sizes[4]])
    assert fields(file, *FIELDS) == rows[:2]
