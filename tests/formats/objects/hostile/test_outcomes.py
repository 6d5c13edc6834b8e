"""Malformed and hostile inputs: what comes of each, and that nobody else notices.

That it is the same in pieces, and leaves nothing, the kit tries with the same rows: ``tests/formats/odd_inputs.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.formats.objects.hostile import cases_attributes, cases_floods, cases_framing
from tests.formats.objects.hostile.cases import ROWS, rows_for
from tests.formats.objects.hostile.rows import VOCABULARIES, Closed, Row, Vocabulary
from tests.formats.objects.hostile.scene import Scene
from tests.size import sample
from tests.tables import check_each

pytestmark = pytest.mark.usefixtures("quick_collections", "no_log")

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
