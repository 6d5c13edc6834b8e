"""How large the dearest tests are: a third, and whole under ``make test-full``, which sets ``TEST_SIZE=full``.

What costs by the number of its examples, kills, rows or clients gets that number from here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

FULL = os.environ.get("TEST_SIZE") == "full"


def sized(number: int) -> int:
    """``number`` at full size, otherwise a third of it, rounded up."""
    return number if FULL else -(-number // 3)


def sample(rows: Sequence[T]) -> Sequence[T]:
    """All rows at full size, otherwise every third, starting with the first."""
    return rows if FULL else rows[::3]
