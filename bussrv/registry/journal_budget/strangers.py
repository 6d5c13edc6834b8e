"""A limited rate for records that any client can cause: refusals, limits, failed logins. So nobody fills the journal.

There is a rate for each address and kind of event, and a larger one for each kind over all addresses. Events beyond it
are only counted, and the next record of that kind gives their number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import cast

from bussrv.addresses import address_key
from bussrv.counts.throttle import Throttle
from bussrv.events import Event

BURST = 5
"""The burst of an address, in seconds at its rate."""

TOTAL_BURST = 10
"""The burst of all addresses together, in seconds at their rate."""


class Strangers:
    """Decides which events are journaled.

    :param rate: records a second of each kind and address.
    :param total_rate: records a second of each kind.
    :param seconds: a clock, in seconds.
    """

    def __init__(self, rate: int, total_rate: int, seconds: Callable[[], float]) -> None:
        self._each = Throttle(rate, BURST * rate, seconds, forgotten=self._forgotten)
        self._all = Throttle(total_rate, TOTAL_BURST * total_rate, seconds)
        self._left_out: Counter[type[Event]] = Counter()

    def admit(self, event: Event, times: int = 1) -> int | None:
        """Decide about an event that happened ``times`` times and would be written once.

        :returns: how many such events were left out before this one; ``None``: this one is left out.
        """
        kind = type(event)
        left_out = self._each.admit((event.peer and address_key(event.peer), kind), times)
        if left_out is None:
            return None
        if not self._all.take(kind, 1):
            self._left_out[kind] += 1 + left_out
            return None
        return left_out + self._left_out.pop(kind, 0)

    def leave_out(self, event: Event, times: int = 1) -> None:
        """Only count an event that happened ``times`` times."""
        self._left_out[type(event)] += times

    def _forgotten(self, key: Hashable, left_out: int) -> None:
        self._left_out[cast("tuple[str, type[Event]]", key)[1]] += left_out
