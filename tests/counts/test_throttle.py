"""How often what strangers cause may be written down."""

from collections import defaultdict
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.counts import throttle
from bussrv.counts.throttle import Throttle


class Reference:
    """The same in exact arithmetic: what it says of each call, from all the calls before."""

    def __init__(self, rate, burst):
        self._rate, self._burst = Fraction(rate), burst
        self._tokens = defaultdict(lambda: Fraction(burst))
        self._since = {}
        self._held_back = defaultdict(int)

    def admit(self, key, now):
        grown = self._tokens[key] + (now - self._since.get(key, now)) * self._rate
        self._tokens[key], self._since[key] = min(Fraction(self._burst), grown), now
        if self._tokens[key] < 1:
            self._held_back[key] += 1
            return None
        self._tokens[key] -= 1
        return self._held_back.pop(key, 0)


# Eighths, which floating point has exactly.
eighths = st.integers(0, 40).map(lambda number: Fraction(number, 8))
calls = st.lists(st.tuples(st.sampled_from("abc"), eighths), max_size=100)


@given(calls, st.sampled_from([0.5, 1.0, 2.0, 8.0]), st.integers(1, 5))
def test_it_is_a_token_bucket_per_key(calls, rate, burst):
    now = Fraction(0)
    bucket, reference = Throttle(rate, burst, lambda: float(now)), Reference(rate, burst)
    for key, pause in calls:
        now += pause
        assert bucket.admit(key) == reference.admit(key, now)


@given(calls, st.sampled_from([0.1, 1.0, 10.0]), st.integers(1, 5))
def test_nobody_gets_more_than_the_rate_and_all_is_counted(calls, rate, burst):
    now, admitted, held_back, told = Fraction(0), defaultdict(list), defaultdict(int), defaultdict(int)
    bucket = Throttle(rate, burst, lambda: float(now))
    for key, pause in calls:
        now += pause
        suppressed = bucket.admit(key)
        if suppressed is None:
            held_back[key] += 1
        else:
            admitted[key].append(now)
            told[key] += suppressed
            assert told[key] == held_back[key]
    for times in admitted.values():
        for first, start in enumerate(times):
            for last, end in enumerate(times[first:], start=first):
                assert last - first + 1 <= burst + float(end - start) * rate + 1e-6


@given(st.lists(st.integers(-10_000, 10_000), max_size=50), st.integers(1, 5))
def test_however_the_clock_is_set_only_passed_time_gives_tokens(steps, burst):
    now, passed, admitted = 0.0, 0.0, 0
    bucket = Throttle(1.0, burst, lambda: now)
    for step in steps:
        now += step
        passed += max(0, step)
        had = bucket.admit("a") is not None
        admitted += had
        assert had or step < 1
        assert admitted <= burst + passed


def test_keys_do_not_share():
    bucket = Throttle(1.0, 2, lambda: 0.0)
    assert [bucket.admit("a") for _ in range(3)] == [0, 0, None]
    assert bucket.admit("b") == 0


def test_what_was_held_back_is_told_once():
    now = 0.0
    bucket = Throttle(1.0, 1, lambda: now)
    assert [bucket.admit("a") for _ in range(4)] == [0, None, None, None]
    now = 1.0
    assert bucket.admit("a") == 3
    now = 2.0
    assert bucket.admit("a") == 0


def test_a_clock_that_is_set_back_admits_nothing_more():
    now = 10.0
    bucket = Throttle(1.0, 1, lambda: now)
    assert bucket.admit("a") == 0
    now = 0.0
    assert bucket.admit("a") is None


@pytest.mark.parametrize("strangers", [4, 1000])
def test_keys_are_remembered_only_so_long(monkeypatch, strangers):
    monkeypatch.setattr(throttle, "MAX_KEYS", 3)
    bucket = Throttle(1.0, 1, lambda: 0.0)
    for number in range(strangers):
        assert bucket.admit(number) == 0
    assert len(bucket._buckets) == 3
    assert bucket.admit(strangers - 1) is None
    # The one that was heard of longest ago is forgotten.
    assert bucket.admit(0) == 0


@given(calls, st.sampled_from([0.5, 1.0, 8.0]), st.integers(1, 5), st.lists(st.integers(0, 7), min_size=100))
def test_to_take_several_tokens_is_to_ask_for_each(calls, rate, burst, wanted):
    now = Fraction(0)
    several, one_by_one = (Throttle(rate, burst, lambda: float(now)) for _ in range(2))
    for (key, pause), number in zip(calls, wanted, strict=False):
        now += pause
        assert several.take(key, number) == sum(one_by_one.admit(key) is not None for _ in range(number))


def test_what_was_not_taken_is_held_back():
    now = 0.0
    bucket = Throttle(1.0, 2, lambda: now)
    assert bucket.take("a", 5) == 2
    now = 1.0
    assert bucket.admit("a") == 3
    assert bucket.take("a", 1) == 0


def test_a_clock_that_is_set_back_gives_no_tokens_away():
    now = 10.0
    bucket = Throttle(1.0, 1, lambda: now)
    assert bucket.take("a", 3) == 1
    now = 0.0
    assert bucket.take("a", 3) == 0


def test_only_so_many_keys_that_took_tokens_are_remembered():
    bucket = Throttle(1.0, 1, lambda: 0.0, max_keys=3)
    assert [bucket.take(number, 1) for number in range(5)] == [1] * 5
    assert len(bucket._buckets) == 3
    assert [bucket.take(number, 1) for number in (4, 0)] == [0, 1]
