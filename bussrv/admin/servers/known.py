"""What routing advertisements say of other servers: which there are, their links, and how many sessions each has.

A server advertises each server that it can reach with the path to it, so two neighbours in a path are linked. A link
that is on nobody's shortest path from here is not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from bussrv.bus.interfaces import IBus
from bussrv.registry.state.session import SERVER_ROLE

Pair = tuple[str, str]
"""The routing ids of two servers that are linked, in order."""


def pair(one: str, other: str) -> Pair:
    """A link, whichever end says so."""
    return (one, other) if one <= other else (other, one)


class Known:
    """The servers that are known, when all of :meth:`look` is done.

    :ivar links: between other servers.
    :ivar sessions: how many sessions of clients each other server advertises, by its routing id. Each counts once,
        however many neighbours advertise it.
    """

    def __init__(self, bus: IBus) -> None:
        self._bus = bus
        self.links: set[Pair] = set()
        self.sessions: Counter[str] = Counter()

    def look(self) -> Iterator[None]:
        """Look at all advertised sessions, one per step."""
        paths = self._bus.links.paths
        for link in self._bus.links.all():
            for remote in paths.over(link.session_id):
                if remote.role == SERVER_ROLE:
                    self.links.update(pair(one, other) for one, other in pairwise(remote.path))
                yield
        for routing_id in paths:
            best = paths.best(routing_id)
            if best is not None and best.role == SERVER_ROLE:
                self.sessions[routing_id] += 0
            elif best is not None:
                self.sessions[best.home] += 1
            yield
