"""The ages of closed segments, by clocks that may be set."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bussrv.journal.manifest import Seal
from bussrv.turns.clock import Clock


class Ages:
    """How many microseconds ago a moment of each closed segment was.

    The wall clock is read once for a segment. From then on the monotonic clock counts, so that a wall clock that is set
    makes no segment older. A segment of this boot is never older than this boot.

    :param moment: of a segment, in UTC microseconds; ``None``: nobody knows.
    """

    def __init__(self, clock: Clock, moment: Callable[[Seal], int | None]) -> None:
        self._clock = clock
        self._moment = moment
        self._begin = clock.mono()
        self._since: dict[int, int] | None = None

    def take(self, sealed: Mapping[int, Seal]) -> None:
        """Learn of closed segments. Those of the first call are of earlier boots, or may be."""
        is_first = self._since is None
        since = self._since = {} if self._since is None else self._since
        for number in sealed.keys() - since.keys():
            moment = self._moment(sealed[number])
            age = 0 if moment is None else max(0, self._clock.utc() - moment)
            now = self._clock.mono()
            since[number] = now - (age if is_first else min(age, now - self._begin))

    def of(self, segment: int) -> int:
        """The age of a segment that was taken."""
        return self._clock.mono() - (self._since or {})[segment]

    def forget(self, segment: int) -> None:
        """A segment is removed."""
        (self._since or {}).pop(segment, None)
