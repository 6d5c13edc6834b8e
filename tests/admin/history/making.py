"""Samples for tests of the history."""

from __future__ import annotations

from bussrv.admin.history.columns import GAUGES, RATES, Sample
from bussrv.counts.histogram import SECONDS

NONE = tuple([0] * (len(SECONDS) + 1))
EPOCH = 1_700_000_000_000_000


def sample(second: float, total: float = 0, gauge: float = 0, *, utc: int | None = None) -> Sample:
    """A sample so many seconds after the first, with the same value for all totals, and one for all gauges."""
    time = EPOCH + round(second * 1_000_000) if utc is None else utc
    return Sample(time, second, (total,) * len(RATES), (gauge,) * len(GAUGES), (NONE, NONE))
