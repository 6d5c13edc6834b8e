"""What a linked server wants of the objects that are for everybody, as it said. Pure."""

from __future__ import annotations

from bussrv.bus.interest.interests import Kind
from bussrv.bus.interest.matching import compile_interest
from bussrv.bus.interest.pattern_index import PatternMap
from bussrv.bus.interest.total import FULL_REACH, Reach
from bussrv.bus.links.interest_fields import InterestChange
from bussrv.errors import OverLimit
from bussrv.values import ModeInterest

MAX_SERVICES = 1 << 14
"""Of how many services it is remembered whether they are among the names and patterns."""

ALL_TYPES = ModeInterest("all", None)


class LinkInterest:
    """The interest of one linked server: everything, until it says something else.

    :ivar reach: the events and content that it wants, whatever service they are published on.
    """

    def __init__(self) -> None:
        self.widen()

    def widen(self) -> None:
        """Everything counts as wanted, until something is said anew."""
        self.is_open = True
        self.reach = FULL_REACH
        self._names: PatternMap[bool] = PatternMap()
        self._found: dict[str, bool] = {}
        self._match = compile_interest(ALL_TYPES)

    def __contains__(self, wanted: str) -> bool:
        """Whether it named that name or pattern."""
        return wanted in self._names

    @property
    def names(self) -> list[str]:
        """The names and patterns that it wants publications on, whatever they are."""
        return list(self._names)

    @property
    def is_narrow(self) -> bool:
        """Whether it does not want everything."""
        return self.reach != FULL_REACH

    def apply(self, change: InterestChange, most: int) -> None:
        """It says something.

        :param most: the most names and patterns that it may want.
        :raises OverLimit: ``link-interest-full``: it wants more. To be followed by :meth:`widen`.
        """
        if change.anew:
            self.widen()
            self.is_open = False
        if self.is_open:
            return
        self._found.clear()
        for each in change.removed:
            if each in self._names:
                del self._names[each]
        for each in change.added:
            self._names[each] = True
        if len(self._names) > most:
            message = f"a linked server wants publications on more than {most} names and patterns: it is given all"
            raise OverLimit("link-interest-full", message, "max-link-interest", most)
        events, types = self.reach
        if change.types is not None:
            self._match, types = compile_interest(change.types), change.types.types
        self.reach = Reach(events if change.events is None else change.events, types)

    def wants(self, kind: Kind) -> bool:
        """Whether it wants objects of a kind. The service of publications has to be known, if :meth:`covers` it."""
        if self.reach.events if kind.event is not None else self._match(kind):
            return True
        return kind.service is not None and self.covers(kind.service)

    def covers(self, service: str) -> bool:
        """Whether a service is among the names, or matches one of the patterns."""
        found = self._found.get(service)
        if found is None:
            found = bool(self._names.matching(service))
            if len(self._found) >= MAX_SERVICES:
                self._found.clear()
            self._found[service] = found
        return found
