"""The results of a comparison as a table for people, and as JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bar import Bar
from compare_results import Results, p50, p99, per_cpu, rate
from compare_scenarios import Lane, Scenario

_COLUMNS = (
    f"{'':<22}{'deliveries/s':>14}{'ratio':>8}{'per CPU s':>12}{'ratio':>8}{'p50 us':>10}{'p99 us':>10}{'load CPU':>10}"
)


def print_table(results: Results, scenarios: Sequence[Scenario]) -> None:
    """A block for each scenario; ratios are those of its first lane to each other one."""
    print(f"\n{_COLUMNS}")
    for scenario in scenarios:
        print(f"\n{scenario.name}: {scenario.title}")
        for lane in scenario.lanes:
            print(_row(results, scenario, lane))


def _row(results: Results, scenario: Scenario, lane: Lane) -> str:
    key, first = (scenario.name, lane.label), (scenario.name, scenario.lanes[0].label)
    if key not in results.rounds:
        return f"  {lane.label:<20}{results.failed.get(key, 'not measured')}"
    load = results.median(key, lambda measured: measured.own_cpu / measured.seconds)
    cells = [
        f"{results.median(key, rate):>14,.0f}",
        _ratio(results.ratio(first, key, rate) if key != first else None),
        f"{results.median(key, per_cpu):>12,.0f}",
        _ratio(results.ratio(first, key, per_cpu) if key != first else None),
        f"{(results.median(key, p50) or 0) * 1e6:>10,.0f}",
        f"{(results.median(key, p99) or 0) * 1e6:>10,.0f}",
        f"{load:>10.0%}",
    ]
    wrong = "".join(f"  {name}: {count}" for name, count in results.wrong().get(key, {}).items())
    return f"  {lane.label:<20}{''.join(cells)}{wrong}"


def _ratio(ratio: float | None) -> str:
    return f"{ratio:>8.2f}" if ratio is not None else f"{'':>8}"


def print_bars(found: Sequence[Bar]) -> None:
    """Which hold, and by how much."""
    print()
    for bar in found:
        print(f"{'holds' if bar.holds else 'MISSED':<8}{bar.ratio:>7.2f}  {bar.what}")


def as_json(
    machine: Mapping[str, str], results: Results, scenarios: Sequence[Scenario], found: Sequence[Bar]
) -> dict[str, Any]:
    """Everything, each round of it; times in seconds."""
    rows = []
    for scenario in scenarios:
        first = scenario.lanes[0].label
        for lane in scenario.lanes:
            key = (scenario.name, lane.label)
            rows.append(
                {
                    "scenario": scenario.name,
                    "title": scenario.title,
                    "lane": lane.label,
                    "rate": results.median(key, rate),
                    "per_cpu": results.median(key, per_cpu),
                    "p50": results.median(key, p50),
                    "p99": results.median(key, p99),
                    "ratio": results.ratio((scenario.name, first), key, rate),
                    "ratio_per_cpu": results.ratio((scenario.name, first), key, per_cpu),
                    "failed": results.failed.get(key),
                    "rounds": [asdict(each) for each in results.rounds.get(key, [])],
                }
            )
    return {"machine": dict(machine), "rows": rows, "bars": [{**asdict(bar), "holds": bar.holds} for bar in found]}
