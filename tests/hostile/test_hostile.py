"""Malformed and hostile inputs: what comes of each, and that nobody else notices."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.hostile import cases_attributes, cases_floods, cases_framing
from tests.hostile.cases import ROWS, rows_for
from tests.hostile.rows import VOCABULARIES, Closed, Row, Vocabulary
from tests.hostile.scene import Scene, chunked
from tests.size import sample
from tests.tables import check_each

pytestmark = pytest.mark.usefixtures("quick_collections", "no_log")

SMALL = 300
LARGE = 20_000
END = 1000

CUTS = 9
"""The share of places at which a small input is cut. That a reader does not mind cuts is a property of its own."""


each_table = pytest.mark.parametrize(
    "table", [cases_framing, cases_attributes, cases_floods], ids=lambda table: table.__name__
)
each_vocabulary = pytest.mark.parametrize("vocabulary", VOCABULARIES, ids=lambda vocabulary: vocabulary.name)


def test_the_tables_have_enough_rows_and_no_name_twice() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    assert all(len(rows_for(vocabulary)) >= 60 for vocabulary in VOCABULARIES)


def named(table: ModuleType, vocabulary: Vocabulary) -> Iterator[tuple[str, Row]]:
    return ((row.name, row) for row in table.ROWS if row.is_for(vocabulary))


@each_table
@each_vocabulary
def test_the_outcome_is_as_documented_and_nobody_else_notices(vocabulary: Vocabulary, table: ModuleType) -> None:
    check_each(sample([*named(table, vocabulary)], 2), lambda row: expect_outcome(vocabulary, row))


def expect_outcome(vocabulary: Vocabulary, row: Row) -> None:
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


@pytest.mark.timeout(600)
@each_table
@each_vocabulary
def test_the_outcome_is_the_same_in_pieces(vocabulary: Vocabulary, table: ModuleType) -> None:
    check_each(sample([*named(table, vocabulary)], 2), lambda row: expect_same_in_pieces(vocabulary, row))


def expect_same_in_pieces(vocabulary: Vocabulary, row: Row) -> None:
    scene = Scene()
    intruder = None
    for pieces in sample(_cuts(row.build(vocabulary)), CUTS):
        # A member that still is one may try the next cut on the same connection.
        if intruder is None or not row.member or not intruder.connection.is_open:
            intruder = scene.intruder(vocabulary, row.member)
        scene.attack(intruder, row, pieces)
        if not row.member:
            scene.leave(intruder)
    scene.expect_exchange()
