"""Values that the parts of a bus share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bussrv.bus.generation import Generation
from bussrv.policy.permissions.access import Access
from bussrv.registry.changes.registry import Registry
from bussrv.settings import Settings
from bussrv.turns.clock import Clock
from bussrv.turns.slices import Slices


@dataclass(frozen=True, kw_only=True, slots=True)
class Shared:
    """Values that most parts of a bus need.

    :ivar server_id: the routing id of this server.
    :ivar access: the permissions of each session.
    :ivar counters: see :attr:`bussrv.bus.interfaces.IBus.counters`.
    :ivar slices: do what may take long.
    :ivar clock: returns the present time.
    :ivar reactor: calls later.
    :ivar new_id: makes ids of objects; printable ASCII.
    :ivar generation: is ended by whatever changes who gets an object.
    """

    registry: Registry
    settings: Settings
    server_id: str
    access: Access
    counters: Counter[str]
    slices: Slices
    clock: Clock
    reactor: Any
    new_id: Callable[[], str]
    generation: Generation
