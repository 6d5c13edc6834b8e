"""The names of all services, kept sorted: a question for all of them costs no sorting."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import ClassVar

from zope.interface import implementer

from bussrv import events as ev
from bussrv.journal.record import Stamped
from bussrv.policy.permissions import EVERYTHING, Permissions
from bussrv.registry.interfaces import IRegistry, IRegistryObserver
from bussrv.registry.observers import Kinds

STEP = 100
"""How many names are looked at in one step."""

MOST_KEPT = 16
"""For how many different permissions the visible names are kept until the next change."""


@implementer(IRegistryObserver)
class Directory:
    """Every name that a session provides, sorted."""

    KINDS: ClassVar[Kinds] = frozenset({ev.ServiceRegistered, ev.ServiceUnregistered})

    def __init__(self, registry: IRegistry) -> None:
        self._services = registry.state.services
        self._sorted: list[str] = sorted(self._services)
        self._names: list[str] | None = None
        self._sorted_out_of: list[str] | None = None
        self._visible: dict[Permissions, list[str]] = {}

    @property
    def names(self) -> list[str]:
        """The names, sorted. The list never changes: after a change there is another one."""
        if self._names is None:
            self._names = list(self._sorted)
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
        """Add a new name, or drop one without providers; see :class:`IRegistryObserver`."""
        event = stamped.event
        if not isinstance(event, (ev.ServiceRegistered, ev.ServiceUnregistered)) or event.service is None:
            return
        name, names = event.service, self._sorted
        place = bisect_left(names, name)
        is_known = names[place : place + 1] == [name]
        if is_known and name not in self._services:
            del names[place]
            self._names = None
        elif not is_known and name in self._services:
            names.insert(place, name)
            self._names = None
