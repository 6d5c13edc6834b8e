"""Outlets: each plan's groups are the groups of its outlets, however many plans divide them."""

from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv.bus.groups.fanout import OBJECT_FRAMES, Group
from bussrv.bus.routing.compiled import MOST_OUTLETS, Outlets
from tests.size import sized

GROUPS = [Group(OBJECT_FRAMES) for _ in range(24)]

sets = st.integers(0, (1 << len(GROUPS)) - 1) | st.integers(0, 31)
marks = st.sampled_from([(), ("cellar",), ("attic", "cellar")])


class Table:
    """What the plans of a table were given: sets of outlets, which grow when an outlet is split.

    :ivar plans: the groups of each plan, the marks that it was made with, and its set of outlets.
    """

    def __init__(self):
        self.outlets = Outlets(self.split)
        self.plans = []

    def split(self, former, made):
        for plan in self.plans:
            plan[2] |= (plan[2] >> former & 1) << made

    def add(self, groups, marked):
        chosen = self.outlets.of(groups, marked)
        if chosen is not None:
            self.plans.append([groups, marked, chosen])
        return chosen

    def state(self):
        return [list(groups) for groups in self.outlets.groups], list(self.outlets.marks)


def members(number, of=GROUPS):
    """A set of groups, as the bits of a number."""
    return [each for place, each in enumerate(of) if number >> place & 1]


@settings(max_examples=sized(100))
@given(st.lists(st.tuples(sets, st.integers(0, 7), marks), max_size=8))
def test_plans_have_exactly_the_groups_of_their_outlets(steps):
    table = Table()
    for chosen, with_marks, names in steps:
        wanted, marked = members(chosen), dict.fromkeys(members(with_marks), names)
        groups_before, marks_before = before = table.state()
        places = {group: place for place, groups in enumerate(groups_before) for group in groups}
        divided = {(places.get(group), marked.get(group, ())) for group in wanted}
        if table.add(wanted, marked) is None:
            is_marked_otherwise = any(place is not None and marks_before[place] != own for place, own in divided)
            whole = sum(set(groups) <= set(wanted) for groups in groups_before)
            assert is_marked_otherwise or len(groups_before) + len(divided) - whole > MOST_OUTLETS
            assert table.state() == before
        outlets = table.outlets
        assert len(outlets.groups) == len(outlets.marks) <= MOST_OUTLETS
        found = [group for groups in outlets.groups for group in groups]
        assert len(found) == len(set(found))
        assert all(outlets.groups)
        for planned, marks_then, number in table.plans:
            assert number >> len(outlets.groups) == 0
            assert {group for groups in members(number, outlets.groups) for group in groups} == set(planned)
            for groups, own in zip(members(number, outlets.groups), members(number, outlets.marks), strict=True):
                assert {marks_then.get(group, ()) for group in groups} == {own}


def test_a_table_has_room_for_so_many_outlets_and_no_more():
    table = Table()
    for number in range(MOST_OUTLETS):
        assert table.add([GROUPS[number]], {}) == 1 << number
    assert table.add([GROUPS[MOST_OUTLETS]], {}) is None
    assert table.add(GROUPS[:MOST_OUTLETS], {}) == (1 << MOST_OUTLETS) - 1
    assert table.add(GROUPS[:1], {GROUPS[0]: ("cellar",)}) is None
    assert table.add(GROUPS[:1], {}) == 1
