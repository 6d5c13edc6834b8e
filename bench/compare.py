"""Compare bussrv with common brokers: mosquitto, Redis and NATS, in the same run.

Every server does the same scenarios in turn, round after round. A load generator in C (``load/``, compiled when the
comparison starts) counts every delivery, and reports those that are lost, come twice, in the wrong order or to the
wrong client. The exit status is 1 if bussrv had any of them. Server and generator have a CPU each. bussrv runs as
``twistd`` starts it, with its ordinary options and a durable journal. Some limits that only a bench reaches are raised;
the output names them.

Look at ratios: absolute figures differ from machine to machine. "ratio" is bussrv's figure divided by that of the row:
the median of the ratios of each round. "per CPU s" is deliveries per second of the server's CPU; other work of the
machine disturbs it least. "load CPU" is the generator's own share of its CPU: near 100 %, the generator was the limit.

Run as ``make bench`` for the quick set, ``make bench-full`` for everything, or ``python bench/compare.py``. Peers that
are not installed are left out (Debian: ``apt install mosquitto nats-server redis-server``; their system services are
not needed). ``--only a d`` measures these scenarios; ``--json FILE`` and ``--chart FILE`` keep the result.

The bars at the end are those of a server with the compiled module. They do not apply if "hot path" is "Python": then
the module is not built, or BUSSRV_PURE is set.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bar import print_bars
from compare_bars import bars
from compare_chart import chart
from compare_results import Key
from compare_run import Run, raise_file_limit
from compare_scenarios import SCENARIOS, Scenario
from compare_servers import BUSSRV, OURS, PEERS, RAISED, version
from compare_table import as_json, print_table
from journal_figures import facts

from bussrv.compiled import HOT_PATH


def read_command_line() -> argparse.Namespace:
    """The options of the command line: the scenarios, the peers, and the place of files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the quick set, in short rounds")
    parser.add_argument("--only", nargs="+", choices=[each.name for each in SCENARIOS], help="these scenarios")
    parser.add_argument("--against", nargs="*", choices=PEERS, default=PEERS, help="which peers (default: all)")
    parser.add_argument("--rounds", type=int, help="default: 5, with --quick 3")
    parser.add_argument("--seconds", type=float, help="of each measurement; default: 2, with --quick 0.5")
    parser.add_argument("--directory", type=Path, default=Path(), help="where journals go: on an ordinary disk")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there, too")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="draw the rates, as SVG")
    return parser.parse_args()


def chosen(options: argparse.Namespace) -> list[Scenario]:
    """The scenarios that the options select."""
    if options.only:
        return [each for each in SCENARIOS if each.name in options.only]
    return [each for each in SCENARIOS if each.quick or not options.quick]


def ours(scenarios: Sequence[Scenario]) -> set[Key]:
    """The workloads of bussrv."""
    return {(each.name, workload.name) for each in scenarios for workload in each.workloads if workload.server in OURS}


def describe(options: argparse.Namespace, versions: Mapping[str, str | None]) -> dict[str, str]:
    """The machine, and what runs on it."""
    present = {name: found or "is not installed: left out" for name, found in versions.items()}
    return {**facts(options.directory), **present, "hot path": HOT_PATH, "raised limits of bussrv": " ".join(RAISED)}


def main() -> None:
    """Read the command line, measure, print."""
    options = read_command_line()
    rounds = options.rounds or (3 if options.quick else 5)
    seconds = options.seconds or (0.5 if options.quick else 2.0)
    versions = {name: version(name) for name in (BUSSRV, *options.against)}
    machine = describe(options, versions)
    for name, value in machine.items():
        print(f"{name}: {value}")
    scenarios = chosen(options)
    # Without this, the servers would outlive a comparison that is ended by a signal.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    raise_file_limit()
    with tempfile.TemporaryDirectory(dir=options.directory, prefix="bench-compare-") as temporary:
        run = Run(Path(temporary).resolve(), seconds)
        run.all_rounds(scenarios, rounds, [name for name, found in versions.items() if found])
    found = bars(run.results)
    print_table(run.results, scenarios)
    print_bars(found)
    if options.json is not None:
        options.json.write_text(json.dumps(as_json(machine, run.results, scenarios, found), indent=1) + "\n")
    if options.chart is not None:
        options.chart.write_text(chart(run.results, scenarios, machine))
    sys.exit(any(key in run.results.wrong() for key in ours(scenarios)))


if __name__ == "__main__":
    main()
