"""Groups by the services that they are subscribed to, by name or by patterns over names."""

from __future__ import annotations

from itertools import chain

from bussrv.bus.groups.fanout import Group
from bussrv.bus.interest.pattern_index import PatternMap
from bussrv.bus.interest.total import TotalInterest

MAX_SERVICES = 1 << 14
"""Of how many services it is remembered which groups are subscribed to them."""


class GroupsByService:
    """Finds the groups that are subscribed to a service, without asking each. True: there are such groups.

    :param total: counts the names and patterns.
    """

    def __init__(self, total: TotalInterest) -> None:
        self._total = total
        self._groups: PatternMap[dict[Group, None]] = PatternMap()
        self._found: dict[str, tuple[Group, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._groups)

    def add(self, group: Group) -> None:
        """Add a group, with all that it is subscribed to."""
        for wanted in group.services:
            self.subscribe(group, wanted)

    def remove(self, group: Group) -> None:
        """Remove a group that was added."""
        for wanted in group.services:
            self.unsubscribe(group, wanted)

    def subscribe(self, group: Group, wanted: str) -> None:
        """A group is subscribed to a name or a pattern, too."""
        if wanted not in self._groups:
            self._groups[wanted] = {}
            self._total.service_came(wanted)
        self._groups[wanted][group] = None
        self._found.clear()

    def unsubscribe(self, group: Group, wanted: str) -> None:
        """A group is not subscribed to a name or a pattern any more."""
        del self._groups[wanted][group]
        if not self._groups[wanted]:
            del self._groups[wanted]
            self._total.service_went(wanted)
        self._found.clear()

    def on(self, service: str) -> tuple[Group, ...]:
        """The groups that are subscribed to a service and may watch it, each once."""
        if not self._groups:
            return ()
        found = self._found.get(service)
        if found is None:
            groups = dict.fromkeys(chain.from_iterable(self._groups.matching(service)))
            found = tuple(group for group in groups if group.permissions.may("watch", service))
            if len(self._found) >= MAX_SERVICES:
                self._found.clear()
            self._found[service] = found
        return found
