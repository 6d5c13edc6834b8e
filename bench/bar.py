"""Something that a bench holds its figures against, and how that is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Bar:
    """Something that should hold. :ivar ratio: at least 1 where it does."""

    what: str
    ratio: float

    @property
    def holds(self) -> bool:
        """Whether it does."""
        return self.ratio >= 1

    def as_json(self) -> dict[str, Any]:
        """What JSON has of it."""
        return {**asdict(self), "holds": self.holds}


def print_bars(found: Sequence[Bar]) -> None:
    """Which hold, and by how much."""
    print()
    for bar in found:
        print(f"{'holds' if bar.holds else 'MISSED':<8}{bar.ratio:>7.2f}  {bar.what}")
