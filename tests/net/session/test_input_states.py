"""The states of input: the table by itself, and a walk on which a connection comes to the states that it should."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from twisted.internet.defer import Deferred

from bussrv.bus.flush_schedule import NEVER
from bussrv.formats.objects.members import MemberProtocol
from bussrv.formats.objects.object_system import OBJECT_SYSTEM
from bussrv.formats.objects.vocabulary import Vocabulary
from bussrv.net.session.factory import StreamFactory
from bussrv.net.session.input_states import BUSY, READS, SERVES, TRANSITIONS, WAITS, InputEvent, State
from bussrv.wire.objects import BusObject, encode
from tests.formats.network import Connection, Network

ENDS = {State.ENDED, State.ENDED_BUSY}


def after(state: State) -> set[State]:
    return {rows[state] for rows in TRANSITIONS.values()} - {state}


def reached(state: State) -> set[State]:
    found = {state}
    while more := {each for known in found for each in after(known)} - found:
        found |= more
    return found


def test_every_state_is_reached_and_all_sessions_end() -> None:
    assert reached(State.NO_SESSION) == set(State)
    for state in set(State) - {State.NO_SESSION}:
        assert TRANSITIONS[InputEvent.END][state] in ENDS
        assert (State.ENDED in after(state)) == (state not in {*BUSY, State.CUT_BUSY, State.ENDED})
    assert reached(State.ENDED) == ENDS


def test_what_waits_is_served_and_nothing_is_while_there_is_work() -> None:
    assert {state for state in State if TRANSITIONS[InputEvent.SLICE][state] in SERVES} == {*WAITS, *SERVES}
    for state in BUSY:
        assert not after(state) & {*SERVES, State.SERVING_ALONE}


def test_of_a_session_that_is_cut_or_has_ended_nothing_is_served() -> None:
    assert reached(State.CUT) == {State.CUT, State.CUT_BUSY, *ENDS}


def test_input_of_the_last_kind_stays_so_until_all_is_served() -> None:
    last = {State.WAITING_LAST, State.SERVING_LAST, State.BUSY_LAST}
    for state in last:
        assert after(state) <= {*last, State.CUT, State.CUT_BUSY, *ENDS}
    assert {
        state for state in {*READS, *WAITS, *SERVES, *BUSY} if TRANSITIONS[InputEvent.LAST][state] not in last
    } == set()


def test_the_clock_of_input_does_not_count_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor what a client does not send. How long input takes is shown to operators."""
    network = Network()
    member = network.member()
    read, since = member.connection.protocol.input, []
    flush = network.bus.flush
    monkeypatch.setattr(network.bus, "flush", lambda at: (since.append(at), flush(at)))
    for further in ((), ({"event": "ping"},)):
        network.journal.hold()
        member.send({"event": "services/register", "name": f"tv{len(further)}"})
        for each in further:
            member.send(each)
        network.reactor.advance(5)
        since.clear()
        network.journal.release()
        network.reactor.advance(0)
        assert read.read_at is NEVER
        assert set(since) == ({network.reactor.seconds()} if further else set())
        network.reactor.advance(5)


class Scripted(MemberProtocol):
    """A connection whose client also says what the server is to do: to work, or to be slow."""

    FORMAT = "objects"

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.works: list[Deferred[None]] = []
        self.served: list[str] = []

    def serve(self, obj: BusObject) -> None:
        assert not self.is_busy
        what = obj.head.event
        assert what is not None
        self.served.append(what)
        if what == "work":
            self.works.append(Deferred())
            self.busy_until(self.works[-1])
        elif what == "slow":
            self.reactor.rightNow += 1

    VOCABULARY = Vocabulary(
        OBJECT_SYSTEM.joining, {**OBJECT_SYSTEM.events, **dict.fromkeys(("plain", "work", "slow"), serve)}
    )


