"""Promises about odd input: whatever it is, it means the same in pieces, leaves nothing, and fills nothing.

Odd inputs are those that the adapter names, and messages of a client that are garbled.
"""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections import Counter
from collections.abc import Iterator

from bussrv import events as ev
from bussrv.counts.throttle import STRANGER_BURST
from bussrv.testing.conformance.adapter import OddInput
from bussrv.testing.conformance.lab import ANN, Visitor
from bussrv.testing.conformance.promises.framing import mutated
from bussrv.testing.conformance.trial import Promise, Trial, conversation, promise

GARBLED = 8
"""Garbled messages of a client, for each trial."""

MOST_INPUTS, MOST_CUTS = 20, 3
"""Odd inputs of the adapter that are tried, and places at which each is cut, unless the trial is thorough."""

SMALL = 300
"""Bytes of an input that is cut at any place, or sent byte by byte; of larger ones, so many pieces are made."""

ROOM = 1 << 18
"""The bytes that a connection may take besides the input."""

MOST_MEASURED = 5
MOST_KEPT = 1 << 16
"""The bytes that may stay in memory for a connection that is gone."""

FLOOD = 60
MOST_LINES = 20
"""A flood of so many inputs is that many lines of the log at most."""

LONGEST_LINE = 1000


def odd_inputs(trial: Trial, most: int = MOST_INPUTS) -> list[OddInput]:
    """The odd inputs of a trial: those of the adapter, and garbled messages."""
    named = list(trial.adapter.odd_inputs())
    named = [named[place] for place in trial.some(range(len(named)), most)]
    messages = [each for each in conversation(trial.adapter) if each]
    garbled = [mutated(trial, trial.random.choice(messages)) for _ in range(GARBLED)]
    return [*named, *(OddInput(repr(each[:60]), each) for each in garbled)]


class _Scene:
    """A server with a provider and an observer, to which one client after the other sends something odd.

    :param asks: whether the server asks clients who they are.
    """

    def __init__(self, trial: Trial, asks: bool) -> None:
        self.trial = trial
        self.lab = trial.lab(asks=asks)
        self._bystanders = trial.bystanders(self.lab, ANN if asks else None)
        self.rest()

    def rest(self) -> None:
        """Let everything lapse that a client may leave for a while."""
        self.lab.wait(max(120.0, self.trial.adapter.lapses_after), 60)

    def visitor(self, odd: OddInput, host: str = "") -> Visitor:
        """Somebody who sends that next."""
        visitor = self.lab.visitor(self.trial.name, host=host)
        if odd.joins and not odd.asks:
            visitor.join()
        return visitor

    def check_served(self, odd: OddInput) -> None:
        """Others are served as before."""
        self.trial.check_served(self.lab, f"when a client has sent {odd.name}", self._bystanders)

    def outcome(self, visitor: Visitor) -> tuple[object, ...]:
        """What came of what it sent."""
        lab, session = self.lab, getattr(visitor.protocol, "session_id", None)
        said = visitor.said()
        lab.wait(lab.bus.settings.close_timeout + 1)  # A format may let its client close the connection first.
        closed = [each.reason for each in lab.events(ev.SessionClosed) if each.session == session]
        wanted = len(lab.state.subscriptions.get(session or "", ()))
        provided = sum(session in each for each in lab.state.services.values())
        return said, visitor.is_open, closed, wanted, provided


def _scenes(trial: Trial, most: int = MOST_INPUTS) -> Iterator[tuple[OddInput, _Scene]]:
    """Each odd input, and the server that it is sent to."""
    scenes: dict[bool, _Scene] = {}
    for odd in odd_inputs(trial, most):
        if odd.asks not in scenes:
            scenes[odd.asks] = _Scene(trial, odd.asks)
        yield odd, scenes[odd.asks]


