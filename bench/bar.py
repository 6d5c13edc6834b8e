"""Something that a bench holds its figures against."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bar:
    """Something that should hold. :ivar ratio: at least 1 where it does."""

    what: str
    ratio: float

    @property
    def holds(self) -> bool:
        """Whether it does."""
        return self.ratio >= 1
