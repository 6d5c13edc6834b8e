"""Views that are kept up to date show what one that is made anew does, and are made in slices, not too often."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from twisted.internet.task import Clock

from bussrv import events as ev
from bussrv.policy.permissions.file import parse_policy
from bussrv.policy.permissions.permissions import EVERYTHING, Permissions
from bussrv.registry.state.live_snapshot import FEW, LiveSnapshot
from bussrv.registry.state.snapshot import Snapshot
from bussrv.registry.state.state import RegistryState
from bussrv.services.live_views import KEPT_SECONDS, MADE_EVERY, MOST_KEPT, LiveView, LiveViews
from bussrv.services.registry_view import is_visible, visible_ids
from bussrv.turns.slices import Slices
from tests.registry.histories import SESSIONS
from tests.registry.histories import histories as histories_of
from tests.size import sized

POLICY = """\
[[rule]]
users = "{user}"
watch = ["tv*", "bus/registry"]
address = "ann*"
"""


def permissions(user: str = "viewer") -> Permissions:
    policy = parse_policy(POLICY.format(user=user), Path("policy.toml"), ("objects",))
    return policy.permissions(user, "tcp 127.0.0.1:1", "objects")


VIEWER = permissions()
routing_ids = st.sampled_from(["ann", "ann-2", "hid"])
histories = histories_of(
    services=st.sampled_from(["tv", "tv2", "secret"]),
    routing_ids=routing_ids,
    identified=st.builds(
        ev.SessionIdentified, session=SESSIONS, routing_id=routing_ids, routing_ids=st.tuples(routing_ids)
    ),
    pauses=st.sampled_from(["step", "look"]),
)


def shown_snapshot(seq: int, state: RegistryState, permissions: Permissions) -> Snapshot:
    """The part of a registry that is shown.

    :param seq: the number of the last record that was shown.
    """
    sessions = [each for each in state.sessions.values() if permissions.sees_session(each.routing_id)]
    visible = {each.id for each in sessions}
    services = {
        name: [each for each in providers if each in visible]
        for name, providers in state.services.items()
        if permissions.sees_service(name) and not visible.isdisjoint(providers)
    }
    held = (each for session in visible for each in state.subscriptions.get(session, {}).values())
    return Snapshot(
        seq,
        [replace(each, routing_ids=visible_ids(each.routing_ids, permissions)) for each in sessions],
        services,
        [each for each in held if is_visible(each, permissions)],
    )


def in_any_order(shown: Snapshot) -> Any:
    of_services = {name: sorted(providers) for name, providers in shown.services.items()}
    return shown.seq, sorted(shown.sessions, key=repr), of_services, sorted(shown.subscriptions, key=repr)


def check(view: LiveView, seq: int, state: RegistryState) -> None:
    shown = msgspec.json.decode(view.encode(seq), type=Snapshot)
    assert in_any_order(shown) == in_any_order(shown_snapshot(seq, state, VIEWER))
    assert view.encode(seq) is view.encode(seq)


@settings(max_examples=sized(1000))
@given(histories, histories)
def test_it_is_the_snapshot_of_what_is_shown(before: list[Any], history: list[Any]) -> None:
    state = RegistryState()
    for event in before:
        if not isinstance(event, str):
            state.apply(event, 1)
    view = LiveView(state, VIEWER)
    steps = view.refresh()
    for seq, event in enumerate(history):
        if event == "step":
            next(steps, None)
        elif event == "look":
            check(view, seq // 3, state)
        else:
            view.touch(event)
            state.apply(event, seq)
    check(view, 0, state)


def full(count: int) -> RegistryState:
    state = RegistryState()
    state.apply(ev.SessionOpened(protocol="spp", session="a", routing_id="ann", peer="x"), 1)
    for number in range(count):
        state.apply(ev.ServiceRegistered(session="a", service=f"tv{number}"), 1)
    return state


class Scene:
    """Views of a registry in which there is much to see. Time passes with each look at the clock."""

    def __init__(self, count: int = 10 * FEW) -> None:
        self.clock = Clock()
        self.state = full(count)
        self.whole = LiveSnapshot(self.state)
        self.counters: Counter[str] = Counter()
        self.slices = Slices(self, 0.01, self.counters)
        self.views = LiveViews(self.whole, self.state, self.slices, self)

    def seconds(self) -> float:
        self.clock.rightNow += 0.002
        return self.clock.seconds()

    def callLater(self, *args: Any) -> Any:
        return self.clock.callLater(*args)

    def finish(self) -> None:
        """Let the reactor turn until nothing is left to do at once."""
        while self.clock.calls and self.clock.calls[0].getTime() <= self.clock.seconds():
            self.clock.advance(0)

    def ask(self, who: Permissions) -> list[bytes]:
        """Ask for a view when it is ready. :returns: is given it then."""
        answers: list[bytes] = []
        ready = self.views.ready(who)
        if ready is None:
            answers.append(self.views.get(who).encode(1))
        else:
            ready.addCallback(lambda _: answers.append(self.views.get(who).encode(1)))
        return answers


@pytest.mark.parametrize("who", [VIEWER, EVERYTHING], ids=["some", "everything"])
def test_a_large_view_is_made_in_slices_once_for_all_who_ask(who: Permissions) -> None:
    scene = Scene()
    asked = [scene.ask(who) for _ in range(3)]
    others: list[float] = []
    scene.slices.do(lambda until: bool(others.append(until)), "another client")
    assert asked == [[], [], []]
    scene.finish()
    assert scene.counters["slice-over"] > 10
    assert len(others) == 1
    assert [len(each) for each in asked] == [1, 1, 1]
    assert asked[0][0] is asked[2][0]
    assert len(json.loads(asked[0][0])["services"]) == 10 * FEW
    event = ev.ServiceRegistered(session="a", service="tv-new")
    scene.views.touch([event])
    scene.whole.apply(event, 2)
    assert scene.views.ready(who) is None
    assert b'"tv-new"' in scene.views.get(who).encode(2)


def test_a_view_that_was_given_up_is_made_once_a_second_at_most() -> None:
    scene = Scene(10)
    everybody = [permissions(f"user{number}") for number in range(MOST_KEPT + 1)]
    for each in everybody:
        asked = scene.ask(each)
        scene.finish()
        assert asked
    again = scene.ask(everybody[0])
    scene.finish()
    assert again == []
    scene.clock.advance(MADE_EVERY)
    scene.finish()
    assert len(again) == 1


def test_a_view_that_nobody_asks_for_is_given_up() -> None:
    scene = Scene(10)
    view = scene.views.get(VIEWER)
    scene.views.touch([])
    assert scene.views.get(VIEWER) is view
    scene.clock.advance(KEPT_SECONDS + 1)
    scene.views.touch([])
    assert scene.views.get(VIEWER) is not view
