"""The core of the clients that exchange objects, against an honest server, over a pipe that breaks at any byte."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bussrv.client.core.framing import PlainFraming
from bussrv.client.core.inbox import Inbox
from bussrv.client.core.objects import ObjectsCore
from bussrv.client.errors import BufferFull, BusError, Closed, Lost, Offline, TimedOut
from bussrv.client.events import (
    Appeared,
    Change,
    Down,
    Gap,
    Gone,
    Message,
    Object,
    Reply,
    Request,
    Restored,
    State,
    Up,
)
from bussrv.client.settings import Buffer, Settings
from tests.client.core.fake_server import FakeServer, Pair
from tests.size import sized
from tests.wire.chunks import in_bytes

SERVICES = ["a", "b", "c"]
TIMEOUT, SILENCE, MAX_LEAVE = 8, 32, 5

_service = st.sampled_from(SERVICES)
_services = st.lists(_service, min_size=1, max_size=2, unique=True)
_often = st.sampled_from([True, True, True, False])


class Outcome:
    """What one who waits was told: once."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def __call__(self, answer: Any) -> None:
        assert not self.told, f"{answer!r} after {self.told!r}"
        self.told.append(answer)

    @property
    def is_fine(self) -> bool:
        return self.told == [None]


@dataclass(eq=False)
class Subscriber:
    """
    :ivar truth: everything that was published on its services until it ended.
    :ivar since: how much of that there was when the server had granted the subscription.
    """

    names: tuple[str, ...]
    inbox: Inbox[Message]
    truth: list[bytes] = field(default_factory=list)
    since: int | None = None
    told: list[BusError | None] = field(default_factory=list)
    taken: list[Message | Gap] = field(default_factory=list)

    def done(self, error: BusError | None) -> None:
        assert not self.told
        self.told.append(error)
        self.since = len(self.truth)

    def check(self, *, is_settled: bool = False) -> None:
        """It has taken everything in order, or gaps say that something is missing."""
        self.taken += self.inbox.take_many(1000)
        place, is_covered = 0, False
        for each in self.taken:
            if isinstance(each, Gap):
                is_covered = True
                continue
            found = self.truth.index(each.payload)
            assert found >= place, "out of order, or twice"
            assert is_covered or not self.missing(place, found)
            place, is_covered = found + 1, False
        if is_settled and self.inbox.error is None:
            assert is_covered or not self.missing(place, len(self.truth))

    def missing(self, begin: int, end: int) -> bool:
        return self.since is not None and max(begin, self.since) < end


@dataclass(eq=False)
class Publication:
    service: str
    payload: bytes
    outcome: Outcome | None


