"""Covers against their definition: a moment is covered if a span holds it."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from bussrv.audit.fold.facts import FACTS, covers

LATEST = 12
MOMENT = st.integers(0, LATEST)
SPAN = st.tuples(
    st.sampled_from(["hall", "yard"]), st.sampled_from(["Weather", "Video"]), st.booleans(), MOMENT, st.none() | MOMENT
)
NAMES = FACTS["covers"].names


def table(spans: list[tuple[Any, ...]]) -> pa.Table:
    columns = dict(zip(NAMES, zip(*spans, strict=True) if spans else [()] * len(NAMES), strict=True))
    rest = [name for name in FACTS["spans"].names if name not in columns]
    columns |= {name: [None] * len(spans) for name in rest}
    return pa.table({name: pa.array(columns[name], FACTS["spans"].field(name).type) for name in FACTS["spans"].names})


def halves(begin: int, end: int | None) -> set[int]:
    """The moments and what is between them, from a begin to an end, as numbers of half moments."""
    return {*range(2 * begin, 2 * max(begin, LATEST + 1 if end is None else end) + 1)}


def held(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], set[int]]:
    found: dict[tuple[Any, ...], set[int]] = {}
    for row in rows:
        server, service, is_provided, begin, end = (row[name] for name in NAMES)
        found.setdefault((server, service, is_provided), set()).update(halves(begin, end))
    return found


@given(st.lists(SPAN, max_size=30))
def test_covers_hold_the_same_moments_with_gaps_between_them(spans: list[tuple[Any, ...]]) -> None:
    given_rows = table(spans)
    found = covers(given_rows)
    assert found.schema == FACTS["covers"]
    rows = found.to_pylist()
    assert held(rows) == held(given_rows.to_pylist())
    for _, some in groupby(rows, key=lambda row: [row[name] for name in NAMES[:3]]):
        assert all(one["end_at"] < next_one["begin_at"] for one, next_one in pairwise(some))
    assert sum(1 for _ in groupby(rows, key=lambda row: [row[name] for name in NAMES[:3]])) == len(held(rows))


@given(st.lists(SPAN, max_size=30), st.integers(0, 30))
def test_covers_of_covers_of_parts_are_those_of_the_whole(spans: list[tuple[Any, ...]], at: int) -> None:
    parts = pa.concat_tables([covers(table(spans[:at])), covers(table(spans[at:]))])
    key = [(name, "ascending") for name in NAMES[:4]]
    assert covers(parts).sort_by(key) == covers(table(spans)).sort_by(key)
