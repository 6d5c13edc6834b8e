"""Interest: which objects that are for everybody the servers of a net want. Pure.

Each server tells its own, and then what changes in it; see :mod:`bussrv.bus.links.interest_fields`. A server is told
what all the others want together, in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from bussrv.uplink.crossing.checks import INTEREST, is_wanted_name
from bussrv.wire.objects import encode_json

ALL = "all"
NONE = "none"

MOST_TOLD = 24 << 10
"""The most bytes of names in one event: metadata has at most 64 KiB."""

MOST_NAMES = 200_000
"""The most names and patterns of one server that are known. Of one that has more, everything counts as wanted."""

MOST_NAMES_OF_NET = 1_000_000
"""The most of all servers together."""

MOST_TYPES = 256
"""The most content types that a server takes unless it is set up otherwise. If there are more, all are wanted."""

MOST_TYPED = 4 << 10
"""The most bytes of JSON text for them."""

MOST_WILDCARDS = 128
"""The most characters of those with wildcards inside."""


class Interest(Struct, frozen=True):
    """What one server wants.

    :ivar events: whether it wants events.
    :ivar types: the content types that it wants, as patterns; ``None``: all.
    :ivar services: names and patterns: it wants the publications on these, whatever their type.
    """

    events: bool = True
    types: frozenset[str] | None = None
    services: frozenset[str] = frozenset()

    @property
    def has_content(self) -> bool:
        """Whether it wants content by its type."""
        return self.types is None or bool(self.types)


EVERYTHING = Interest()
NOTHING = Interest(events=False, types=frozenset())


def learn(before: Interest, fields: dict[str, Any]) -> Interest:
    """The interest of a server after it told this. What is no such telling counts as not said."""
    known = EVERYTHING if fields.get("anew") is True else before
    events, types = fields.get("events"), fields.get("types")
    added, removed = _names(fields.get("added")), _names(fields.get("removed"))
    return Interest(
        events=events if isinstance(events, bool) else known.events,
        types=known.types if types is None else _types_of(types),
        services=(known.services - removed) | added if added or removed else known.services,
    )


def _names(value: Any) -> frozenset[str]:
    return frozenset(filter(is_wanted_name, value)) if isinstance(value, list) else frozenset()


def _types_of(value: Any) -> frozenset[str] | None:
    """Content types; ``None``, all, if they are too many to be told to another server."""
    if value == ALL:
        return None
    named = value if isinstance(value, list) else []
    return sayable(frozenset(each for each in named if isinstance(each, str)))


def sayable(types: frozenset[str]) -> frozenset[str] | None:
    """Content types as a server takes them; ``None``, all, if they are too many."""
    inner = sum(len(each) for each in types if "?" in each or each.count("*") > 1 or "*" in each[1:-1])
    is_short = len(types) <= MOST_TYPES and inner <= MOST_WILDCARDS and len(encode_json([*types])) <= MOST_TYPED
    return types if is_short else None


def differences(before: Interest | None, now: Interest, route: list[str]) -> Iterator[dict[str, Any]]:
    """The events that tell what changed. What is wanted less is told last, so that nothing is missed meanwhile.

    :param before: what was told before; ``None``: nothing.
    :param route: the server that tells it.
    """
    known = EVERYTHING if before is None else before
    events: list[dict[str, Any]] = [] if before is not None else [{"anew": True}]
    for key, names in (("added", now.services - known.services), ("removed", known.services - now.services)):
        events += [{key: part} for part in _parts(sorted(names))]
    last: dict[str, Any] = {}
    if known.events != now.events:
        last["events"] = now.events
    if known.types != now.types:
        said = None if now.types is None else sayable(now.types)
        last["types"] = ALL if said is None else sorted(said) or NONE
    if last:
        events.append(last)
    for each in events:
        yield {"event": INTEREST, **each, "route": route}


def _parts(names: list[str]) -> Iterator[list[str]]:
    part: list[str] = []
    size = 0
    for name in names:
        if size > MOST_TOLD:
            yield part
            part, size = [], 0
        part.append(name)
        size += len(encode_json(name)) + 1
    if part:
        yield part


class Together:
    """What several servers want together.

    :ivar has_changed: whether it may be something else than when :meth:`interest` was last asked.
    """

    def __init__(self) -> None:
        self.has_changed = True
        self._of: dict[str, Interest] = {}
        self._services: Counter[str] = Counter()
        self._size = 0

    def knows(self, server: str) -> bool:
        """Whether it is known what a server wants."""
        return server in self._of

    def set(self, server: str, interest: Interest | None) -> bool:
        """A server wants this from now on; ``None``: nothing more is known of it.

        :returns: whether there was room for it. Otherwise the server counts as one that wants everything.
        """
        self.has_changed = True
        before = self._of.pop(server, NOTHING)
        now = NOTHING if interest is None else interest
        self._size -= len(before.services)
        has_room = len(now.services) <= min(MOST_NAMES, MOST_NAMES_OF_NET - self._size)
        if not has_room:
            now = EVERYTHING
        self._size += len(now.services)
        if interest is not None:
            self._of[server] = now
        for name in now.services - before.services:
            self._services[name] += 1
        for name in before.services - now.services:
            self._services[name] -= 1
            if not self._services[name]:
                del self._services[name]
        return has_room

    def interest(self) -> Interest:
        """What they want together."""
        self.has_changed = False
        known = self._of.values()
        types: frozenset[str] | None = frozenset().union(*_types(known))
        if any(each.types is None for each in known):
            types = None
        return Interest(any(each.events for each in known), types, frozenset(self._services))


def _types(interests: Iterable[Interest]) -> Iterator[frozenset[str]]:
    return (each.types for each in interests if each.types is not None)
