"""Sessions with filters, few or many: each publication goes once to each session that may watch it and wants it."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from zope.interface import implementer

from bussrv.bus.generation import Generation
from bussrv.bus.groups import filtering as module
from bussrv.bus.groups.fanout import Fanout
from bussrv.bus.groups.filtering import FilteringSessions
from bussrv.bus.interest.total import TotalInterest
from bussrv.bus.interfaces import IFilteringLink
from bussrv.policy.permissions.permissions import EVERYTHING
from bussrv.values import Traffic
from tests.bus.reference import names

WANTED = ["tv", "hall/tv", "+", "hall/+", "hall/#", "#"]
SERVICES = ["tv", "hall", "hall/tv", "door", "bus/clock"]


class Encoding:
    def __init__(self, filters: Any) -> None:
        self.filters = dict(filters)


@implementer(IFilteringLink)
class Link:
    """Shares an encoding with all links that have the same filters, as a wire format would."""

    shared: ClassVar[dict[Any, Encoding]] = {}

    waiting = 0

    def __init__(self) -> None:
        self.traffic = Traffic()

    def encoding_for(self, options: Any) -> Any:
        raise AssertionError("it has one encoding for all")

    def close(self, reason: str) -> None:
        """Do nothing."""

    def encoding_of(self, filters: Any, *, is_alone: bool) -> Any:
        key = frozenset((name, str(options)) for name, options in filters.items())
        return Encoding(filters) if is_alone else self.shared.setdefault(key, Encoding(filters))

    def refilter(self, encoding: Any, changed: str, options: Any, *, is_there: bool) -> None:
        encoding.filters.pop(changed, None)
        if is_there:
            encoding.filters[changed] = options

    def send(self, bundle: object) -> None:
        raise AssertionError("nothing is sent here")


class NotDoor:
    """Permissions of who may watch everything but the door."""

    def may(self, action: str, service: str) -> bool:
        assert action == "watch"
        return service != "door"

    def effort(self, action: str) -> int:
        return 0


NOT_DOOR: Any = NotDoor()


def sessions_of_nobody() -> FilteringSessions:
    generation = Generation()
    return FilteringSessions(Fanout(generation), TotalInterest(), generation)


class Filtering(RuleBasedStateMachine):
    """``wanted``: the filters of each session with their options, and what it may watch."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions = sessions_of_nobody()
        self.wanted: dict[str, tuple[dict[str, Any], Any]] = {}
        self.numbers = itertools.count()

    @rule()
    def come(self) -> None:
        session_id = f"s{next(self.numbers)}"
        self.sessions.add(session_id, Link())
        self.wanted[session_id] = {}, EVERYTHING

    @rule(data=st.data(), name=st.sampled_from(WANTED), options=st.sampled_from([None, {"qos": 1}]))
    def subscribe(self, data: st.DataObject, name: str, options: Any) -> None:
        if self.wanted:
            session_id = data.draw(st.sampled_from(sorted(self.wanted)))
            filters, permissions = self.wanted[session_id]
            filters[name] = options
            self.sessions.subscribe(session_id, name, options, permissions)

    @rule(data=st.data(), name=st.sampled_from(WANTED))
    def unsubscribe(self, data: st.DataObject, name: str) -> None:
        if self.wanted:
            session_id = data.draw(st.sampled_from(sorted(self.wanted)))
            self.wanted[session_id][0].pop(name, None)
            self.sessions.unsubscribe(session_id, name)

    @rule(data=st.data(), permissions=st.sampled_from([EVERYTHING, NOT_DOOR]))
    def permit(self, data: st.DataObject, permissions: Any) -> None:
        if self.wanted:
            session_id = data.draw(st.sampled_from(sorted(self.wanted)))
            self.wanted[session_id] = self.wanted[session_id][0], permissions
            self.sessions.permissions_changed(session_id, permissions)

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        if self.wanted:
            session_id = data.draw(st.sampled_from(sorted(self.wanted)))
            del self.wanted[session_id]
            self.sessions.remove(session_id)
            assert session_id not in self.sessions

    @invariant()
    def each_is_in_one_group_of_each_service_it_wants(self) -> None:
        for service in SERVICES:
            found = [(each, group) for group in self.sessions.on(service) for each in group.links]
            expected = [
                each
                for each, (filters, permissions) in self.wanted.items()
                if any(names(name, service) for name in filters) and permissions.may("watch", service)
            ]
            assert sorted(each for each, _ in found) == sorted(expected)
            for each, group in found:
                assert isinstance(group.encoding, Encoding)
                assert group.encoding.filters == self.wanted[each][0]
                assert group.services == set(self.wanted[each][0])


@pytest.mark.dear
@pytest.mark.parametrize("most_shared", [0, 2, 64])
def test_sessions_with_filters(most_shared: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SHARED", most_shared)
    case = Filtering.TestCase()
    case.settings = settings(stateful_step_count=30, max_examples=40)  # type: ignore[misc]
    case.runTest()


def test_sharing_does_not_hide_that_permissions_changed() -> None:
    sessions = sessions_of_nobody()
    sessions.add("s", Link())
    sessions.subscribe("s", "door", None, EVERYTHING)
    sessions.subscribe("s", "$share/group/tv", None, NOT_DOOR)
    sessions.permissions_changed("s", NOT_DOOR)
    assert sessions.on("door") == ()
