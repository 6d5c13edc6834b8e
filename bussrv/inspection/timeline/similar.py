"""The names with a timeline that are like another one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bussrv.inspection.timeline.journals import EVER, Segments, Window
from bussrv.inspection.timeline.lines import NamedLine, line_of, read_lines
from bussrv.inspection.timeline.scan import beginning

MOST = 5


def similar_names(journals: Sequence[Segments], name: str) -> list[str]:
    """The names in journals that are most similar to ``name``, in the order of their distance."""
    found: dict[str, int] = {}
    for journal in journals:
        names: set[str | None] = set()
        for number, content in Window(journal, EVER).contents():
            lines = read_lines(content, NamedLine, content.count(b"\n"))
            if number == journal.numbers[0]:
                lines += map(line_of, beginning(content, number)[1])
            for line in lines:
                names |= line.names()
                names.add(line.service)
            found |= _alike((each for each in names if each), name)
            names.clear()
    return sorted(found, key=lambda each: (found[each], each))[:MOST]


def _alike(names: Iterable[str], name: str) -> dict[str, int]:
    """Those of some names that are like ``name``, and how far they are from it."""
    asked = name.lower()
    most = max(1, len(name) // 3)
    found = {}
    for each in names:
        there = each.lower()
        # Nearly every name contains any single letter.
        is_part = asked in there or (len(there) > 1 and there in asked)
        may_be = abs(len(there) - len(asked)) <= most and len({*there} ^ {*asked}) <= 2 * most
        if is_part or may_be:
            far = distance(there, asked)
            if is_part or far <= most:
                found[each] = far
    return found


def distance(one: str, other: str) -> int:
    """How many characters have to be inserted, removed or replaced to make one text of the other (Levenshtein)."""
    before: list[int] = [*range(len(other) + 1)]
    for row, character in enumerate(one, 1):
        here = [row]
        for column, there in enumerate(other, 1):
            here.append(min(before[column] + 1, here[-1] + 1, before[column - 1] + (character != there)))
        before = here
    return before[-1]
