"""Every hostile input, and what is to come of it."""

from __future__ import annotations

from tests.formats.objects.hostile import cases_attributes, cases_floods, cases_framing
from tests.formats.objects.hostile.rows import Row, Vocabulary

ROWS = (*cases_framing.ROWS, *cases_attributes.ROWS, *cases_floods.ROWS)


def rows_for(vocabulary: Vocabulary) -> list[Row]:
    """The inputs that a vocabulary is tried with."""
    return [row for row in ROWS if row.is_for(vocabulary)]
