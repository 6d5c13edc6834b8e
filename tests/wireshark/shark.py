"""Captures, and what tshark says of them with the dissector of ``contrib/wireshark``."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from struct import pack

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "contrib/wireshark/bussrv.lua"
CAPTURES = ROOT / "tests/wireshark/captures"

CLIENT_PORT = 50000

needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")

_ENDS = (0x0A000001, 0x0A000002)
_RAW_IP = 101
_FLAGS = 0x5018  # a header of five words; PSH, ACK
_COLUMNS = ("%m", "%p", "%i")


def said(file: Path, *options: str) -> str:
    """What tshark prints of a capture.

    :raises AssertionError: it, or the dissector, failed.
    """
    command = ["tshark", "-2", "-X", f"lua_script:{SCRIPT}", "-r", file, *options]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert "Lua" not in ran.stderr, ran.stderr
    return ran.stdout


def lines(file: Path, shown: str, *names: str) -> list[str]:
    """The number, the protocol, the summary, and some fields of each packet that a filter shows."""
    columns = ",".join(f'"{each}","{each}"' for each in (*_COLUMNS, *(f"%Cus:{name}:0:R" for name in names)))
    text = said(file, "-o", f"gui.column.format:{columns}", "-Y", shown)
    return [" ".join(line.split()) for line in text.splitlines()]


def fields(file: Path, *names: str, shown: str = "") -> list[list[str]]:
    """Fields of each packet that a filter shows; of several values of one: joined by ``|``."""
    wanted = [word for name in names for word in ("-e", name)]
    text = said(file, "-T", "fields", "-E", "aggregator=|", "-Y", shown or "frame", *wanted)
    return [line.split("\t") for line in text.splitlines()]


def stream(port: int, segments: Iterable[bytes], number: int = 0) -> list[bytes]:
    """The packets of segments to a server over a connection.

    :param number: tells it from others of the same capture.
    """
    packets, sequence = [], 1
    for segment in segments:
        head = pack(">HHIIHHHH", CLIENT_PORT + number, port, sequence, 1, _FLAGS, 8192, 0, 0)
        packets.append(_ip(6, head + segment))
        sequence += len(segment)
    return packets


def datagram(port: int, payload: bytes) -> bytes:
    """The packet of a datagram to a server."""
    return _ip(17, pack(">HHHH", CLIENT_PORT, port, 8 + len(payload), 0) + payload)


def capture(packets: Iterable[bytes]) -> bytes:
    """A capture of packets of IP, a millisecond apart."""
    parts = [pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, _RAW_IP)]
    for number, packet in enumerate(packets):
        parts.append(pack("=IIII", 1, number * 1000, len(packet), len(packet)) + packet)
    return b"".join(parts)


def _ip(protocol: int, data: bytes) -> bytes:
    return pack(">BBHHHBBHII", 0x45, 0, 20 + len(data), 0, 0, 64, protocol, 0, *_ENDS) + data
