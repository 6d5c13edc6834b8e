r"""Inbus: one JSON object a datagram, on UDP. Source: seed 001: Inbus; version 2 as deployed programs speak it.

The same in both directions. ``->`` subscribe, unsubscribe and publish go to the server, ``<-`` publish comes from it::

    datagram    = a JSON object in UTF-8, at most 65507 bytes, with all of:
    version     = 1 | 2
    opcode      = 1 subscribe | 2 unsubscribe | 3 publish         0 and all others are reserved
    application = [ app-key, app-type ]   app-key: a string; "*" and "_inbus" are reserved
                                          app-type: an integer of 64 bits with a sign; for publish
    address     = [ host, port ]          of the subscriber; for subscribe and unsubscribe
                                          host: a string; port: an integer from 0 to 65535
    payload     = a string; for publish   version 1: text
                                          version 2: bytes in base64 (RFC 4648, section 4, with padding)

    -> {"version":1,"opcode":1,"application":["upnp",0],"address":["127.0.0.1",3456],"payload":""}
    <- {"version":1,"opcode":3,"application":["upnp",17],"address":["",0],"payload":"Omega - Gammapolis I. - 0:45"}

Elements that do not apply have to be there and of the right kind, but what they say is never used: they are read as
zero or empty. Unknown elements are skipped. Of an element that comes twice the last one counts.
"""

from __future__ import annotations

import base64
import re
from typing import Any

import msgspec
import simplejson
from msgspec import Struct

from bussrv.errors import RemoteProtocolError
from bussrv.wire.faults import bad_json, too_deep

PORT = 7222
MAX_DATAGRAM = 65507
"""The most bytes that one UDP datagram carries over IPv4."""

MAX_NESTING = 64
"""How deep a datagram may nest; only unknown elements nest deeper than two levels."""

VERSIONS = (1, 2)
SUBSCRIBE = 1
UNSUBSCRIBE = 2
PUBLISH = 3
OPCODES = (SUBSCRIBE, UNSUBSCRIBE, PUBLISH)
RESERVED_APP_KEYS = frozenset({"*", "_inbus"})

_MAX_PORT = 0xFFFF
_MAX_APP_TYPE = (1 << 63) - 1
_MIN_APP_TYPE = -1 << 63
# Beyond every range of this format. Longer numbers are read as this one: converting them costs quadratic time.
_HUGE = 1 << 64
_HUGE_DIGITS = 20


class Datagram(Struct, frozen=True):
    """The content of one datagram.

    :ivar app_type: 0 unless it publishes.
    :ivar host: the host of the subscriber, as it was written; empty when it publishes.
    :ivar port: the port of the subscriber; 0 when it publishes.
    :ivar payload: for version 1 the text in UTF-8, for version 2 the decoded bytes; empty unless it publishes.
    """

    version: int
    opcode: int
    app_key: str
    app_type: int
    host: str
    port: int
    payload: bytes


class _Elements(Struct, forbid_unknown_fields=True):
    """A datagram as JSON. ``float`` is here so that 1.0 stays one, and can be told from 1."""

    version: int | float
    opcode: int | float
    application: tuple[str, int | float]
    address: tuple[str, int | float]
    payload: str


_decode_elements = msgspec.json.Decoder(_Elements).decode
_encode_elements = msgspec.json.Encoder().encode
_is_base64 = re.compile(r"[A-Za-z0-9+/]*={0,2}").fullmatch


def decode(data: bytes) -> Datagram:
    """Read a datagram.

    :raises RemoteProtocolError: ``bad-utf8``, ``bad-json``, ``nesting-too-deep``, ``not-an-object``, ``bad-element``,
        ``bad-version``, ``bad-base64``, ``reserved-opcode`` or ``reserved-app-key``; with the position, in bytes, where
        it is no JSON.
    """
    return _decode_fast(data) or _decode_exactly(data)


