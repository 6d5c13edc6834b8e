"""Finds the patterns that the name of a service matches, and what is kept by them, however many there are. Pure.

The patterns are kept in a tree with an edge for each level. A name is followed along the edges of its own levels and of
wildcards only, so the cost grows with the patterns that begin like the name, and not with all of them.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct

from bussrv.service_patterns import ONE_LEVEL, REST, SEPARATOR, is_apart, is_pattern

Value = TypeVar("Value")


class _Node(Struct, eq=False):
    """A place in the tree. :ivar pattern: the pattern that ends here."""

    edges: dict[str, _Node] = {}
    pattern: str | None = None


class PatternIndex:
    """Patterns of :mod:`bussrv.service_patterns`, each once."""

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, pattern: str) -> None:
        """Add a pattern."""
        node = self._root
        for level in pattern.split(SEPARATOR):
            node = node.edges.setdefault(level, _Node())
        node.pattern = pattern

    def remove(self, pattern: str) -> None:
        """Remove a pattern, which must be there."""
        way: list[tuple[_Node, str]] = []
        node = self._root
        for level in pattern.split(SEPARATOR):
            way.append((node, level))
            node = node.edges[level]
        node.pattern = None
        for node, level in reversed(way):
            beyond = node.edges[level]
            if beyond.edges or beyond.pattern is not None:
                return
            del node.edges[level]

    def matching(self, name: str) -> list[str]:
        """The patterns that a name matches."""
        if not self._root.edges:
            return []
        found: list[_Node | None] = []
        reached = [self._root]
        may_differ = not is_apart(name)
        for level in name.split(SEPARATOR):
            further: list[_Node | None] = []
            for node in reached:
                edges = node.edges
                further.append(edges.get(level))
                if may_differ:
                    further.append(edges.get(ONE_LEVEL))
                    found.append(edges.get(REST))
            reached = [node for node in further if node is not None]
            may_differ = True
        for node in reached:
            found += (node, node.edges.get(REST))
        return [node.pattern for node in found if node is not None and node.pattern is not None]


class PatternMap(dict[str, Value]):
    """Values by names of services, and by patterns over them. They are changed by setting and deleting items only."""

    def __init__(self) -> None:
        super().__init__()
        self._patterns = PatternIndex()

    def __setitem__(self, wanted: str, value: Value) -> None:
        if wanted not in self and is_pattern(wanted):
            self._patterns.add(wanted)
        super().__setitem__(wanted, value)

    def __delitem__(self, wanted: str) -> None:
        super().__delitem__(wanted)
        if is_pattern(wanted):
            self._patterns.remove(wanted)

    def matching(self, service: str) -> list[Value]:
        """The values of the name of a service, first, and of the patterns that it matches."""
        found = [self[service]] if service in self else []
        return [*found, *(self[each] for each in self._patterns.matching(service) if each != service)]
