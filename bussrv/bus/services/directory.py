"""The names of all services, sorted when somebody asks: most are in order then, so that it takes little time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import ClassVar

from zope.interface import implementer

from bussrv import events as ev
from bussrv.journal.record import Stamped
from bussrv.policy.permissions.permissions import EVERYTHING, Permissions
from bussrv.registry.changes.observers import Kinds
from bussrv.registry.interfaces import IRegistry, IRegistryObserver

STEP = 100
"""How many names are looked at in one step."""

FEW = 64
"""So many names are put in their places one by one. More are sorted together with all others."""

MOST_CHANGED = 4096
"""The most names that may have changed until they are sorted, though nobody asks."""

MOST_KEPT = 16
"""For how many different permissions the visible names are kept until the next change."""


@implementer(IRegistryObserver)
class Directory:
    """Every name that a session provides, sorted."""

    KINDS: ClassVar[Kinds] = frozenset({ev.ServiceRegistered, ev.ServiceUnregistered})

    def __init__(self, registry: IRegistry) -> None:
        self._services = registry.state.services
        self._names: list[str] = sorted(self._services)
        self._changed: set[str] = set()
        self._sorted_out_of: list[str] | None = None
        self._visible: dict[Permissions, list[str]] = {}

    @property
    def names(self) -> list[str]:
        """The names, sorted. The list never changes: after a change there is another one."""
        if self._changed:
            self._sort()
        return self._names

    def visible(self, permissions: Permissions) -> Iterator[list[str] | None]:
        """The names that a session with these permissions may know, in steps; the last one has them."""
        names = self.names
        if permissions is EVERYTHING:
            yield names
            return
        if self._sorted_out_of is not names:
            self._sorted_out_of = names
            self._visible.clear()
        visible = self._visible.get(permissions)
        if visible is None:
            visible = []
            for begin in range(0, len(names), STEP):
                visible += filter(permissions.sees_service, names[begin : begin + STEP])
                yield None
            if self._sorted_out_of is names and len(self._visible) < MOST_KEPT:
                self._visible[permissions] = visible
        yield visible

    def registry_changed(self, stamped: Stamped) -> None:
        """Note a name that may be new, or without providers; see :class:`IRegistryObserver`."""
        self._changed.add(stamped.event.service or "")
        if len(self._changed) > MOST_CHANGED:
            self._sort()

    def _sort(self) -> None:
        changed, services = self._changed, self._services
        if len(changed) > FEW:
            names = [name for name in self._names if name not in changed]
            names += [name for name in changed if name in services]
            names.sort()
        else:
            names = self._names.copy()
            for name in changed:
                place = bisect_left(names, name)
                is_there = names[place : place + 1] == [name]
                names[place : place + is_there] = [name] if name in services else []
        self._changed, self._names = set(), names
