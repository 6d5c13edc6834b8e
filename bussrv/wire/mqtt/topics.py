"""Names and filters of topics: which are valid, and which filters are shared. Source: sections 4.7 and 4.8.

::

    name   = level *("/" level)                 at least one character; levels may be empty; no "+", no "#"
    filter = part *("/" part) ["/#"] / "#"      part: a level, or "+"
    shared = "$share/" group "/" filter         5.0; group: at least one character; no "/", "+" or "#"

That a text has at most 65535 bytes and no U+0000 is for :mod:`bussrv.wire.mqtt.fields` to see.
"""

from __future__ import annotations

from msgspec import Struct

from bussrv.service_patterns import SHARE


class SharedFilter(Struct, frozen=True):
    """A filter that a group of sessions shares: each publication goes to one of them."""

    group: str
    filter: str


def is_name(text: str) -> bool:
    """Whether this is the name of a topic."""
    return text != "" and "+" not in text and "#" not in text


def is_filter(text: str) -> bool:
    """Whether this is a filter, apart from sharing."""
    if "#" in text[:-1]:
        return False
    if "+" in text or text.endswith("#"):
        return all(part in ("+", "#") or not ("+" in part or "#" in part) for part in text.split("/"))
    return text != ""


def is_shared(text: str) -> bool:
    """Whether a filter of 5.0 means to be shared, well-formed or not."""
    return text.startswith(SHARE)


def split_shared(text: str) -> SharedFilter | None:
    """The group and the filter of a filter that :func:`is_shared`; ``None``: it is malformed."""
    group, _, inner = text.removeprefix(SHARE).partition("/")
    return SharedFilter(group, inner) if is_name(group) and is_filter(inner) else None
