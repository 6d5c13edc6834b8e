"""The registry as snapshots have it: what is written down is what is read again."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import fields

from bussrv import events as ev
from bussrv.registry.state import fold as fold_module
from bussrv.registry.state.fold import STATE_BYTES, RegistryFold
from bussrv.values import ModeInterest
from tests.journal.strategies import json_values, moments, of_type
from tests.tables import each_row

IDS = st.sampled_from(["s1", "s2", "s3", "s4"])
NAMES = st.sampled_from(["ann", "bob", "tür", 'a"b\n', ""])
INTERESTS = of_type({field.name: field.type for field in fields(ev.SubscriptionAdded)}["interest"])
TEXTS = st.none() | st.text(max_size=5)

events = st.one_of(
    st.builds(
        ev.SessionOpened,
        session=IDS,
        routing_id=NAMES,
        protocol=TEXTS,
        peer=TEXTS,
        persistent=st.booleans(),
        home=TEXTS,
    ),
    st.builds(
        ev.SessionIdentified,
        session=IDS,
        routing_id=st.none() | NAMES,
        routing_ids=st.lists(NAMES, max_size=3).map(tuple),
        actor=TEXTS,
        claimed=TEXTS,
        name=TEXTS,
        role=TEXTS,
        vocabulary=TEXTS,
    ),
    st.builds(ev.AuthSucceeded, session=IDS, actor=TEXTS),
    st.builds(ev.SessionClosed, session=IDS, duration=st.just(1)),
    st.builds(ev.ServiceRegistered, session=IDS, service=NAMES),
    st.builds(ev.ServiceUnregistered, session=IDS, service=NAMES),
    st.builds(
        ev.SubscriptionAdded,
        session=IDS,
        service=st.none() | NAMES,
        interest=INTERESTS,
        options=st.none() | st.dictionaries(st.text(max_size=5), json_values, max_size=2),
    ),
    st.builds(ev.SubscriptionRemoved, session=IDS, service=st.none() | NAMES),
    st.builds(ev.SubscriptionRenewed, session=IDS, service=st.none() | NAMES),
)
histories = st.lists(st.tuples(events, moments), max_size=40)


def folded(history):
    fold = RegistryFold()
    for event, time in history:
        fold.apply(event, time)
    return fold


def taken(texts):
    fold = RegistryFold()
    for text in texts:
        fold.take(Raw(text))
    return fold


def answers(state):
    """What a registry says when it is asked, beside what it holds."""
    routing_ids = {own for each in state.sessions.values() for own in (each.routing_id, *each.routing_ids)}
    return (
        {each: state.owner(each) for each in routing_ids},
        {each: state.sessions_at(each) for each in routing_ids},
        {each: state.is_shared(each) for each in routing_ids},
        {each: set(state.provided_by(each)) for each in state.sessions},
    )


@given(histories, st.integers(1, 400))
def test_what_is_written_down_is_read_again(history, size):
    fold = folded(history)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fold_module, "STATE_BYTES", size)
        texts = fold.states()
    again = taken(texts)
    assert again.state == fold.state
    assert answers(again.state) == answers(fold.state)
    assert all(b"\n" not in text for text in texts)


@given(histories, histories)
def test_it_goes_on_from_a_snapshot_as_if_nothing_had_happened(before, after):
    whole, again = folded(before), taken(folded(before).states())
    for event, time in after:
        whole.apply(event, time)
        again.apply(event, time)
    assert again.state == whole.state
    assert answers(again.state) == answers(whole.state)
    assert taken(again.states()).state == whole.state


def test_an_empty_registry_has_no_snapshot():
    assert RegistryFold().states() == []
    assert folded([(ev.ServiceRegistered(session="nobody", service="tv"), 1)]).states() == []


def test_a_snapshot_is_written_as_documented():
    fold = folded(
        [
            (ev.SessionOpened(session="b.3", routing_id="ann", protocol="objects", peer="10.0.0.1:1"), 5),
            (ev.ServiceRegistered(session="b.3", service="tv"), 6),
            (ev.SubscriptionAdded(session="b.3", interest=ModeInterest()), 7),
        ]
    )
    (text,) = fold.states()
    found = json.loads(text)
    assert list(found) == ["sessions", "services", "subscriptions"]
    (session,) = found["sessions"]
    about = {"id": "b.3", "protocol": "objects", "routing_id": "ann", "opened": 5, "persistent": False}
    assert session.items() >= about.items()
    assert found["services"] == {"tv": {"b.3": 6}}
    (subscription,) = found["subscriptions"]
    assert (subscription["session"], subscription["service"], subscription["added"]) == ("b.3", None, 7)


def test_a_large_registry_is_several_texts_of_bounded_size():
    fold = RegistryFold()
    for number in range(3000):
        session = f"5f1c2ab94e07.{number}"
        fold.apply(ev.SessionOpened(session=session, routing_id=f"r{number}", protocol="objects", peer="10.0.0.1"), 1)
        fold.apply(ev.SessionIdentified(session=session, routing_ids=(f"shared{number % 10}",), actor="ann"), 2)
        fold.apply(ev.ServiceRegistered(session=session, service=f"service {number % 500}"), 3)
        fold.apply(ev.SubscriptionAdded(session=session, service=f"service {number}"), 4)
    texts = fold.states()
    assert len(texts) > 3
    assert all(len(text) < STATE_BYTES + 10_000 for text in texts)
    assert all(len(text) >= STATE_BYTES for text in texts[:-1])
    state = taken(texts).state
    assert state == fold.state
    assert state.owner("r17") == "5f1c2ab94e07.17"
    assert len(state.sessions_at("shared3")) == 300
    assert state.provided_by("5f1c2ab94e07.1003") == {"service 3"}
    assert answers(state) == answers(fold.state)


def test_a_service_of_very_many_sessions_is_several_texts(monkeypatch):
    monkeypatch.setattr(fold_module, "PORTION", 3)
    fold = RegistryFold()
    for number in range(10):
        session = f"s{number}"
        fold.apply(ev.SessionOpened(session=session, routing_id=session), number)
        fold.apply(ev.ServiceRegistered(session=session, service="tv"), number)
        fold.apply(ev.ServiceRegistered(session=session, service=f"tv {number}"), number)
    states = fold.states()
    assert max(len(json.loads(state).get("services", {}).get("tv", {})) for state in states) == 3
    again = RegistryFold()
    for state in states:
        again.take(Raw(state))
    assert again.state == fold.state
    assert list(again.state.services["tv"]) == list(fold.state.services["tv"])


@each_row("text", [b"", b"[]", b"7", b"{", b'{"sessions":{}}', b'{"sessions":[{}]}', b'{"services":{"tv":{"s":"x"}}}'])
def test_what_is_no_snapshot_is_refused_and_changes_nothing(text):
    fold = folded([(ev.SessionOpened(session="s", routing_id="r"), 1)])
    before = fold.state.copy()
    with pytest.raises(ValueError):  # noqa: PT011
        fold.take(Raw(text))
    assert fold.state == before
