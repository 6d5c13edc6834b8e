"""The topics of sessions and services: one for each, and no other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bussrv.service_patterns import matches
from bussrv.services.discovery.presence import PresenceKind, Present, kinds_of, present_of
from bussrv.wire.mqtt.topics import is_name
from tests.tables import each_row

names = st.text("ab/+#%2BF3$é", min_size=1, max_size=8)
presents = st.builds(Present, st.sampled_from(PresenceKind), names)


@given(presents)
def test_a_topic_is_a_name_and_says_what_it_is_about(present: Present) -> None:
    assert is_name(present.topic)
    assert present_of(present.topic) == present
    assert matches("$bus/#", present.topic)
    assert not matches("#", present.topic)
    assert matches("$bus/sessions/+", present.topic) == (present.kind is PresenceKind.SESSION)


@given(names)
def test_other_names_are_about_nothing_that_has_another_topic(name: str) -> None:
    for topic in (name, f"$bus/{name}", f"$bus/sessions/{name}", f"$bus/services/{name}"):
        found = present_of(topic)
        assert found is None or found.topic == topic


@each_row(
    ("pattern", "kinds"),
    [
        ("$bus/#", (PresenceKind.SESSION, PresenceKind.SERVICE)),
        ("$bus/+/x", (PresenceKind.SESSION, PresenceKind.SERVICE)),
        ("$bus/services/#", (PresenceKind.SERVICE,)),
        ("$bus/sessions/+", (PresenceKind.SESSION,)),
        ("$bus/links/#", ()),
        ("$bus/services/tv", ()),
        ("#", ()),
        ("+/services/#", ()),
    ],
)
def test_a_pattern_covers_some_kinds(pattern: str, kinds: tuple[PresenceKind, ...]) -> None:
    assert kinds_of(pattern) == kinds
