"""The head of an object: the attributes that routing needs, read from its metadata. Pure.

Metadata is read by a fast decoder. What that does not take is read again, by a tolerant reader: it finds what is wrong,
and takes attributes that are not as strict as :class:`Head`.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import simplejson
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from bussrv.errors import RemoteProtocolError
from bussrv.wire.faults import VeryLarge, bad_json, brief, check_text, half_of_a_pair, json_kind, parse_int

MAX_NESTING = 64

MAX_NATURES = 64
"""The most natures of an object: each of them is compared with what every member wants."""

Id = str | int | float | bool


class Head(Struct, gc=False):
    """The attributes of an object that routing needs.

    :ivar id: unset when the metadata has no such key.
    :ivar route: its raw JSON; empty when the metadata has no such key.
    :ivar sender: the empty string when it is there but not a string.
    """

    event: str | None = None
    type: str | None = None
    size: int = 0
    id: str | int | UnsetType | None = UNSET
    to: str | list[str] | None = None
    sender: str | None = None
    natures: Annotated[list[str], Meta(max_length=MAX_NATURES)] | None = None
    route: Raw = Raw(b"")


class CommandHead(Head, gc=False):
    """The head of an object that asks for a change, with what the change is about.

    :ivar name: unset when the metadata has no such key.
    """

    name: Any = UNSET


class BadObject(Struct, frozen=True):
    """A well-framed object that has a standard attribute of the wrong kind.

    :ivar id: the object's id, where it has a usable one.
    :ivar reason: a code of :data:`bussrv.errors.REASONS`.
    """

    id: Id | None
    reason: str
    message: str


class Fault(Exception):
    """Carries a :class:`BadObject`, and the size of the payload that has to be skipped."""

    def __init__(self, bad: BadObject, size: int) -> None:
        super().__init__(bad.message)
        self.bad = bad
        self.size = size


decode_head = msgspec.json.Decoder(Head).decode
decode_command = msgspec.json.Decoder(CommandHead).decode
decode_raw = msgspec.json.Decoder(dict[str, Raw]).decode
"""Decodes metadata into attributes, each value as its raw JSON."""
# The value of numbers that no double can hold: an id of this value could not be quoted in a reply.
_BEYOND = (float("inf"), float("-inf"))


def read_head(metadata: bytes, max_nesting: int = MAX_NESTING) -> Head:
    """Decode the attributes that routing needs.

    :raises RemoteProtocolError: the metadata is malformed.
    """
    check_text(metadata, max_nesting)
    try:
        head = decode_head(metadata)
    except (msgspec.DecodeError, RecursionError):
        return read_head_tolerantly(metadata)
    if head.size < 0:
        raise _bad_size(head.size)
    return head


def read_head_tolerantly(metadata: bytes) -> Head:
    """The tolerant reader, for metadata that is not as strict as :class:`Head`. Its errors are exact."""
    text = metadata.decode()
    # simplejson would skip a byte order mark, even one that was encoded twice; JSON on a network has none (RFC 8259).
    if text[:1] in ("\ufeff", "\xef"):
        raise RemoteProtocolError("bad-json", "metadata is not JSON: a byte order mark at byte 0", 0)
    try:
        fields = simplejson.loads(text, parse_int=parse_int, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise bad_json(text, error) from error
    if not isinstance(fields, dict):
        raise RemoteProtocolError("not-an-object", f"metadata is {json_kind(fields)}, not a JSON object", 0)
    try:
        decode_raw(metadata)
    except (msgspec.DecodeError, RecursionError) as error:
        raise half_of_a_pair(metadata) or bad_json(text, error) from error
    return _head_from_fields(fields, metadata)


def _bad_size(size: Any) -> RemoteProtocolError:
    return RemoteProtocolError("bad-size", f"size is {brief(size)}, not a non-negative integer")


def _head_from_fields(fields: dict[str, Any], metadata: bytes) -> Head:
    size = fields.get("size", 0)
    if isinstance(size, VeryLarge) and size > 0:
        raise RemoteProtocolError("payload-too-large", "size is a very large number")
    if type(size) is not int or size < 0:
        raise _bad_size(size)
    identifier = fields.get("id", UNSET)
    if isinstance(identifier, (list, dict)) or identifier in _BEYOND:
        raise _fault(None, size, "id", "a string or a number", identifier)
    head = Head(size=size, id=identifier)
    for key in ("event", "type"):
        value = fields.get(key)
        if value is not None and not isinstance(value, str):
            raise _fault(identifier, size, key, "a string", value)
        setattr(head, key, value)
    head.to = _strings(fields, "to", identifier, size)
    natures = _strings(fields, "natures", identifier, size)
    if isinstance(natures, list) and len(natures) > MAX_NATURES:
        known = None if identifier is UNSET else identifier
        message = f"natures has at most {MAX_NATURES} elements, not {len(natures)}"
        raise Fault(BadObject(known, "bad-attribute", message), size)
    head.natures = [natures] if isinstance(natures, str) else natures
    sender = fields.get("sender")
    head.sender = sender if sender is None or isinstance(sender, str) else ""
    if "route" in fields:
        head.route = decode_raw(metadata)["route"]
    return head


def _strings(fields: dict[str, Any], key: str, identifier: Any, size: int) -> str | list[str] | None:
    value = fields.get(key)
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _fault(identifier, size, key, "a string or an array of strings", value)
    return value


def _fault(identifier: Any, size: int, key: str, wanted: str, value: Any) -> Fault:
    known = None if identifier is UNSET else identifier
    return Fault(BadObject(known, "bad-attribute", f"{key} must be {wanted}, not {brief(value)}"), size)
