"""The load generator: compile it, run it beside a server, read its figures."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

SOURCES = Path(__file__).parent / "load"
FLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra")
PATIENCE = 120.0
"""The longest time of one measurement in seconds, from the first connection to the last object in flight."""


class GeneratorFailed(Exception):
    """A measurement was impossible: a server refused, ended a connection, or was not ready in time."""


@dataclass(frozen=True)
class Measured:
    """The figures of one measurement. Times are in seconds.

    :ivar seconds: the length of the measurement; deliveries, publications and CPU are those of that time.
    :ivar own_cpu: CPU of the generator; if it is close to ``seconds``, the generator was the limit.
    :ivar busiest_cpu: CPU of the server that used most; ``server_cpu`` is that of all servers.
    :ivar latencies: how many deliveries the percentiles are of.
    :ivar all_deliveries: with those before and after the measurement; so are the counts that follow.
    :ivar other: how many objects came that were no publications.
    :ivar ready: the time until all clients were connected and reached.
    :ivar ended: how many stalled subscribers the server ended, the last one ``ended_after`` seconds from the start.
    :ivar memory_before: resident bytes of the server before the first connection; ``memory_peak``: the most so far.
    """

    seconds: float
    deliveries: int
    publications: int
    own_cpu: float
    server_cpu: float
    busiest_cpu: float
    latencies: int
    p50: float
    p99: float
    max: float
    all_deliveries: int
    all_publications: int
    lost: int
    duplicates: int
    disordered: int
    stray: int
    corrupt: int
    abandoned: int
    other: int
    ready: float
    ended: int
    ended_after: float | None = None
    memory_before: int = 0
    memory_peak: int = 0

    @property
    def rate(self) -> float:
        """Deliveries a second."""
        return self.deliveries / self.seconds

    @property
    def per_cpu(self) -> float:
        """Deliveries per second of the server's CPU."""
        return self.deliveries / max(self.server_cpu, 0.01)

    @property
    def per_busiest(self) -> float:
        """Deliveries per second of the busiest server's CPU: what limits servers that have a CPU each."""
        return self.deliveries / max(self.busiest_cpu, 0.01)

    @property
    def wrong(self) -> dict[str, int]:
        """Counts of wrong deliveries by name; empty: every delivery came once, in order, and as it was sent."""
        counts = {name: getattr(self, name) for name in ("lost", "duplicates", "disordered", "stray", "corrupt")}
        return {name: count for name, count in counts.items() if count}


def compiler() -> str | None:
    """The C compiler; ``None``: there is none."""
    return next(filter(None, map(shutil.which, (os.environ.get("CC") or "cc", "gcc", "clang"))), None)


@contextmanager
def pinned(cpus: set[int]) -> Iterator[None]:
    """Run the processes that are started meanwhile on these CPUs."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def places() -> tuple[set[int], set[int]]:
    """A CPU for the generator and one for the servers; the same one if there are no two."""
    cpus = sorted(os.sched_getaffinity(0))
    return {cpus[0]}, {cpus[1 % len(cpus)]}


class Generator:
    """The compiled program.

    :param directory: the directory to put it in.
    :raises GeneratorFailed: if there is no C compiler.
    """

    def __init__(self, directory: Path) -> None:
        program = compiler()
        if program is None:
            raise GeneratorFailed("no C compiler: install cc (Debian, Ubuntu: apt install gcc libc6-dev)")
        self._path = directory / "load"
        sources = sorted(map(str, SOURCES.glob("*.c")))
        subprocess.run([program, *FLAGS, "-o", str(self._path), *sources, "-lm"], check=True)

    def run(self, parties: Sequence[str], options: Mapping[str, object], pids: Sequence[int] = ()) -> Measured:
        """Measure once.

        :param parties: the clients, in the form that ``load/main.c`` describes.
        :param pids: the processes of the server, whose CPU time is measured.
        :raises GeneratorFailed: if a server refuses or ends connections.
        """
        ran = subprocess.run(self.command(parties, options, pids), capture_output=True, text=True, timeout=PATIENCE)
        if ran.returncode:
            raise GeneratorFailed(ran.stderr.strip())
        return read_measured(ran.stdout)

    @contextmanager
    def idle(self, party: str) -> Iterator[float]:
        """Connect clients that do nothing. Yields the seconds until all of them were connected and answered.

        :raises GeneratorFailed: if a server refuses or ends connections.
        """
        pipe = subprocess.PIPE
        with subprocess.Popen(self.command([party], {}), stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            line = process.stdout.readline()
            if not line:
                raise GeneratorFailed(process.stderr.read().strip())
            yield float(line.split()[1])
            process.stdin.close()

    def command(self, parties: Sequence[str], options: Mapping[str, object], pids: Sequence[int] = ()) -> list[str]:
        """The command that starts it."""
        words = [f"{name.replace('_', '-')}={value}" for name, value in options.items()]
        return [str(self._path), *words, *(f"pid={pid}" for pid in pids), *parties]


def read_measured(line: str) -> Measured:
    """The figures that the generator printed."""
    said = json.loads(line)
    return Measured(**{each.name: said[each.name] for each in fields(Measured) if each.name in said})
