"""The core of the Service providing protocol, against a server that offers services and is cut off at any byte."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bussrv.client.core.inbox import Inbox
from bussrv.client.core.objects import network
from bussrv.client.core.spp import SppCore
from bussrv.client.errors import BadLogin, BusError, Lost, Unsupported
from bussrv.client.events import Appeared, Gap, Gone, Message, Restored, State, Up
from bussrv.client.settings import Login, Settings
from bussrv.errors import RemoteProtocolError
from bussrv.wire import spp
from bussrv.wire.spp import SppReader
from tests.size import sized

SERVICES = ["a", "b"]
FRESH = b"0"
LOST = Lost("connection-lost", "it broke")
EACH = {"?", "+"}  # names that stand for each of them
_service = st.sampled_from(SERVICES)
_name = st.sampled_from([*SERVICES, *sorted(EACH)])


def wants(names: tuple[str, ...], service: str) -> bool:
    """Whether somebody who is subscribed to these names is given what comes on a service."""
    return service in names or not EACH.isdisjoint(names)


def new_core(login: Login = Login(), max_payload: int = 100) -> tuple[SppCore, list[State]]:  # noqa: B008  it is frozen
    states: list[State] = []
    return SppCore(Settings(login, timeout=8, max_payload=max_payload), states.append), states


class SppMachine(RuleBasedStateMachine):
    """
    :ivar state: the state of each service that there is; the server sends it to who subscribes.
    :ivar subscribed: what the client is subscribed to, as the server knows it.
    :ivar expected: what each subscriber is to be given in this step, in order; a text: a gap.
    :ivar latest: what each subscriber was given last of each service over this connection.
    """

    @initialize(asks=st.booleans())
    def make(self, asks: bool) -> None:
        self.asks = asks
        self.core, self.states = new_core(Login("ann", "sesame") if asks else Login())
        self.changes: Inbox[Appeared | Gone] = Inbox()
        self.core.watch(self.changes)
        self.seen: set[str] = set()
        self.subscribers: dict[Inbox[Message], tuple[str, ...]] = {}
        self.expected: dict[Inbox[Message], list[bytes | str]] = {}
        self.latest: dict[tuple[Inbox[Message], str], bytes] = {}
        self.state: dict[str, bytes] = {}
        self.is_open = False
        self.down, self.now, self.number = b"", 0.0, 0

    @precondition(lambda self: not self.is_open)
    @rule()
    def connect(self) -> None:
        self.is_open, self.is_accepted = True, not self.asks
        self.offered: set[str] = set()
        self.subscribed: set[str] = set()
        self.server, self.tap, self.down = SppReader("client"), SppReader("server"), b""
        self.states.clear()
        self.core.opened("hall:3002", self.now)
        for name in self.state:
            self.offer(name)

    @precondition(lambda self: self.is_open)
    @rule()
    def lose(self) -> None:
        self.is_open = False
        for inbox, expected in self.expected.items():
            if self.core.is_up and inbox in self.subscribers:
                expected.append("connection-lost")
        self.latest.clear()
        self.core.lost(LOST, self.now)

    def offer(self, name: str) -> None:
        if self.is_open:
            self.offered.add(name)
            self.down += spp.offer(name)

    @rule(name=_service)
    def appear(self, name: str) -> None:
        if name not in self.state:
            self.state[name] = FRESH
            self.offer(name)

    @rule(name=_service)
    def go(self, name: str) -> None:
        if self.state.pop(name, None) is not None and self.is_open:
            self.offered.discard(name)
            self.down += spp.removed(name)

    @rule(name=_service)
    def publish(self, name: str) -> None:
        self.number += 1
        if name in self.state:
            self.state[name] = b"%d" % self.number
            if self.is_open and name in self.subscribed:
                self.down += spp.info(name, self.state[name])

    @rule(names=st.lists(_name, min_size=1, max_size=2, unique=True))
    def subscribe(self, names: list[str]) -> None:
        inbox, told = Inbox[Message](), []
        self.subscribers[inbox], self.expected[inbox] = tuple(names), []
        self.core.subscribe(inbox, names, told.append)
        assert told == [None]

    @precondition(lambda self: self.subscribers)
    @rule(place=st.integers(0, 9))
    def unsubscribe(self, place: int) -> None:
        inbox = list(self.subscribers)[place % len(self.subscribers)]
        self.subscribers.pop(inbox)
        self.core.unsubscribe(inbox)

    @precondition(lambda self: self.is_open)
    @rule(size=st.integers(1, 60))
    def exchange(self, size: int) -> None:
        """The server reads everything; the client so many bytes."""
        self.server.feed(b"".join(self.core.take_output()))
        while (event := self.server.next_event()) is not None:
            self.serve(event)
        data, self.down = self.down[:size], self.down[size:]
        self.tap.feed(data)
        while (told := self.tap.next_event()) is not None:
            if isinstance(told, spp.Info):
                for inbox, names in self.subscribers.items():
                    if wants(names, told.service):
                        self.expected[inbox].append(told.message)
                        self.latest[inbox, told.service] = told.message
        self.core.received(data, self.now)

    def serve(self, event: spp.Event) -> None:
        if isinstance(event, spp.Other):
            assert spp.credentials(event.data) == ("ann", "sesame")
            # Unchecked at first: the client is to ask again.
            code = spp.AUTH_ACCEPTED if self.is_accepted else spp.AUTH_UNCHECKED
            self.is_accepted = True
            self.down += spp.auth_result(code)
        elif isinstance(event, spp.Subscribe):
            assert self.is_accepted
            if event.service in self.offered:
                self.subscribed.add(event.service)
                self.down += spp.info(event.service, self.state[event.service])
        else:
            assert isinstance(event, spp.Unsubscribe)
            self.subscribed.discard(event.service)

    @rule()
    def settle(self) -> None:
        """After everything has arrived, each one that is wanted and offered is subscribed."""
        if not self.is_open:
            self.connect()
        while self.down or self.core.has_output:
            self.exchange(1000)
        assert self.core.is_up
        wanted = {each for each in SERVICES if any(wants(names, each) for names in self.subscribers.values())}
        assert wanted & self.offered <= self.subscribed <= wanted
        assert self.core._present == self.offered == set(self.state)
        for inbox, names in self.subscribers.items():
            for name in (each for each in self.offered if wants(names, each)):
                assert self.state[name] in (FRESH, self.latest.get((inbox, name)))

    @invariant()
    def each_has_what_came(self) -> None:
        for inbox, expected in self.expected.items():
            taken = inbox.take_many(1000)
            assert [each.reason if isinstance(each, Gap) else each.payload for each in taken] == expected
            expected.clear()

    @invariant()
    def changes_alternate(self) -> None:
        for change in self.changes.take_many(1000):
            assert isinstance(change, (Appeared, Gone))
            assert isinstance(change, Appeared) == (change.name not in self.seen)
            (self.seen.add if isinstance(change, Appeared) else self.seen.discard)(change.name)
        assert self.seen == self.core._present

    def teardown(self) -> None:
        if hasattr(self, "core"):
            self.settle()


SppMachine.TestCase.settings = settings(max_examples=sized(90), stateful_step_count=30)
TestSpp = SppMachine.TestCase


def test_a_refused_login_ends_the_connection() -> None:
    core, states = new_core(Login(token="ticket"))
    core.opened("hall:3002", 0.0)
    (sent,) = core.take_output()
    assert spp.credentials(sent[8:]) == ("", "ticket")
    core.received(spp.auth_result(spp.AUTH_REFUSED), 0.0)
    assert isinstance(core.ending, BadLogin)
    assert (states, core.is_up) == ([], False)


def test_a_login_that_is_not_answered_in_time_ends_it_too() -> None:
    core, states = new_core(Login("ann", "sesame"))
    core.opened("hall:3002", 1.0)
    assert core.deadline() == 9.0
    core.tick(8.9)
    assert core.ending is None
    core.tick(9.0)
    assert core.ending is not None
    assert core.ending.reason == "login-timeout"
    core.farewell()
    assert core.deadline() is None
    core.received(spp.auth_result(spp.AUTH_ACCEPTED), 9.5)
    assert (states, core.has_output, core.is_up) == ([], False, False), "it came too late"


def test_a_client_that_comes_back_says_so() -> None:
    core, states = new_core()
    core.subscribe(Inbox(), ["tv", "lamp/+"], lambda _: None)
    for _ in range(2):
        core.opened("hall:3002", 0.0)
        core.received(spp.offer("lamp/1"), 0.0)
        assert core.take_output() == [spp.subscribe("lamp/1")]
        core.lost(LOST, 0.0)
    assert states == [Up("hall:3002"), Up("hall:3002"), Restored(("tv", "lamp/+"), ())]


def test_a_subscription_that_crosses_the_removal_is_made_again() -> None:
    core, _ = new_core()
    core.opened("hall:3002", 0.0)
    core.received(spp.offer("tv"), 0.0)
    core.subscribe(Inbox(), ["tv"], lambda _: None)
    core.received(spp.removed("tv"), 0.0)
    assert core.take_output() == [spp.subscribe("tv")], "which the server ignores"
    core.received(spp.offer("tv"), 0.0)
    assert core.take_output() == [spp.subscribe("tv")]


def test_what_precedes_too_large_a_packet_is_taken() -> None:
    core, _ = new_core(max_payload=100)
    inbox: Inbox[Message] = Inbox()
    core.subscribe(inbox, ["x" * 255], lambda _: None)
    core.opened("hall:3002", 0.0)
    good, bad = spp.info("x" * 255, bytes(100)), spp.info("x" * 255, bytes(101))
    with pytest.raises(RemoteProtocolError) as caught:
        core.received(good + bad, 0.0)
    assert caught.value.reason == "packet-too-large"
    assert [each.payload for each in inbox.take_many(9) if isinstance(each, Message)] == [bytes(100)]


def test_what_the_protocol_has_no_word_for_is_refused() -> None:
    core, _ = new_core()
    with pytest.raises(BusError) as caught:
        core.subscribe(Inbox(), ["a", "\0"], lambda _: None)
    assert caught.value.reason == "bad-service-name"
    core.opened("hall:3002", 0.0)
    core.received(spp.offer("a"), 0.0)
    assert not core.has_output, "nothing was subscribed before the bad name"
    with pytest.raises(Unsupported, match="a client of spp cannot publish"):
        core.publish("a", b"", None, {}, None)
    with pytest.raises(Unsupported, match="cannot ask services"):
        network(core, "ask services")
