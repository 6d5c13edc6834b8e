"""The borders of stripes are joined: the facts are the same however a journal is divided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import Any

import pyarrow as pa

from bussrv.audit.fold.boots import COLUMNS, Boot, add, backwards, new_boot
from bussrv.audit.fold.facts import Tables, as_tables, finish, no_rows, together
from bussrv.audit.fold.life import Life
from bussrv.audit.fold.stripe import Folded


def clashes(stripes: Sequence[Folded]) -> list[set[int]]:
    """The stripes that have to be folded as one, as sets of indexes.

    Records of one server overlap in them, or one of them has a session that another one says was opened and closed.
    Only journals that were changed or copied have such stripes.
    """
    groups = [*_overlapping(stripes), *_torn(stripes)]
    merged: list[set[int]] = []
    for group in groups:
        joined = set(group)
        for other in [each for each in merged if each & joined]:
            merged.remove(other)
            joined |= other
        merged.append(joined)
    return merged


def _overlapping(stripes: Sequence[Folded]) -> list[set[int]]:
    extents: dict[str, list[tuple[Any, int]]] = {}
    for index, stripe in enumerate(stripes):
        for server, extent in stripe.extents.items():
            extents.setdefault(server, []).append((extent, index))
    found = []
    for of_server in extents.values():
        latest: tuple[Any, int] | None = None
        for (first, last), index in sorted(of_server):
            if latest is not None and first <= latest[0]:
                found.append({latest[1], index})
            if latest is None or last > latest[0]:
                latest = last, index
    return found


def _torn(stripes: Sequence[Folded]) -> list[set[int]]:
    """Stripes that name one session, which is whole in one of them, or was opened in a later one."""
    places: dict[str, list[tuple[int, bool]]] = {}
    for index, stripe in enumerate(stripes):
        for _, session in stripe.border:
            if session is not None:
                places.setdefault(session, []).append((index, False))
    named = places.keys()
    for index, stripe in enumerate(stripes):
        for session in stripe.whole & named:
            places[session].append((index, True))
    seen: Counter[str] = (
        Counter(chain.from_iterable(stripe.whole for stripe in stripes)) if len(stripes) > 1 else Counter()
    )
    for session, number in seen.items():
        if number > 1:
            places[session] = [(index, True) for index, each in enumerate(stripes) if session in each.whole]
    return [
        {index for index, _ in some}
        for session, some in places.items()
        if len({index for index, _ in some}) > 1 and not _follows(stripes, session, some)
    ]


def _follows(stripes: Sequence[Folded], session: str, places: Sequence[tuple[int, bool]]) -> bool:
    """Whether the parts of a session can be put together: only the first one has its opening."""
    if any(is_whole for _, is_whole in places):
        return False
    parts: dict[str, list[tuple[Any, Life]]] = {}
    for index in {index for index, _ in places}:
        for (server, each), life in stripes[index].border.items():
            if each == session:
                parts.setdefault(server, []).append((_place(stripes[index], server), life))
    return all(not life.openings for some in parts.values() for _, life in sorted(some, key=lambda part: part[0])[1:])


def _place(stripe: Folded, server: str) -> Any:
    """Where the records of a server begin; a stripe may have its baseline only."""
    extent = stripe.extents.get(server)
    return (0, 0, 0) if extent is None else extent[0]


def join(stripes: Sequence[Folded]) -> Tables:
    """All facts.

    :param stripes: without clashes.
    """
    rows = no_rows()
    for lives in _sessions(stripes):
        finish(lives, rows)
    rows["clocks"] += _borders(stripes)
    rows["boots"] += [(*key, *(boot[name] for name in COLUMNS)) for key, boot in _boots(stripes).items()]
    events: Counter[Any] = Counter()
    suppressed: Counter[Any] = Counter()
    for stripe in stripes:
        events.update(stripe.events)
        suppressed.update(stripe.suppressed)
    rows["events"] += [(*key, number, suppressed[key]) for key, number in events.items()]
    rows["refusals"] += _added([stripe.refusals for stripe in stripes], _add_numbers)
    rows["openings"] += _added([stripe.openings for stripe in stripes], _add_numbers)
    rows["mentions"] += _added([stripe.mentions for stripe in stripes], _add_mentions)
    rest = as_tables(rows)
    return {name: pa.concat_tables([*(stripe.tables[name] for stripe in stripes), rest[name]]) for name in rest}


def _sessions(stripes: Sequence[Folded]) -> list[list[Life]]:
    """The sessions of the borders: their parts put together, those of several servers side by side."""
    parts: dict[tuple[str, str | None], list[tuple[Any, Life]]] = {}
    for stripe in stripes:
        for key, life in stripe.border.items():
            parts.setdefault(key, []).append((_place(stripe, key[0]), life))
    found: dict[Any, list[tuple[Any, Life]]] = {}
    for (server, session), some in parts.items():
        in_order = sorted(some, key=lambda part: part[0])
        life = in_order[0][1] if len(in_order) == 1 else together(life for _, life in in_order)
        same: Any = (server, None) if session is None else session
        found.setdefault(same, []).append(((in_order[0][0], server), life))
    return [[life for _, life in sorted(lives, key=lambda part: part[0])] for lives in found.values()]


def _borders(stripes: Sequence[Folded]) -> list[tuple[Any, ...]]:
    """Clocks that ran backwards from the end of a segment to the beginning of the next one."""
    servers = dict.fromkeys(server for stripe in stripes for server in stripe.ends)
    found: list[tuple[Any, ...]] = []
    for server in servers:
        ends = sorted((end for stripe in stripes for end in stripe.ends.get(server, ())), key=lambda end: end[0][:3])
        for (before, _), (stamp, begins) in pairwise(ends):
            if begins:
                found += backwards(server, before, stamp)
    return found


def _boots(stripes: Sequence[Folded]) -> dict[tuple[str, str], Boot]:
    found: dict[tuple[str, str], Boot] = {}
    for stripe in stripes:
        for key, boot in stripe.boots.items():
            add(found.setdefault(key, new_boot()), boot)
    return found


def _added(tables: Sequence[dict[Any, list[Any]]], combine: Callable[[list[Any], list[Any]], None]) -> list[Any]:
    found: dict[Any, list[Any]] = {}
    for table in tables:
        for key, numbers in table.items():
            if key in found:
                combine(found[key], numbers)
            else:
                found[key] = [*numbers]
    return [(*key, *numbers) for key, numbers in found.items()]


def _add_numbers(known: list[Any], other: list[Any]) -> None:
    for place in range(len(known) - 3):
        known[place] += other[place]
    known[-3:] = min(known[-3], other[-3]), min(known[-2], other[-2]), max(known[-1], other[-1])


def _add_mentions(known: list[Any], other: list[Any]) -> None:
    known[0] += other[0]
    known[3] += other[3]
    known[4] = min(known[4], other[4])
    for place, choose in ((1, min), (2, max)):
        both = [each for each in (known[place], other[place]) if each is not None]
        known[place] = choose(both) if both else None
