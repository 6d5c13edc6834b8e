"""The measurements of a comparison: medians, ratios round by round, and the bars."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bar import Bar
from compare_generator import Measured
from compare_servers import BUSSRV, MOSQUITTO, NATS, PEERS, QUIET, REDIS, SELECT, TRIANGLE

Key = tuple[str, str]
"""The name of a scenario, and of a server in it."""

MAX_IDLE_MEMORY = 12 << 10
"""The bar: bytes of memory that an idle session may take."""

Figure = Callable[[Measured], float]


def rate(measured: Measured) -> float:
    """Deliveries a second."""
    return measured.rate


def per_cpu(measured: Measured) -> float:
    """Deliveries per second of the server's CPU."""
    return measured.per_cpu


def p50(measured: Measured) -> float:
    """What half of the latencies are below, in seconds."""
    return measured.p50


def p99(measured: Measured) -> float:
    """What 99 of 100 latencies are below, in seconds."""
    return measured.p99


@dataclass(frozen=True)
class Idle:
    """Sessions that do nothing.

    :ivar memory: resident bytes that the server has more because of them.
    :ivar ready: seconds until all of them were connected and answered.
    :ivar cpu: seconds of the server's CPU for that.
    """

    sessions: int
    memory: int
    ready: float
    cpu: float


@dataclass
class Results:
    """Every measurement of a run, round by round. :ivar failed: what came to nothing, and why."""

    rounds: dict[Key, list[Measured]] = field(default_factory=dict)
    idle: dict[Key, list[Idle]] = field(default_factory=dict)
    failed: dict[Key, str] = field(default_factory=dict)

    def add(self, key: Key, measured: Measured) -> None:
        """Take one more round into account."""
        self.rounds.setdefault(key, []).append(measured)

    def add_idle(self, key: Key, measured: Idle) -> None:
        """The same of idle sessions."""
        self.idle.setdefault(key, []).append(measured)

    def fail(self, key: Key, why: str) -> None:
        """A server could not do a scenario; its measurements in it do not count."""
        self.rounds.pop(key, None)
        self.failed[key] = why

    def median(self, key: Key, figure: Figure) -> float | None:
        """The median of a figure over all rounds; ``None``: was not measured."""
        rounds = self.rounds.get(key)
        return statistics.median(map(figure, rounds)) if rounds else None

    def median_idle(self, key: Key, figure: Callable[[Idle], float]) -> float | None:
        """The same of idle sessions."""
        rounds = self.idle.get(key)
        return statistics.median(map(figure, rounds)) if rounds else None

    def ratio(self, ours: Key, theirs: Key, figure: Figure) -> float | None:
        """The median over all rounds of the ratio within a round: what slows a whole round down is not in it."""
        mine, others = self.rounds.get(ours), self.rounds.get(theirs)
        if not mine or not others or len(mine) != len(others):
            return None
        return statistics.median(_divide(figure(a), figure(b)) for a, b in zip(mine, others, strict=True))

    def best(self, scenario: str, servers: Sequence[str], figure: Figure) -> str | None:
        """Which of some servers has the highest median; ``None``: none of them was measured."""
        medians = {server: self.median((scenario, server), figure) for server in servers}
        known = {server: value for server, value in medians.items() if value is not None}
        return max(known, key=known.__getitem__) if known else None

    def wrong(self) -> dict[Key, dict[str, int]]:
        """What was lost, came twice and so on, over all rounds; only where anything was."""
        found: dict[Key, dict[str, int]] = {}
        for key, rounds in self.rounds.items():
            for measured in rounds:
                for name, count in measured.wrong.items():
                    sums = found.setdefault(key, {})
                    sums[name] = sums.get(name, 0) + count
        return found


def _divide(ours: float, theirs: float) -> float:
    """So that a server that did nothing at all is infinitely far behind, and not a reason to stop."""
    return ours / theirs if theirs else float("inf") if ours else 1.0


def bars(results: Results) -> list[Bar]:
    """What should hold, as far as it was measured."""
    found = [
        *(_against_best(results, scenario, 1.2) for scenario in ("a", "c")),
        *(_against_best(results, scenario, 1.0) for scenario in ("b", "e")),
        _against(results, "d", REDIS, 1.0),
        _against(results, "d", MOSQUITTO, 10.0),
        _latency(results, "f", MOSQUITTO, 1.1),
        _against(results, "i", NATS, 2.0),
        _against(results, "j", SELECT, 2.0),
        _against(results, "l", BUSSRV, 0.5, ours=TRIANGLE),
        _memory(results, "m"),
    ]
    return [bar for bar in found if bar is not None]


def _against_best(results: Results, scenario: str, least: float) -> Bar | None:
    best = results.best(scenario, PEERS, rate)
    return _against(results, scenario, best, least) if best is not None else None


def _against(results: Results, scenario: str, server: str, least: float, ours: str = BUSSRV) -> Bar | None:
    ratio = results.ratio((scenario, ours), (scenario, server), rate)
    if ratio is None:
        return None
    return Bar(f"{scenario}: at least {least:g} x {server} (is {ratio:.2f} x)", ratio / least)


def _latency(results: Results, scenario: str, server: str, most: float) -> Bar | None:
    ratio = results.ratio((scenario, BUSSRV), (scenario, server), p99)
    if ratio is None:
        return None
    return Bar(f"{scenario}: p99 at most {most:g} x that of {server} (is {ratio:.2f} x)", most / ratio)


def _memory(results: Results, scenario: str) -> Bar | None:
    taken = results.median_idle((scenario, QUIET), lambda idle: idle.memory / idle.sessions)
    if taken is None:
        return None
    what = f"{scenario}: at most {MAX_IDLE_MEMORY >> 10} KiB an idle session (takes {taken / 1024:.1f})"
    return Bar(what, MAX_IDLE_MEMORY / taken)