OBJECTS = {
    "plain": encode({"event": "plain"}),
    "work": encode({"event": "work"}),
    "slow": encode({"event": "slow"}),
    "routed": encode({"type": "a/b"}),
    "command": encode({"event": "services/register", "name": "tv000"}),
    "refused": encode({"event": "services/register", "name": 7}),
}
SCRIPTED = ("plain", "work", "slow")


class Walk(RuleBasedStateMachine):
    """What the client and others do, and what is known of the input without its state."""

    @initialize(life=st.integers(1, 40))
    def connect(self, life: int) -> None:
        self.network = Network()
        factory = StreamFactory(Scripted, self.network.bus, self.network.reactor)
        factory.in_turns = True
        self.connection = Connection(factory.buildProtocol(None))
        protocol = self.connection.protocol
        assert isinstance(protocol, Scripted)
        self.protocol, self.read = protocol, protocol.input
        self.connection.send_bytes(encode({"event": "routing/subscribe"}))
        self.network.journal.hold()
        self.left: list[str] = []  # events that are not served
        self.served: list[str] = []
        self.life = life  # chunks and turns before the end may come
        self.count = 0
        self.rest = b""  # of an object of which the beginning came
        self.work = ""  # what is under way
        self.waits = self.has_second = self.has_last = self.is_alone = self.is_answered = False
        self.has_unserved = self.is_cut = self.has_ended = False

    # What happens.

    @rule()
    def others_take_the_turn(self) -> None:
        self.network.bus.slices.spend(1.0)

    @rule()
    def next_turn(self) -> None:
        self.life -= 1
        self.network.reactor.advance(0)
        self.network.bus.slices.begin_turn()
        if self.is_cut:
            self.end_session()
        while self.waits:
            self.serve()

    @precondition(lambda self: not (self.has_last or self.is_cut or self.has_ended or self.rest))
    @rule(
        what=st.one_of(
            st.sampled_from([["command"], ["command"], ["refused"], ["work"]]),
            st.lists(st.sampled_from(sorted(OBJECTS)), min_size=1, max_size=4),
        ),
        cut=st.integers(0, 9),
    )
    def chunk(self, what: list[str], cut: int) -> None:
        """A chunk comes; sometimes the end of its last object comes later."""
        data = b"".join(map(self.made, what))
        if cut == 0:
            data, self.rest = data[:-1], data[-1:]
        self.come(data, what[: len(what) - (cut == 0)])
        self.last_object = what[-1]

    def made(self, what: str) -> bytes:
        """An object. Each command registers another service."""
        self.count += 1
        self.life -= 1
        return OBJECTS[what].replace(b"tv000", b"tv%03d" % self.count)

    @precondition(lambda self: self.rest and not (self.has_last or self.is_cut or self.has_ended))
    @rule()
    def rest_of_an_object(self) -> None:
        data, self.rest = self.rest, b""
        self.come(data, [self.last_object])

    def come(self, data: bytes, what: list[str]) -> None:
        is_free, is_command = self.network.bus.slices.is_free, what in (["command"], ["refused"])
        self.connection.send_bytes(data)
        is_alone = self.is_answered and is_free and is_command and not self.rest
        self.is_answered = False
        if is_alone:
            self.is_alone, self.is_answered = what == ["command"], what == ["refused"]
            self.work = "command" if self.is_alone else ""
            return
        self.left += what
        if self.work or self.waits:
            self.has_second, self.is_alone, self.has_unserved = True, False, True
            return
        self.has_unserved = True
        self.begin(is_free)

    @precondition(lambda self: self.protocol.works and self.work == "work")
    @rule()
    def work_is_done(self) -> None:
        is_free = self.network.bus.slices.is_free
        self.protocol.works.pop().callback(None)
        self.done(is_free, is_answered=False)

    @precondition(lambda self: self.work == "command")
    @rule()
    def change_is_durable(self) -> None:
        is_free = self.network.bus.slices.is_free
        self.network.journal.release(self.network.journal.held)
        self.done(is_free, is_answered=True)

    @precondition(lambda self: not (self.life > 0 or self.has_last or self.is_cut or self.has_ended))
    @rule()
    def half_close(self) -> None:
        is_free = self.network.bus.slices.is_free
        self.protocol.readConnectionLost()
        self.has_last, self.is_alone, self.is_answered = True, False, False
        if not (self.work or self.waits):
            self.begin(is_free)

    @precondition(lambda self: not (self.life > 0 or self.is_cut or self.has_ended))
    @rule(lost=st.booleans())
    def session_is_cut(self, lost: bool) -> None:
        is_free = self.network.bus.slices.is_free
        if lost:
            self.connection.close()
        else:
            self.protocol.link.pauseProducing()
            self.protocol.overflow(1)
        self.is_cut, self.waits = True, False
        if lost and is_free:
            self.end_session()

    @precondition(lambda self: not (self.life > 0 or self.has_ended))
    @rule()
    def session_ends(self) -> None:
        self.protocol.end("closed-by-operator")
        self.end_session()

    # What comes of it.

    def begin(self, is_free: bool) -> None:
        self.waits = True
        if is_free:
            self.serve()

    def serve(self) -> None:
        self.waits = False
        while self.left and not self.work:
            what = self.left.pop(0)
            self.served += [what] * (what in SCRIPTED)
            self.work = what if what in ("work", "command") else ""
            if what == "slow":
                self.waits = True
                return
        if not self.work:
            self.all_is_served()

    def all_is_served(self) -> None:
        self.has_second = self.has_unserved = False
        if self.has_last:
            # The session ends in a slice.
            self.is_cut = True
            if self.network.bus.slices.is_free:
                self.end_session()

    def done(self, is_free: bool, *, is_answered: bool) -> None:
        was_alone, self.is_alone, self.work = self.is_alone, False, ""
        if self.has_ended or self.is_cut:
            return
        if was_alone or not (self.left or self.rest or self.has_second or self.has_last):
            self.is_answered = is_answered
            self.has_unserved = False
        else:
            self.begin(is_free)

    def end_session(self) -> None:
        self.has_ended, self.waits = True, False

    def expected(self) -> set[State]:
        if self.has_ended:
            return {State.ENDED_BUSY if self.work else State.ENDED}
        if self.is_cut:
            return {State.CUT_BUSY if self.work else State.CUT}
        if self.is_alone:
            return {State.BUSY_ALONE}
        if not (self.work or self.waits):
            return {State.READING_COMMANDS} if self.is_answered else {State.READING, State.READING_DIRECTLY}
        kind = 2 if self.has_last else 1 if self.has_second else 0
        return {(BUSY if self.work else WAITS)[kind]}

    @invariant()
    def the_state_is_what_it_should_be(self) -> None:
        assert self.read.state in self.expected()

    @invariant()
    def events_are_served_in_order(self) -> None:
        assert self.protocol.served == self.served

    @invariant()
    def what_is_not_served_is_known(self) -> None:
        if not (self.is_cut or self.has_ended):
            assert (self.read.read_at is not NEVER) == self.has_unserved
            assert self.protocol.is_busy == bool(self.work)
            assert self.protocol.is_unserved() == bool(self.work or self.waits)

    @invariant()
    def the_transport_is_paused_exactly_while_a_second_chunk_waits(self) -> None:
        if not (self.is_cut or self.has_ended or self.has_last):
            assert (self.connection.transport.producerState == "paused") == self.has_second

    def teardown(self) -> None:
        """A connection that is gone is forgotten, whatever its input was."""
        if hasattr(self, "connection"):
            if self.connection.is_open:
                self.connection.close()
            self.network.reactor.advance(0)
            assert self.protocol not in self.protocol.factory.protocols
            assert self.read.state is (State.ENDED_BUSY if self.work else State.ENDED)


TestWalk = Walk.TestCase
