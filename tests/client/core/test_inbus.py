"""The core of Inbus: subscriptions are renewed in time, and whatever datagrams come."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bussrv.client.core.inbox import Inbox
from bussrv.client.core.inbus import GRACE, InbusCore
from bussrv.client.errors import BusError, Closed, Lost, Offline, Unsupported
from bussrv.client.events import Gap, Message, Restored, State, Up
from bussrv.client.settings import Settings
from bussrv.values import UTF8_TEXT
from bussrv.wire import inbus
from tests.size import sized
from tests.tables import each_row

SERVICES = ["a", "b"]
LEASE = 300
OWN = ("10.0.0.1", 9999)
UNREACHABLE = Lost("unreachable", "nobody listens there")
_service = st.sampled_from(SERVICES)


def new_core() -> tuple[InbusCore, list[State]]:
    states: list[State] = []
    core = InbusCore(Settings(lease=LEASE), states.append)
    core.own = OWN
    return core, states


def sent(core: InbusCore) -> list[inbus.Datagram]:
    return list(map(inbus.decode, core.take_output()))


class InbusMachine(RuleBasedStateMachine):
    """
    :ivar renewed: when each subscription was last asked for, as the server knows it.
    :ivar back_at: when the client counts as up again.
    """

    @initialize()
    def make(self) -> None:
        self.core, self.states = new_core()
        self.now = 0.0
        self.is_open = self.was_lost = False
        self.back_at: float | None = None
        self.subscribers: dict[Inbox[Message], tuple[str, ...]] = {}
        self.renewed: dict[str, float] = {}

    @precondition(lambda self: not self.is_open)
    @rule()
    def connect(self) -> None:
        self.is_open = True
        self.renewed.clear()
        self.core.opened("hall:7222", self.now)
        self.back_at = self.now + GRACE if self.was_lost else None

    @precondition(lambda self: self.is_open)
    @rule()
    def lose(self) -> None:
        """The machine of the server says that nobody listens."""
        self.serve()
        self.is_open, self.was_lost = False, True
        was_up = self.core.is_up
        self.core.lost(UNREACHABLE, self.now)
        for inbox in self.subscribers:
            assert inbox.take_many(9) == ([Gap(None, "unreachable")] if was_up else [])

    @rule(names=st.lists(_service, min_size=1, max_size=2, unique=True))
    def subscribe(self, names: list[str]) -> None:
        inbox, told = Inbox[Message](), []
        self.subscribers[inbox] = tuple(names)
        self.core.subscribe(inbox, names, told.append)
        assert told == [None]

    @precondition(lambda self: self.subscribers)
    @rule(place=st.integers(0, 9))
    def unsubscribe(self, place: int) -> None:
        inbox = list(self.subscribers)[place % len(self.subscribers)]
        self.subscribers.pop(inbox)
        self.core.unsubscribe(inbox)

    @rule(seconds=st.sampled_from([0.5, 1, 100, 299, 1000]))
    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while (deadline := self.core.deadline()) is not None and deadline <= until:
            self.now = deadline
            self.core.tick(self.now)
            self.serve()
            later = self.core.deadline()
            assert later is None or later > self.now
        self.now = until

    @precondition(lambda self: self.is_open)
    @rule(name=_service, version=st.sampled_from([1, 2]), text=st.sampled_from(["on", "é", ""]))
    def publish(self, name: str, version: int, text: str) -> None:
        self.core.received(inbus.publish(name, 17, text.encode(), version), self.now)
        for inbox, names in self.subscribers.items():
            taken = inbox.take_many(9)
            assert [(each.service, each.payload.decode(), each.type, each.metadata) for each in taken] == [
                (name, text, UTF8_TEXT if version == 1 else None, {"app-type": 17, "version": version})
            ] * (name in names)
            if taken:
                self.back_at = None

    @rule(name=_service)
    def publish_ourselves(self, name: str) -> None:
        self.serve()
        try:
            self.core.publish(name, b"\xff", None, {"app-type": 4}, None)
        except Offline:
            assert not self.core.is_up
        else:
            assert sent(self.core) == [inbus.Datagram(2, inbus.PUBLISH, name, 4, "", 0, b"\xff")]

    def serve(self) -> None:
        for datagram in sent(self.core):
            assert (datagram.version, datagram.host, datagram.port) == (2, *OWN)
            if datagram.opcode == inbus.SUBSCRIBE:
                self.renewed[datagram.app_key] = self.now
            else:
                del self.renewed[datagram.app_key]

    @invariant()
    def the_server_knows_what_is_wanted(self) -> None:
        self.serve()
        wanted = {name for names in self.subscribers.values() for name in names}
        if self.is_open:
            assert self.renewed.keys() == wanted
            assert all(self.now - when <= LEASE for when in self.renewed.values())
        kinds = [type(each) for each in self.states]
        assert kinds[1:] == [Up, Restored] * (len(kinds) // 2)
        is_back = self.back_at is None or self.now >= self.back_at
        assert self.core.is_up == (self.is_open and is_back)

    def teardown(self) -> None:
        if hasattr(self, "core") and self.is_open:
            self.core.close(Closed("the client is closed"))
            self.serve()
            assert not self.renewed
            assert all(isinstance(each.error, Closed) for each in self.subscribers)


InbusMachine.TestCase.settings = settings(max_examples=sized(90), stateful_step_count=30)
TestInbus = InbusMachine.TestCase


@given(
    st.one_of(st.binary(max_size=40), st.builds(lambda cut: inbus.publish("tv", 1, b"on")[:cut], st.integers(0, 60)))
)
def test_what_is_no_publication_is_dropped(data: bytes) -> None:
    core, states = new_core()
    inbox: Inbox[Message] = Inbox()
    core.subscribe(inbox, ["tv"], lambda _: None)
    core.opened("hall:7222", 0.0)
    states.clear()
    for each in (data, inbus.subscribe("tv", *OWN), inbus.publish("radio", 1, b"on")):
        core.received(each, 0.0)
    assert (len(inbox), states) == (0, [])


@each_row(
    ("arguments", "error", "said"),
    [
        (("tv", b"", None, {}, lambda _: None), Unsupported, "cannot learn what the server took"),
        (("tv", b"", None, {"natures": 1}, None), ValueError, "no natures"),
        (("tv", b"", None, {"app-type": "1"}, None), ValueError, "an integer"),
        (("tv", b"", None, {"app-type": 1 << 63}, None), ValueError, "64 bits"),
        (("tv", bytes(50_000), None, {}, None), ValueError, "the most is 65507"),
        (("*", b"", None, {}, None), BusError, "reserved"),
        (("", b"", None, {}, None), BusError, "not empty"),
    ],
)
def test_a_publication_that_no_datagram_carries_is_refused(arguments: Any, error: type[Exception], said: str) -> None:
    core, _ = new_core()
    core.opened("hall:7222", 0.0)
    with pytest.raises(error, match=said):
        core.publish(*arguments)
    assert not core.has_output
