"""Routing ids that are kept for those who had them."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from bussrv.registry.changes.rules import HeldIds
from bussrv.registry.state.session import SERVER_ROLE, Session
from bussrv.settings import Settings
from tests.size import sized

HOLD, MOST = 60, 3

actors = st.sampled_from([None, None, "ann", "bob"])
peers = st.sampled_from(
    ["10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:1", "[2001:db8::1]:1", "[2001:db8::2]:1", "unix:/a", "unix:/b"]
)
names = st.sampled_from(["one", "two", "three", "four", "five"])
KEYS = {"10.0.0.1": "v4", "10.0.0.2": "other v4", "[2001": "v6", "unix": "unix"}


class Model(RuleBasedStateMachine):
    """Each hold as a plain row; the newest last."""

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.held = HeldIds(Settings(routing_id_hold=HOLD, max_held_ids=MOST), "hall", lambda: self.now)
        self.rows = []
        self.opened = 0

    def session(self, actor, peer, routing_id):
        self.opened += 1
        return Session(
            id=f"s{self.opened}", protocol="objects", routing_id=routing_id, peer=peer, opened=0, actor=actor
        )

    @rule(actor=actors, peer=peers, name=names, asked=st.booleans())
    def ends(self, actor, peer, name, asked):
        session = self.session(actor, peer, name)
        if asked:
            self.held.granted(session, name, name)
            self.rows = [each for each in self.rows if each[0] != name]
            self.rows = [*self.rows, (name, actor, KEYS[peer.split(":")[0]], self.now)][-MOST:]
        self.held.ended(session)
        assert len(self.held) <= MOST

    @rule(seconds=st.sampled_from([1, 30, 59.9, 60]))
    def waits(self, seconds):
        self.now += seconds

    @rule(actor=actors, peer=peers, name=names)
    def asks(self, actor, peer, name):
        rows = [each for each in self.rows if each[0] == name and self.now < each[3] + HOLD]
        own = [each for each in rows if (actor is not None and each[1] == actor) or each[2] == KEYS[peer.split(":")[0]]]
        assert self.held.is_kept_from(self.session(actor, peer, "fresh"), name) == bool(rows and not own)


Model.TestCase.settings = settings(max_examples=sized(150), stateful_step_count=40)
TestModel = Model.TestCase


def test_a_hold_of_no_time_holds_nothing():
    held = HeldIds(Settings(routing_id_hold=0), "hall", lambda: 0.0)
    model = Model()
    session = model.session(None, "10.0.0.1:1", "one")
    held.granted(session, "one", "one")
    held.ended(session)
    assert len(held) == 0
    assert not held.is_kept_from(model.session(None, "10.0.0.2:1", "x"), "one")


def test_nothing_is_held_for_who_did_not_ask_and_from_servers():
    held, model = HeldIds(Settings(), "hall", lambda: 0.0), Model()
    thief = model.session(None, "10.0.0.2:1", "x")
    for wanted in (None, "another"):
        session = model.session(None, "10.0.0.1:1", "one")
        held.granted(session, wanted, "one")
        held.ended(session)
        assert not held.is_kept_from(thief, "one")
    session = model.session(None, "10.0.0.1:1", "one")
    held.granted(session, "one", "one")
    held.ended(session)
    assert held.is_kept_from(thief, "one")
    assert not held.is_kept_from(thief, "one", SERVER_ROLE)
    assert held.is_kept_from(session, "hall", SERVER_ROLE)
