"""Interest over a link: the event in which a server says what it wants of the objects that are for everybody. Pure.

Attributes in brackets may be left out::

    routing/announcement/interest   [anew] [events] [types] [added] [removed] route

``anew`` is true if everything that was said before over the link does not count any more. ``events`` says whether the
server wants objects with an event. ``types`` has the content types that it wants, of objects without one: ``"all"``,
``"none"`` or an array of patterns, as in a subscription. ``added`` and ``removed`` are arrays of names of services, and
of patterns over names (:mod:`bussrv.service_patterns`): it wants the publications on these, too, whatever they are.
Without ``anew``, attributes that are left out are as before. With it, the server wants everything that they leave open:
events, content of all types, and no names.

The event is never forwarded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from bussrv.bus.interest.interests import mode_interest
from bussrv.errors import Refused
from bussrv.service_patterns import check_pattern
from bussrv.settings import Settings
from bussrv.values import ModeInterest, check_known_name
from bussrv.wire.objects import encode_json

MOST_NAMED = 24 << 10
"""The most bytes of JSON text for the names and patterns of one event. Others follow in further events."""

MOST_TYPED = 4 << 10
"""The most bytes of JSON text for content types. If there are more, all types are wanted."""


class InterestChange(Struct, frozen=True, kw_only=True):
    """A change of what a linked server wants, as it said it.

    :ivar anew: whether everything before does not count any more.
    :ivar events: ``None``: as before.
    :ivar types: the content types, as an interest that lets every event pass; ``None``: as before.
    """

    anew: bool = False
    events: bool | None = None
    types: ModeInterest | None = None
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def read_change(fields: dict[str, Any], settings: Settings) -> InterestChange:
    """The change that an event says.

    :param settings: the limits of content types.
    :raises Refused: ``bad-attribute`` or ``bad-service-name``.
    """
    return InterestChange(
        anew=_flag(fields, "anew") or False,
        events=_flag(fields, "events"),
        types=_types(fields["types"], settings) if "types" in fields else None,
        added=tuple(_names(fields, "added")),
        removed=tuple(_names(fields, "removed")),
    )


def _flag(fields: dict[str, Any], key: str) -> bool | None:
    value = fields.get(key)
    if value is None or isinstance(value, bool):
        return value
    raise Refused("bad-attribute", f"{key} is true or false")


def _types(types: Any, settings: Settings) -> ModeInterest:
    try:
        return mode_interest("all", types, settings)
    except Refused as refusal:
        raise Refused("bad-attribute", refusal.message) from None


def _names(fields: dict[str, Any], key: str) -> Iterator[str]:
    names = fields.get(key, ())
    if not isinstance(names, (list, tuple)):
        raise Refused("bad-attribute", f"{key} is an array of names and patterns")
    for each in names:
        name = check_known_name(each)
        check_pattern(name)
        yield name


def sayable(types: Iterable[str], settings: Settings) -> tuple[str, ...] | None:
    """Content types as they can be said in one event, sorted; ``None``, all, if there are too many."""
    said = tuple(sorted(types))
    try:
        mode_interest("all", list(said), settings)
    except Refused:
        return None
    return said if len(encode_json(said)) <= MOST_TYPED else None


def said_types(types: tuple[str, ...] | None) -> str | list[str]:
    """The value of ``types``; ``None`` is all of them."""
    return "all" if types is None else list(types) or "none"
