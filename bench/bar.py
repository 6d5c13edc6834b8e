"""Bars: the least figures that a bench accepts, and a table of which of them hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Bar:
    """A figure that a bench requires.

    :ivar what: the requirement in words, with the figure.
    :ivar ratio: at least 1 if the bar holds.
    """

    what: str
    ratio: float

    @property
    def holds(self) -> bool:
        """Whether the figure is good enough."""
        return self.ratio >= 1

    def as_json(self) -> dict[str, Any]:
        """The bar as an object of JSON."""
        return {**asdict(self), "holds": self.holds}


def print_bars(found: Sequence[Bar]) -> None:
    """Print which bars hold, and by how much."""
    print()
    for bar in found:
        print(f"{'holds' if bar.holds else 'MISSED':<8}{bar.ratio:>7.2f}  {bar.what}")
