"""Subjects: every name of a service is one, and comes back; what matches a pattern is subscribed to."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.service_patterns import is_pattern, matches
from bussrv.uplink.nats.subjects import Subjects, covers, level, token

SUBJECTS = Subjects("office")
names = st.text(min_size=1, max_size=40) | st.sampled_from(
    ["a..b", "x.*", ">", "a/", "/", "//", "%", "ü/ä", "a b", "tv"]
)
few = st.text("ab/", min_size=1, max_size=5)
patterns = st.lists(st.sampled_from(["a", "b", "+", ""]), min_size=1, max_size=3).flatmap(
    lambda levels: st.sampled_from(["/".join(levels), "/".join([*levels, "#"]), "#"])
)


@given(names)
def test_a_service_is_a_subject_and_back(name):
    subject = SUBJECTS.publication(name)
    assert re.fullmatch(r"bus\.office\.pub(\.[A-Za-z0-9_%-]+)+", subject)
    assert SUBJECTS.service(subject) == name
    assert level(token(name)) == name
    assert SUBJECTS.service(SUBJECTS.of("obj", name)) is None
    assert covers(SUBJECTS.of("obj"), SUBJECTS.of("obj", name))


@given(names, names)
def test_two_services_are_two_subjects(one, other):
    assert (SUBJECTS.publication(one) == SUBJECTS.publication(other)) == (one == other)


@given(patterns, few)
def test_what_matches_a_pattern_is_subscribed_to(pattern, name):
    subject = SUBJECTS.publication(name)
    is_covered = any(covers(each, subject) for each in SUBJECTS.wanted([pattern]))
    if not is_pattern(name):
        assert is_covered == matches(pattern, name)


@pytest.mark.parametrize("net", ["", "a.b", "x" * 33, "*", "ä"])
def test_a_net_has_a_plain_name(net):
    with pytest.raises(ValueError, match="the name of a net"):
        Subjects(net)