class ObjectsMachine(RuleBasedStateMachine):
    """
    :ivar up: bytes on their way to the server.
    :ivar down: bytes on their way to the client.
    :ivar has_left: whether the client has ended this connection; the bytes before that still arrive.
    :ivar flying: the publications of which the present connection, or else the next one, is to bring all.
    """

    @initialize(name=st.sampled_from(["objects", "objects", "business"]), keeps=st.booleans())
    def make(self, name: Any, keeps: bool) -> None:
        given = Settings(timeout=TIMEOUT, silence=SILENCE, offline=Buffer(3, 100) if keeps else "raise")
        self.core = ObjectsCore(given, self.tell, lambda: PlainFraming(1000), name)
        self.server = FakeServer()
        self.now, self.number = 0.0, 0
        self.is_connected = self.has_left = False
        self.up = self.down = b""
        self.restored: Restored | None = None
        self.ups = 0
        self.subscribers: list[Subscriber] = []
        self.history: list[tuple[str, bytes]] = []
        self.provided: set[str] = set()
        self.registrations: list[Outcome] = []
        self.flushes: list[Outcome] = []
        self.requests: list[tuple[bytes, float | None, Outcome, str]] = []
        self.unwritten: set[bytes] = set()
        self.forgotten: list[Outcome] = []
        self.handed: list[Request] = []
        self.publications: list[Publication] = []
        self.flying: list[Publication] = []
        self.leave_by: float | None = None

    def tell(self, state: State) -> None:
        assert not isinstance(state, Down), "drivers tell that"
        if isinstance(state, Up):
            assert self.is_connected
            assert not self.has_left
            self.restored = None
            self.ups += 1
        elif isinstance(state, Restored):
            assert self.restored is None
            self.restored = state

    # The connection.

    @precondition(lambda self: not self.is_connected)
    @rule()
    def connect(self) -> None:
        self.is_connected, self.has_left, self.leave_by = True, False, None
        self.server.connect()
        self.core.opened("hall:7890", self.now)
        self.drive()

    @precondition(lambda self: self.is_connected)
    @rule()
    def lose(self) -> None:
        self.is_connected, self.leave_by = False, None
        self.up = self.down = b""
        self.handed.clear()
        self.flying = []
        open_before = [each for each in self.requests if not each[2].told]
        self.core.lost(self.core.last_error or Lost("connection-lost", "it broke"), self.now)
        for payload, _, outcome, _ in open_before:
            (error,) = outcome.told
            assert isinstance(error, Lost)
            assert error.maybe_done == (payload not in self.unwritten)
            assert error.maybe_done or payload not in self.server.asked
        self.unwritten.clear()
        assert len(self.core._questions) == self.core._services.open_requests == 0
        assert self.core.deadline() is None

    @precondition(lambda self: self.is_connected)
    @rule()
    def write(self) -> None:
        self.unwritten.clear()
        self.up += b"".join(self.core.take_output())

    @precondition(lambda self: self.up)
    @rule(size=st.integers(1, 400))
    def arrive(self, size: int) -> None:
        data, self.up = self.up[:size], self.up[size:]
        self.server.receive(data)
        self.down, self.server.output = self.down + self.server.output, b""

    @precondition(lambda self: self.down)
    @rule(size=st.integers(1, 400))
    def receive(self, size: int) -> None:
        data, self.down = self.down[:size], self.down[size:]
        self.core.received(data, self.now)
        self.drive()

    @precondition(lambda self: self.is_connected)
    @rule(times=st.integers(1, 4))
    def exchange(self, times: int) -> None:
        for _ in range(times):
            self.move()

    @rule(seconds=st.sampled_from([0.5, 0.5, 3, 6, 16, 40]))
    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while (deadline := self.core.deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            self.core.tick(self.now)
            self.drive()
            later = self.core.deadline()
            assert later is None or later > self.now
        self.now = until
        assert self.has_left or self.leave_by is None or self.now < self.leave_by

    def drive(self) -> None:
        """As drivers do: end the connection if the core says so."""
        if self.is_connected and self.core.ending is not None and not self.has_left:
            self.write()
            self.up += self.core.farewell()
            self.has_left = True

    # What the program does.

    @precondition(lambda self: len(self.subscribers) < 4)
    @rule(names=_services)
    def subscribe(self, names: list[str]) -> None:
        # What is on its way to others, it is given, too.
        each = Subscriber(tuple(names), Inbox(), [payload for name, payload in self.history if name in names])
        self.subscribers.append(each)
        self.core.subscribe(each.inbox, each.names, each.done)

    @precondition(lambda self: self.subscribers)
    @rule(place=st.integers(0, 3))
    def unsubscribe(self, place: int) -> None:
        each = self.subscribers.pop(place % len(self.subscribers))
        self.core.unsubscribe(each.inbox)
        each.check()

    @rule(name=_service, answers=st.booleans())
    def provide(self, name: str, answers: bool) -> None:
        outcome = Outcome()
        try:
            self.core.provide(name, self.handed.append if answers else None, outcome)
        except ValueError:
            assert name in self.provided
        else:
            self.provided.add(name)
            self.registrations.append(outcome)

    @rule(name=_service)
    def withdraw(self, name: str) -> None:
        self.provided.discard(name)
        self.flushes.append(Outcome())
        self.core.withdraw(name, self.flushes[-1])

    @rule(name=_service, confirms=st.booleans(), more=st.booleans())
    def publish(self, name: str, confirms: bool, more: bool) -> None:
        self.number += 1
        each = Publication(name, b"%d" % self.number, Outcome() if confirms else None)
        try:
            self.core.publish(name, each.payload, "text/plain", {"app-type": 3} if more else {}, each.outcome)
        except Offline:
            assert not self.core.is_up
        except BusError:
            assert name in self.server.refused
        else:
            self.publications.append(each)
            self.flying.append(each)

    @rule(seconds=st.sampled_from([None, 0, 2, 10]), name=_service)
    def request(self, seconds: int | None, name: str) -> None:
        self.number += 1
        payload, outcome = b"%d" % self.number, Outcome()
        deadline = None if seconds is None else self.now + seconds
        try:
            identifier = self.core.request(name, payload, "a/b", {}, outcome, deadline)
        except Offline:
            assert not self.core.is_up
        else:
            self.requests.append((payload, deadline, outcome, identifier))
            self.unwritten.add(payload)

    @precondition(lambda self: self.requests)
    @rule(place=st.integers(0, 9))
    def forget(self, place: int) -> None:
        _, _, outcome, identifier = self.requests.pop(place % len(self.requests))
        self.core.forget(identifier)
        if not outcome.told:
            self.forgotten.append(outcome)

    @precondition(lambda self: self.core.is_up)
    @rule()
    def flush(self) -> None:
        self.flushes.append(Outcome())
        self.core.flush(self.flushes[-1])

    @precondition(lambda self: self.handed)
    @rule(place=st.integers(0, 9), reason=st.sampled_from([None, "broken"]))
    def answer_as_provider(self, place: int, reason: str | None) -> None:
        request = self.handed.pop(place % len(self.handed))
        if reason is None:
            self.core.reply(request, b"!", "a/b")
        else:
            self.core.reject(request, reason, "It is broken.")

    # What happens on the other side.

    @rule(name=_service)
    def publish_elsewhere(self, name: str) -> None:
        self.number += 1
        self.history.append((name, b"%d" % self.number))
        for each in self.subscribers:
            if name in each.names and each.inbox.error is None:
                each.truth.append(b"%d" % self.number)
        if self.is_connected and self.server.is_joined:
            self.server.publish(name, b"%d" % self.number)

    @precondition(lambda self: self.server.is_joined)
    @rule(name=_service)
    def request_elsewhere(self, name: str) -> None:
        self.server.request(name)

    @rule(place=st.integers(0, 9), reason=st.sampled_from([None, None, "no-such-service", "provider-gone", "broken"]))
    def answer_elsewhere(self, place: int, reason: str | None) -> None:
        self.server.answer(place, reason)

    @rule(name=_service, is_closed=st.booleans(), is_taken=st.booleans())
    def judge(self, name: str, is_closed: bool, is_taken: bool) -> None:
        """The policy of the server changes, for what is asked from now on."""
        (self.server.closed_to.add if is_closed else self.server.closed_to.discard)(name)
        (self.server.taken_already.add if is_taken else self.server.taken_already.discard)(name)

    @rule(has_disk=_often, busy=st.integers(0, 2))
    def trouble(self, has_disk: bool, busy: int) -> None:
        self.server.has_disk, self.server.busy = has_disk, busy

    @precondition(lambda self: self.is_connected and self.server.is_joined and not self.down)
    @rule(seconds=st.sampled_from([0, 4, 100, "soon", None]))
    def stop(self, seconds: Any) -> None:
        """The server is about to stop. What it says arrives at once."""
        if self.core.is_up:
            self.server.tell(event="abboe/close/notify", seconds=seconds)
            self.leave_by = self.now + MAX_LEAVE
            self.down, self.server.output = self.server.output, b""
            self.receive(len(self.down))

    # What holds.

    @rule()
    def settle(self) -> None:
        """Nothing stands in the way any more. Then everything is as the program wants it."""
        self.server.has_disk, self.server.busy = True, 0
        for _ in range(9):
            if not self.is_connected:
                self.connect()
            assert any(not self.conclude() for _ in range(200)), "they talk for ever"
            if not self.has_left:
                break
            self.lose()
        self.check_wanted()
        self.check_answered()
        for each in self.subscribers:
            each.check(is_settled=True)
        for publication in self.flying:
            is_refused = publication.service in self.server.refused
            assert is_refused or (publication.service, publication.payload) in self.server.published
        self.flying = []

    def move(self) -> bool:
        """:returns: whether something was on its way."""
        self.down, self.server.output = self.down + self.server.output, b""
        if self.core.has_output:
            self.write()
        if not (self.up or self.down):
            return False
        if self.up:
            self.arrive(len(self.up))
        if self.down:
            self.receive(len(self.down))
        return True

    def conclude(self) -> bool:
        """Nobody waits for an answer of a person."""
        while self.handed:
            self.answer_as_provider(0, None)
        while self.server.open:
            self.server.answer(0, None)
        return self.move()

    def check_wanted(self) -> None:
        server, core = self.server, self.core
        assert core.is_up
        assert self.restored is not None or self.ups < 2
        wanted = {name for each in self.subscribers if each.inbox.error is None for name in each.names}
        assert server.services == wanted
        assert server.rules == (list(core._wanted().rules) or ("none" if core.NAME == "business" else []))
        names = set(core._services.names)
        # It may refuse to forget one, too.
        assert server.registered - server.refused == names - server.refused
        assert self.provided - server.ever_refused <= names
        for each in self.subscribers:
            error = each.inbox.error
            assert each.told
            assert error is None or error.reason == "not-allowed" or each.told != [None]

    def check_answered(self) -> None:
        core = self.core
        assert all(each.told for each in [*self.registrations, *self.flushes])
        assert all(each.told for _, _, each, _ in self.requests)
        assert all(each.outcome is None or each.outcome.told for each in self.publications)
        assert not self.server.waiting
        assert len(core._questions) == core._services.open_requests == core._kept_bytes == 0
        assert core._questions.next_deadline() is None
        assert not core._waiting

    @invariant()
    def what_was_said_is_true(self) -> None:
        for each in self.publications:
            if each.outcome is not None and each.outcome.is_fine:
                assert (each.service, each.payload) in self.server.published
        numbers = [int(payload) for _, payload in self.server.published]
        assert numbers == sorted(set(numbers)), "in order, and once"
        assert not any(each.told for each in self.forgotten)
        for _, deadline, outcome, _ in self.requests:
            for answer in outcome.told:
                assert isinstance(answer, (Reply, BusError))
                assert not isinstance(answer, TimedOut) or (deadline is not None and deadline <= self.now)

    @invariant()
    def nothing_is_said_after_the_end(self) -> None:
        if self.has_left:
            assert not self.core.has_output
            assert not self.core.is_up
            assert self.core.take_output() == []

    def teardown(self) -> None:
        if hasattr(self, "core"):
            self.settle()


ObjectsMachine.TestCase.settings = settings(max_examples=sized(180), stateful_step_count=40)
TestObjects = ObjectsMachine.TestCase


def test_a_silent_server_is_asked_for_a_sign_and_then_left() -> None:
    pair = Pair(silence=SILENCE)
    pair.connect(now=1.0)
    assert pair.core.deadline() == 17.0
    pair.core.tick(17.0)
    pair.exchange(now=18.0)
    assert pair.core.deadline() == 34.0
    pair.core.tick(34.0)
    assert pair.core.has_output
    assert pair.core.deadline() == 50.0
    pair.core.tick(50.0)
    assert pair.core.ending is not None
    assert pair.core.ending.reason == "silent"


def test_while_a_client_does_not_read_nobody_is_silent() -> None:
    pair = Pair(silence=SILENCE)
    inbox, resumed = Inbox[Message](1, "pause"), []
    pair.core.resume = lambda: resumed.append(pair.core.is_paused)
    pair.core.subscribe(inbox, ["a"], lambda _: None)
    pair.connect()
    for _ in range(2):
        pair.server.publish("a", b"")
    pair.exchange()
    assert pair.core.is_paused
    pair.core.tick(100.0)
    assert (pair.core.ending, pair.core.has_output, pair.core.deadline()) == (None, False, 116.0)
    inbox.take_many(2)
    assert resumed == [False]


def test_a_server_that_never_accepts_is_left_for_good() -> None:
    pair = Pair(timeout=TIMEOUT, offline=Buffer())
    pair.core.publish("a", b"", None, {}, None)
    pair.core.opened("hall:7890", 0.0)
    pair.server.receive(b"".join(pair.core.take_output()))
    pair.core.tick(TIMEOUT)
    assert pair.core.ending is not None
    assert pair.core.ending.reason == "login-timeout"
    pair.core.farewell()
    assert pair.core.deadline() is None
    pair.exchange()
    assert (pair.states, pair.core.has_output) == ([], False), "what it says then comes too late"
    pair.lose()
    pair.connect()
    assert pair.server.published == [("a", b"")]


@pytest.mark.parametrize("seconds", ["9" * 400, "-" + "9" * 400, "1e999", "true", "[]", "-0.5"])
def test_a_server_that_stops_may_say_any_number(seconds: str) -> None:
    pair = Pair()
    pair.connect()
    pair.core.request("a", b"", "", {}, lambda _: None, None)
    pair.core.received(b'{"event":"abboe/close/notify","seconds":%s}\0' % seconds.encode(), 0.0)
    deadline = pair.core.deadline()
    assert pair.core.ending is not None or (deadline is not None and 0 <= deadline <= MAX_LEAVE)


def test_an_observer_is_given_what_matches_and_is_told_of_gaps() -> None:
    pair, inbox = Pair(), Inbox[Object](3, "drop-oldest", 9)
    pair.core.observe(inbox, ["text/*", "@ping"], lambda _: None)
    pair.connect()
    assert pair.server.rules == ["@services/reply", "@error", "text/*", "@ping"]
    for number in range(99):
        pair.server.tell(b"123", type="text/plain", number=number)
        pair.server.tell(b"123", type="image/png")
        pair.exchange()
        (obj,) = inbox.take_many(9)
        assert isinstance(obj, Object)
        assert (obj.metadata["number"], obj.payload) == (number, b"123")
    pair.server.tell(event="ping")
    pair.server.tell(event="error", reason="slow-consumer", message="It is too slow.")
    pair.exchange()
    assert [each.metadata for each in inbox.take_many(9) if isinstance(each, Object)] == [{"event": "ping"}]
    pair.core.lost(pair.core.last_error or Lost("connection-lost", "it broke"), 0.0)
    assert inbox.take_many(9) == [Gap(None, "slow-consumer")]
    pair.core.close(Closed("the client is closed"))
    assert isinstance(inbox.error, Closed)


def test_wildcards_of_spp_are_letters_in_the_object_network() -> None:
    pair, inboxes = Pair(), [Inbox[Message](), Inbox[Message]()]
    for inbox, name in zip(inboxes, ("tv1", "tv?"), strict=True):
        pair.core.subscribe(inbox, [name, "lamp/+"], lambda _: None)
    pair.connect()
    for number, name in enumerate(("tv1", "tv?")):
        pair.server.tell(b"%d" % number, sender=name, type="a/b")
    pair.exchange()
    taken = [[each.payload for each in inbox.take_many(9) if isinstance(each, Message)] for inbox in inboxes]
    assert taken == [[b"0"], [b"1"]]


def test_an_observer_is_not_shown_the_answers_to_its_own_pings() -> None:
    pair, inbox = Pair(), Inbox[Object]()
    pair.core.observe(inbox, ["*"], lambda _: None)
    pair.connect()
    pair.core.tick(pair.core.settings.silence / 2)
    pair.exchange()
    pair.server.tell(event="pong", route=["x", "hall"])
    pair.exchange()
    assert [each.metadata for each in inbox.take_many(9) if isinstance(each, Object)] == [
        {"event": "pong", "route": ["x", "hall"]}
    ]


def test_who_watches_is_told_of_each_session_once() -> None:
    pair, changes = Pair(), Inbox[Change]()
    pair.core.watch(changes)
    pair.connect()
    assert pair.server.rules == ["@services/reply", "@error", "@routing/subscribe/notification", "@routing/disconnect"]
    come, go = "routing/subscribe/notification", "routing/disconnect"
    for event, about in [(go, {"routing_id": "x"}), (come, {"routing_id": "x"}), (come, {"routing_id": "x"})]:
        pair.server.tell(event=event, **about)
    for event, about in [(come, {"route": ["y"]}), (go, {"route": ["x", "hall"]}), (come, {"routing_id": 5})]:
        pair.server.tell(event=event, **about)
    pair.exchange()
    pair.lose()
    x, y = "x", "y"
    assert changes.take_many(9) == [
        *(Appeared("session", x), Appeared("session", y), Gone("session", x), Gone("session", y)),
    ]
    pair.core.unsubscribe(changes)
    pair.connect()
    assert pair.server.rules == ["@services/reply", "@error"]


@pytest.mark.parametrize("event", ["x/reply", "pong", "services/discovery/reply"])
def test_what_any_member_may_send_answers_no_business_client(event: str) -> None:
    pair, told = Pair("business"), list[Any]()
    pair.connect()
    identifier = pair.core.request("a", b"", "", {}, told.append, None)
    pair.exchange()
    pair.server.tell(event=event, in_reply_to=identifier)
    pair.exchange()
    assert told == []
    pair.server.answer(0, None)
    pair.exchange()
    assert [each.payload for each in told] == [b"!"]


def test_it_knows_how_much_the_server_has_not_confirmed() -> None:
    pair = Pair()
    pair.connect()

    def publish(times: int) -> None:
        for _ in range(times):
            pair.core.publish("a", b"", None, {}, None)

    for times in (2, 3):
        publish(times)
        pair.core.flush(lambda _: None)
    publish(1)
    assert pair.core.unconfirmed == 6
    pair.exchange()
    assert pair.core.unconfirmed == 1
    pair.lose()
    assert pair.core.unconfirmed == 1, "the program is told"
    pair.connect()
    assert pair.core.unconfirmed == 0


def test_a_buffer_has_its_bounds() -> None:
    pair, told = Pair(offline=Buffer(2, 5)), list[BusError | None]()
    for payload in (b"12345", b""):
        pair.core.publish("a", payload, None, {}, told.append)
    for payload in (b"", b"1"):
        with pytest.raises(BufferFull, match="2 publications of 5 bytes"):
            pair.core.publish("a", payload, None, {}, None)
    with pytest.raises(BusError, match="bad-service-name"):
        pair.core.publish("", b"", None, {}, None)
    pair.core.close(Closed("the client is closed"))
    assert [(type(each), getattr(each, "maybe_done", None)) for each in told] == [(Lost, False)] * 2


def test_a_publication_is_confirmed_when_the_server_has_it() -> None:
    pair, told = Pair(), list[BusError | None]()
    pair.connect()
    pair.core.publish("a", b"on", None, {}, told.append)
    for byte in in_bytes(b"".join(pair.core.take_output())):
        pair.server.receive(byte)
        output, pair.server.output = pair.server.output, b""
        pair.core.received(output, 0.0)
        assert pair.server.published == [("a", b"on")] or not told
    assert told == [None]
