"""Patterns of text, compiled so that no text takes long to compare. Pure.

:class:`Ranges` compares a text with any number of exact texts and prefixes by one bisection. :class:`Wildcards` and
:class:`OrderedWildcards` compare each pattern with wildcards inside by itself; the cost grows with the pattern, not
with the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from sys import maxunicode
from typing import NamedTuple

_LAST = chr(maxunicode)
_ANY = "*"
_ONE = "?"
_SEVERAL = re.compile(r"\*{2,}")


class SimplePattern(NamedTuple):
    """An exact text, or how texts begin.

    :ivar rank: its place among other patterns: of those that a text matches, the lowest counts.
    """

    text: str
    is_prefix: bool
    rank: int = 0


class _Open(NamedTuple):
    """A range of texts that has begun; ``end`` is the first text after it, ``None`` if there is none."""

    end: str | None
    rank: int


class Ranges:
    """Finds the lowest rank among the patterns that a text matches.

    All texts with one prefix lie side by side in the order of texts. So each pattern is a range of texts. Two ranges
    are apart, or one is inside the other. Their ends cut the order of texts into pieces, each with one rank.

    :param none: the rank of texts that match no pattern; it is higher than the others.
    """

    def __init__(self, patterns: Iterable[SimplePattern], none: int) -> None:
        self._begins = [""]
        self._ranks = [none]
        self._none = none
        opened: list[_Open] = []
        # Of two that begin with the same text, the prefix is the wider range.
        for text, is_prefix, own_rank in sorted(patterns, key=lambda each: (each.text, not each.is_prefix)):
            self._end(opened, text)
            rank = min(own_rank, opened[-1].rank if opened else none)
            opened.append(_Open(_after_prefix(text) if is_prefix else text + "\0", rank))
            self._cut(text, rank)
        self._end(opened, None)

    def _end(self, opened: list[_Open], until: str | None) -> None:
        """End what ends at ``until`` or before; ``None``: everything that has an end."""
        while opened and (end := opened[-1].end) is not None and (until is None or end <= until):
            opened.pop()
            self._cut(end, opened[-1].rank if opened else self._none)

    def _cut(self, begin: str, rank: int) -> None:
        if self._begins[-1] == begin:
            self._ranks[-1] = rank
        else:
            self._begins.append(begin)
            self._ranks.append(rank)

    def lowest(self, text: str) -> int:
        """The lowest rank among the patterns that ``text`` matches."""
        return self._ranks[bisect_right(self._begins, text) - 1]


def _after_prefix(prefix: str) -> str | None:
    """The first text after all that begin with ``prefix``."""
    shorter = prefix.rstrip(_LAST) if prefix.endswith(_LAST) else prefix
    return shorter[:-1] + chr(ord(shorter[-1]) + 1) if shorter else None


class Wildcards:
    """Patterns in which ``*`` stands for any characters and ``?`` for one.

    Most are an exact text, or have one ``*`` at an end: they are compared all at once. Each of the others is compared
    by itself.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        sorts = _Sorts(patterns)
        self._prefixes = Ranges((each._replace(rank=0) for each in sorts.prefixes), 1)
        self._suffixes = Ranges((each._replace(rank=0) for each in sorts.suffixes), 1) if sorts.suffixes else None
        self._others = [pattern for _, pattern in sorts.others]

    def match(self, text: str) -> bool:
        """Whether ``text`` matches one of the patterns."""
        if self._prefixes.lowest(text) == 0:
            return True
        if self._suffixes is not None and self._suffixes.lowest(text[::-1]) == 0:
            return True
        return any(inner_matches(pattern, text) for pattern in self._others)


class OrderedWildcards:
    """Patterns with wildcards in an order: the first one that a text matches counts.

    :ivar none: the result of :meth:`first` for a text that matches no pattern: the number of patterns.
    :ivar effort: the most steps of those patterns that are compared one by one.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        sorts = _Sorts(patterns)
        self.none = sorts.number
        self._prefixes = Ranges(sorts.prefixes, self.none)
        self._suffixes = Ranges(sorts.suffixes, self.none)
        self._others = sorts.others
        self.effort = sum(len(pattern) for _, pattern in sorts.others)

    def first(self, text: str) -> int:
        """The place of the first pattern that ``text`` matches, from 0."""
        lowest = min(self._prefixes.lowest(text), self._suffixes.lowest(text[::-1]))
        for place, pattern in self._others:
            if place > lowest:
                break
            if inner_matches(pattern, text):
                return place
        return lowest


class _Sorts:
    """Patterns by how they are compared, each with its place among all."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self.prefixes: list[SimplePattern] = []
        self.suffixes: list[SimplePattern] = []
        self.others: list[tuple[int, str]] = []
        self.number = 0
        for place, pattern in enumerate(map(_shortened, patterns)):
            self.number += 1
            if is_inner(pattern):
                self.others.append((place, pattern))
            elif pattern.startswith(_ANY) and pattern != _ANY:
                self.suffixes.append(SimplePattern(pattern[:0:-1], is_prefix=True, rank=place))
            else:
                self.prefixes.append(SimplePattern(pattern.removesuffix(_ANY), pattern.endswith(_ANY), place))


def is_inner(pattern: str) -> bool:
    """Whether a pattern has wildcards other than one ``*`` at one of its ends."""
    pattern = _shortened(pattern)
    return _ONE in pattern or pattern.count(_ANY) > 1 or _ANY in pattern[1:-1]


def _shortened(pattern: str) -> str:
    return _SEVERAL.sub(_ANY, pattern) if _ANY + _ANY in pattern else pattern


def inner_matches(pattern: str, text: str) -> bool:
    """Whether ``text`` matches ``pattern``, in at most one step per character of ``pattern``.

    The places in the text that the pattern may have reached are kept in step, as the bits of one number.
    """
    places = _places(text)
    reached = 1
    for character in pattern:
        if character != _ANY:
            reached = (reached & places.get(character, 0)) << 1
            if not reached:
                return False
            continue
        reached = -(reached & -reached)  # the lowest place, and all after it
    return bool(reached >> len(text) & 1)


@lru_cache(maxsize=16)
def _places(text: str) -> dict[str, int]:
    """The places of each character of a text, as the bits of a number; ``?`` is in all places."""
    places: dict[str, int] = {}
    place = 1
    for character in text:
        places[character] = places.get(character, 0) | place
        place <<= 1
    places[_ONE] = place - 1
    return places
