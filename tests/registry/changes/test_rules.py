"""What the registry allows."""

import pytest

from bussrv import events as ev
from bussrv.errors import REASONS, Refused
from bussrv.registry.changes import rules
from bussrv.registry.changes.rules import ReservedNames
from bussrv.registry.state.state import RegistryState
from tests.tables import each_row

RESERVED = ReservedNames()
RESERVED.add("clock")


@pytest.fixture
def state():
    state = RegistryState()
    for number, (own, further) in enumerate([("own", ("shared",)), ("other", ("both", "shared"))]):
        state.apply(ev.SessionOpened(session=f"s{number}", routing_id=own), 0)
        state.apply(ev.SessionIdentified(session=f"s{number}", routing_ids=further), 0)
    state.apply(ev.ServiceRegistered(session="s0", service="tv"), 0)
    state.apply(ev.SubscriptionAdded(session="s0", service="radio"), 0)
    return state


def is_kept(session, routing_id, role):
    """The server's own routing id, and one that is held for somebody else."""
    return routing_id in ("server", "held")


def refused(function, *args):
    with pytest.raises(Refused) as caught:
        function(*args)
    assert caught.value.reason in REASONS
    assert caught.value.message
    return caught.value.reason


def test_a_session_has_to_be_open(state):
    assert rules.open_session(state, "s0") is state.sessions["s0"]
    assert refused(rules.open_session, state, "gone") == "session-closed"


@each_row(
    ("name", "reason"),
    [
        ("bus/", "reserved-name"),
        ("bus/clock", "reserved-name"),
        ("Bus/clock", "reserved-name"),
        ("\uff22us\u2215clock", "reserved-name"),
        ("clock", "reserved-name"),
        ("CLOCK", "reserved-name"),
        ("\u24d2lock", "reserved-name"),
        ("", "bad-service-name"),
        ("a\nb", "bad-service-name"),
        ("\ud800", "bad-service-name"),
        ("ü" * 128, "bad-service-name"),
        (None, "bad-service-name"),
        (7, "bad-service-name"),
    ],
)
def test_names_that_may_not_be_registered(name, reason):
    assert refused(rules.may_register, name, RESERVED) == reason


@each_row("name", ["tv", "bus", "a bus/clock", "b\u200dus", "a b", "ü" * 127, "x" * 255])
def test_names_that_may_be_registered(name):
    rules.may_register(name, RESERVED)


def test_only_what_is_provided_is_unregistered(state):
    rules.may_unregister(state, "s0", "tv")
    assert refused(rules.may_unregister, state, "s1", "tv") == "not-registered"
    assert refused(rules.may_unregister, state, "s0", "radio") == "not-registered"


def test_only_what_is_subscribed_is_unsubscribed(state):
    rules.may_unsubscribe(state, "s0", "radio")
    assert refused(rules.may_unsubscribe, state, "s1", "radio") == "no-such-subscription"
    assert refused(rules.may_unsubscribe, state, "s0", "tv") == "no-such-subscription"


@pytest.mark.parametrize(
    ("wanted", "granted"),
    [
        (None, "own"),
        ("", "own"),
        ("own", "own"),
        ("free", "free"),
        ("other", "own"),
        ("both", "own"),
        ("shared", "own"),
        ("server", "own"),
        ("held", "own"),
    ],
)
def test_a_routing_id_is_granted_when_it_is_free(state, wanted, granted):
    assert rules.grant_routing_id(state, state.sessions["s0"], wanted, is_kept) == granted


@pytest.mark.parametrize(
    ("wanted", "may_share", "granted"),
    [
        ((), "", ()),
        (("a", "b", "a"), "", ("a", "b")),
        (("other", "server", "", "own", "shared", "both", "held"), "both", ("own", "shared", "both")),
        (("own", "shared", "both"), "", ("own", "shared")),
    ],
)
def test_further_routing_ids_may_be_shared_but_belong_to_nobody(state, wanted, may_share, granted):
    assert rules.grant_routing_ids(state, state.sessions["s0"], wanted, is_kept, may_share.__eq__) == granted
