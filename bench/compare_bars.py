"""The bars of a comparison: which figure of which server has to be how good, against which other server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bar import Bar
from compare_results import Figure, Results, cpu_each, p50, p99, per_busiest, per_cpu, rate
from compare_scenarios import WITH_IDS, WITHOUT_IDS
from compare_servers import BUSSRV, DURABLE_REDIS, MOSQUITTO, NATS, PEERS, QUIET, REDIS, SELECT, TRIANGLE, UPLINKED

BEST_PEER = "the best peer"
"""Stands for the peer with the highest median of the figure."""

MAX_IDLE_MEMORY = 12 << 10
"""Bytes of memory that an idle session may take."""

IDLE = {"m": QUIET, "r-idle": BUSSRV}
"""The workload of idle sessions that is judged, by scenario."""

WORDS: dict[Figure, str] = {
    rate: "deliveries a second",
    per_cpu: "deliveries per CPU s",
    per_busiest: "deliveries per CPU s of the busiest server",
    cpu_each: "CPU a delivery",
    p99: "p99",
}


@dataclass(frozen=True)
class Required:
    """A ratio that is required: the median over rounds of the ratio within a round.

    :ivar workload: the name of the workload in the scenario that is judged.
    :ivar against: the name of the workload that it is divided by, or ``BEST_PEER``.
    :ivar least: the least ratio, of a figure that is better if it is higher.
    :ivar most: the highest ratio, of a figure that is better if it is lower. A row has one of the two.
    """

    scenario: str
    workload: str
    against: str
    figure: Figure
    least: float = 0.0
    most: float = 0.0

    def bar(self, results: Results) -> Bar | None:
        """The bar with what was measured; ``None``: one of the workloads was not measured."""
        against = self._against(results)
        if against is None:
            return None
        ratio = results.ratio((self.scenario, self.workload), (self.scenario, against), self.figure)
        if ratio is None:
            return None
        limit = f"at most {self.most:g}" if self.most else f"at least {self.least:g}"
        what = f"{self.scenario}: {limit} x {against} (is {ratio:.2f} x), {WORDS[self.figure]}"
        return Bar(what, self._share(ratio))

    def _against(self, results: Results) -> str | None:
        return results.best(self.scenario, PEERS, self.figure) if self.against == BEST_PEER else self.against

    def _share(self, ratio: float) -> float:
        if not self.most:
            return ratio / self.least
        return self.most / ratio if ratio else float("inf")


REQUIRED: Sequence[Required] = (
    Required("a", BUSSRV, BEST_PEER, per_cpu, least=2.5),
    Required("b", BUSSRV, BEST_PEER, rate, least=1.0),
    Required("c", BUSSRV, BEST_PEER, rate, least=1.2),
    Required("d", BUSSRV, REDIS, per_cpu, least=2.5),
    Required("d-rich", BUSSRV, REDIS, per_cpu, least=0.8),
    Required("e", BUSSRV, REDIS, per_cpu, least=0.9),
    Required("f", BUSSRV, MOSQUITTO, cpu_each, most=1.8),
    Required("f", BUSSRV, MOSQUITTO, p99, most=1.1),
    Required("g", BUSSRV, MOSQUITTO, per_cpu, least=0.5),
    Required("i", BUSSRV, NATS, per_cpu, least=3.0),
    Required("j", BUSSRV, SELECT, rate, least=2.0),
    Required("l", TRIANGLE, BUSSRV, per_busiest, least=0.5),
    Required("r", BUSSRV, MOSQUITTO, per_cpu, least=20.0),
    Required("r-one", BUSSRV, MOSQUITTO, per_cpu, least=3.0),
    Required("r-confirmed", BUSSRV, MOSQUITTO, per_cpu, least=1.0),
    Required("n", BUSSRV, DURABLE_REDIS, per_cpu, least=0.2),
    Required("a-noid", WITHOUT_IDS, WITH_IDS, per_cpu, least=0.85),
    Required("d-noid", WITHOUT_IDS, WITH_IDS, per_cpu, least=0.85),
    Required("d-rich-noid", WITHOUT_IDS, WITH_IDS, per_cpu, least=0.85),
    Required("e-noid", WITHOUT_IDS, WITH_IDS, per_cpu, least=0.85),
    Required("i-noid", WITHOUT_IDS, WITH_IDS, per_cpu, least=0.85),
    Required("l-noid", WITHOUT_IDS, WITH_IDS, per_busiest, least=0.85),
)


def bars(results: Results) -> list[Bar]:
    """The bars whose figures were measured."""
    memory = [_memory(results, scenario, workload) for scenario, workload in IDLE.items()]
    found = [*(required.bar(results) for required in REQUIRED), *memory, *_across(results)]
    return [bar for bar in found if bar is not None]


LEAST_ACROSS = 100_000
"""Deliveries a second from a server to another one, through NATS."""

MOST_ACROSS = {"q": 0.010, "q-steady": 0.003}
"""The median latency in seconds of deliveries through NATS, at most."""


def _across(results: Results) -> list[Bar]:
    """The bars for servers that are joined by NATS."""
    found = []
    fast = results.median(("q", UPLINKED), rate)
    if fast is not None:
        what = f"q: at least {LEAST_ACROSS:,} deliveries a second (are {fast:,.0f})"
        found.append(Bar(what, fast / LEAST_ACROSS))
    for scenario, most in MOST_ACROSS.items():
        median = results.median((scenario, UPLINKED), p50)
        if median:
            what = f"{scenario}: p50 at most {most * 1000:g} ms (is {median * 1000:.2f} ms)"
            found.append(Bar(what, most / median))
    return found


def _memory(results: Results, scenario: str, workload: str) -> Bar | None:
    taken = results.median_idle((scenario, workload), lambda idle: idle.memory / idle.sessions)
    if taken is None:
        return None
    what = f"{scenario}: at most {MAX_IDLE_MEMORY >> 10} KiB an idle session (takes {taken / 1024:.1f})"
    return Bar(what, MAX_IDLE_MEMORY / taken)
