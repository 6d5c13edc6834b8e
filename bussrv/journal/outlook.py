"""How long the disk of the journal lasts at the present rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from bussrv.journal.closed import stored_size
from bussrv.journal.manifest import Seal
from bussrv.journal.segment import first_seq, list_segments
from bussrv.journal.space import Space
from bussrv.turns.clock import Clock

DAY = 86_400.0

MEMORY = 3600.0
"""The rate is that of about the last so many seconds: what was before counts ever less."""

LEAST = 60.0
"""How many seconds there have to be before anything is said of a rate."""

LOOKED_AT = 7 * DAY
"""How far back an earlier boot is looked at for a rate to begin with, in seconds."""


class Rate:
    """Bytes a second, of lately.

    :param now: seconds of some clock.
    """

    def __init__(self, now: float, size: float = 0.0, seconds: float = 0.0) -> None:
        part = min(1.0, MEMORY / seconds) if seconds else 0.0
        self._bytes, self._seconds = size * part, seconds * part
        self._now = now

    def add(self, size: int, now: float) -> None:
        """So many bytes were written since the last time."""
        passed = now - self._now
        if passed <= 0:
            return
        kept = math.exp(-passed / MEMORY)
        # Bytes that came evenly in that time count as if they had been added all along.
        weight = MEMORY / passed * (1 - kept)
        self._bytes = self._bytes * kept + size * weight
        self._seconds = self._seconds * kept + passed * weight
        self._now = now

    def value(self) -> float | None:
        """The rate; ``None``: it is too early to say."""
        return self._bytes / self._seconds if self._seconds >= LEAST else None


class Outlook(Struct, frozen=True):
    """How long it lasts.

    :ivar bytes_per_day: the present rate; ``None``: it is too early to say.
    :ivar days_left: ``None``: nobody knows, or for ever.
    :ivar is_bounded: whether retention keeps the journal smaller than what there is room for.
    """

    bytes_per_day: float | None = None
    days_left: float | None = None
    is_bounded: bool = False

    def report(self) -> dict[str, Any]:
        """For ``bus/statistics``: rounded, so that it does not change all the time."""
        found: dict[str, Any] = {}
        if self.bytes_per_day is not None:
            found["bytes-per-day"] = int(_rounded(self.bytes_per_day))
        if self.days_left is not None:
            found["days-left"] = _rounded(self.days_left)
        if self.is_bounded:
            found["bounded"] = True
        return found

    def __str__(self) -> str:
        """For people."""
        if self.bytes_per_day is None:
            return "too young to say for how many days its disk lasts"
        rate = f"at {_rounded(self.bytes_per_day / 1e6):g} MB a day"
        if self.is_bounded:
            return f"{rate}, kept small enough by retention"
        if self.days_left is None:
            return rate
        return f"{rate} its disk lasts {_rounded(self.days_left):g} days"


class Growth:
    """Follows how fast the journal grows.

    :param space: how much room there is, and how much was written.
    :param closed: the seals of the segments that are closed.
    :param retain_age: as in :class:`bussrv.journal.upkeep.UpkeepPolicy`; so is ``retain_bytes``.
    :param is_held: whether retention waits until segments are shipped.
    """

    def __init__(
        self,
        directory: Path,
        space: Space,
        closed: Iterable[Seal],
        clock: Clock,
        *,
        retain_age: float | None = None,
        retain_bytes: int | None = None,
        is_held: Callable[[], bool] = lambda: False,
    ) -> None:
        self._is_held = is_held
        self._space = space
        self._clock = clock
        self._retain_age = retain_age
        self._retain_bytes = retain_bytes
        sizes = {first_seq(path): stored_size(path) for path in list_segments(directory)}
        self._size = sum(sizes.values())
        self._counted = space.written
        self._rate = Rate(self._seconds(), *self._before(sizes, closed))
        space.shortage()

    def outlook(self) -> Outlook:
        """How it looks now."""
        written = self._space.written
        self._rate.add(written - self._counted, self._seconds())
        self._size += written - self._counted
        self._counted = written
        rate, usable = self._rate.value(), self._space.usable
        if rate is None:
            return Outlook()
        per_day = rate * DAY
        most = self._most(rate)
        if usable is None:
            return Outlook(per_day)
        if most is not None and most - self._size <= usable:
            return Outlook(per_day, is_bounded=True)
        return Outlook(per_day, usable / per_day if per_day >= 1 else None)

    def _most(self, rate: float) -> float | None:
        """How large retention lets the journal become."""
        if self._is_held():
            return None
        bounds = [self._retain_bytes, None if self._retain_age is None else rate * self._retain_age]
        return min((each for each in bounds if each is not None), default=None)

    def _before(self, sizes: dict[int, int], closed: Iterable[Seal]) -> tuple[float, float]:
        """The bytes that earlier boots wrote since the end of a recent segment, and how long ago that was."""
        now = self._clock.utc()
        ended = [
            (each.last_time, each.segment)
            for each in closed
            if each.last_time is not None and 0 <= now - each.last_time <= LOOKED_AT * 1_000_000
        ]
        if not ended:
            return 0.0, 0.0
        since, oldest = min(ended)
        return sum(size for number, size in sizes.items() if number > oldest), (now - since) / 1_000_000

    def _seconds(self) -> float:
        return self._clock.mono() / 1_000_000


def _rounded(number: float) -> float:
    """Two digits that say something."""
    return float(f"{number:.2g}")
