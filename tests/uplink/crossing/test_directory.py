"""Advertisements of services that are merged say the same, and cost no more than they say."""

import time
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from bussrv.bus.links.paths import Paths
from bussrv.errors import Refused
from bussrv.uplink.crossing.directory import fold, merged

ids = st.sampled_from(["a1", "a2", None, 7])
names = st.sampled_from(["tv", "radio", "a/b", "", 7, "+"])
EVENTS = [
    "services/register",
    "services/register",
    "services/unregister",
    "routing/disconnect",
    "routing/subscribe/notify",
]
KEYS = {"routing-id": ids, "name": names, "names": st.lists(names, max_size=3), "answers": st.booleans()}
advertisements = st.builds(
    lambda event, fields, route: {"event": event, **fields, "route": route},
    st.sampled_from(EVENTS),
    st.fixed_dictionaries({}, optional=KEYS),
    st.sampled_from([["a1", "a"], ["a"], []]),
)


def folded(events):
    paths = Paths()
    for fields in events:
        with suppress(Refused):
            fold(paths, "a", fields)
    return {each: paths.best(each) for each in paths}


@given(st.lists(advertisements, max_size=12))
def test_what_is_merged_says_the_same(events):
    assert folded(merged(events)) == folded(events)


def test_many_services_one_by_one_cost_little():
    events = [
        {"event": "services/register", "routing-id": "a1", "name": f"s{number}", "route": ["a1", "a"]}
        for number in range(50_000)
    ]
    begin = time.process_time()
    assert len(folded(merged(events))["a1"].services) == 50_000
    assert time.process_time() - begin < 3
