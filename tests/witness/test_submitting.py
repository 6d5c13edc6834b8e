"""A journal asks its witnesses: some are away, know another size, refuse, or never answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock

from bussrv.net.posting import NotPosted, Posted
from bussrv.transparency.checkpoints import parse_checkpoint
from bussrv.transparency.cosignatures import SigningKey
from bussrv.transparency.notes import COSIGNATURE
from bussrv.transparency.witnessing import (
    CONFLICT,
    SIZE_TYPE,
    Rejection,
    WitnessAddress,
    cosignatures_in,
    parse_submission,
)
from bussrv.witness.memory import Cosigned, WitnessMemory
from bussrv.witness.submitting import AWAY, EVERY, SealedNote, Witnesses
from bussrv.witness.witness import Witness
from tests.witness.logs import Log

KEY = SigningKey("attic.example/w1", COSIGNATURE, bytes(32))


class Journal:
    """A journal whose every entry is sealed."""

    def __init__(self) -> None:
        self.log = Log("hall.example")
        self.sealed: SealedNote | None = None
        self.kept: list[tuple[str, str]] = []
        self.said: list[tuple[str, str, int, str]] = []

    def grow(self, *entries: bytes, closed: bool = False) -> None:
        self.log.entries += entries
        self.seal(closed=closed)

    def seal(self, *, closed: bool = False) -> None:
        number = 0 if self.sealed is None else int(self.sealed.seal) + 1
        self.sealed = SealedNote(str(number), 1, len(self.log.entries), closed, self.log.checkpoint())

    def last_checkpoint(self) -> SealedNote | None:
        return self.sealed

    def growth_proof(self, begin: int, old: int, size: int) -> Deferred[list[bytes]]:
        assert begin == 1
        return succeed(self.log.tree.consistency(old, size))

    def cosign(self, sealed: SealedNote, signatures: str) -> None:
        self.kept.append((sealed.seal, signatures))

    def witnessed(self, witness: str, size: int) -> None:
        self.said.append(("witnessed", witness, size, ""))
        self.log.entries.append(b"witnessed")

    def refused(self, witness: str, size: int, message: str) -> None:
        self.said.append(("refused", witness, size, message))
        self.log.entries.append(b"refused")


class Memory(WitnessMemory):
    """A witness' memory without a disk."""

    def __init__(self) -> None:
        self._newest = {}

    def add(self, cosigned: Cosigned, time: int) -> None:
        self._newest[cosigned.checkpoint.origin] = cosigned


class Place:
    """A journal, a witness, and what lies between them."""

    def __init__(self, key: SigningKey = KEY) -> None:
        self.clock = Clock()
        self.journal = Journal()
        self.witness = Witness(
            {self.journal.log.origin: [self.journal.log.key.verifier]}, [key], Memory(), lambda: 1_000_000
        )
        self.asked: list[tuple[float, str]] = []
        self.answer: Callable[[bytes], Deferred[Posted]] = self.honest
        address = WitnessAddress("http://attic.example/w/", (KEY.verifier,))
        self.witnesses = Witnesses([address], self.journal, self.post, self.clock)
        self.witnesses.start()

    def post(self, url: str, body: bytes) -> Deferred[Posted]:
        self.asked.append((self.clock.seconds(), url))
        return self.answer(body)

    def honest(self, body: bytes) -> Deferred[Posted]:
        try:
            given = self.witness.cosign(parse_submission(body))
        except Rejection as error:
            kind, text = (SIZE_TYPE, f"{error.size}\n") if error.status == CONFLICT else ("text/plain", f"{error}\n")
            return succeed(Posted(error.status, kind, text.encode()))
        return succeed(Posted(200, "text/plain", "".join(each.line for each in given).encode()))

    def pass_time(self, seconds: float) -> None:
        self.clock.pump([1.0] * int(seconds))


@given(st.lists(st.sampled_from(["entry", "minute", "end", "away", "back", "restart"]), max_size=30))
def test_what_is_sealed_is_cosigned_once_the_witness_is_there(steps: list[str]) -> None:
    place = Place()
    for number, step in enumerate(steps):
        if step in ("entry", "end"):
            place.journal.grow(b"%d" % number, closed=step == "end")
        elif step == "minute":
            place.pass_time(EVERY)
        elif step == "away":
            place.answer = lambda body: fail(NotPosted("away"))
        elif step == "back":
            place.answer = place.honest
        elif step == "restart":
            # A new boot does not know what was cosigned.
            place.witnesses.stop()
            address = WitnessAddress("http://attic.example/w", (KEY.verifier,))
            place.witnesses = Witnesses([address], place.journal, place.post, place.clock)
            place.witnesses.start()
        place.pass_time(1)
    place.answer = place.honest
    place.journal.grow(b"last")
    place.pass_time(EVERY + 1)
    assert place.journal.sealed is not None
    size = place.journal.sealed.size
    (condition,) = place.witnesses.conditions()
    assert (condition.size, condition.trouble) == (size, "")
    assert place.journal.said[-1] == ("witnessed", KEY.name, size, "")
    assert all(kind == "witnessed" for kind, *_ in place.journal.said)
    seal, signatures = place.journal.kept[-1]
    assert seal == place.journal.sealed.seal
    assert cosignatures_in(signatures.encode(), place.journal.sealed.note.text, [KEY.verifier])
    place.witnesses.stop()
    assert place.clock.getDelayedCalls() == []


