"""Interest: which objects that are for everybody the servers of a net want. Pure.

Each server tells its own, and then what changes in it; see :mod:`bussrv.bus.links.interest_fields`. A server is told
what all the others want together, in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

INTEREST = "routing/announcement/interest"

ALL = "all"
NONE = "none"

MOST_TOLD = 24 << 10
"""The most bytes of names in one event: metadata has at most 64 KiB."""


class Interest(Struct):
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
        types=known.types if types is None else None if types == ALL else frozenset(_names(types)),
        services=(known.services - removed) | added if added or removed else known.services,
    )


def _names(value: Any) -> frozenset[str]:
    return frozenset(each for each in value if isinstance(each, str)) if isinstance(value, list) else frozenset()


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
        last["types"] = ALL if now.types is None else sorted(now.types) or NONE
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
        size += len(name.encode()) + 3
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

    def set(self, server: str, interest: Interest | None) -> None:
        """A server wants this from now on; ``None``: nothing more is known of it."""
        self.has_changed = True
        before = self._of.pop(server, NOTHING)
        now = NOTHING if interest is None else interest
        if interest is not None:
            self._of[server] = interest
        for name in now.services - before.services:
            self._services[name] += 1
        for name in before.services - now.services:
            self._services[name] -= 1
            if not self._services[name]:
                del self._services[name]

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
