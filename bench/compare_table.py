"""The results of a comparison as a table for people, and as JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bar import Bar
from compare_results import Key, Results, p50, p99, per_busiest, per_cpu, rate
from compare_scenarios import Scenario, Workload

_RATES = (
    f"{'':<20}{'deliveries/s':>14}{'ratio':>8}{'per CPU s':>13}{'ratio':>8}{'p50 us':>10}{'p99 us':>10}{'load CPU':>10}"
)
_IDLE = f"{'':<20}{'KiB a session':>14}{'CPU us':>10}{'us to be ready':>16}"


def print_table(results: Results, scenarios: Sequence[Scenario]) -> None:
    """A block for each scenario."""
    for scenario in scenarios:
        print(f"\n{scenario.name}: {scenario.title}\n{_IDLE if scenario.idle else _RATES}")
        for workload in scenario.workloads:
            print(f"{'  ' + workload.name:<20}{_row(results, scenario, workload)}")


def _row(results: Results, scenario: Scenario, workload: Workload) -> str:
    key = (scenario.name, workload.name)
    if key in results.idle:
        return _idle_row(results, key)
    if key not in results.rounds:
        return f"  {results.failed.get(key, 'was not measured')}"
    first = (scenario.name, scenario.workloads[0].name)
    load = results.median(key, lambda measured: measured.own_cpu / measured.seconds) or 0
    cells = [
        f"{results.median(key, rate):>14,.0f}",
        _ratio(results, first, key, rate),
        f"{results.median(key, per_cpu):>13,.0f}",
        _ratio(results, first, key, per_cpu),
        f"{(results.median(key, p50) or 0) * 1e6:>10,.0f}",
        f"{(results.median(key, p99) or 0) * 1e6:>10,.0f}",
        f"{load:>10.0%}",
        *(f"  {name}: {count}" for name, count in results.wrong().get(key, {}).items()),
    ]
    return "".join(cells) + (_memory(results, key) if scenario.fresh else "")


def _ratio(results: Results, first: Key, key: Key, figure: Any) -> str:
    ratio = results.ratio(first, key, figure) if key != first else None
    return f"{ratio:>8.2f}" if ratio is not None else f"{'':>8}"


def _memory(results: Results, key: Key) -> str:
    peak = results.median(key, lambda measured: measured.memory_peak - measured.memory_before) or 0
    ended = [each.ended_after for each in results.rounds[key] if each.ended_after is not None]
    said = f"  memory + {peak / (1 << 20):.1f} MiB"
    return f"{said}, the stalled one ended after {max(ended):.1f} s" if ended else said


def _idle_row(results: Results, key: Key) -> str:
    memory = results.median_idle(key, lambda idle: idle.memory / idle.sessions / 1024) or 0
    cpu = results.median_idle(key, lambda idle: idle.cpu / idle.sessions * 1e6) or 0
    ready = results.median_idle(key, lambda idle: idle.ready / idle.sessions * 1e6) or 0
    return f"{memory:>14.1f}{cpu:>10,.0f}{ready:>16,.0f}"


def as_json(
    machine: Mapping[str, str], results: Results, scenarios: Sequence[Scenario], found: Sequence[Bar]
) -> dict[str, Any]:
    """Everything, each round of it; times in seconds, memory in bytes."""
    rows = [_as_json(results, scenario, workload) for scenario in scenarios for workload in scenario.workloads]
    return {"machine": dict(machine), "rows": rows, "bars": [bar.as_json() for bar in found]}


def _as_json(results: Results, scenario: Scenario, workload: Workload) -> dict[str, Any]:
    key, first = (scenario.name, workload.name), (scenario.name, scenario.workloads[0].name)
    row: dict[str, Any] = {"scenario": scenario.name, "title": scenario.title, "server": workload.server}
    row |= {"workload": workload.name, "parties": list(workload.parties), "options": dict(workload.options)}
    if key in results.failed:
        row["failed"] = results.failed[key]
    if key in results.rounds:
        figures = {"rate": rate, "per_cpu": per_cpu, "per_busiest": per_busiest, "p50": p50, "p99": p99}
        row |= {name: results.median(key, figure) for name, figure in figures.items()}
        row |= {f"ratio_{name}": results.ratio(first, key, figure) for name, figure in figures.items()}
        row["rounds"] = [asdict(each) for each in results.rounds[key]]
    if key in results.idle:
        row["rounds"] = [asdict(each) for each in results.idle[key]]
    return row