def _decode_fast(data: bytes) -> Datagram | None:
    """A datagram without faults or peculiarities; ``None`` for any other, however little is wrong with it."""
    try:
        elements = _decode_elements(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    version, opcode, payload = elements.version, elements.opcode, elements.payload
    app_key, app_type = elements.application
    host, port = elements.address
    if (
        not type(version) is type(opcode) is type(app_type) is type(port) is int
        or version not in VERSIONS
        or opcode not in OPCODES
        or app_key in RESERVED_APP_KEYS
        or not 0 <= port <= _MAX_PORT
        or not _MIN_APP_TYPE <= app_type <= _MAX_APP_TYPE
    ):
        return None
    if opcode != PUBLISH:
        return Datagram(version, opcode, app_key, 0, host, port, b"")
    if version == 1:
        return Datagram(version, opcode, app_key, app_type, "", 0, payload.encode())
    if len(payload) % 4 or not _is_base64(payload):
        return None
    return Datagram(version, opcode, app_key, app_type, "", 0, base64.b64decode(payload))


def _decode_exactly(data: bytes) -> Datagram:
    """The tolerant reader, for datagrams that the fast one does not take. Its errors are exact."""
    fields = _object(data, _text(data))
    version = _integer(fields, "version")
    if version not in VERSIONS:
        raise RemoteProtocolError("bad-version", f"version is {_shown(version)}, not 1 or 2")
    opcode = _integer(fields, "opcode")
    if opcode not in OPCODES:
        raise RemoteProtocolError("reserved-opcode", f"opcode {_shown(opcode)} is reserved")
    app_key, app_type = _pair(fields, "application", "app-type", _MIN_APP_TYPE, _MAX_APP_TYPE)
    if app_key in RESERVED_APP_KEYS:
        raise RemoteProtocolError("reserved-app-key", f'app-key "{app_key}" is reserved')
    host, port = _pair(fields, "address", "port", 0, _MAX_PORT)
    text = _element(fields, "payload")
    payload = _utf8("payload", text)
    if opcode != PUBLISH:
        return Datagram(version, opcode, app_key, 0, host, port, b"")
    if version != 1:
        payload = _base64(text)
    return Datagram(version, opcode, app_key, app_type, "", 0, payload)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(
            "bad-utf8", f"not UTF-8: {error.reason} at byte {error.start}", error.start
        ) from error


def _object(data: bytes, text: str) -> dict[str, Any]:
    # simplejson would skip a byte order mark, even one that was encoded twice; JSON on a network has none (RFC 8259).
    if text[:1] in ("\ufeff", "\xef"):
        raise RemoteProtocolError("bad-json", "not JSON: a byte order mark at byte 0", 0)
    # Without this bound on the recursion of the parser, acceptance would depend on the depth of the stack.
    position = too_deep(data, MAX_NESTING)
    if position is not None:
        message = f"nested deeper than {MAX_NESTING} levels at byte {position}"
        raise RemoteProtocolError("nesting-too-deep", message, position)
    try:
        fields = simplejson.loads(text, parse_int=_parse_int, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise bad_json(text, error, "not JSON") from error
    if not isinstance(fields, dict):
        raise RemoteProtocolError("not-an-object", f"the datagram is {_kind(fields)}, not a JSON object", 0)
    return fields


def _parse_int(digits: str) -> int:
    return int(digits) if len(digits) <= _HUGE_DIGITS else _HUGE


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def _element(fields: dict[str, Any], name: str) -> Any:
    if name not in fields:
        raise RemoteProtocolError("bad-element", f"{name} is missing")
    return fields[name]


def _integer(fields: dict[str, Any], name: str) -> int:
    value = _element(fields, name)
    if type(value) is not int:
        raise RemoteProtocolError("bad-element", f"{name} must be an integer, not {_kind(value)}")
    return value


def _pair(fields: dict[str, Any], name: str, second: str, least: int, most: int) -> tuple[str, int]:
    pair = _element(fields, name)
    if not isinstance(pair, list) or len(pair) != 2:
        raise RemoteProtocolError("bad-element", f"{name} must be an array of a string and an integer")
    text, number = pair
    _utf8(name, text)
    if type(number) is not int:
        raise RemoteProtocolError("bad-element", f"{name}: the {second} must be an integer, not {_kind(number)}")
    if not least <= number <= most:
        raise RemoteProtocolError(
            "bad-element", f"{name}: the {second} must be from {least} to {most}, not {_shown(number)}"
        )
    return text, number


def _utf8(name: str, text: Any) -> bytes:
    if not isinstance(text, str):
        raise RemoteProtocolError("bad-element", f"{name}: {_kind(text)} stands where a string must be")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise RemoteProtocolError("bad-utf8", f"{name} holds half of a surrogate pair, which is no text") from error


def _base64(text: str) -> bytes:
    if not _is_base64(text):
        raise RemoteProtocolError("bad-base64", "payload holds something outside the base64 alphabet")
    if len(text) % 4:
        raise RemoteProtocolError("bad-base64", f"payload has {len(text)} base64 characters, not a multiple of 4")
    return base64.b64decode(text)


def _kind(value: Any) -> str:
    kinds = {
        dict: "an object",
        list: "an array",
        str: "a string",
        bool: "a boolean",
        type(None): "null",
        int: "an integer",
    }
    return kinds.get(type(value), "a number with a fraction or an exponent")


def _shown(number: int) -> str:
    return str(number) if number < _HUGE else "a number of more than 64 bits"


def encode(datagram: Datagram) -> bytes:
    """The bytes of a datagram: all five elements, in the order of the seed. May be longer than :data:`MAX_DATAGRAM`.

    :raises ValueError: no such datagram can be: a reserved or unknown version, opcode or app-key, a number out of its
        range, or a payload that version 1 cannot carry because it is not UTF-8.
    """
    if datagram.version not in VERSIONS:
        raise ValueError(f"version is 1 or 2, not {datagram.version}")
    if datagram.opcode not in OPCODES:
        raise ValueError(f"opcode {datagram.opcode} is reserved")
    if datagram.app_key in RESERVED_APP_KEYS:
        raise ValueError(f"app-key {datagram.app_key} is reserved")
    if not 0 <= datagram.port <= _MAX_PORT:
        raise ValueError(f"the port is from 0 to {_MAX_PORT}, not {datagram.port}")
    if not _MIN_APP_TYPE <= datagram.app_type <= _MAX_APP_TYPE:
        raise ValueError(f"the app-type has 64 bits, {datagram.app_type} has more")
    payload = datagram.payload.decode() if datagram.version == 1 else base64.b64encode(datagram.payload).decode()
    return _encode_elements(
        {
            "version": datagram.version,
            "opcode": datagram.opcode,
            "application": (datagram.app_key, datagram.app_type),
            "address": (datagram.host, datagram.port),
            "payload": payload,
        }
    )


def subscribe(app_key: str, host: str, port: int, version: int = 1) -> bytes:
    """``->`` The datagram that subscribes an address to an app-key. :raises ValueError: as :func:`encode`."""
    return encode(Datagram(version, SUBSCRIBE, app_key, 0, host, port, b""))


def unsubscribe(app_key: str, host: str, port: int, version: int = 1) -> bytes:
    """``->`` The datagram that ends such a subscription. :raises ValueError: as :func:`encode`."""
    return encode(Datagram(version, UNSUBSCRIBE, app_key, 0, host, port, b""))


def publish(app_key: str, app_type: int, payload: bytes, version: int = 1) -> bytes:
    """``->`` ``<-`` The datagram that publishes. :raises ValueError: as :func:`encode`."""
    return encode(Datagram(version, PUBLISH, app_key, app_type, "", 0, payload))
