"""The rates of a comparison as a picture: a group of bars for each scenario, all groups equally wide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from compare_results import Results, rate
from compare_scenarios import Scenario
from compare_servers import DURABLE_REDIS, MOSQUITTO, NATS, OURS, REDIS, SELECT

WIDTH = 760
LEFT = 130
"""The left edge of the bars; the names of servers stand to the left of it."""
LONGEST = 480
BAR = 16
"""The distance from the top of one bar to the top of the next."""
GAP = 34
"""The distance between two groups, with room for the title of the second."""

COLORS = {
    **dict.fromkeys(OURS, "#2563eb"),
    MOSQUITTO: "#7c3aed",
    **dict.fromkeys((REDIS, DURABLE_REDIS), "#dc2626"),
    NATS: "#059669",
    SELECT: "#6b7280",
}
STYLE = (
    ".ground { fill: #ffffff } text { font: 12px sans-serif; fill: #111827 }"
    " .title { font-weight: bold } .note { fill: #6b7280 }"
    " @media (prefers-color-scheme: dark) { .ground { fill: #111827 } text { fill: #f3f4f6 } .note { fill: #9ca3af } }"
)


def chart(results: Results, scenarios: Sequence[Scenario], machine: Mapping[str, str]) -> str:
    """An SVG document. Scenarios that do not compare the rates of servers are left out."""
    lines: list[str] = []
    top = 8
    for scenario in scenarios:
        rates = _rates(results, scenario)
        if rates and not _offered(scenario) and not _of_one_server(scenario):
            lines += _group(scenario, rates, top)
            top += GAP + BAR * len(rates)
    note = f"{machine.get('processor', '')}; deliveries a second, medians"
    lines.append(f'<text class="note" x="8" y="{top + 16}">{escape(note)}</text>')
    name = "Deliveries a second of each server, scenario by scenario"
    size = f'viewBox="0 0 {WIDTH} {top + 28}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{name}">'
    # A page around it may be dark where the system is not.
    ground = '<rect class="ground" width="100%" height="100%"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", ground, *lines, "</svg>"]) + "\n"


def _rates(results: Results, scenario: Scenario) -> dict[str, float]:
    medians = {
        workload.server: results.median((scenario.name, workload.server), rate) for workload in scenario.workloads
    }
    return {server: median for server, median in medians.items() if median is not None}


def _offered(scenario: Scenario) -> bool:
    """Whether all servers are offered the same rate, so that their bars would be equal."""
    return any("rate" in workload.options for workload in scenario.workloads)


def _of_one_server(scenario: Scenario) -> bool:
    """Whether a server is compared with itself, so that the bars say nothing of servers."""
    return any(workload.label for workload in scenario.workloads)


def _group(scenario: Scenario, rates: Mapping[str, float], top: int) -> Iterator[str]:
    yield f'<text class="title" x="8" y="{top + 14}">{escape(f"{scenario.name}: {scenario.title}")}</text>'
    most = max(rates.values()) or 1
    for number, (server, median) in enumerate(rates.items()):
        y = top + 20 + BAR * number
        length = LONGEST * median / most
        yield f'<text x="{LEFT - 8}" y="{y + 11}" text-anchor="end">{escape(server)}</text>'
        yield f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR - 3}" fill="{COLORS[server]}"/>'
        yield f'<text x="{LEFT + length + 6:.1f}" y="{y + 11}">{_short(median)}</text>'


def _short(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:.1f} M"
    return f"{value / 1e3:.1f} k" if value >= 1e3 else f"{value:.0f}"
