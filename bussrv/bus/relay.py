"""What linked servers pass on: each object goes on once, to whom it is for and to servers that may not have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Set
from itertools import chain
from operator import length_hint

from msgspec import UNSET

from bussrv.bus.links import Links
from bussrv.bus.router import Origin
from bussrv.bus.runs import Runs
from bussrv.bus.seen import Seen
from bussrv.bus.ways import Way, Ways
from bussrv.errors import Refused
from bussrv.wire.objects import BusObject
from bussrv.wire.onward import with_route

NOTHING: frozenset[str | None] = frozenset()
"""The events that somebody else serves, of those that came so far: none."""

Deliver = Callable[[Origin, BusObject, bytes, Set[str]], int]
"""Gives an object to those it is for: where it came from, its metadata as it goes on, what its sender provides."""


class Relay:
    """Passes on what came over links, a run at a time as far as objects came the same way and are plain.

    :param max_metadata: the most bytes of metadata that go on.
    :param new_id: as for :func:`bussrv.wire.onward.with_route`.
    """

    def __init__(
        self,
        links: Links,
        runs: Runs,
        seen: Seen,
        counters: Counter[str],
        deliver: Deliver,
        max_metadata: int,
        new_id: Callable[[], str],
    ) -> None:
        self._links = links
        self._runs = runs
        self._seen = seen
        self._counters = counters
        self._deliver = deliver
        self._max_metadata = max_metadata
        self._new_id = new_id

    def one(self, way: Way, obj: BusObject) -> None:
        """Pass on an object, unless it was here before."""
        self._counters["link-objects"] += 1
        if way.refusal is not None:
            self._counters[way.refusal] += 1
        elif obj.head.id not in (None, UNSET) and not self._seen.add(way.sender, obj.head.id):
            self._counters["link-duplicate"] += 1
        else:
            self._go_on(way, obj)

    def _go_on(self, way: Way, obj: BusObject) -> None:
        origin = way.source.origin
        metadata = with_route(obj, way.source.route, self._new_id)
        if len(metadata) > self._max_metadata:
            self._counters["metadata-too-large"] += 1
            return
        self._deliver(origin, obj, metadata, self._links.provided(origin.route))

    def run(self, ways: Ways, run: Iterator[BusObject], served: Container[str | None]) -> BusObject | None:
        """Pass on the objects of a run, up to one that is addressed, may be meant for this server, or is of ``served``.

        :returns: that object, taken from the run; ``None`` when the run came to its end.
        """
        came = new = 0
        obj = next(run, None)
        while obj is not None:
            try:
                way = ways.of(obj.head.route)
            except Refused:
                break
            if way.is_word or obj.head.to is not None or obj.head.event in served:
                break
            plain, behind = self._plain(way, obj, run, served) if way.refusal is None else ([], obj)
            if plain:
                came += len(plain)
                new += self._all(way, plain)
                obj = behind
            else:
                self.one(way, obj)
                obj = next(run, None)
        self._count(came, came - new)
        return obj

    def _count(self, came: int, again: int) -> None:
        if came:
            self._counters["link-objects"] += came
        if again:
            self._counters["link-duplicate"] += again

    def _plain(
        self, way: Way, first: BusObject, run: Iterator[BusObject], served: Container[str | None]
    ) -> tuple[list[BusObject], BusObject | None]:
        """The objects from ``first`` on that came the same way and may go together, and what was taken behind them."""
        ending, longest, unset = way.ending, way.longest, UNSET
        plain: list[BusObject] = []
        for obj in chain((first,), run):
            head, metadata = obj.head, obj.metadata
            if not metadata.endswith(ending) or len(metadata) > longest or head.id is None or head.id is unset:
                return plain, obj
            if head.to is not None or (head.event is not None and head.event in served):
                return plain, obj
            plain.append(obj)
        return plain, None

    def _all(self, way: Way, objs: list[BusObject]) -> int:
        """Pass on those that were not here before. :returns: how many that are."""
        new = self._seen.new_of(way.sender, objs)
        if new:
            provided = self._links.provided(way.source.origin.route)
            run = iter(new)
            while length_hint(run):
                obj = self._runs.route(way.source, provided, run, NOTHING)
                if obj is not None:
                    self._go_on(way, obj)
        return len(new)
