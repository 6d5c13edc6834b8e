"""How often what strangers cause may be written down: so that nobody can fill the journal from outside."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

STRANGER_RATE = 10.0
"""How many records of a kind a second one address may cause, once its burst is used up."""

STRANGER_BURST = 50

MAX_KEYS = 10_000


class Throttle:
    """A token bucket per key; remembers how much it held back.

    :param rate: tokens a second.
    :param burst: tokens a key begins with, and the most it can have.
    :param seconds: a clock, in seconds.
    :param max_keys: how many keys are remembered; beyond it those that were used longest ago begin anew.
    """

    def __init__(self, rate: float, burst: int, seconds: Callable[[], float], max_keys: int | None = None) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._seconds = seconds
        self._max_keys = MAX_KEYS if max_keys is None else max_keys
        self._buckets: OrderedDict[Hashable, tuple[float, float, int]] = OrderedDict()

    def admit(self, key: Hashable) -> int | None:
        """Take a token of ``key``.

        :returns: how many calls were held back since the last one admitted, or ``None`` when this one is held back.
        """
        tokens, now, held_back = self._refilled(key)
        if tokens < 1.0:
            self._keep(key, (tokens, now, held_back + 1))
            return None
        self._keep(key, (tokens - 1.0, now, 0))
        return held_back

    def take(self, key: Hashable, wanted: int) -> int:
        """Take as many tokens of ``key`` as there are, up to ``wanted``. :returns: how many."""
        tokens, now, held_back = self._refilled(key)
        taken = wanted if wanted <= tokens else max(0, int(tokens))
        self._keep(key, (tokens - taken, now, held_back + wanted - taken))
        return taken

    def _refilled(self, key: Hashable) -> tuple[float, float, int]:
        """The bucket of ``key`` as it is now, taken out: tokens, when that is, and how much was held back."""
        now = self._seconds()
        tokens, since, held_back = self._buckets.pop(key, (self._burst, now, 0))
        return min(self._burst, tokens + (now - since) * self._rate), now, held_back

    def _keep(self, key: Hashable, bucket: tuple[float, float, int]) -> None:
        self._buckets[key] = bucket
        if len(self._buckets) > self._max_keys:
            self._buckets.popitem(last=False)
