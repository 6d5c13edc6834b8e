"""Outlets: groups that are given the same objects by every route plan of a table, and share the bytes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bussrv.bus.delivery import Group

MOST_OUTLETS = 16
"""The most outlets of a table: an object may be copied for each."""


class Outlets:
    """The outlets of a table. A set of them is a number, in which bit n stands for outlet n.

    :param split: is called if some groups of an outlet leave it for a new one, with the numbers of both. From then on,
        objects for the first one have to go to the second one, too.
    :ivar groups: the groups of each outlet.
    """

    def __init__(self, split: Callable[[int, int], None]) -> None:
        self.groups: list[list[Group]] = []
        self._split = split
        self._place: dict[Group, int] = {}

    def of(self, groups: Sequence[Group]) -> int | None:
        """The set of outlets that has these groups and no others; ``None`` if there would be too many outlets."""
        wanted: dict[int, list[Group]] = {}
        for group in groups:
            wanted.setdefault(self._place.get(group, -1), []).append(group)
        parts = {place: some for place, some in wanted.items() if place < 0 or len(some) < len(self.groups[place])}
        if len(self.groups) + len(parts) > MOST_OUTLETS:
            return None
        return sum(1 << (self._part(place, some) if place in parts else place) for place, some in wanted.items())

    def _part(self, place: int, some: list[Group]) -> int:
        """Make an outlet of some groups, which leave the outlet at ``place``, if they have one."""
        made = len(self.groups)
        self.groups.append(some)
        self._place.update(dict.fromkeys(some, made))
        if place >= 0:
            self.groups[place] = [group for group in self.groups[place] if self._place[group] == place]
            self._split(place, made)
        return made
