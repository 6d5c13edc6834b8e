"""Names of services as names of topics, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bussrv.uplink.kafka.topics import LONGEST, NoTopic, is_topic, service_of, topic_of

PREFIX = "bus."
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40)
TOPICS = st.text("ab/._-0f2", min_size=1, max_size=12).map(lambda text: PREFIX + text)


@given(service=NAMES)
def test_every_name_comes_back(service: str) -> None:
    try:
        topic = topic_of(PREFIX, service)
    except NoTopic:
        assert len(service.encode()) * 3 + len(PREFIX) > LONGEST
        return
    assert is_topic(topic)
    assert service_of(PREFIX, topic) == service


@given(topic=TOPICS)
def test_a_topic_comes_of_one_name_at_most(topic: str) -> None:
    service = service_of(PREFIX, topic)
    assert service is None or topic_of(PREFIX, service) == topic


@given(one=NAMES, other=NAMES)
def test_two_names_have_two_topics(one: str, other: str) -> None:
    if one != other and len(one.encode()) + len(other.encode()) < 80:
        assert topic_of(PREFIX, one) != topic_of(PREFIX, other)


@pytest.mark.parametrize(
    ("service", "topic"),
    [
        ("tv", "bus.tv"),
        ("hall/lamp-1", "bus.hall.lamp-1"),
        ("a.b_c", "bus.a_2eb_5fc"),
        ("Küche", "bus.K_c3_bcche"),
        ("/", "bus.."),
    ],
)
def test_topics_can_be_read(service: str, topic: str) -> None:
    assert topic_of(PREFIX, service) == topic


@pytest.mark.parametrize("topic", ["bus.", "other.tv", "bus.a_2Eb", "bus.a_zz", "bus.a_c3", "bus.a_61", "bus.tv_"])
def test_other_topics_are_of_no_service(topic: str) -> None:
    assert service_of(PREFIX, topic) is None


def test_a_name_that_is_too_long_has_no_topic() -> None:
    topic_of(PREFIX, "a" * (LONGEST - len(PREFIX)))
    with pytest.raises(NoTopic, match="would have 250 characters, and may have 249"):
        topic_of(PREFIX, "a" * (LONGEST - len(PREFIX) + 1))
