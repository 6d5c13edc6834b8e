"""Datagrams that are malformed or hostile, and the code that each is counted by."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bussrv.wire import inbus

SOURCE = "10.0.0.66"
"""Where hostile datagrams come from, unless a row says otherwise."""

SERVER = ("10.0.0.1", 7222)

Build = Callable[[], bytes]


@dataclass(frozen=True)
class Row:
    """One hostile datagram.

    :ivar data: its bytes; large ones are built when they are needed.
    :ivar reason: the code it is counted by.
    :ivar source: where it comes from, as far as the server is told.
    """

    name: str
    data: bytes | Build
    reason: str
    source: str = SOURCE

    def build(self) -> bytes:
        return self.data if isinstance(self.data, bytes) else self.data()


def datagram(**elements: Any) -> bytes:
    """A good subscription, but for these elements; those that are ``...`` are left out."""
    good = {"version": 1, "opcode": 1, "application": ["a", 0], "address": [SOURCE, 5000], "payload": ""}
    return json.dumps({key: value for key, value in {**good, **elements}.items() if value is not ...}).encode()


def with_value(name: str, written: str) -> bytes:
    """The same with a value written just so."""
    return datagram(**{name: "@"}).replace(b'"@"', written.encode())


def publication(version: int = 2, app_key: str = "a", payload: Any = "eA==", **elements: Any) -> bytes:
    return datagram(version=version, opcode=3, application=[app_key, 1], address=["", 0], payload=payload, **elements)


GARBAGE = (
    Row("nothing at all", b"", "bad-json"),
    Row("a NUL", b"\0", "bad-json"),
    Row("a line end", b"\n", "bad-json"),
    Row("a byte that is no UTF-8", b"\xff", "bad-utf8"),
    Row("an overlong NUL", b'{"x":"\xc0\x80"}', "bad-utf8"),
    Row("half of a character at the end", datagram()[:-1] + b"\xe2\x82", "bad-utf8"),
    Row("half of a surrogate pair in UTF-8", b'{"x":"\xed\xa0\x80"}', "bad-utf8"),
    Row("UTF-16", datagram().decode().encode("utf-16"), "bad-utf8"),
    Row("a byte order mark", b"\xef\xbb\xbf" + datagram(), "bad-json"),
    Row("a byte order mark, encoded twice", "ï»¿".encode() + datagram(), "bad-json"),
    Row("an object that does not end", datagram()[:-1], "bad-json"),
    Row("an object and a half", datagram() + b"{", "bad-json"),
    Row("two objects", datagram() * 2, "bad-json"),
    Row("an object and a NUL", datagram() + b"\0", "bad-json"),
    Row("a comma too many", datagram()[:-1] + b",}", "bad-json"),
    Row("single quotation marks", datagram().replace(b'"', b"'"), "bad-json"),
    Row("a comment", b"/**/" + datagram(), "bad-json"),
    Row("a raw line end in a string", with_value("payload", '"\n"'), "bad-json"),
    Row("NaN", with_value("version", "NaN"), "bad-json"),
    Row("minus infinity", with_value("opcode", "-Infinity"), "bad-json"),
    Row("a leading zero", with_value("version", "01"), "bad-json"),
    Row("a hexadecimal number", with_value("version", "0x1"), "bad-json"),
    Row("random bytes", bytes(range(256)) * 200, "bad-utf8"),
    Row("a request of HTTP", b"GET / HTTP/1.1\r\nHost: hall\r\n\r\n", "bad-json"),
    Row("a packet of SPP", b"\0\0\0\5\0\0\0\1a", "bad-json"),
    Row("an object of Object System", b'{"event":"routing/subscribe"}\0', "bad-json"),
    Row("65,507 opening brackets", lambda: b"[" * inbus.MAX_DATAGRAM, "nesting-too-deep"),
    Row("65,507 bytes of nested objects", lambda: (b'{"a":' * 20_000)[: inbus.MAX_DATAGRAM], "nesting-too-deep"),
    Row("backslashes without end", lambda: b'{"x":"' + b"\\" * 65_000, "bad-json"),
    Row("65,000 quotation marks", lambda: b'"' * 65_000, "bad-json"),
    Row("an unknown element that nests too deep", with_value("x", "[" * 70 + "]" * 70), "nesting-too-deep"),
)

KINDS = (
    Row("an array", b"[]", "not-an-object"),
    Row("a string", b'"subscribe"', "not-an-object"),
    Row("a number", b"1", "not-an-object"),
    Row("null", b"null", "not-an-object"),
    Row("an array of an object", b"[" + datagram() + b"]", "not-an-object"),
    Row("an empty object", b"{}", "bad-element"),
    *(
        Row(f"{name} is missing", datagram(**{name: ...}), "bad-element")
        for name in ("version", "opcode", "application", "address", "payload")
    ),
    *(
        Row(f"{name} in capitals", datagram(**{name: ..., name.upper(): 1}), "bad-element")
        for name in ("version", "payload")
    ),
    *(
        Row(f"{name} is {what}", with_value(name, written), "bad-element")
        for name in ("version", "opcode")
        for what, written in {
            "a string": '"1"',
            "true": "true",
            "null": "null",
            "1.0": "1.0",
            "1e0": "1e0",
            "an array": "[1]",
        }.items()
    ),
    *(
        Row(f"{name} is {what}", with_value(name, written), "bad-element")
        for name in ("application", "address")
        for what, written in {
            "a string": '"a"',
            "an object": '{"0":"a","1":0}',
            "empty": "[]",
            "one too short": '["a"]',
            "one too long": '["a",0,0]',
            "the wrong way round": '[0,"a"]',
            "with null": "[null,0]",
            "with a fraction": '["a",0.5]',
            "with a number of 60,000 digits": f'["a",{"9" * 60_000}]',
        }.items()
    ),
    Row("payload is a number", datagram(payload=1), "bad-element"),
    Row("payload is null", datagram(payload=None), "bad-element"),
    Row("payload is an object", datagram(payload={}), "bad-element"),
    Row("app-type has 65 bits", datagram(application=["a", 1 << 63]), "bad-element"),
    Row("half of a surrogate pair in the app-key", with_value("application", r'["\ud800",0]'), "bad-utf8"),
    Row("half of a surrogate pair in the payload", with_value("payload", r'"\udfff"'), "bad-utf8"),
    Row("an element twice, of which the last is wrong", datagram()[:-1] + b',"opcode":"1"}', "bad-element"),
)

RESERVED = (
    *(Row(f"version {version}", datagram(version=version), "bad-version") for version in (0, 3, -1, 1 << 64)),
    *(Row(f"opcode {opcode}", datagram(opcode=opcode), "reserved-opcode") for opcode in (0, 4, 999, 1000, -1, 1 << 70)),
    *(
        Row(f"app-key {key} of opcode {opcode}", datagram(opcode=opcode, application=[key, 1]), "reserved-app-key")
        for key in ("*", "_inbus")
        for opcode in (1, 2, 3)
    ),
    Row("app-key * in escapes", with_value("application", r'["\u002a",0]'), "reserved-app-key"),
)

ADDRESSES = (
    *(
        Row(f"the address is {what}", datagram(address=[host, 5000]), "bad-element")
        for what, host in {
            "empty": "",
            "a name": "localhost",
            "a name that would have to be looked up": "example.com",
            "too large": "256.0.0.1",
            "too short": "10.0.1",
            "octal": "010.0.0.66",
            "with a port": f"{SOURCE}:5000",
            "with a blank": f"{SOURCE} ",
            "in brackets": "[::1]",
            "a network": "10.0.0.0/8",
            "with a NUL": f"{SOURCE}\0",
            "60,000 digits": "1" * 60_000,
            "in other digits": "１０.0.0.66",
            "nowhere": "0.0.0.0",
            "nowhere in IPv6": "::",
            "nowhere, mapped": "::ffff:0.0.0.0",
        }.items()
    ),
    *(Row(f"port {port}", datagram(address=[SOURCE, port]), "bad-element") for port in (0, -1, 65_536, 1 << 64)),
    *(
        Row(f"to {what}", datagram(address=[host, 5000]), "foreign-address")
        for what, host in {
            "somebody else": "10.0.0.2",
            "everybody": "255.255.255.255",
            "a group": "224.0.0.1",
            "loopback": "127.0.0.1",
            "loopback of IPv6": "::1",
            "somebody else, mapped": "::ffff:10.0.0.2",
            "the server": "10.0.0.1",
            "an IPv4-compatible address": f"::{SOURCE}",
            "a scope": "fe80::1%eth0",
        }.items()
    ),
    Row("somebody else's subscription ends", datagram(opcode=2, address=["10.0.0.2", 5000]), "foreign-address"),
    Row("the server subscribes to itself", datagram(address=list(SERVER)), "own-address", SERVER[0]),
    Row(
        "the server subscribes to itself, mapped",
        datagram(address=[f"::ffff:{SERVER[0]}", SERVER[1]]),
        "own-address",
        SERVER[0],
    ),
    Row("the end of what never was", datagram(opcode=2), "no-such-subscription"),
)

NAMES = (
    *(
        Row(f"an app-key that is {what}, of opcode {opcode}", build(key), "bad-service-name")
        for what, key in {
            "empty": "",
            "256 bytes": "x" * 256,
            "256 bytes in 128 characters": "é" * 128,
            "60,000 bytes": "x" * 60_000,
            "with a NUL": "a\0b",
            "with a line end": "a\nb",
            "with an escape": "\x1b[2J",
            "with a control character of C1": "a\x85b",
        }.items()
        for opcode, build in (
            (1, lambda key: datagram(application=[key, 0])),
            (3, lambda key: publication(app_key=key)),
        )
    ),
    *(
        Row(f"publishing on {name}", publication(app_key=name), "reserved-name")
        for name in ("bus/registry", "bus/", "bus/x")
    ),
)

PAYLOADS = tuple(
    Row(f"a payload in base64 {what}", publication(payload=payload), "bad-base64")
    for what, payload in {
        "with a blank": "eA= =",
        "with a line end": "eA==\n",
        "without its padding": "eA",
        "with too much padding": "eA===",
        "of padding only": "====",
        "for URLs": "-_8=",
        "of other characters": "äöü=",
        "of one character": "e",
        "with padding in the middle": "eA==eA==",
    }.items()
)

ROWS = (*GARBAGE, *KINDS, *RESERVED, *ADDRESSES, *NAMES, *PAYLOADS)