def test_it_is_asked_once_a_minute_and_when_a_segment_ends() -> None:
    place = Place()
    for number in range(180):
        place.journal.grow(b"%d" % number, closed=number == 100)
        place.pass_time(1)
    times = [time for time, _ in place.asked]
    assert len(times) == 4
    assert times[2] in (100, 101)
    assert {url for _, url in place.asked} == {"http://attic.example/w/add-checkpoint"}


def test_a_server_without_clients_comes_to_rest() -> None:
    """What a witness says is journaled, and so sealed; that alone is not sent to it."""
    place = Place()
    place.journal.grow(b"x")
    for _ in range(9):
        place.pass_time(EVERY)
        place.journal.seal()
    assert len(place.asked) == 1
    place.journal.grow(b"y")
    place.pass_time(2)
    assert len(place.asked) == 2


def test_a_journal_that_forgot_its_end_is_told_so_once() -> None:
    place = Place()
    place.journal.grow(*[b"%d" % number for number in range(9)])
    place.pass_time(1)
    for _ in range(3):
        del place.journal.log.entries[5:]
        place.journal.seal()
        place.pass_time(EVERY)
    place.journal.log.entries += [b"other"] * 9
    place.journal.seal()
    place.pass_time(EVERY)
    (_, *refused) = place.journal.said
    assert [(kind, size) for kind, _, size, _ in refused] == [("refused", 5), ("refused", 14)]
    assert refused[0][3] == "it has cosigned 9 records, and this journal has 5"
    assert refused[1][3].startswith("422 the proof does not show that the 9 cosigned entries of hall.example")
    assert len(place.journal.kept) == 1


def test_a_witness_that_is_away_for_an_hour_is_said_once() -> None:
    place = Place()

    def grow(minutes: int) -> None:
        for _ in range(minutes):
            place.journal.grow(b"x")
            place.pass_time(EVERY)

    def said() -> list[tuple[str, str]]:
        return [(kind, message) for kind, _, _, message in place.journal.said if kind == "refused"]

    place.answer = lambda body: fail(NotPosted("no route"))
    grow(int(AWAY / EVERY))
    assert said() == []
    grow(10)
    away = ("refused", "it cannot be asked for an hour or more")
    assert said() == [away]
    place.answer = place.honest
    grow(1)
    # It was there in between, so the hour begins again.
    place.answer = lambda body: fail(NotPosted("no route"))
    grow(int(AWAY / EVERY))
    assert said() == [away]
    grow(1)
    assert said() == [away, away]


ANSWERS = {
    "it answered 503 later": Posted(503, "text/plain", b"later\n"),
    "it answered 429 slowly": Posted(429, "text/plain", b"slowly"),
    "404 hall.example is not a log": Posted(404, "text/plain", b"hall.example is not a log\n"),
    "403 " + "x" * 196: Posted(403, "text/plain", b"x" * 5000),
    "it says another size each time": Posted(409, SIZE_TYPE, b"0\n"),
    "the size that it says is none": Posted(409, SIZE_TYPE + "; charset=utf-8", b"-1\n"),
    "409 3": Posted(409, "text/plain", b"3\n"),
    "its answer is wrong: a note has a text, an empty line, and a line for each signature": Posted(
        200, "text/plain", b""
    ),
    "it cosigned with a key that is not known here": Posted(
        200, "text/plain", SigningKey(KEY.name, COSIGNATURE, bytes([1]) * 32).sign("x", 1).line.encode()
    ),
}


@pytest.mark.parametrize("trouble", ANSWERS)
def test_an_answer_that_is_no_cosignature_keeps_nothing(trouble: str) -> None:
    place = Place()
    place.answer = lambda body: succeed(ANSWERS[trouble])
    place.journal.grow(b"x")
    place.pass_time(1)
    (condition,) = place.witnesses.conditions()
    assert (condition.size, condition.trouble) == (None, trouble)
    assert place.journal.kept == []
    is_refusal = trouble[0].isdigit() or "wrong" in trouble or "known here" in trouble
    assert [each[0] for each in place.journal.said] == (["refused"] if is_refusal else [])


def test_one_that_never_answers_is_asked_once() -> None:
    place = Place()
    place.answer = lambda body: Deferred()
    for number in range(5):
        place.journal.grow(b"%d" % number)
        place.pass_time(EVERY)
    assert len(place.asked) == 1
    stopped: list[object] = []
    place.witnesses.stop().addCallback(stopped.append)
    assert stopped


def test_the_checkpoint_that_was_sent_is_the_one_that_is_kept() -> None:
    """The journal grows while the witness thinks."""
    place, waiting = Place(), list[tuple[bytes, Deferred[Posted]]]()

    def later(body: bytes) -> Deferred[Posted]:
        waiting.append((body, Deferred()))
        return waiting[-1][1]

    place.answer = later
    place.journal.grow(b"a")
    place.pass_time(1)
    place.journal.grow(b"b")
    place.pass_time(EVERY)
    ((body, answered),) = waiting
    place.honest(body).chainDeferred(answered)
    ((seal, signatures),) = place.journal.kept
    note = parse_submission(body).note
    assert (seal, parse_checkpoint(note.text).size) == ("0", 1)
    assert cosignatures_in(signatures.encode(), note.text, [KEY.verifier])
