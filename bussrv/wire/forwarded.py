"""Objects as they are forwarded: metadata with another ``route``, and with an ``id`` if it has none.

::

    from a client   {...}                    ->  {...,"route":[CLIENT,SERVER]}     a route of its own does not count
    from a server   {...,"route":[...]}      ->  {...,"route":[...,SERVER]}

All other bytes stay as they are if metadata repeats no key. Otherwise it is decoded and written anew: two readers might
go by different values of a repeated key, for example the policy of this server and the receiver. So nothing that is
forwarded has a key twice. Source: seed 002; how servers write it is this one's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from msgspec import UNSET, Raw

from bussrv.wire.objects import BusObject, decode_raw, encode_json

PLAIN_ENDING = b"}"
"""The end of metadata without a route."""

_BRACE, _SPACE = b"} "


def with_route(obj: BusObject, route: bytes, new_id: Callable[[], str]) -> bytes:
    """The metadata of ``obj`` as it is forwarded: with ``route``, and with an id if it has none.

    Everything else keeps its order and the text of its value; of a key that is there twice, the last value counts.
    Metadata that came without a route, and has no such key, stays as it is byte for byte. So does metadata that plainly
    ends with its route, as that of a server does, when it has an id.

    :param route: a JSON array of strings.
    :param new_id: called only when the object has no id; makes printable ASCII without quotes or backslashes.
    """
    head = obj.head
    metadata = obj.metadata
    ending = route_ending(head.route) if head.route and head.id is not UNSET else PLAIN_ENDING
    is_plain = head.id is not None and metadata.endswith(ending) and metadata[-2] not in b"{ \t\r\n"
    if is_plain and _may_be_cut(obj, len(ending)):
        kept = metadata[: -len(ending)]
        if head.id is UNSET:
            return b'%b,"id":"%b","route":%b}' % (kept, new_id().encode(), route)
        return kept + route_ending(route)
    fields = decode_raw(metadata)
    if head.id is UNSET or head.id is None:
        fields["id"] = Raw(encode_json(new_id()))
    fields["route"] = Raw(route)
    return encode_json(fields)


def route_ending(route: bytes | Raw) -> bytes:
    """The end of metadata with this route, in a form that only a server can have written.


    JSON metadata with this end has this route, whatever else it says: a quote between a comma and a name begins a key,
    and the last brace closes the whole.

    :param route: a JSON array.
    """
    return b',"route":%b}' % route


def plain_frame(obj: BusObject, said: int, cut: int, tail: bytes, new_id: Callable[[], str]) -> bytes | None:
    """The bytes of an object as it is forwarded, if ``tail`` may plainly end it; :func:`with_route` for all others.

    :param said: how many attributes ``head`` has for certain, with an id whether or not it has one, and not counting
        ``sender``. With as many colons metadata has nothing else, and nothing twice.
    :param cut: how many bytes metadata ends with, for certain, of :data:`PLAIN_ENDING` or its :func:`route_ending`.
    :param tail: ``route`` and what ends metadata.
    :param new_id: see :func:`with_route`.
    """
    head, metadata = obj.head, obj.metadata
    if head.id is None or metadata[-1] != _BRACE or metadata[-2] <= _SPACE:
        return None
    colons = metadata.count(b":") - (head.sender is not None)
    if head.id is UNSET:
        if colons + 1 != said or cut > 1 or not colons:
            return None
        return b'%b,"id":"%b"%b%b' % (metadata[:-1], new_id().encode(), tail, obj.payload)
    if colons != said and not _may_be_cut(obj, cut):
        return None
    return metadata[:-cut] + tail + obj.payload


def _may_be_cut(obj: BusObject, cut: int) -> bool:
    """Whether metadata without its last ``cut`` bytes has no route, and no key twice."""
    return bool(obj.head.route) == (cut > 1) and _says_once(obj.metadata)


def _says_once(metadata: bytes) -> bool:
    """Whether metadata has no key twice.

    It has none with as many colons as different keys, or if it comes out of decoding and encoding as it went in. Other
    metadata has blanks, and colons in its values. Its keys are counted.
    """
    fields = decode_raw(metadata)
    if metadata.count(b":") == len(fields) or encode_json(fields) == metadata:
        return True
    # The last object of which the pairs are counted is the outermost one. Numbers may have any length.
    pairs = json.loads(metadata.decode(), object_pairs_hook=len, parse_int=len, parse_float=len)
    return bool(pairs == len(fields))


def with_value(metadata: bytes, key: str, value: bytes) -> bytes:
    """Metadata with another value for ``key``, written at its place or else at the end; the rest keeps its values.

    :param value: JSON.
    """
    fields = decode_raw(metadata)
    fields[key] = Raw(value)
    return encode_json(fields)


def with_marks(metadata: bytes, route: Sequence[str], marks: Sequence[str], longest: int) -> bytes:
    """Metadata of a forwarded object, with further ids in its route.

    :param route: its route.
    :param longest: the most bytes that its reader accepts. Beyond that nothing is added.
    """
    ending, marked = route_ending(encode_json(route)), encode_json([*route, *marks])
    if metadata.endswith(ending):
        metadata_with_marks = metadata[: -len(ending)] + route_ending(marked)
    else:
        metadata_with_marks = with_value(metadata, "route", marked)
    return metadata_with_marks if len(metadata_with_marks) <= longest else metadata


def plainly(metadata: bytes) -> bytes:
    """Metadata that certainly says nothing twice: each reader might go by another one of the two."""
    fields = decode_raw(metadata)
    return metadata if metadata.count(b":") == len(fields) else encode_json(fields)
