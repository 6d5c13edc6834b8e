"""Malformed and hostile inputs: what comes of each, and that nobody else notices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.hostile.cases import ROWS, rows_for
from tests.hostile.rows import VOCABULARIES, Closed, Row, Vocabulary
from tests.hostile.scene import Scene, chunked

pytestmark = pytest.mark.usefixtures("quick_collections", "no_log")

SMALL = 300
LARGE = 20_000
END = 1000


def _parameters() -> Iterator[Any]:
    for vocabulary in VOCABULARIES:
        for row in rows_for(vocabulary):
            marks = [pytest.mark.xfail(strict=True, reason=row.defect)] if row.defect else []
            yield pytest.param(vocabulary, row, id=f"{vocabulary.name}: {row.name}", marks=marks)


every_row = pytest.mark.parametrize(("vocabulary", "row"), list(_parameters()))


def test_the_tables_have_enough_rows_and_no_name_twice() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    assert all(len(rows_for(vocabulary)) >= 60 for vocabulary in VOCABULARIES)


@every_row
def test_the_outcome_is_as_documented_and_nobody_else_notices(vocabulary: Vocabulary, row: Row) -> None:
    scene = Scene()
    intruder = scene.intruder(vocabulary, row.member)
    scene.attack(intruder, row, [row.build(vocabulary)])
    scene.expect_exchange("a" * 255)
    scene.leave(intruder)
    scene.expect_ended_for(row.outcome.reason if isinstance(row.outcome, Closed) else "client-closed")
    scene.expect_exchange()
    scene.expect_nothing_left(intruder)


def _cuts(data: bytes) -> list[list[bytes]]:
    """Small inputs in two, at every place; larger ones in small pieces, the middle of the largest not byte by byte."""
    if len(data) <= SMALL:
        return [[data[:place], data[place:]] for place in range(1, len(data))]
    if len(data) <= LARGE:
        return [chunked(data, size) for size in (1, 7, 64)]
    ends = [*chunked(data[:END], 1), *chunked(data[END:-END], 64), *chunked(data[-END:], 1)]
    return [ends, chunked(data, 1000)]


@every_row
def test_the_outcome_is_the_same_in_pieces(vocabulary: Vocabulary, row: Row) -> None:
    scene = Scene()
    intruder = None
    for pieces in _cuts(row.build(vocabulary)):
        # A member that still is one may try the next cut on the same connection.
        if intruder is None or not row.member or not intruder.connection.is_open:
            intruder = scene.intruder(vocabulary, row.member)
        scene.attack(intruder, row, pieces)
        if not row.member:
            scene.leave(intruder)
    scene.expect_exchange()
