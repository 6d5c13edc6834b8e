"""How large the dearest tests are: a fifth under ``make test``, whole under ``make test-full``, which sets
``TEST_SIZE=full``, and a third of that under ``make check``, which sets ``TEST_SIZE=small``.

What costs by the number of its examples, kills, rows or clients gets that number from here. What shows in another way
what others show is a row that only ``make test-full`` runs: :func:`further`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

FULL = os.environ.get("TEST_SIZE") == "full"
_OF_THAT = 3 if os.environ.get("TEST_SIZE") == "small" else 1


def sized(number: int, share: int = 5) -> int:
    """``number`` at full size, otherwise a fifth of it, or another share, rounded up."""
    return number if FULL else -(-number // (share * _OF_THAT))


def sample(rows: Sequence[T], share: int = 5, first: int = 0) -> Sequence[T]:
    """All rows at full size, otherwise every fifth, or another share.

    :param first: the index of the first one, modulo the share.
    """
    step = 1 if FULL else share * _OF_THAT
    return rows[first % step :: step]


def further(rows: Iterable[Any], first: int = 1) -> list[Any]:
    """The rows of a parametrized test, of which only ``first`` are run by ``make test``."""
    given = list(rows)
    return [*given[:first], *(pytest.param(row, marks=pytest.mark.long) for row in given[first:])]
