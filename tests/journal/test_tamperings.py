"""The matrix of tamperings is judged as the page says, and what the page says makes sense."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.inspection.journals import KEY
from tests.tamperings.catalogue import MATRIX
from tests.tamperings.matrix import CELLS, SEALED, Cell, codes, judged, write_cell
from tests.tamperings.page import OUTCOMES, PAGE, Outcomes, with_tables

SOME = CELLS[7::37]
"""Of every kind, shape, place and effort."""


@pytest.fixture(scope="module")
def expected() -> Outcomes:
    found: Outcomes = json.loads(OUTCOMES.read_bytes())
    return found


def differences(root: Path, cells: Iterable[Cell], expected: Outcomes) -> Iterator[object]:
    for cell in cells:
        directory = write_cell(root, cell)
        found = None if directory is None else codes(judged(directory))
        wanted = expected[cell.kind.name][cell.column][cell.place]
        if found != wanted:
            yield cell, found, wanted


@pytest.mark.dear
def test_some_of_the_matrix_is_judged_as_the_page_says(expected: Outcomes, tmp_path: Path) -> None:
    assert list(differences(tmp_path, SOME, expected)) == []


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_matrix_is_judged_as_the_page_says(expected: Outcomes, tmp_path: Path) -> None:
    assert list(differences(tmp_path, CELLS, expected)) == []


def test_with_the_key_all_that_was_sealed_anew_is_found(tmp_path: Path) -> None:
    for cell in [each for each in CELLS if (each.shape, each.effort) == ("signed", SEALED)][::11]:
        directory = write_cell(tmp_path, cell)
        assert directory is None or "bad-manifest" in codes(judged(directory, KEY.public)), cell


def test_the_kinds_are_enough() -> None:
    assert len({each.name for each in MATRIX}) == len(MATRIX) >= 60


def test_the_page_has_the_outcomes(expected: Outcomes) -> None:
    assert {*expected} == {each.name for each in MATRIX}
    assert PAGE.read_text() == with_tables(PAGE.read_text(), expected)


def test_seals_that_stay_show_everything(expected: Outcomes) -> None:
    """Unless what is done needs no seal to change."""
    missed = {
        (name, column, place)
        for name, column, place, found in outcomes(expected)
        if found == [] and column.startswith(("unsigned", "signed")) and SEALED not in column
    }
    assert {name for name, _, _ in missed} == {"a segment removed, and its removal noted"}
    assert {column for _, column, _ in missed} == {"unsigned, alone"}


def test_without_seals_only_what_a_server_could_write_is_missed(expected: Outcomes) -> None:
    explained = {each.name for each in MATRIX if each.why}
    missed = {name for name, column, _, found in outcomes(expected) if found == [] and SEALED not in column}
    assert missed <= explained
    assert explained - missed == {each.name for each in MATRIX if "supersedes" in each.name}


def outcomes(expected: Outcomes) -> Iterator[tuple[str, str, str, Sequence[str] | None]]:
    for name, columns in expected.items():
        for column, places in columns.items():
            yield from ((name, column, place, found) for place, found in places.items())
