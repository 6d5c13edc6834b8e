"""After any sequence of reloads, sessions have what the policy allows, and have lost nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bussrv import events as ev
from bussrv.policy.permissions.access import Access
from bussrv.policy.permissions.file import parse_policy
from bussrv.registry.state.session import Session
from tests.formats.network import Member, Network, Watcher
from tests.journal.support import fold
from tests.size import sized

NAMES = ("a", "b")
USERS = ("ann", "ben")
SUBSCRIBER, PUBLISHER = "10.0.0.2", "10.0.0.3"
WHO = (*USERS, SUBSCRIBER, PUBLISHER)
FORMATS = ("objects", "spp", "inbus", "business")
ACTIONS = ("provide", "publish", "watch")
REASON = "permission-withdrawn"

Table = dict[str, dict[str, frozenset[str]] | None]
"""For each user, or address of anonymous ones, the names for each action; ``None``: no rule applies."""


def text(table: Table) -> str:
    rules = []
    for who, rights in table.items():
        if rights is not None:
            whom = f'users = "{who}"' if who in USERS else f'users = "anonymous"\nnetworks = "{who}"'
            allowed = "".join(f"{action} = {sorted(names)}\n" for action, names in rights.items() if names)
            rules.append(f'[[rule]]\n{whom}\naddress = "*"\n{allowed}')
    return "".join(rules)


rights = st.none() | st.fixed_dictionaries({action: st.frozensets(st.sampled_from(NAMES)) for action in ACTIONS})
tables = st.fixed_dictionaries(dict.fromkeys(WHO, rights))
EVERYTHING: Table = {who: {action: frozenset(NAMES) for action in ACTIONS} for who in WHO}
steps = st.lists(
    st.one_of(
        st.tuples(st.just("policy"), tables),
        st.tuples(
            st.sampled_from(["register", "watch", "watch", "follow", "follow", "device", "device"]),
            st.tuples(users := st.sampled_from(USERS), st.sampled_from(NAMES)),
        ),
        st.tuples(st.sampled_from(["hold", "release", "release one"]), st.none()),
    ),
    min_size=3,
    max_size=14,
)

Holdings = dict[str, tuple[frozenset[str], frozenset[str | None]]]
"""The services and the subscriptions of each session, by id."""


class Scene:
    """A member and an SPP client for each user, and two devices of Inbus, under a policy that changes."""

    def __init__(self) -> None:
        self.network = Network()
        self.table = EVERYTHING
        self.holding = False
        self.reload(EVERYTHING)
        self.members: dict[str, Member] = {}
        self.watchers: dict[str, Watcher] = {}
        for user in USERS:
            self.watchers[user] = self.network.watcher()
            self.prove(self.watchers[user].connection, user)

    def prove(self, connection: Any, user: str) -> None:
        about = self.network.registry.state.sessions[connection.protocol.session_id].about()
        self.network.registry.note(ev.AuthSucceeded(**{**about, "actor": user}, method="password"))

    def reload(self, table: Table) -> None:
        self.table = table
        self.network.bus.access.policy = parse_policy(text(table), Path("policy.toml"), FORMATS)
        self.network.bus.policy_changed()

    def member(self, user: str) -> Member:
        member = self.members.get(user)
        if member is None or not member.connection.is_open:
            member = self.members[user] = Member(self.network.connect("objects"))
            self.prove(member.connection, user)
            member.send({"event": "routing/subscribe"})
        return member

    def do(self, step: str, about: Any) -> None:
        journal = self.network.journal
        if step == "policy":
            self.reload(about)
        elif step == "hold" and not self.holding:
            self.holding = True
            journal.hold()
        elif step == "release" and self.holding:
            self.holding = False
            journal.release()
        elif step == "release one" and self.holding:
            journal.release(1)
        elif step == "register":
            self.member(about[0]).send({"event": "services/register", "name": about[1]})
        elif step == "watch":
            self.watchers[about[0]].subscribe(about[1])
        elif step == "follow":
            self.member(about[0]).send({"event": "routing/subscribe", "services": [about[1]]})
        elif step == "device":
            user, name = about
            if user == "ann":
                self.network.udp.subscribe(name, host=SUBSCRIBER)
            else:
                self.network.udp.publish(name, b"x", source=PUBLISHER)
        self.network.reactor.advance(0.01)

    def holdings(self) -> Holdings:
        state = self.network.registry.state
        held = {
            session_id: (frozenset(state.provided_by(session_id)), frozenset(state.subscriptions.get(session_id, ())))
            for session_id in state.sessions
        }
        # A device whose first change is on its way to the disk has nothing yet.
        return {each: those for each, those in held.items() if any(those) or state.sessions[each].protocol != "inbus"}

    def allowed(self, session: Session, holdings: Holdings) -> tuple[frozenset[str], frozenset[str | None]] | None:
        """What of its holdings a session may keep; ``None``: it is closed."""
        services, subscriptions = holdings[session.id]
        allowed = self.table[session.actor or session.peer.partition(":")[0]]
        if allowed is None:
            is_closed = None in subscriptions or session.protocol == "inbus"
            return None if is_closed else (frozenset(), frozenset())
        provided = allowed["publish" if session.protocol == "inbus" else "provide"]
        kept = (
            services & provided,
            frozenset(each for each in subscriptions if each is None or each in allowed["watch"]),
        )
        return None if session.protocol == "inbus" and not any(kept) else kept


@settings(max_examples=sized(300))
@given(steps)
def test_sessions_hold_what_the_policy_allows(steps: list[tuple[str, Any]]) -> None:
    scene = Scene()
    sessions = scene.network.registry.state.sessions
    for step, about in [*steps, ("release", None)]:
        before, were = scene.holdings(), dict(sessions)
        recorded = len(scene.network.journal.records)
        scene.do(step, about)
        after = scene.holdings()
        if step == "policy":
            wanted = {each: scene.allowed(were[each], before) for each in before}
            assert after == {each: kept for each, kept in wanted.items() if kept is not None}
        for session_id, held in after.items():
            assert scene.allowed(sessions[session_id], after) == held
        for event in (record.event for record in scene.network.journal.records[recorded:]):
            if isinstance(event, (ev.ServiceUnregistered, ev.SubscriptionRemoved, ev.SessionClosed)):
                # What was on its way to the disk, and is withdrawn as soon as it is made, leaves a device with nothing.
                # A member replaces its own subscriptions.
                assert event.reason == REASON or (
                    (step.startswith("release") and event.protocol == "inbus")
                    or (step != "policy" and event.protocol == "objects" and event.reason in (None, "replaced"))
                )
    assert set(scene.holdings()) == set(sessions)
    assert scene.network.registry.state == fold(scene.network.journal.records)


def test_a_member_that_may_not_be_one_any_more_is_closed() -> None:
    scene = Scene()
    ann, ben = scene.member("ann"), scene.member("ben")
    ann.send({"event": "services/register", "name": "a"})
    scene.reload({**EVERYTHING, "ann": None})
    assert not ann.connection.is_open
    assert ben.connection.is_open
    ended = scene.network.events(ev.ServiceUnregistered, ev.SessionClosed)
    assert [(type(each), each.reason) for each in ended] == [
        (ev.ServiceUnregistered, REASON),
        (ev.SessionClosed, REASON),
    ]


def test_no_snapshot_is_sent_if_the_subscription_ends_at_once() -> None:
    scene = Scene()
    scene.member("ann").send({"event": "services/register", "name": "a"})
    ben = scene.watchers["ben"]
    ben.received()
    scene.network.journal.hold()
    ben.subscribe("a")
    scene.reload({**EVERYTHING, "ben": {"publish": frozenset("b"), "watch": frozenset(), "provide": frozenset()}})
    scene.network.journal.release()
    assert ben.messages() == []


def test_a_device_that_is_allowed_again_works_again() -> None:
    scene = Scene()
    state = scene.network.registry.state
    for table in (EVERYTHING, dict.fromkeys(WHO), EVERYTHING):
        scene.reload(table)
        assert not state.services
        assert not state.subscriptions
        scene.do("device", ("ann", "a"))
        scene.do("device", ("ben", "a"))
        if table is EVERYTHING:
            assert set(state.services) == {"a"}
            assert len(state.subscriptions) == 1
            scene.reload(dict.fromkeys(WHO))
    assert {session.protocol for session in state.sessions.values()} == {"spp"}


def test_a_device_that_is_denied_something_opens_no_session() -> None:
    scene = Scene()
    sees = {"provide": frozenset[str](), "publish": frozenset("b"), "watch": frozenset("b")}
    scene.reload({**EVERYTHING, SUBSCRIBER: sees, PUBLISHER: sees})
    opened = len(scene.network.events(ev.SessionOpened))
    for user in USERS:
        scene.do("device", (user, "a"))
    assert len(scene.network.events(ev.SessionOpened)) == opened
    denied = [(each.action, each.target, each.peer) for each in scene.network.events(ev.AccessDenied)]
    assert denied == [("watch", "a", f"{SUBSCRIBER}:5000"), ("publish", "a", PUBLISHER)]
    assert scene.network.bus.counters["not-allowed"] == 2
    for user in USERS:
        scene.do("device", (user, "b"))
        scene.do("device", (user, "a"))
    assert set(scene.network.registry.state.services) == {"b"}
    assert scene.network.bus.counters["not-allowed"] == 4


@pytest.mark.parametrize("is_allowed", [True, False])
def test_subscribers_of_an_earlier_boot_are_judged(is_allowed: bool) -> None:
    before = Network()
    before.udp.subscribe("a", host=SUBSCRIBER)
    after = Network(before.registry.state)
    table = EVERYTHING if is_allowed else {**EVERYTHING, SUBSCRIBER: None}
    after.bus.access.policy = parse_policy(text(table), Path("policy.toml"), FORMATS)
    after.bus.policy_changed()
    assert bool(after.registry.state.sessions) == is_allowed
    assert len(after.events(ev.SubscriptionRemoved)) == (not is_allowed)


def test_every_reload_begins_to_judge_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many reloads one after the other do not add up."""
    scene = Scene()
    scene.network.bus.access.policy = None
    for _ in range(20):
        scene.network.member()
    judged = 0
    of: Callable[[Access, Any], Any] = Access.of

    def counted(access: Access, session: Any) -> Any:
        nonlocal judged
        judged += 1
        return of(access, session)

    monkeypatch.setattr(Access, "of", counted)
    scene.network.bus.slices._spent = 1e9  # The turn has been long enough.
    for _ in range(50):
        scene.reload(EVERYTHING)
    assert judged == 0
    scene.network.reactor.advance(1)
    assert judged < 4 * 22
