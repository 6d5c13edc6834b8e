"""Token buckets: how often something may be journaled or logged, so that no client can fill the disk."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

STRANGER_RATE = 10.0
"""Records of a kind that one address may cause a second, after its burst."""

STRANGER_BURST = 50

LOG_RATE = 0.1
"""How often a second the log repeats a message, after its first ``LOG_BURST``."""

LOG_BURST = 5

MAX_KEYS = 10_000


class Throttle:
    """A token bucket per key; remembers how much it held back.

    :param rate: tokens a second.
    :param burst: tokens a key begins with, and the most it can have.
    :param seconds: a clock, in seconds; if it goes back, no time has passed.
    :param max_keys: how many keys are remembered; beyond that, the key used longest ago is forgotten.
    :param forgotten: is called with each forgotten key, and how much was held back of it.
    """

    def __init__(
        self,
        rate: float,
        burst: int,
        seconds: Callable[[], float],
        max_keys: int | None = None,
        forgotten: Callable[[Hashable, int], None] = lambda key, held_back: None,
    ) -> None:
        self.limit(rate, burst)
        self._seconds = seconds
        self._forgotten = forgotten
        self._max_keys = MAX_KEYS if max_keys is None else max_keys
        self._buckets: OrderedDict[Hashable, tuple[float, float, int]] = OrderedDict()

    def limit(self, rate: float, burst: int) -> None:
        """Have other limits from now on."""
        self._rate = rate
        self._burst = float(burst)

    def admit(self, key: Hashable, times: int = 1) -> int | None:
        """Take a token of ``key``.

        :param times: how many calls this one stands for. One of them is admitted at the most, the others are held back.
        :returns: how many calls were held back since the last one admitted, or ``None`` when this one is held back.
        """
        tokens, now, held_back = self._refilled(key)
        if tokens < 1.0:
            self._keep(key, (tokens, now, held_back + times))
            return None
        self._keep(key, (tokens - 1.0, now, times - 1))
        return held_back

    def take(self, key: Hashable, wanted: int) -> int:
        """Take as many tokens of ``key`` as there are, up to ``wanted``. :returns: how many."""
        tokens, now, held_back = self._refilled(key)
        taken = wanted if wanted <= tokens else max(0, int(tokens))
        self._keep(key, (tokens - taken, now, held_back + wanted - taken))
        return taken

    def _refilled(self, key: Hashable) -> tuple[float, float, int]:
        """Take out the bucket of ``key``, filled up until now: its tokens, the time, and how much was held back."""
        now = self._seconds()
        tokens, since, held_back = self._buckets.pop(key, (self._burst, now, 0))
        return min(self._burst, tokens + max(0.0, now - since) * self._rate), now, held_back

    def _keep(self, key: Hashable, bucket: tuple[float, float, int]) -> None:
        self._buckets[key] = bucket
        if len(self._buckets) > self._max_keys:
            oldest, (_, _, held_back) = self._buckets.popitem(last=False)
            if held_back:
                self._forgotten(oldest, held_back)
