"""Counts by key, and the key with most."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.counts.tally import Tally


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abcd")), max_size=60))
def test_the_fullest_is_one_with_most(steps: list[tuple[bool, str]]) -> None:
    tally: Tally[str] = Tally()
    model: Counter[str] = Counter()
    for is_more, key in steps:
        if is_more:
            tally.add(key)
            model[key] += 1
        elif model[key]:
            tally.remove(key)
            model[key] -= 1
        assert {each: tally.count(each) for each in "abcd"} == {each: model[each] for each in "abcd"}
        if model.total():
            assert model[tally.fullest()] == max(model.values())


def test_without_any_there_is_no_fullest() -> None:
    with pytest.raises(LookupError):
        Tally[str]().fullest()
