"""The total interest: what all sessions of this server want together of the objects that are for everybody. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from bussrv.values import OWN_PREFIXES, Interest, ModeInterest


class Reach(NamedTuple):
    """The objects that may pass an interest; more than really do, if the interest is a list of rules.

    :ivar events: whether some objects with an event may.
    :ivar types: patterns of the content types that may, of objects without an event; ``None``: all.
    """

    events: bool
    types: tuple[str, ...] | None


NO_REACH = Reach(False, ())
FULL_REACH = Reach(True, None)


def reach_of(interest: Interest | None) -> Reach:
    """The objects that may pass an interest; ``None`` lets nothing pass."""
    if isinstance(interest, ModeInterest):
        if interest.receive == "none":
            return NO_REACH
        return Reach(True, () if interest.receive == "events_only" else interest.types)
    rules = () if interest is None else interest.rules
    tests = [each for rule in rules for each in ((rule,) if isinstance(rule, str) else rule)]
    letting = [each for each in tests if not each.startswith("!")]
    return Reach(bool(letting), () if all(each.startswith("@") for each in letting) else None)


class TotalInterest:
    """Counts how many sorts of groups want what. So a change costs the same however many sessions there are.

    :ivar changed: is called with a name or a pattern that is wanted now, or is wanted no more; with ``None`` if it is
        something else that changed.
    """

    def __init__(self) -> None:
        self.changed: Callable[[str | None], None] = lambda _: None
        self._services: Counter[str] = Counter()
        self._types: Counter[str] = Counter()
        self._events = self._all_types = 0

    def __contains__(self, wanted: str) -> bool:
        """Whether a session is subscribed to that name or pattern."""
        return wanted in self._services

    @property
    def services(self) -> list[str]:
        """The names and patterns that sessions are subscribed to."""
        return list(self._services)

    @property
    def reach(self) -> Reach:
        """The objects that may pass the interests of members."""
        return Reach(self._events > 0, None if self._all_types else tuple(self._types))

    def service_came(self, wanted: str) -> None:
        """A group is the first of its sort that is subscribed to a name or a pattern."""
        self._count(wanted, 1)

    def service_went(self, wanted: str) -> None:
        """No group of a sort is subscribed to a name or a pattern any more."""
        self._count(wanted, -1)

    def _count(self, wanted: str, more: int) -> None:
        # No linked server has publications on the names of this one.
        if not wanted.startswith(OWN_PREFIXES) and _add(self._services, wanted, more):
            self.changed(wanted)

    def interest_came(self, interest: Interest | None) -> None:
        """There is a group of members with an interest."""
        self._reach(interest, 1)

    def interest_went(self, interest: Interest | None) -> None:
        """A group of members is gone."""
        self._reach(interest, -1)

    def _reach(self, interest: Interest | None, more: int) -> None:
        reach, before = reach_of(interest), (self._events > 0, self._all_types > 0)
        self._events += more * reach.events
        self._all_types += more * (reach.types is None)
        changed = [_add(self._types, each, more) for each in reach.types or ()]
        if any(changed) or before != (self._events > 0, self._all_types > 0):
            self.changed(None)


def _add(counts: Counter[str], key: str, more: int) -> bool:
    """:returns: whether the key came or went."""
    number = counts[key] = counts[key] + more
    if not number:
        del counts[key]
    return number == max(0, more)
