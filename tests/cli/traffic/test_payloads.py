"""Payloads as people read them."""

from __future__ import annotations

from bussrv.cli.traffic.receiving import ReceivedPublication


def test_a_payload_that_is_long_or_no_text() -> None:
    from bussrv.cli.traffic.payloads import MOST_SHOWN, shown

    assert shown(b"\xff\xfe", "image/png") == "(2 bytes of image/png)"
    assert shown(b"\x00\xff" * 5000, None) == "(10000 bytes)"
    assert shown(b"a" + "ü".encode() * 5000, None).startswith("aü")
    assert shown("ü".encode() * 5000, None) == "ü" * MOST_SHOWN + "… (10000 bytes)"
    assert ReceivedPublication("tv", b"\xff").as_json() == {"service": "tv", "bytes": 1, "payload_base64": "/w=="}
