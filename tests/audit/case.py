"""A small journal, and what is to be found in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bussrv.journal.header import Damage
from bussrv.journal.segment import list_segments
from tests.audit.journals import Line, write_journal

Expected = list[tuple[str, dict[str, Any]]]


@dataclass
class Case:
    """A journal. It is named like its server; the segments are named in a row unless ``first_seqs`` says otherwise.

    :ivar damage: what becomes of its segments, which it is given, once they are written.
    """

    expected: Expected
    segments: Sequence[Sequence[Line]]
    first_seqs: Sequence[int] | None = None
    damage: Callable[..., object] | None = None
    salvaged: Damage | None = None

    def write(self, directory: Path) -> Path:
        """Make it be there."""
        write_journal(directory, *self.segments, first_seqs=self.first_seqs, salvaged=self.salvaged)
        if self.damage is not None:
            self.damage(*list_segments(directory))
        return directory
