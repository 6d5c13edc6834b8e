"""Patterns over names of services: by themselves, and found among many, held against regular expressions."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from bussrv.bus.interest.pattern_index import PatternIndex, PatternMap
from bussrv.service_patterns import is_pattern, matches
from tests.bus import reference

levels = st.sampled_from(["", "a", "b", "bus", "$a", "C#", "a+", "é"])
names = st.lists(levels, min_size=1, max_size=4).map("/".join)
patterns = st.builds(
    lambda first, rest: "/".join([*first, *rest]),
    st.lists(levels | st.just("+"), max_size=3),
    st.sampled_from([["#"], ["+"], ["+", "b"]]),
)


@given(patterns, names)
def test_a_pattern_matches_as_regular_expressions_have_it(pattern, name):
    assert is_pattern(pattern)
    assert matches(pattern, name) == reference.names(pattern, name)


@given(names)
def test_a_name_has_no_wildcard_as_a_level(name):
    assert not is_pattern(name)


class Index(RuleBasedStateMachine):
    """Patterns come and go, and names and patterns in a map; in between names are looked up."""

    def __init__(self):
        super().__init__()
        self.index = PatternIndex()
        self.patterns = set()
        self.map = PatternMap()

    @rule(pattern=patterns)
    def add(self, pattern):
        self.index.add(pattern)
        self.patterns.add(pattern)

    @rule(data=st.data())
    def remove(self, data):
        if self.patterns:
            pattern = data.draw(st.sampled_from(sorted(self.patterns)))
            self.index.remove(pattern)
            self.patterns.remove(pattern)

    @rule(wanted=names | patterns, value=st.integers())
    def put(self, wanted, value):
        self.map[wanted] = wanted, value

    @rule(data=st.data())
    def drop(self, data):
        if self.map:
            del self.map[data.draw(st.sampled_from(sorted(self.map)))]

    @rule(name=names)
    def find_values(self, name):
        expected = [value for wanted, value in self.map.items() if wanted == name or matches(wanted, name)]
        assert sorted(self.map.matching(name)) == sorted(expected)

    @rule(name=names)
    def find(self, name):
        expected = sorted(each for each in self.patterns if matches(each, name))
        assert sorted(self.index.matching(name)) == expected

    def teardown(self):
        for each in self.patterns:
            self.index.remove(each)
        assert self.index._root.edges == {}


TestIndex = Index.TestCase
TestIndex.settings = settings(stateful_step_count=40)
