"""Most objects of members are routed by the compiled module, without being read one by one.

The compiled module goes through a *stretch* of received bytes. It looks up the route plan of each object in a table,
by the text of what routing depends on. An *outlet* is a set of groups that are given the same objects by every plan of
a table, and share the bytes: for each outlet, the module puts all objects in one piece of bytes. It stops at an object
that it does not take, and says why:

================= =====================================================================================================
``INCOMPLETE``    the object is not whole
``NEEDS_PYTHON``  the object has to be read: it is addressed, malformed, unusual, or has to be routed by itself
``NO_PLAN``       there is no plan for such objects yet
``MUST_OPEN``     the groups of its plan have to be made ready for the frames of this sender, as they are in a batch;
                  never while nothing is collected for any group, because nothing has to be sent for that then
``ROUTE_CHANGED`` it came over a link, by another route than those before:
                  :mod:`bussrv.bus.routing.compiled_forward`
================= =====================================================================================================

A plan is right for one generation of the audience. What comes of an object is the same as in
:mod:`bussrv.bus.routing.batch`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from bussrv.bus.groups.fanout import Group
from bussrv.bus.origins import Origins, Source
from bussrv.bus.routing.batch import MOST_GROUPS_ASKED, MOST_NEW_PLANS, BatchRouter
from bussrv.bus.routing.compiled_result import CONTINUE, MUST_OPEN, NEEDS_PYTHON, NO_PLAN, ROUTE_CHANGED, ScanResult
from bussrv.bus.routing.object_ids import ObjectIds
from bussrv.bus.routing.parts import RoutingParts
from bussrv.bus.services.publishing import Topic
from bussrv.compiled import SPEEDUPS
from bussrv.memory.bundle import Joined
from bussrv.policy.permissions.permissions import Permissions
from bussrv.registry.changes.registry import Registry
from bussrv.wire.forwarded import route_ending
from bussrv.wire.objects import NUL, BusObject, ObjectReader, encode_json, read_head

if TYPE_CHECKING:
    from bussrv._speedups import Plans, Seen, Sender, Taken


MOST_OUTLETS = 16
"""The most outlets of a table: an object may be copied for each."""

Marks = tuple[str, ...]
"""Ids that are added to the route in the copies for a group; see :mod:`bussrv.bus.links.marks`."""


class Outlets:
    """The outlets of a table. A set of them is a number, in which bit n stands for outlet n.

    :param split: is called if some groups of an outlet leave it for a new one, with the numbers of both. From then on,
        objects for the first one have to go to the second one, too.
    :ivar groups: the groups of each outlet.
    :ivar marks: the marks of each outlet.
    """

    def __init__(self, split: Callable[[int, int], None]) -> None:
        self.groups: list[list[Group]] = []
        self.marks: list[Marks] = []
        self._split = split
        self._place: dict[Group, int] = {}

    def of(self, groups: Sequence[Group], marked: Mapping[Group, Marks]) -> int | None:
        """The set of outlets that has these groups and no others.

        :param marked: the marks of some of the groups.
        :returns: ``None`` if there would be too many outlets, or two that share a group: its objects
            have to keep their order.
        """
        wanted: dict[tuple[int, Marks], list[Group]] = {}
        for group in groups:
            place, marks = self._place.get(group, -1), marked.get(group, ())
            if place >= 0 and self.marks[place] != marks:
                return None
            wanted.setdefault((place, marks), []).append(group)
        parts = {key: some for key, some in wanted.items() if key[0] < 0 or len(some) < len(self.groups[key[0]])}
        if len(self.groups) + len(parts) > MOST_OUTLETS:
            return None
        return sum(1 << (self._part(*key, some) if key in parts else key[0]) for key, some in wanted.items())

    def _part(self, place: int, marks: Marks, some: list[Group]) -> int:
        """Make an outlet of some groups, which leave the outlet at ``place``, if they have one."""
        made = len(self.groups)
        self.groups.append(some)
        self.marks.append(marks)
        self._place.update(dict.fromkeys(some, made))
        if place >= 0:
            self.groups[place] = [group for group in self.groups[place] if self._place[group] == place]
            self._split(place, made)
        return made


MOST_TABLES = 512
"""The most tables of plans, of 8 KiB each. Beyond it all are forgotten."""

MOST_PLANS = 128
"""The most plans of a table. Beyond it all of it are forgotten."""

A_PASS = 1024
"""The most objects of one pass."""

MOST_WAYS = 64
"""The most times that objects of a linked server may come by another route than before, until it may have to wait."""

WORTHWHILE = 4
"""A stretch with fewer objects before one that has to be read was tried in vain: reading them costs no more."""


Limits = tuple[int, int, int]
"""The most bytes of metadata and of payload, and the most levels of nesting."""


class PlanTable:
    """The plans of some senders, and their outlets.

    :param make: makes empty plans.
    :param provided: the services that each of the senders provides.
    :ivar groups: the groups of each plan, as they are to be opened.
    :ivar topics: that plans publish on.
    :ivar is_marked: whether some outlet has marks.
    """

    def __init__(self, make: Callable[[bool], Plans], provided: frozenset[str]) -> None:
        self._make = make
        self.provided = provided
        self.clear()

    def clear(self) -> None:
        """Forget all plans."""
        self.plans = self._make(bool(self.provided))
        self.groups: list[tuple[Group, ...]] = []
        self.outlets = Outlets(self._split)
        self.topics: list[Topic] = []
        self._outlets: list[int] = []
        self.is_marked = False
        self._tails: dict[bytes, tuple[bytes, ...]] = {}

    def add(
        self, key: bytes, groups: tuple[Group, ...] | None, topic: Topic | None, marked: dict[Group, Marks]
    ) -> None:
        """Add a plan. If there is no room for it, forget all others.

        :param groups: ``None``: objects with this key have to be read.
        :param topic: that they are published on.
        :param marked: as :class:`bussrv.bus.routing.audience.Everyone` has it.
        """
        if len(self.groups) == MOST_PLANS:
            self.clear()
        outlets = None if groups is None else self.outlets.of(groups, marked)
        self.is_marked = any(self.outlets.marks)
        self._tails.clear()
        if topic is not None and topic not in self.topics:
            self.topics.append(topic)
        place = 0 if topic is None else self.topics.index(topic) + 1
        self.plans.add(key, outlets or 0, any(group.no_echo for group in groups or ()), outlets is None, place)
        self.groups.append(groups or ())
        self._outlets.append(outlets or 0)

    def with_marks(self, prepared: Prepared) -> tuple[bytes, ...]:
        """The end of the metadata for each outlet, with its marks."""
        route, tail = prepared.source.origin.route, prepared.tail
        if tail not in self._tails:
            if len(self._tails) > MOST_PLANS:
                self._tails.clear()
            marks = self.outlets.marks
            self._tails[tail] = tuple(
                route_ending(encode_json([*route, *each])) + NUL if each else tail for each in marks
            )
        return self._tails[tail]

    def _split(self, former: int, made: int) -> None:
        for number, outlets in enumerate(self._outlets):
            if outlets >> former & 1:
                self._outlets[number] = outlets | 1 << made
                self.plans.give(number, self._outlets[number])


class Prepared(Struct, eq=False):
    """A sender, with everything that stays the same for one generation of the audience.

    :ivar number: of the sender; all senders of other servers have the same: nobody is one of them.
    :ivar link_context: of objects that come over a link: the objects that came before, the end of their metadata, a key
        of their origin, and the most bytes of metadata that are forwarded.
    :ivar generation: :attr:`Audience.generation` when it was looked at what the sender provides.
    :ivar sender: the same for the compiled module, with these ``limits``.
    """

    source: Source
    table: PlanTable
    tail: bytes
    number: int
    link_context: tuple[Seen, bytes, int, int] | None = None
    generation: int = -1
    limits: Limits | None = None
    sender: Sender | None = None

    def is_right(self, generation: int, provided: Set[str]) -> bool:
        """Whether the sender provides what it did when it was prepared. There may be thousands of services to compare.

        :param generation: the present one.
        """
        if self.generation != generation and self.table.provided == provided:
            self.generation = generation
        return self.generation == generation

    def for_module(self, limits: Limits, ids: ObjectIds) -> Sender:
        """The same as the compiled module takes it."""
        if self.table.is_marked:
            # There has to be room for the marks, which change with the plans.
            tails = self.table.with_marks(self)
            longest = limits[0] if self.link_context is None else self.link_context[3]
            return self._make(tails, (longest - max(map(len, tails)) + len(self.tail), *limits[1:]), ids)
        sender = self.sender
        if sender is None or self.limits is not limits:
            self.limits, self.sender = limits, (sender := self._make(self.tail, limits, ids))
        return sender

    def _make(self, tails: bytes | tuple[bytes, ...], limits: Limits, ids: ObjectIds) -> Sender:
        assert SPEEDUPS is not None
        made: Sender = SPEEDUPS.Sender(limits, tails, ids.opening, ids.digits, self.link_context)
        return made


Stretch = tuple[bytes, int, Limits]
"""As :meth:`ObjectReader.stretch` returns it."""

Find = Callable[[bytes, int], "Prepared | int"]
"""Finds what is prepared for an object at a place that comes by another route; a verdict: nothing is."""


class CompiledRouter:
    """Routes stretches of members and linked servers, while no tap is open.

    :ivar make: makes empty plans of the compiled module; ``None``: there is no such module, so nothing is routed here.
    """

    def __init__(
        self,
        parts: RoutingParts,
        *,
        registry: Registry,
        origins: Origins,
        batches: BatchRouter,
        ids: ObjectIds,
    ) -> None:
        self.make: Callable[[bool], Plans] | None = None if SPEEDUPS is None else SPEEDUPS.Plans
        self._registry = registry
        self._origins = origins
        self._audience = parts.audience
        self._receivers = parts.receivers
        self._fanout = parts.fanout
        self._links = parts.links
        self._publisher = parts.publisher
        self._batches = batches
        self._taps = parts.taps
        self._ids = ids
        self._tables: dict[tuple[frozenset[str], frozenset[str], frozenset[str], Permissions], PlanTable] = (
            self._audience.cache()
        )
        self._prepared: dict[int, Prepared] = self._audience.cache()
        self._turn = self._own_turn = 0
        self._flushes = self._number = -1

    def route_input(self, session_id: str, reader: ObjectReader) -> ScanResult | None:
        """Route objects of a member from its reader; ``None``: nothing was tried, they have to be read."""
        make = self.ready()
        if make is None:
            return None
        stretch = reader.stretch()
        if stretch is None:
            return None
        source, provided = self._origins.of(session_id), self._registry.state.provided_by(session_id)
        prepared = self._prepared.get(source.number)
        if prepared is None or not prepared.is_right(self._audience.generation, provided):
            if self._receivers.group_of(session_id) is None:
                return None
            prepared = self._prepare(source, frozenset(provided), reader.ends, make)
        try:
            return self.route_stretch(prepared, reader, stretch)
        finally:
            if prepared.table.provided:
                self._publisher.flush_publications()

    def _forget(self) -> None:
        self._tables.clear()
        self._prepared.clear()

    def route_chunk(
        self, session_id: str, reader: ObjectReader, data: bytes, has_rest: bool
    ) -> tuple[int, int, bool] | None:
        """Route the objects at the beginning of a chunk; see :class:`bussrv.bus.interfaces.ICompiledRouting`."""
        source = self._origins.known.get(session_id)
        prepared = None if source is None else self._prepared.get(source.number)
        if prepared is None or self._taps.is_on:
            return None
        if not prepared.is_right(self._audience.generation, self._registry.state.provided_by(session_id)):
            return None
        whole = reader.take_with(data) if has_rest else data
        if whole is None:
            return None
        try:
            end, objects, verdict, _ = self._route(prepared, reader, whole, 0, reader.limits)
        finally:
            if prepared.table.provided:
                self._publisher.flush_publications()
        has_rest = end < len(whole)
        if has_rest:
            reader.feed(whole[end:])
            reader.skip(0, reads_on=verdict == NEEDS_PYTHON, in_vain=objects < WORTHWHILE)
        return objects, verdict, has_rest

    def ready(self) -> Callable[[bool], Plans] | None:
        """Makes empty plans; ``None``: everything has to be read now."""
        return None if self._taps.is_on else self.make

    def _prepare(
        self, source: Source, provided: frozenset[str], ends: frozenset[str], make: Callable[[bool], Plans]
    ) -> Prepared:
        """Find the table of a sender: shared by all with the same services, permissions, events and passed servers."""
        key = (provided, ends, self._links.passed(source.origin.route), source.origin.permissions)
        table = self._tables.get(key)
        if table is None:
            if len(self._tables) >= MOST_TABLES:
                self._forget()
            table = self._tables[key] = PlanTable(make, provided)
        tail, generation = route_ending(source.route) + NUL, self._audience.generation
        prepared = Prepared(source, table, tail, source.number, generation=generation)
        self._prepared[source.number] = prepared
        return prepared

    def _turn_of(self, number: int) -> int:
        """The turn in which groups are open for a sender; 0: nothing is collected, so none has to be opened first."""
        if not self._fanout.collected:
            return 0
        if self._flushes != self._fanout.flushes or self._number != number:
            self._begin_turn(number)
        return self._turn

    def _begin_turn(self, number: int) -> None:
        """Count the turns in which groups are open: for all senders, and for one alone."""
        if self._flushes != self._fanout.flushes:
            self._flushes = self._fanout.flushes
            self._turn += 1
        self._number = number
        self._own_turn += 1

    def route_stretch(
        self, prepared: Prepared, reader: ObjectReader, stretch: Stretch, find: Find | None = None
    ) -> ScanResult:
        """Route objects of a stretch of this reader.

        :param find: is asked when the route is another one, if the objects come over a link.
        """
        first = stretch[1]
        end, total, verdict, duplicates = self._route(prepared, reader, *stretch, find)
        reader.skip(end - first, reads_on=verdict == NEEDS_PYTHON, in_vain=total < WORTHWHILE)
        return ScanResult(total, verdict, duplicates)

    def _route(
        self,
        prepared: Prepared,
        reader: ObjectReader,
        data: bytes,
        begin: int,
        limits: Limits,
        find: Find | None = None,
    ) -> tuple[int, int, int, int]:
        """Route objects. :returns: the place after them, how many, the verdict, and how many came before."""
        total, duplicates, made, ways, most, ids = 0, 0, 0, 0, A_PASS, self._ids
        asked_before = self._batches.asked
        while True:
            table, turn = prepared.table, self._turn_of(prepared.number)
            sender = prepared.for_module(limits, ids)
            taken = table.plans.splice(sender, data, begin, turn, self._own_turn, most, ids.made)
            begin, verdict = taken.end, taken.verdict
            if taken.objects:
                ids.made += taken.ids
                total += taken.objects
                duplicates += taken.duplicates
                self._give(table, taken, None if turn else prepared.source.origin.sender)
            if verdict == NO_PLAN:
                made += 1
                if made > MOST_NEW_PLANS or self._batches.asked - asked_before > MOST_GROUPS_ASKED:
                    verdict = CONTINUE
                    break
                self._add_plan(prepared, taken.what, data, begin, reader)
            elif verdict == MUST_OPEN:
                if self._open(prepared, taken.what):
                    most = 1  # The sender may be over a limit after this object.
            elif verdict == ROUTE_CHANGED and find is not None:
                ways += 1
                other = find(data, begin) if ways <= MOST_WAYS else CONTINUE
                if isinstance(other, int) or other is prepared:
                    verdict = other if isinstance(other, int) else NEEDS_PYTHON  # It has two routes.
                    break
                prepared = other
            else:
                break
        return begin, total, verdict, duplicates

    def _give(self, table: PlanTable, taken: Taken, opener: str | None) -> None:
        """Give the groups of outlets their pieces.

        :param opener: the sender, if the groups are not open yet; empty if it is no session of this server.
        """
        for outlet, frames, number in taken.pieces:
            groups, joined = table.outlets.groups[outlet], Joined(frames, number)
            if opener is not None:
                self._fanout.open_with(groups, opener, joined)
                continue
            for group in groups:
                group.pending.append(joined)
                group.has_joined = True
        for topic, payloads in taken.published:
            self._publisher.collect_all(table.topics[topic - 1], payloads)

    def _add_plan(self, prepared: Prepared, key: Any, data: bytes, begin: int, reader: ObjectReader) -> None:
        """Add the plan of objects like the one at ``begin``."""
        source, table = prepared.source, prepared.table
        metadata = data[begin : data.index(NUL, begin)]
        obj = BusObject(metadata, read_head(metadata))
        is_served = obj.head.event is not None and obj.head.event in reader.ends
        everyone = None if is_served else self._batches.everyone(obj, source.origin, table.provided)
        groups, topic = None, None
        if everyone is not None:
            publication = everyone.publication
            topic = None if publication is None else self._publisher.collects(publication)
            if topic is not None or publication is None:
                groups = everyone.groups
        table.add(key, groups, topic, {} if everyone is None else everyone.marked)

    def _open(self, prepared: Prepared, plan: Any) -> bool:
        """Open the groups of a plan. :returns: whether something had to be sent for that."""
        table = prepared.table
        sends = self._batches.open(table.groups[plan], prepared.source.origin)
        if self._flushes != self._fanout.flushes:
            self._begin_turn(prepared.number)
        table.plans.open(plan, self._turn, self._own_turn)
        return sends
