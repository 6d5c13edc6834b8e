"""Promises about input: where it is cut does not matter, and what is no input harms nobody."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from bussrv.testing.conformance.adapter import Said, shapes_of
from bussrv.testing.conformance.lab import Lab, Visitor, shortened
from bussrv.testing.conformance.trial import OWN, SERVICE, Promise, Trial, conversation, promise
from bussrv.testing.conformance.work import growth, seconds, steps

MOST_PLACES = 40
"""Places at which messages are cut, unless the trial is thorough."""

ROUNDS = 100
"""Inputs that are drawn for each trial of garbage; ten times as many if it is thorough."""

MOST_PIECES = 200
"""Chunks that one mutated conversation is sent in."""


class _Measure(NamedTuple):
    """How the work for messages is measured.

    :ivar size: of the shorter one, which comes in so many pieces; the other one is four times as long.
    :ivar most: how many times the work may become. In proportion it is 4, with the square of the size it is 16.
    """

    cost: Callable[[Callable[[], object]], float]
    size: int
    pieces: int
    most: float
    tries: int


MEASURES = (_Measure(steps, 1 << 11, 128, 5.0, 1), _Measure(seconds, 1 << 19, 1024, 6.5, 4))
"""Steps first: what takes too many of them would take very long seconds."""

ROOM = 1 << 22

MANY = 150
"""Messages in one chunk; and four times as many."""

Outcome = tuple[list[Said], list[tuple[str, bytes]], int]


class _Scene:
    """A server with a provider and an observer, to which one client after the other says the same."""

    def __init__(self, trial: Trial, **settings: object) -> None:
        self.lab = trial.lab(**settings)
        self._trial = trial
        self._provider = trial.provider(self.lab)
        self._provider.publish(SERVICE, b"shut")
        self._observer = trial.observer(self.lab, OWN)

    def visitor(self) -> Visitor:
        return self.lab.visitor(self._trial.name)

    def outcome(self, visitor: Visitor) -> Outcome:
        """What came of what a client said: what it was told, what the observer got, how many subscriptions it has."""
        self._provider.publish(SERVICE, b"open")
        told = [*visitor.history, *visitor.said()]
        seen = self._observer.published()
        subscriptions = sum(len(each) for each in self.lab.state.subscriptions.values())
        self._provider.publish(SERVICE, b"shut")
        visitor.leave()
        self._lapse()
        return told, seen, subscriptions

    def _lapse(self) -> None:
        """Nothing is left of the client for the next one."""
        self._observer.said()

    def whole(self) -> Outcome:
        """The outcome if each message comes whole."""
        visitor = self.visitor()
        for message in conversation(visitor):
            visitor.tell(message)
        return self.outcome(visitor)


def _difference(expected: Outcome, got: Outcome) -> str:
    names = ("the client is told", "a subscriber of its service gets", "the number of subscriptions is")
    for name, before, after in zip(names, expected, got, strict=True):
        if before != after:
            return f"{name} {after!r}, not {before!r}"
    return ""


@promise("stream")
def input_may_be_cut_anywhere(trial: Trial) -> None:
    """What a client sends means the same wherever its bytes are cut."""
    scene = _Scene(trial)
    expected = scene.whole()
    longest = max(map(len, conversation(trial.adapter)))
    for place in (0, *trial.some(range(1, longest), MOST_PLACES)):
        visitor = scene.visitor()
        for message in conversation(visitor):
            pieces = [message[:place], message[place:]] if place else [bytes([each]) for each in message]
            for piece in pieces:
                visitor.send(piece)
            visitor.said()
        got = scene.outcome(visitor)
        where = f"cut after byte {place}" if place else "sent byte by byte"
        trial.require(got == expected, f"with each message {where}, {_difference(expected, got)}")


@promise("stream", "pipelining")
def messages_may_come_at_once(trial: Trial) -> None:
    """Several messages in one chunk are served one after the other, as if each had come alone."""
    scene = _Scene(trial)
    expected = scene.whole()
    visitor = scene.visitor()
    visitor.tell(b"".join(conversation(visitor)))
    got = scene.outcome(visitor)
    trial.require(got == expected, f"with all messages in one chunk, {_difference(expected, got)}")


@promise("stream")
def clients_do_not_mix(trial: Trial) -> None:
    """The input of one client has nothing to do with that of another."""
    scene = _Scene(trial)
    expected = scene.whole()
    other, visitor = scene.visitor(), scene.visitor()
    begun = other.client.join() + other.client.subscribe(SERVICE)
    other.send(begun[: len(begun) // 2])
    for message in conversation(visitor):
        for place in range(0, len(message), 7):
            visitor.send(message[place : place + 7])
            if place == 0:
                other.send(begun[len(begun) // 2 :][:1])
                begun = begun[:-1]
        visitor.said()
    other.leave()
    got = scene.outcome(visitor)
    trial.require(got == expected, f"while another client sends a message, {_difference(expected, got)}")


def mutated(trial: Trial, data: bytes) -> bytes:
    """A message with up to four faults."""
    draw, garbled = trial.random, bytearray(data)
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(garbled) + 1)
        way = draw.randrange(4)
        if way == 0:
            del garbled[place : place + draw.randint(1, 8)]
        elif way == 1:
            garbled[place:place] = draw.randbytes(draw.randint(1, 8))
        elif way == 2 and garbled:
            garbled[place % len(garbled)] = draw.choice((0, 10, 13, 32, 45, 48, 57, 123, 127, 128, 255))
        else:
            garbled[place:place] = garbled[place : place + 16]
    return bytes(garbled)


def _garbage(trial: Trial, visitor: Visitor) -> list[bytes]:
    messages = list(conversation(visitor))
    if not trial.adapter.can("stream"):
        return [mutated(trial, each) if trial.random.random() < 0.7 else each for each in messages if each]
    whole = b"".join(messages)
    if trial.random.random() < 0.2:
        data = trial.random.randbytes(trial.random.randint(1, 60))
    elif trial.random.random() < 0.5:
        data = mutated(trial, whole)
    else:  # After a good start, more is in reach.
        first = len(messages[0])
        data = whole[:first] + mutated(trial, whole[first:])
    size = max(1, trial.random.choice((len(data), 1, 7)), len(data) // MOST_PIECES)
    return [data[begin : begin + size] for begin in range(0, len(data), size)]


@promise()
def garbage_harms_nobody(trial: Trial) -> None:
    """Whatever bytes a client sends, the format does not fail, and other clients are served."""
    lab = trial.lab()
    rounds = ROUNDS * (10 if trial.thorough else 1)
    for number in range(rounds):
        visitor = lab.visitor(trial.name)
        pieces = _garbage(trial, visitor)
        for piece in pieces:
            if visitor.is_open:
                visitor.send(piece)
        sent = shortened(b"".join(pieces))
        failure = trial.failure()
        trial.require(failure is None, f"the format fails at {sent} (seed {trial.seed}, input {number}): {failure}")
        visitor.leave()
    trial.check_served(lab, f"after {rounds} garbled inputs (seed {trial.seed})")
    _check_left(trial, lab)


def _check_left(trial: Trial, lab: Lab) -> None:
    if not trial.adapter.can("stream"):
        return
    lab.wait(120, 10)
    left = [each for each in lab.state.sessions.values() if each.protocol == trial.name]
    trial.require(not left, f"{len(left)} sessions are left after garbled inputs whose clients have gone")


def _long_messages(trial: Trial, size: int) -> dict[str, bytes]:
    """Messages of about this size, without their ends, as far as the format can say them."""
    client, found = trial.adapter.client(), {}
    with suppress(ValueError):
        found["a subscription"] = client.subscribe("x" * size)[:-1]
    with suppress(ValueError):
        for shape in shapes_of(client, size):
            found[f"a message that begins with {shape[:20]!r}" if "a message" in found else "a message"] = shape
    return found


def _check_pieces(trial: Trial, what: str, measure: _Measure) -> None:
    piece, is_taken = measure.size // measure.pieces, True

    def cost(size: int) -> float:
        nonlocal is_taken
        lab = trial.lab(max_packet=ROOM, max_payload=ROOM, max_inbound_total=ROOM)
        visitor = trial.client(lab)
        data = _long_messages(trial, size).get(what, b"")
        pieces = [data[begin : begin + piece] for begin in range(0, len(data), piece)]
        spent = measure.cost(lambda: visitor.give_each(pieces))
        lab.settle()
        is_taken &= bool(data) and visitor.is_open  # Otherwise it is longer than the format allows.
        return spent

    grown = growth(cost, measure.size, measure.most, measure.tries)
    trial.require(
        grown <= measure.most or not is_taken,
        f"{what} of {4 * measure.size} bytes, in pieces of {piece}, takes {grown:.1f} times the work of one of "
        f"{measure.size} bytes: with each piece, the format looks again at those before it",
    )


@promise("stream")
def work_grows_with_a_message(trial: Trial) -> None:
    """A message that comes in small pieces takes work in proportion to its size, however long it is."""
    for measure in MEASURES:
        for what in _long_messages(trial, measure.size):
            _check_pieces(trial, what, measure)


@promise("stream", "pipelining")
def work_grows_with_the_number_of_messages(trial: Trial) -> None:
    """Many messages in one chunk take work in proportion to their number."""

    def cost(count: int) -> float:
        lab = trial.lab(max_inbound_total=1 << 30)
        trial.provider(lab)
        visitor = trial.client(lab)
        client = visitor.client
        say = client.publish if trial.adapter.can("publish") else lambda service, _: client.subscribe(service)
        if trial.adapter.can("provide"):
            visitor.provide(OWN)
        chunk = b"".join(say(OWN if trial.adapter.can("publish") else SERVICE, b"on") for _ in range(count))
        return steps(lambda: visitor.send(chunk))

    most = MEASURES[0].most
    grown = growth(cost, MANY, most)
    trial.require(
        grown <= most,
        f"{4 * MANY} messages in one chunk take {grown:.1f} times the work of {MANY}: with each message, the format "
        "looks again at the others",
    )


PROMISES: tuple[Promise, ...] = (
    input_may_be_cut_anywhere,
    messages_may_come_at_once,
    clients_do_not_mix,
    garbage_harms_nobody,
    work_grows_with_a_message,
    work_grows_with_the_number_of_messages,
)
