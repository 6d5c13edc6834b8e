"""The measurements of a comparison: medians, and ratios round by round."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from compare_generator import Measured

Key = tuple[str, str]
"""The names of a scenario and of a workload in it."""

Figure = Callable[[Measured], float]


def rate(measured: Measured) -> float:
    """Deliveries a second."""
    return measured.rate


def per_cpu(measured: Measured) -> float:
    """Deliveries per second of the server's CPU."""
    return measured.per_cpu


def per_busiest(measured: Measured) -> float:
    """Deliveries per second of the busiest server's CPU."""
    return measured.per_busiest


def cpu_each(measured: Measured) -> float:
    """Seconds of the server's CPU for each delivery."""
    return 1 / per_cpu(measured) if measured.deliveries else float("inf")


def p50(measured: Measured) -> float:
    """The median latency in seconds."""
    return measured.p50


def p99(measured: Measured) -> float:
    """The latency in seconds that 99 of 100 deliveries do not exceed."""
    return measured.p99


@dataclass(frozen=True)
class Idle:
    """Sessions that do nothing.

    :ivar memory: the growth of the server because of them, in resident bytes.
    :ivar ready: seconds until all of them were connected and answered.
    :ivar cpu: seconds of the server's CPU until then.
    """

    sessions: int
    memory: int
    ready: float
    cpu: float


@dataclass
class Results:
    """Every measurement of a comparison, round by round.

    :ivar failed: the measurements that were impossible, each with the reason.
    """

    rounds: dict[Key, list[Measured]] = field(default_factory=dict)
    idle: dict[Key, list[Idle]] = field(default_factory=dict)
    failed: dict[Key, str] = field(default_factory=dict)

    def add(self, key: Key, measured: Measured) -> None:
        """Add one more round."""
        self.rounds.setdefault(key, []).append(measured)

    def add_idle(self, key: Key, measured: Idle) -> None:
        """Add one more round of idle sessions."""
        self.idle.setdefault(key, []).append(measured)

    def fail(self, key: Key, why: str) -> None:
        """Note that a server could not do a scenario, and drop its measurements in it."""
        self.rounds.pop(key, None)
        self.failed[key] = why

    def median(self, key: Key, figure: Figure) -> float | None:
        """The median of a figure over all rounds; ``None``: it was not measured."""
        rounds = self.rounds.get(key)
        return statistics.median(map(figure, rounds)) if rounds else None

    def median_idle(self, key: Key, figure: Callable[[Idle], float]) -> float | None:
        """The median of a figure of idle sessions over all rounds; ``None``: it was not measured."""
        rounds = self.idle.get(key)
        return statistics.median(map(figure, rounds)) if rounds else None

    def ratio(self, ours: Key, theirs: Key, figure: Figure) -> float | None:
        """The median over all rounds of the ratio within a round. A round that is slow as a whole changes nothing."""
        mine, others = self.rounds.get(ours), self.rounds.get(theirs)
        if not mine or not others or len(mine) != len(others):
            return None
        return statistics.median(_divide(figure(a), figure(b)) for a, b in zip(mine, others, strict=True))

    def best(self, scenario: str, servers: Sequence[str], figure: Figure) -> str | None:
        """The server with the highest median among some; ``None``: none of them was measured."""
        medians = {server: self.median((scenario, server), figure) for server in servers}
        known = {server: value for server, value in medians.items() if value is not None}
        return max(known, key=known.__getitem__) if known else None

    def wrong(self) -> dict[Key, dict[str, int]]:
        """Counts of lost, duplicate and other wrong deliveries over all rounds. Keys without any are left out."""
        found: dict[Key, dict[str, int]] = {}
        for key, rounds in self.rounds.items():
            for measured in rounds:
                for name, count in measured.wrong.items():
                    sums = found.setdefault(key, {})
                    sums[name] = sums.get(name, 0) + count
        return found


def _divide(ours: float, theirs: float) -> float:
    """The ratio; infinite if only the other server did nothing, so that it does not end the comparison."""
    return ours / theirs if theirs else float("inf") if ours else 1.0
