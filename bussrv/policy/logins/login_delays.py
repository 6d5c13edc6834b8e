"""How long the next login waits after failed ones: of one address, and of one address for one user.

Never of a user alone: then anybody could lock another one out. Pure; times are in seconds of a clock that never goes
back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from msgspec import Struct

MAX_KEYS = 10_000


class Delays(Struct, frozen=True):
    """How delays grow.

    :ivar free: failures that cost nothing.
    :ivar first: the delay after the next one; it doubles with each.
    :ivar most: the longest delay.
    :ivar forgotten: after so long without a failure all is forgotten.
    """

    free: int
    first: float
    most: float
    forgotten: float = 60.0

    def after(self, failures: int) -> float:
        """The delay after so many failures."""
        steps = failures - self.free - 1
        return 0.0 if steps < 0 else min(self.most, self.first * 2.0 ** min(steps, 64))


OF_ADDRESS = Delays(free=10, first=0.05, most=0.25)
"""Many users may share an address."""

OF_USER_AT_ADDRESS = Delays(free=3, first=0.1, most=0.25)
"""No longer: while others guess at the same address, the right secret waits for one of the checks that are left."""


class Failures:
    """Failures by key; those that failed longest ago are forgotten when there are too many."""

    def __init__(self, delays: Delays) -> None:
        self._delays = delays
        self._failed: OrderedDict[Hashable, tuple[int, float]] = OrderedDict()

    def due(self, key: Hashable) -> float:
        """When the next login of ``key`` may be checked."""
        failures, last = self._failed.get(key, (0, 0.0))
        return last + self._delays.after(failures) if failures else 0.0

    def has_failed(self, key: Hashable, now: float) -> bool:
        """Whether a login of ``key`` failed so lately that it is not forgotten."""
        return key in self._failed and now - self._failed[key][1] < self._delays.forgotten

    def failed(self, key: Hashable, now: float) -> None:
        """A login of ``key`` failed."""
        failures, last = self._failed.pop(key, (0, now))
        self._failed[key] = (1 if now - last >= self._delays.forgotten else failures + 1), now
        if len(self._failed) > MAX_KEYS:
            self._failed.popitem(last=False)

    def forget(self, key: Hashable) -> None:
        """A login of ``key`` succeeded."""
        self._failed.pop(key, None)
