"""Interest: which objects that are for everybody the servers of a net want. Pure.

Each server tells its own, and then what changes in it; see :mod:`bussrv.bus.links.interest_fields`. A server is told
what all the others want together, in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Set
from typing import Any

from msgspec import Struct, field

from bussrv.bus.interest.vocabulary import INTEREST
from bussrv.bus.links.interest_fields import MOST_NAMED, said_types, sayable
from bussrv.settings import Settings
from bussrv.uplink.crossing.checks import is_wanted_name
from bussrv.wire.objects import encode_json

ALL = "all"

MOST_NAMES = 200_000
"""The most names and patterns of one server that are known. Of one that has more, everything counts as wanted."""

MOST_NAMES_OF_NET = 1_000_000
"""The most of all servers together."""

DEFAULTS = Settings()
"""The limits of a server that is not set up otherwise. Content types beyond them count as all."""


class Interest(Struct):
    """What one server wants. It may tell many small changes, so none costs more than it says.

    :ivar events: whether it wants events.
    :ivar types: the content types that it wants, as patterns; ``None``: all.
    :ivar services: names and patterns: it wants the publications on these, whatever their type.
    """

    events: bool = True
    types: frozenset[str] | None = None
    services: set[str] = field(default_factory=set)

    @property
    def has_content(self) -> bool:
        """Whether it wants content by its type."""
        return self.types is None or bool(self.types)

    def learn(self, fields: dict[str, Any]) -> tuple[set[str], set[str]]:
        """It told this. What is no such telling counts as not said.

        :returns: the names that it wants now, and those that it does not want any more.
        """
        dropped = self.widen() if fields.get("anew") is True else set()
        events, types = fields.get("events"), fields.get("types")
        if isinstance(events, bool):
            self.events = events
        if types is not None:
            self.types = _types_of(types)
        added = _names(fields.get("added"))
        removed = (_names(fields.get("removed")) & self.services) - added
        new = added - self.services
        self.services -= removed
        self.services |= new
        return new - dropped, removed | (dropped - new)

    def widen(self) -> set[str]:
        """It wants everything. :returns: the names that it wanted."""
        before, self.services = self.services, set()
        self.events, self.types = True, None
        return before


def _names(value: Any) -> set[str]:
    return set(filter(is_wanted_name, value)) if isinstance(value, list) else set()


def _types_of(value: Any) -> frozenset[str] | None:
    """Content types; ``None``, all, if they are too many to be told to another server."""
    if value == ALL:
        return None
    named = value if isinstance(value, list) else []
    said = sayable({each for each in named if isinstance(each, str)}, DEFAULTS)
    return None if said is None else frozenset(said)


def differences(before: Interest | None, now: Interest, route: list[str]) -> Iterator[dict[str, Any]]:
    """The events that tell what changed. What is wanted less is told last, so that nothing is missed meanwhile.

    :param before: what was told before; ``None``: nothing.
    :param route: the server that tells it.
    """
    known = Interest() if before is None else before
    if before is None:
        yield {"event": INTEREST, "anew": True, "route": route}
    yield from _changes(known, now, now.services - known.services, known.services - now.services, route)


def _changes(
    known: Interest, now: Interest, added: Iterable[str], removed: Iterable[str], route: list[str]
) -> Iterator[dict[str, Any]]:
    """The events that tell which names are wanted, or no more, and then what else changed."""
    events: list[dict[str, Any]] = []
    for key, names in (("added", added), ("removed", removed)):
        events += [{key: part} for part in _parts(sorted(names))]
    last: dict[str, Any] = {}
    if known.events != now.events:
        last["events"] = now.events
    if known.types != now.types:
        last["types"] = said_types(None if now.types is None else sayable(now.types, DEFAULTS))
    if last:
        events.append(last)
    for each in events:
        yield {"event": INTEREST, **each, "route": route}


def _parts(names: list[str]) -> Iterator[list[str]]:
    part: list[str] = []
    size = 0
    for name in names:
        if size > MOST_NAMED:
            yield part
            part, size = [], 0
        part.append(name)
        size += len(encode_json(name)) + 1
    if part:
        yield part


class Together:
    """What several servers want together."""

    def __init__(self) -> None:
        self._of: dict[str, Interest] = {}
        self._services: Counter[str] = Counter()
        self._size = 0
        self._changed: set[str] = set()
        self._has_changed = True
        self._told: Interest | None = None
        self._names_told: set[str] = set()

    def set(self, server: str, wanted: Interest | None) -> bool:
        """A server wants this from now on; ``None``: nothing more is known of it.

        :returns: whether there was room for it. Otherwise it counts as one that wants everything.
        """
        before = self._of.pop(server, None)
        if wanted is not None:
            self._of[server] = wanted
        were, are = set() if before is None else before.services, set() if wanted is None else wanted.services
        return self._count(server, are - were, were - are)

    def learn(self, server: str, fields: dict[str, Any]) -> bool:
        """A server, which was set, told this. :returns: see :meth:`set`."""
        return self._count(server, *self._of[server].learn(fields))

    def _count(self, server: str, added: Set[str], removed: Set[str]) -> bool:
        self._has_changed = True
        self._size += len(added) - len(removed)
        self._changed |= added
        self._changed |= removed
        for name in added:
            self._services[name] += 1
        for name in removed:
            self._services[name] -= 1
            if not self._services[name]:
                del self._services[name]
        if self._size <= MOST_NAMES_OF_NET and (not added or len(self._of[server].services) <= MOST_NAMES):
            return True
        self._count(server, set(), self._of[server].widen())
        return False

    def _reach(self) -> Interest:
        """What they want together, without names."""
        known = self._of.values()
        types: frozenset[str] | None = frozenset().union(*_types(known))
        if any(each.types is None for each in known):
            types = None
        return Interest(any(each.events for each in known), types)

    def news(self, route: list[str]) -> Iterator[dict[str, Any]]:
        """The events that tell what changed since this was last asked; see :func:`differences`."""
        if not self._has_changed:
            return
        before, now = self._told, self._reach()
        if before is None:
            yield {"event": INTEREST, "anew": True, "route": route}
        added = {name for name in self._changed if name in self._services and name not in self._names_told}
        removed = {name for name in self._changed if name not in self._services and name in self._names_told}
        self._names_told |= added
        self._names_told -= removed
        self._changed, self._has_changed, self._told = set(), False, now
        yield from _changes(Interest() if before is None else before, now, added, removed, route)


def _types(interests: Iterable[Interest]) -> Iterator[frozenset[str]]:
    return (each.types for each in interests if each.types is not None)
