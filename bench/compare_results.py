"""The measurements of a comparison: medians, ratios round by round, and the bars."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

from bar import Bar
from compare_generator import Measured
from compare_servers import BUSSRV, MOSQUITTO, PEERS, REDIS

Key = tuple[str, str]
"""The name of a scenario, and of a lane in it."""

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


@dataclass
class Results:
    """Every measurement of a run, round by round. :ivar failed: lanes that came to nothing, and why."""

    rounds: dict[Key, list[Measured]] = field(default_factory=dict)
    failed: dict[Key, str] = field(default_factory=dict)

    def add(self, key: Key, measured: Measured) -> None:
        """Take one more round into account."""
        self.rounds.setdefault(key, []).append(measured)

    def fail(self, key: Key, why: str) -> None:
        """A lane came to nothing; its measurements do not count."""
        self.rounds.pop(key, None)
        self.failed[key] = why

    def median(self, key: Key, figure: Figure) -> float | None:
        """The median of a figure over all rounds; ``None``: was not measured."""
        rounds = self.rounds.get(key)
        return statistics.median(map(figure, rounds)) if rounds else None

    def ratio(self, ours: Key, theirs: Key, figure: Figure) -> float | None:
        """The median over all rounds of the ratio within a round: what slows a whole round down is not in it."""
        mine, others = self.rounds.get(ours), self.rounds.get(theirs)
        if not mine or not others or len(mine) != len(others):
            return None
        return statistics.median(figure(a) / figure(b) for a, b in zip(mine, others, strict=True))

    def best(self, scenario: str, lanes: tuple[str, ...], figure: Figure) -> str | None:
        """The lane with the highest median."""
        medians = {lane: self.median((scenario, lane), figure) for lane in lanes}
        known = {lane: value for lane, value in medians.items() if value is not None}
        return max(known, key=known.__getitem__) if known else None

    def wrong(self) -> dict[Key, dict[str, int]]:
        """What was lost, came twice and so on, over all rounds, in lanes where anything was."""
        found: dict[Key, dict[str, int]] = {}
        for key, rounds in self.rounds.items():
            for measured in rounds:
                for name, count in measured.wrong.items():
                    sums = found.setdefault(key, {})
                    sums[name] = sums.get(name, 0) + count
        return found


def bars(results: Results) -> list[Bar]:
    """What should hold, as far as it was measured."""
    found = [
        *(_against_best(results, scenario, 1.2) for scenario in ("a", "c")),
        *(_against_best(results, scenario, 1.0) for scenario in ("b", "e")),
        _against(results, "d", REDIS, 1.0),
        _against(results, "d", MOSQUITTO, 10.0),
        _latency(results, "f", MOSQUITTO, 1.1),
    ]
    return [bar for bar in found if bar is not None]


def _against_best(results: Results, scenario: str, least: float) -> Bar | None:
    best = results.best(scenario, PEERS, rate)
    return _against(results, scenario, best, least, "the best, ") if best is not None else None


def _against(results: Results, scenario: str, lane: str, least: float, prefix: str = "") -> Bar | None:
    ratio = results.ratio((scenario, BUSSRV), (scenario, lane), rate)
    if ratio is None:
        return None
    return Bar(f"{scenario}: at least {least:g} x {prefix}{lane} (is {ratio:.2f} x)", ratio / least)


def _latency(results: Results, scenario: str, lane: str, most: float) -> Bar | None:
    ratio = results.ratio((scenario, BUSSRV), (scenario, lane), p99)
    if ratio is None:
        return None
    return Bar(f"{scenario}: p99 at most {most:g} x that of {lane} (is {ratio:.2f} x)", most / ratio)
