"""Times counted by size, and quantiles of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bussrv.counts.histogram import SECONDS, Histogram, quantile

TIMES = st.lists(st.floats(0, 9.9), min_size=1, max_size=50)


@given(TIMES, st.sampled_from([0.01, 0.5, 0.99, 1.0]))
def test_a_quantile_is_in_the_bucket_of_the_true_one(times: list[float], share: float) -> None:
    histogram = Histogram()
    for each in times:
        histogram.observe(each)
    assert sum(histogram.counts) == len(times)
    assert abs(histogram.total - sum(times)) < 1e-6
    found = quantile(histogram.counts, share)
    assert found is not None
    least = next(each for each in sorted(times) if sum(time <= each for time in times) >= share * len(times))
    bucket = sum(bound < least for bound in SECONDS)
    assert (SECONDS[bucket - 1] if bucket else 0.0) <= found <= SECONDS[bucket]


def test_ends() -> None:
    histogram = Histogram()
    assert quantile(histogram.counts, 0.5) is None
    histogram.observe(1000.0)
    assert quantile(histogram.counts, 0.5) == SECONDS[-1] == 10.0
    assert SECONDS[0] == 1e-5
    assert list(SECONDS) == sorted(set(SECONDS))
