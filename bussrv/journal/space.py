"""How much room the volume of the journal has, so that the journal never fills it.

Below ``min_free`` bytes nothing that is asked for is written. Facts (a session was lost) still are, down to half of
that: written they are few bytes, and kept in memory they would become many.
"""

from __future__ import annotations

from pathlib import Path

from bussrv.journal.files import FILES, Files
from bussrv.turns.clock import Clock
from bussrv.values import data_size

MIN_FREE = 1 << 30
"""By default so many bytes stay free, or ``MIN_PART`` of the volume if that is less."""

MIN_PART = 20
"""The part of the volume, one in so many."""

PART = 16
"""It is looked again after a part of ``min_free``, one in so many, was written. By as much more has to be free before
changes are written again."""

LOOK = 1_000_000
"""It is looked at most so often: microseconds."""


class Space:
    """Looks how much is free: at most once a second, and when much was written since.

    :param min_free: bytes that stay free; 0: none; ``None``: the default.
    :ivar free: how many bytes were free at the last look; ``None``: nobody knows.
    :ivar is_low: whether no changes are to be written, as far as was found at the last look.
    :ivar written: how many bytes were written since the start.
    """

    def __init__(self, directory: Path, min_free: int | None, clock: Clock, files: Files = FILES) -> None:
        self.free: int | None = None
        self.written = 0
        self._directory = directory
        self._wanted = min_free
        self._clock = clock
        self._files = files
        self._min_free = 0
        self.is_low = False
        self._looked_at = 0
        self._due = 0

    @property
    def usable(self) -> int | None:
        """How many bytes changes may still take; ``None``: nobody knows."""
        return None if self.free is None else max(0, self.free - self._min_free)

    def wrote(self, size: int) -> None:
        """So many bytes were written."""
        self.written += size

    def shortage(self) -> str | None:
        """Why no changes are to be written now, as a sentence without its end; ``None``: they may be."""
        if self._clock.mono() >= self._due or self.written - self._looked_at > self._min_free // PART:
            self._look()
        return self.sentence if self.is_low else None

    @property
    def sentence(self) -> str:
        """The free space and its place at the last look, and the space that has to stay free. Without a full stop."""
        free = "an unknown size" if self.free is None else data_size(self.free)
        return (
            f"{free} free on the disk of {self._directory}, but {data_size(self._min_free)} have to stay free "
            "(--journal-min-free); remove other files there"
        )

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing at all is to be written, not even facts."""
        return self.is_low and self.free is not None and self.free < self._min_free // 2

    def _look(self) -> None:
        self._due = self._clock.mono() + LOOK
        self._looked_at = self.written
        try:
            self.free, size = self._files.free(self._directory)
        except OSError:
            # The next write finds out what is wrong.
            self.free, self.is_low = None, False
            return
        self._min_free = min(MIN_FREE, size // MIN_PART) if self._wanted is None else self._wanted
        self.is_low = self.free < self._min_free + (self._min_free // PART if self.is_low else 0)
