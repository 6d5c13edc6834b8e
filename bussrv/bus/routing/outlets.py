"""Outlets: groups that are given the same objects by every route plan of a table, and share the bytes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bussrv.bus.groups.fanout import Group

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
