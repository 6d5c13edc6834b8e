"""How bussrv compares with the brokers that people use: mosquitto, Redis and NATS, in the same run.

Every server does the same scenarios in turns, round after round, with a load generator in C (``load/``, compiled on
the spot) that counts every delivery: what is lost, comes twice, in the wrong order or to the wrong one is told, and the
exit status is 1 if any of that is bussrv's. Server and generator have a CPU each. bussrv runs as ``twistd`` starts it,
with its ordinary options and a durable journal; limits that only a bench runs into are raised, and that is said.

Look at ratios: absolute figures drift from machine to machine. "ratio" is bussrv's figure divided by that of the row,
the median of the ratios of each round. "per CPU s" is deliveries per second of the server's CPU, which suffers least
from whatever else the machine does. "load CPU" is the generator's own share of its CPU: near 100 % it is itself what
was measured.

Run as ``python bench/compare.py``, with ``--quick`` for a first look. Peers that are not installed are left out (Debian:
``apt install mosquitto nats-server redis-server``; their system services are not needed). ``--only a d`` measures
these scenarios, ``--json FILE`` keeps the result.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from compare_generator import Generator, GeneratorFailed, Measured, pinned, places
from compare_results import Results, bars
from compare_scenarios import SCENARIOS, WINDOW, Lane, Scenario
from compare_servers import BUSSRV, PEERS, RAISED, Running, bussrv, peer, version
from compare_table import as_json, print_bars, print_table
from journal_figures import facts

GIVE_UP = 30.0
"""Seconds after which a publication counts as lost over TCP."""


class Run:
    """One run of this program.

    :param seconds: how long each measurement takes.
    """

    def __init__(self, directory: Path, seconds: float) -> None:
        self._directory = directory
        self._seconds = seconds
        self._generator = Generator(directory)
        self._load_cpus, self._server_cpus = places()
        self.results = Results()

    def all_rounds(self, scenarios: Sequence[Scenario], rounds: int, present: Sequence[str]) -> None:
        """Measure everything."""
        with ExitStack() as stack:
            with pinned(self._server_cpus):
                servers = {name: stack.enter_context(self._start(name)) for name in present}
            for number in range(rounds):
                for scenario in scenarios:
                    print(f"round {number + 1} of {rounds}: {scenario.name}", file=sys.stderr)
                    self._round(scenario, servers)

    def _start(self, name: str) -> AbstractContextManager[Running]:
        directory = self._directory / name
        directory.mkdir()
        return bussrv(directory) if name == BUSSRV else peer(name, directory)

    def _round(self, scenario: Scenario, servers: Mapping[str, Running]) -> None:
        for lane in scenario.lanes:
            key = (scenario.name, lane.label)
            if lane.server not in servers or key in self.results.failed:
                continue
            try:
                self.results.add(key, self._measure(lane, servers[lane.server]))
            except GeneratorFailed as error:
                self.results.fail(key, str(error))

    def _measure(self, lane: Lane, server: Running) -> Measured:
        parties = [place(party, server.ports) for party in lane.parties]
        options = {"seconds": self._seconds, "give_up": GIVE_UP, "window": WINDOW, **lane.options}
        with pinned(self._load_cpus):
            return self._generator.run(parties, options, server.pids)


def place(party: str, ports: Mapping[str, int]) -> str:
    """Say where the format of a party is served."""
    return party.format(**{name: f"{name}:{port}" for name, port in ports.items()})


def read_command_line() -> argparse.Namespace:
    """What is to be measured, and where."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the quick set, in short rounds")
    parser.add_argument("--only", nargs="+", choices=[each.name for each in SCENARIOS], help="these scenarios")
    parser.add_argument("--servers", nargs="+", choices=PEERS, default=PEERS, help="against these (default: all)")
    parser.add_argument("--rounds", type=int, help="default: 5, of the quick set 3")
    parser.add_argument("--seconds", type=float, help="of each measurement; default: 2, of the quick set 1")
    parser.add_argument("--directory", type=Path, default=Path(), help="where the journal goes: on an ordinary disk")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there, too")
    return parser.parse_args()


def chosen(options: argparse.Namespace) -> list[Scenario]:
    """The scenarios that are asked for."""
    if options.only:
        return [each for each in SCENARIOS if each.name in options.only]
    return [each for each in SCENARIOS if each.quick or not options.quick]


def describe(options: argparse.Namespace, present: Mapping[str, str | None]) -> dict[str, str]:
    """The machine, and what runs on it."""
    versions = {name: found or "is not installed: left out" for name, found in present.items()}
    return {**facts(options.directory), **versions, "raised limits": " ".join(RAISED)}


def main() -> None:
    """Read the command line, measure, print."""
    options = read_command_line()
    rounds = options.rounds or (3 if options.quick else 5)
    seconds = options.seconds or (1.0 if options.quick else 2.0)
    present = {name: version(name) for name in (BUSSRV, *options.servers)}
    machine = describe(options, present)
    for name, value in machine.items():
        print(f"{name}: {value}")
    scenarios = chosen(options)
    with tempfile.TemporaryDirectory(dir=options.directory, prefix="bench-compare-") as temporary:
        run = Run(Path(temporary).resolve(), seconds)
        run.all_rounds(scenarios, rounds, [name for name, found in present.items() if found])
    found = bars(run.results)
    print_table(run.results, scenarios)
    print_bars(found)
    if options.json is not None:
        options.json.write_text(json.dumps(as_json(machine, run.results, scenarios, found), indent=1) + "\n")
    sys.exit(any(lane == BUSSRV for _, lane in run.results.wrong()))


if __name__ == "__main__":
    main()