def _cuts(trial: Trial, data: bytes) -> Iterator[list[bytes]]:
    if len(data) <= SMALL:
        places, most = range(1, len(data)), MOST_CUTS * (5 if trial.thorough else 1)
        for place in sorted(trial.random.sample(places, min(most, len(places)))):
            yield [data[:place], data[place:]]
    size = max(1, len(data) // SMALL)
    yield [data[begin : begin + size] for begin in range(0, len(data), size)]


_OUTCOME = ("what it is told", "whether it is connected", "why it is not", "its subscriptions", "its services")


@promise("stream")
def odd_input_means_the_same_in_pieces(trial: Trial) -> None:
    """Whatever a client sends, and whether it means anything: what comes of it is the same wherever it is cut."""
    for odd, scene in _scenes(trial):
        data = odd.build()
        first = scene.visitor(odd)
        first.send(data)
        expected = scene.outcome(first)
        first.leave()
        for pieces in _cuts(trial, data):
            visitor = scene.visitor(odd)
            for each in pieces:
                visitor.send(each)
            for what, before, after in zip(_OUTCOME, expected, scene.outcome(visitor), strict=True):
                trial.require(
                    before == after,
                    f"a client sends {odd.name} in {len(pieces)} pieces: {what} differs, {after!r} and not {before!r}",
                )
            visitor.leave()
        scene.check_served(odd)


@promise()
def odd_input_leaves_nothing(trial: Trial) -> None:
    """Whatever a client sends: once it is gone, registry, timers and memory are as before, and others are served."""
    is_stream = trial.adapter.can("stream")
    for odd, scene in _scenes(trial):
        lab = scene.lab
        before, calls = lab.state.copy(), Counter(lab.calls())
        visitor = scene.visitor(odd)
        visitor.send(odd.build())
        visitor.said()
        scene.check_served(odd)
        protocol = weakref.ref(visitor.protocol) if is_stream else None
        visitor.leave()
        scene.rest()
        trial.require(lab.state == before, f"a client sent {odd.name} and has gone, and the registry is not as before")
        left = Counter(lab.calls()) - calls
        trial.require(not left, f"a client sent {odd.name} and has gone, and timers are left: {', '.join(left)}")
        if protocol is not None:
            visitor.wire.pipe.protocol = None
            if protocol() is not None:
                gc.collect()
            trial.require(
                protocol() is None, f"a client sent {odd.name} and has gone, and its connection is still in memory"
            )


def _taken(scene: _Scene, odd: OddInput, data: bytes) -> tuple[int, int]:
    """The bytes of memory that an input takes while its connection is open, and those that stay when it is gone."""
    visitor = scene.visitor(odd)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for begin in range(0, len(data), 1 << 12):
            visitor.send(data[begin : begin + (1 << 12)])
            scene.lab.forget()
        while_open = tracemalloc.get_traced_memory()[0] - before
        visitor.leave()
        visitor.wire.pipe.protocol = None
        scene.lab.forget()
        gc.collect()
        return while_open, tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


@promise("stream")
def odd_input_takes_little_memory(trial: Trial) -> None:
    """Whatever a client sends takes no more memory than its bytes and a quarter of a MiB, and none once it is gone."""
    for odd, scene in _scenes(trial, MOST_INPUTS // 2):
        data = odd.build()
        most, most_kept = len(data) + odd.holds + ROOM, odd.holds + MOST_KEPT
        # What other threads of the process allocate meanwhile is counted too, and only ever adds: the least counts.
        while_open, afterwards = _taken(scene, odd, data)
        for _ in range(MOST_MEASURED - 1):
            if while_open <= most and afterwards <= most_kept:
                break
            while_open, afterwards = map(min, (while_open, afterwards), _taken(scene, odd, data))
        trial.require(
            while_open <= most,
            f"a client sends {odd.name}, {len(data)} bytes, for which the server holds {while_open} bytes",
        )
        trial.require(
            afterwards <= most_kept, f"a client sent {odd.name} and has gone, and {afterwards} bytes of memory are left"
        )


@promise()
def odd_input_fills_neither_log_nor_journal(trial: Trial) -> None:
    """A flood of one input is few lines of the log, each short and on one line, and few refusals in the journal."""
    for odd, scene in _scenes(trial, MOST_INPUTS // 4):
        lab, data = scene.lab, odd.build()
        scene.rest()
        lines, records = len(lab.log), len(lab.journal.records)
        for _ in range(FLOOD):
            visitor = scene.visitor(odd, "10.9.9.9")
            visitor.send(data)
            visitor.leave()
        logged = lab.log[lines:]
        trial.require(
            len(logged) <= MOST_LINES, f"{FLOOD} times {odd.name} from one address are {len(logged)} lines of the log"
        )
        wrong = [each for each in logged if len(each) > LONGEST_LINE or not each.isprintable()]
        trial.require(not wrong, f"a client sends {odd.name}, and the log says {wrong and wrong[0][:200]!r}")
        since = [each.event for each in lab.journal.records[records:]]
        kinds = Counter(type(each).__name__ for each in since if each.OUTCOME in ("refused", "failed"))
        many = {name: count for name, count in kinds.items() if count > STRANGER_BURST}
        trial.require(not many, f"{FLOOD} times {odd.name} from one address are {many!r} in the journal")
        scene.check_served(odd)


PROMISES: tuple[Promise, ...] = (
    odd_input_means_the_same_in_pieces,
    odd_input_leaves_nothing,
    odd_input_takes_little_memory,
    odd_input_fills_neither_log_nor_journal,
)
