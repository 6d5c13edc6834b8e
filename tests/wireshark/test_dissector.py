"""The dissector of ``contrib/wireshark``, run by tshark.

``captures`` has packets of real clients and a real server, recorded by dumpcap: whole, pipelined, split and malformed
messages of each wire format, and what tshark has to say of them.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from bussrv.wire import inbus, spp
from bussrv.wire.objects import encode
from tests.size import sized
from tests.wireshark.shark import CAPTURES, capture, datagram, fields, lines, needs_tshark, said, stream

pytestmark = [needs_tshark, pytest.mark.processes]

FORMATS = ("objects", "business", "inbus", "spp")
PORTS = {"objects": 7890, "business": 7891, "inbus": 7222, "spp": 3002}
FIELDS = ("bus.service", "bus.asked_in", "bus.answered_in", "_ws.expert.message")

PIECES = (1, 2, 7)
"""Bytes of a segment."""

FAULTS = (
    *(["-E", "0.001", "-o", "54", "--seed", str(seed)] for seed in range(sized(10))),
    *(["-E", "0.02", "-o", "54", "--seed", str(seed)] for seed in range(sized(10))),
    *(["-s", most] for most in ("70", "90", "120")),
)
"""What editcap does to a capture: a part of the bytes is wrong, or packets are cut off."""

OBJECTS = (
    encode({"event": "routing/subscribe", "id": "a"}, b""),
    encode({"sender": "tür", "type": "text/plain", "nested": {"deep": [1, {"size": 9}]}}, "größer\0".encode()),
    encode({"event": "services/request", "name": "clock", "id": 7}, b""),
    encode({"type": "image/png", "to": ["x", "y"]}, bytes(300)),
)
PACKETS = (spp.subscribe("tür"), spp.authenticate("ann", "secret"), spp.unsubscribe("tür"), spp.subscribe("x" * 200))
SERVICES = {"objects": ("tür", "clock"), "business": ("tür", "clock"), "spp": ("tür", "tür", "x" * 200)}
"""The services that they name."""


@pytest.mark.parametrize("name", FORMATS)
def test_golden_captures_are_read_as_they_were(name: str) -> None:
    found = lines(CAPTURES / f"{name}.pcapng", f"bus_{name}", *FIELDS)
    assert found == (CAPTURES / f"{name}.txt").read_text("utf-8").splitlines()


def test_messages_are_the_same_however_they_are_split(tmp_path: Path) -> None:
    file, packets, wanted = tmp_path / "split.pcap", [], []
    for name, messages in (("objects", OBJECTS), ("business", OBJECTS), ("spp", PACKETS)):
        data = b"".join(messages)
        for size in (len(data), *PIECES):
            pieces = [data[at : at + size] for at in range(0, len(data), size)]
            packets += stream(PORTS[name], pieces, len(wanted))
            wanted.append("|".join(SERVICES[name]))
    file.write_bytes(capture(packets))
    found: dict[str, list[str]] = {}
    for number, services in fields(file, "tcp.stream", "bus.service", shown="bus_objects || bus_business || bus_spp"):
        found.setdefault(number, []).extend([services] if services else [])
    assert ["|".join(each) for each in found.values()] == wanted


def test_nothing_that_comes_breaks_it(tmp_path: Path) -> None:
    files = []
    for name in FORMATS:
        for number, options in enumerate(FAULTS):
            files.append(tmp_path / f"{name}.{number}")
            subprocess.run(
                ["editcap", *options, CAPTURES / f"{name}.pcapng", files[-1]], check=True, capture_output=True
            )
    subprocess.run(["mergecap", "-a", "-w", tmp_path / "all", *files], check=True)
    assert fields(tmp_path / "all", "frame.number", "_ws.lua.error", shown="_ws.lua") == []
    assert fields(tmp_path / "all", "frame.number", shown="bus.malformed")


def test_malformed_metadata_is_named_with_its_place(tmp_path: Path) -> None:
    nested = b'{"a":' + b"[" * 70 + b"]" * 70 + b"}"
    cases = {
        b"[1]\0": "metadata: it is no JSON object at byte 0",
        b'{"a":1,}\0': "metadata: no name of an attribute at byte 7",
        b'{"a" 1}\0': "metadata: no : after a name at byte 5",
        b'{"a":"\\x"}\0': "metadata: an unknown escape at byte 6",
        b'{"a":nil}\0': "metadata: no value at byte 5",
        b'{"a":1} {}\0': "metadata: something follows the object at byte 8",
        b'{"size":1.5}\0': "size is 1.5, not a non-negative integer",
        nested + b"\0": "metadata: it nests deeper than 64 levels at byte 68",
        b"x" * 140_000: "metadata has over 131072 bytes",
    }
    file, packets = tmp_path / "malformed.pcap", []
    for number, data in enumerate(cases):
        packets += stream(7890, [data[at : at + 60_000] for at in range(0, len(data), 60_000)], number)
    file.write_bytes(capture(packets))
    assert fields(file, "_ws.expert.message", shown="bus.malformed") == [[what] for what in cases.values()]


def test_text_is_decoded_and_secrets_of_spp_are_no_field(tmp_path: Path) -> None:
    sender = 'a"\b\u00fc\u266b\U0001f600'
    told = [json.dumps({"sender": sender}, ensure_ascii=plain).encode() + b"\0" for plain in (True, False)]
    file = tmp_path / "text.pcap"
    file.write_bytes(
        capture(
            [
                *stream(7890, told),
                datagram(7222, inbus.publish("tür", 1, b"\0\xff", 2)),
                *stream(3002, [spp.authenticate("ann", "hunter2")]),
            ]
        )
    )
    found = fields(file, "bus.service", "bus.payload", "bus.inbus.version", "bus.spp.user")
    shown = sender.replace("\b", "\\b")
    assert found == [[shown, "", "", ""], [shown, "", "", ""], ["tür", "00ff", "2", ""], ["", "", "", "ann"]]
    assert "hunter2" not in said(file, "-V", "-O", "bus_spp")
