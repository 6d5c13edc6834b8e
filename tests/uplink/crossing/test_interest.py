"""Interest: what is told is what is learnt, and what several want together is the union."""

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from bussrv.bus.links.interest_fields import MOST_NAMED
from bussrv.uplink.crossing.interest import Interest, Together, differences

names = st.sets(st.sampled_from(["tv", "radio", "hall/+", "hall/#", "n" * 255, *map(str, range(300))]), max_size=8)
types = st.none() | st.frozensets(st.sampled_from(["text/*", "image/png"]))
interests = st.builds(Interest, events=st.booleans(), types=types, services=names)


@given(st.lists(interests, min_size=1))
def test_differences_lead_from_one_interest_to_the_next(told):
    known, before = Interest(), None
    for now in told:
        for fields in differences(before, now, ["hall"]):
            assert len(str(fields)) < MOST_NAMED + 1000
            known.learn(fields)
        assert known == now
        assert list(differences(now, now, ["hall"])) == []
        before = now


def test_many_names_are_told_in_several_events():
    many = Interest(False, frozenset(), {f"{number:0255}" for number in range(1000)})
    events = list(differences(None, many, ["hall"]))
    assert len(events) > 5
    known = Interest()
    for fields in events:
        known.learn(fields)
    assert known == many


@given(st.lists(st.tuples(st.sampled_from("abc"), st.none() | interests, st.booleans())))
def test_together_is_the_union_of_what_each_wants(changes):
    """Whether servers tell it as a whole or as changes; and what is told of it leads there."""
    together, each, wanted, known_elsewhere = Together(), {}, {}, Interest()
    for server, interest, is_change in changes:
        if is_change and each.get(server) is not None and interest is not None:
            for fields in differences(each[server], interest, ["hall"]):
                assert together.learn(server, fields)
            assert wanted[server].services == interest.services
        else:
            wanted[server] = deepcopy(interest)
            together.set(server, wanted[server])
        each[server] = interest
        for fields in together.news(["net"]):
            known_elsewhere.learn(fields)
        known = [interest for interest in each.values() if interest is not None]
        no_types = any(one.types is None for one in known)
        types = None if no_types else frozenset().union(*(one.types for one in known))
        services = set().union(*(one.services for one in known))
        assert known_elsewhere == Interest(any(one.events for one in known), types, services)
        assert list(together.news(["net"])) == []


@given(
    st.dictionaries(
        st.sampled_from(["anew", "events", "types", "added", "removed"]),
        st.none() | st.integers() | st.text() | st.lists(st.integers()),
    )
)
def test_what_strangers_tell_does_no_harm(fields):
    wanted = Interest()
    wanted.learn(fields)
    assert isinstance(wanted.events, bool)
    assert all(isinstance(each, str) for each in wanted.services | (wanted.types or set()))
