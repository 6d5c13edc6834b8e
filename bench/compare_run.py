"""The measurements of a comparison: in each round every scenario, in each scenario every server in turn."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

from compare_generator import Generator, GeneratorFailed, Measured, pinned, places
from compare_results import Idle, Results
from compare_scenarios import WINDOW, Scenario, Workload
from compare_servers import Running, program_of, start

GIVE_UP = 30.0
"""Seconds after which a publication counts as lost over TCP."""


class Run:
    """One comparison from start to end.

    :param directory: the directory for the load generator and the files of servers.
    :param seconds: how long each measurement takes, unless its scenario says otherwise.
    """

    def __init__(self, directory: Path, seconds: float) -> None:
        self._directory = directory
        self._seconds = seconds
        self._generator = Generator(directory)
        self._load_cpus, self._server_cpus = places()
        self._numbers = count()
        self.results = Results()

    def all_rounds(self, scenarios: Sequence[Scenario], rounds: int, present: Sequence[str]) -> None:
        """Measure everything.

        :param present: the programs that are there.
        """
        lasting = {workload.server for scenario in scenarios if not scenario.fresh for workload in scenario.workloads}
        with ExitStack() as stack:
            servers = {
                name: stack.enter_context(self._start(name)) for name in sorted(lasting) if program_of(name) in present
            }
            for number in range(rounds):
                for scenario in scenarios:
                    print(f"round {number + 1} of {rounds}: {scenario.name}", file=sys.stderr)
                    for workload in scenario.workloads:
                        if program_of(workload.server) in present:
                            self._measure(scenario, workload, servers)

    def _measure(self, scenario: Scenario, workload: Workload, servers: Mapping[str, Running]) -> None:
        key = (scenario.name, workload.name)
        if key in self.results.failed:
            return
        try:
            if not scenario.fresh:
                self.results.add(key, self._load(workload, servers[workload.server]))
                return
            with self._start(workload.server) as server:
                if scenario.idle:
                    self.results.add_idle(key, self._idle(workload, scenario.idle, server))
                else:
                    self.results.add(key, self._load(workload, server))
        except GeneratorFailed as error:
            self.results.fail(key, str(error))

    @contextmanager
    def _start(self, name: str) -> Iterator[Running]:
        directory = self._directory / str(next(self._numbers))
        directory.mkdir()
        with ExitStack() as stack:
            with pinned(self._server_cpus):
                server = stack.enter_context(start(name, directory))
            yield server

    def _load(self, workload: Workload, server: Running) -> Measured:
        parties = [party.format(**server.places) for party in workload.parties]
        options = {"seconds": self._seconds, "give_up": GIVE_UP, "window": WINDOW, **workload.options}
        before = server.memory()
        with pinned(self._load_cpus):
            measured = self._generator.run(parties, options, server.pids)
        return replace(measured, memory_before=before, memory_peak=server.peak_memory())

    def _idle(self, workload: Workload, sessions: int, server: Running) -> Idle:
        (party,) = workload.parties
        memory, cpu = server.memory(), server.cpu()
        with pinned(self._load_cpus), self._generator.idle(f"{party.format(**server.places)}:{sessions}") as ready:
            return Idle(sessions, server.memory() - memory, ready, server.cpu() - cpu)


def raise_file_limit() -> None:
    """Let this process, and those that it starts, open as many connections as the system allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
