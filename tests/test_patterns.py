"""Patterns of text, held against regular expressions, and what the worst of them take."""

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bussrv.bus.interest.interests import MAX_TYPE, Kind, mode_interest, rule_interest
from bussrv.bus.interest.matching import compile_interest
from bussrv.errors import OverLimit
from bussrv.patterns import OrderedWildcards, Ranges, SimplePattern, Wildcards, inner_matches, is_inner
from bussrv.settings import Settings
from bussrv.wire.objects import MAX_NATURES
from tests.bus import reference
from tests.tables import each_row

LIMITS = Settings()
LAST = "\U0010ffff"

few = st.text(st.sampled_from("ab*?é"), max_size=8)
texts = st.text(st.sampled_from(f"ab\0{LAST}"), max_size=4)


@given(few, few)
@example("", "")
@example("*", "")
@example("?", "")
@example("**a", "ba")
@example("*ab*ab", "abaab")
def test_inner_wildcards_are_as_regular_expressions_have_them(pattern, text):
    assert inner_matches(pattern, text) == reference.glob(pattern, text)


@given(st.lists(few, max_size=6), st.lists(few, min_size=1, max_size=6))
@example(["**"], ["", "a"])
@example(["*?"], ["", "a"])
@example(["a**", "*é"], ["a", "é", "b"])
def test_a_text_matches_if_one_of_the_patterns_does(patterns, candidates):
    wildcards = Wildcards(patterns)
    for text in candidates:
        assert wildcards.match(text) == any(reference.glob(pattern, text) for pattern in patterns)


@given(st.lists(few, max_size=6), st.lists(few, min_size=1, max_size=6))
@example(["*?", "**"], ["", "a"])
@example(["a**", "*é", "a?", "a*"], ["a", "é", "ab"])
def test_the_first_of_the_patterns_that_a_text_matches_counts(patterns, candidates):
    wildcards = OrderedWildcards(patterns)
    for text in candidates:
        matching = [place for place, pattern in enumerate(patterns) if reference.glob(pattern, text)]
        assert wildcards.first(text) == min(matching, default=len(patterns))


@given(st.lists(st.tuples(texts, st.booleans(), st.integers(0, 9))), st.lists(texts, min_size=1))
def test_ranges_find_the_lowest_rank_of_all_that_match(patterns, candidates):
    ranges = Ranges([SimplePattern(*each) for each in patterns], 10)
    for text in candidates:
        matching = [rank for own, is_prefix, rank in patterns if text == own or (is_prefix and text.startswith(own))]
        assert ranges.lowest(text) == min(matching, default=10)


@each_row("pattern", ["", "text/plain", "text/*", "*/png", "*", "**", "a**", "**a"])
def test_a_star_at_one_end_is_not_inside(pattern):
    assert not is_inner(pattern)


@each_row("pattern", ["?", "a*b", "*a*", "a?", "*?", "**a*", "*/*", "?*"])
def test_every_other_wildcard_is_inside(pattern):
    assert is_inner(pattern)


def test_how_long_patterns_with_wildcards_inside_are_is_limited():
    most = LIMITS.max_wildcard_characters
    plain = ["text/*", "*/png", "a" * MAX_TYPE, "*"]
    fitting = ["a*" + "b" * 18, "?" * (most - 20)]
    mode_interest("all", [*plain, *fitting], LIMITS)
    with pytest.raises(OverLimit) as refused:
        mode_interest("all", [*plain, *fitting, "a?"], LIMITS, "subscribe")
    assert (refused.value.limit, refused.value.value) == ("max-wildcard-characters", most)
    assert "subscribe" in refused.value.message


def worst_modes():
    most = min(LIMITS.max_wildcard_characters, MAX_TYPE)
    plain = [f"{'a' * length}b*" for length in range(LIMITS.max_patterns - 2)]
    return mode_interest("all", [*plain, "*b", ("*a" * most)[: most // 2 * 2 - 2] + "*b"], LIMITS)


def worst_rules():
    tests = [f"{mark}{'a' * length}b*" for length in range(LIMITS.max_patterns // 3) for mark in ("@", "#", "")]
    return rule_interest(tests, LIMITS)


@each_row("make", [worst_modes, worst_rules])
def test_the_worst_subscription_is_compared_in_no_time(make):
    """Some 20 microseconds, on the machine that this was measured on."""
    match = compile_interest(make())
    natures = tuple("a" * length for length in range(MAX_NATURES))
    kinds = [Kind(None, f"{'a' * 250}{number}", natures) for number in range(200)]
    began = time.process_time()
    assert not any(map(match, kinds))
    assert (time.process_time() - began) / len(kinds) < 0.001


@each_row("bomb", ["*a" * 20000 + "b", "*" * 40000 + "b", "*a?" * 10000 + "b", "?" * 40000 + "b", "a*" * 20000 + "b"])
def test_wildcard_bombs_take_no_time(bomb):
    began = time.process_time()
    assert not inner_matches(bomb, "a" * 40000)
    assert time.process_time() - began < 5
