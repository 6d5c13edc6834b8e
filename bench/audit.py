"""How fast the audit is, what memory it takes, and what others need for the same answers.

For each number of events the journals of four servers are made up (kept in ``--work`` for the next run), and read into
the memory of the system before each measurement: a disk that is read for the first time would be all that is measured
(``--cold`` measures that as well). Every measurement is a process of its own; rounds take turns, medians of all rounds:

- ``audit, new events``: nothing is known of the journals.
- ``audit, new events, kept``: the same with a checkpoint, which keeps what was read.
- ``audit, known events``: once more with that checkpoint, so that what is to be read is in Parquet already.
- ``audit without Spark``: the same tables, findings and report by ``--engine embedded``.
- ``Spark from_json`` and ``DuckDB read_json``: the same lines parsed and written to Parquet, and nothing else. The bars
  are multiples of the former.
- ``Python``: a plain pass over the lines, with a fast JSON decoder; it checks the chain as well.
- ``DuckDB`` and ``Polars``, if they are installed (``pip install duckdb polars``): from JSON, and DuckDB from Parquet.

The others answer a few of the questions that the audit answers (``audit_answers.py`` lists them); their answers have to
be the same, or the exit status is 1. Spark's start is told apart, and is in no other figure. Memory is the peak of the
resident memory.

Run as ``python bench/audit.py``, with ``--quick`` for a first look.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import audit_embedded
import audit_spark
from audit_answers import Answers, differences, missing
from audit_child import AUDIT, DUCKDB, EMBEDDED, FROM_JSON, POLARS, PYTHON, READ_JSON
from audit_journals import Made, cool, make_journals, warm
from audit_meter import Phase
from audit_parquet import PARSED
from bar import Bar, print_bars
from journal_figures import facts

Key = tuple[int, str]
"""The number of events, and what was measured."""

NEW, KEPT, KNOWN = "audit, new events", "audit, new events, kept", "audit, known events"
COLD = "audit, new events, cold"
ALONE = f"{EMBEDDED}, {audit_embedded.WHOLE}"
START = audit_spark.START

PART = ": "
"""Stands before the name of what is a part of a measurement."""

SMALL = 5_000
FULL = (SMALL, 1_000_000, 10_000_000, 30_000_000)
QUICK = (100_000,)

BAR_FROM = 1_000_000
"""Bars are about so many events and more; with less, what is measured is how Spark warms up."""

BAR_EMBEDDED_ALONE, BAR_SPARK_ALONE = 1.5, 12.0
"""Seconds for ``SMALL`` events; beyond Spark's start."""

BAR_FLAT = 0.15
"""How much more or less CPU an event may cost among more events, as a share."""

BAR_MEMORY = 3e9
"""Bytes of everything together."""


@dataclass
class Results:
    """Every measurement of a run.

    :ivar records: how many there are, by how many were asked for.
    :ivar wrong: answers that differ, and measurements that failed.
    """

    rounds: dict[Key, list[Phase]] = field(default_factory=dict)
    made: dict[int, Made] = field(default_factory=dict)
    records: dict[int, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, events: int, name: str, measured: Phase) -> None:
        """Take one more round into account."""
        self.rounds.setdefault((events, name), []).append(measured)

    def note(self, text: str) -> None:
        """Something to know of the figures; said once."""
        if text not in self.notes:
            self.notes.append(text)

    def rate(self, key: Key) -> float:
        """How many events a second."""
        row = self.median(key)
        assert row is not None
        return self.records[key[0]] / row.seconds

    def median(self, key: Key) -> Phase | None:
        """The median of each figure; ``None``: was not measured."""
        if key not in self.rounds:
            return None
        rounds = self.rounds[key]
        numbers = {
            name: statistics.median(getattr(each, name) for each in rounds)
            for name in ("seconds", "cpu", "python", "java")
        }
        return Phase(key[1], **numbers)


class Run:
    """The measurements of one run of this program."""

    def __init__(self, work: Path, others: Sequence[str], *, cold: bool, with_checkpoint: bool) -> None:
        self._work = work
        self._others = others
        self._cold = cold
        self._with_checkpoint = with_checkpoint
        self.results = Results()

    def all_rounds(self, events: Sequence[int], rounds: int) -> None:
        """Measure everything."""
        for number in events:
            made = self.results.made[number] = make_journals(self._work, number)
            print(f"{number:,} events: {made.bytes / 1e6:,.0f} MB, made up in {made.seconds:,.1f} s", flush=True)
            for _ in range(rounds):
                self._round(number, made)

    def _round(self, events: int, made: Made) -> None:
        answers = self._audit(events, NEW, made)
        self.results.records[events] = sum(records for records, _ in answers["records"].values())
        if self._with_checkpoint:
            self._kept(events, made, answers)
        if self._cold:
            self._compare(events, COLD, answers, self._audit(events, COLD, made))
        # The first of the others answers where the audit says nothing.
        expected = answers
        for name in self._others:
            expected = {**self._other(events, name, made, expected), **expected}
        for name in missing(answers):
            self.results.note(f"the audit has no table for {name}: only the others were compared")

    def _kept(self, events: int, made: Made, answers: Answers) -> None:
        with self._directory() as directory:
            checkpoint = str(directory / "checkpoint")
            for name in (KEPT, KNOWN):
                self._compare(events, name, answers, self._audit(events, name, made, checkpoint=checkpoint))

    @contextmanager
    def _directory(self) -> Iterator[Path]:
        """One that is gone afterwards, with what a measurement left there."""
        with tempfile.TemporaryDirectory(dir=self._work, prefix="measured-") as directory:
            yield Path(directory)

    def _audit(self, events: int, name: str, made: Made, **more: str) -> Answers:
        said = self._measure(AUDIT, made, cold=name == COLD, **more)
        for phase in (Phase(**each) for each in said["phases"]):
            known_as = {START: START, audit_spark.WHOLE: name}.get(phase.name, f"{name}{PART}{phase.name}")
            self.results.add(events, known_as, phase)
        found: Answers = said["answers"]
        return found

    def _other(self, events: int, name: str, made: Made, expected: Answers) -> Answers:
        try:
            said = self._measure(name, made)
        except subprocess.CalledProcessError as error:
            self.results.wrong.append(f"{events:,} events, {name}: failed with {error.returncode}")
            return {}
        for phase in (Phase(**each) for each in said["phases"] if each["name"] != START):
            self.results.add(events, f"{name}, {phase.name}", phase)
        if name in (FROM_JSON, READ_JSON):
            return {}
        self._compare(events, name, expected, said["answers"])
        found: Answers = said["answers"]
        return found

    def _compare(self, events: int, name: str, expected: Answers, found: Answers) -> None:
        self.results.wrong += [f"{events:,} events, {name}: {each}" for each in differences(found, expected)]

    def _measure(self, what: str, made: Made, *, cold: bool = False, **more: str) -> dict[str, Any]:
        directories = [Path(each) for each in made.directories]
        if cold:
            cool(directories)
        else:
            warm(directories)
        with self._directory() as work:
            result = work / "result.json"
            task = {"what": what, "journals": made.directories, "work": str(work), "result": str(result), **more}
            command = [sys.executable, str(Path(__file__).with_name("audit_child.py")), json.dumps(task)]
            subprocess.run(command, check=True)
            said: dict[str, Any] = json.loads(result.read_text())
        print(f"  {what}: {', '.join(_took(each) for each in said['phases'])}", flush=True)
        return said


def _took(phase: dict[str, Any]) -> str:
    return f"{phase['name']} {phase['seconds']:.1f} s"


def bars(results: Results) -> Iterator[Bar]:
    """The bars, as far as they were measured."""
    numbers = sorted(results.made)
    for events in [each for each in numbers if each >= BAR_FROM]:
        yield from _rates(results, events)
        rows = [row for name in (NEW, KNOWN, ALONE) if (row := results.median((events, name)))]
        most = max(row.java + row.python for row in rows)
        yield Bar(f"{events:,}: {most / 1e9:.2f} GB at most, of {BAR_MEMORY / 1e9:.0f}", BAR_MEMORY / most)
    for name in (NEW, ALONE):
        costs = {each: row.cpu / results.records[each] for each in numbers if (row := results.median((each, name)))}
        costs = {each: cost for each, cost in costs.items() if each >= BAR_FROM}
        for events, cost in costs.items():
            change = cost / costs[min(costs)] - 1
            text = f"{name}, {events:,}: {cost * 1e6:.1f} us of CPU an event, {change:+.0%}, of 15 %"
            yield Bar(text, BAR_FLAT / abs(change) if change else 2.0)
    for name, seconds in ((ALONE, BAR_EMBEDDED_ALONE), (NEW, BAR_SPARK_ALONE)):
        row = results.median((SMALL, name))
        if row is not None:
            yield Bar(f"{name}, {SMALL:,} events: {row.seconds:.2f} s, of {seconds}", seconds / row.seconds)


def _rates(results: Results, events: int) -> Iterator[Bar]:
    for least, name, other in (
        (1.3, NEW, f"{FROM_JSON}, {PARSED}"),
        (0.2, NEW, f"{READ_JSON}, {PARSED}"),
        (10.0, KNOWN, f"{FROM_JSON}, {PARSED}"),
        (2.0, ALONE, f"{FROM_JSON}, {PARSED}"),
    ):
        if (events, name) in results.rounds and (events, other) in results.rounds:
            found = results.rate((events, name)) / results.rate((events, other))
            yield Bar(f"{name}, {events:,}: {found:.2f} x {other}, of {least}", found / least)


def print_table(results: Results) -> None:
    """One row for each kind of measurement.

    The last column is how much faster the audit is: of known events where the other one has Parquet, else of new ones.
    """
    print(f"\n{'':<46}{'events/s':>12}{'s':>9}{'CPU s':>9}{'Python MB':>11}{'Java MB':>9}{'audit is':>10}")
    before = None
    for events, name in results.rounds:
        if before not in (None, events):
            print()
        before = events
        ours = results.median((events, KNOWN if name.endswith(", Parquet") else NEW))
        row = results.median((events, name))
        assert row is not None
        assert ours is not None
        if PART in name:
            print(f"    {name.partition(PART)[2]:<54}{row.seconds:>9.1f}{row.cpu:>9.1f}{_memory(row)}")
            continue
        rate = "" if name == START else f"{results.rate((events, name)):,.0f}"
        is_other = name.startswith((EMBEDDED, PYTHON, DUCKDB, POLARS, FROM_JSON))
        faster = f"{row.seconds / ours.seconds:.2f} x" if is_other else ""
        print(f"{f'{events:,}, {name}':<46}{rate:>12}{row.seconds:>9.1f}{row.cpu:>9.1f}{_memory(row)}{faster:>10}")


def _memory(row: Phase) -> str:
    return f"{row.python / 1e6:>11,.0f}{row.java / 1e6:>9,.0f}"


def as_json(machine: dict[str, str], results: Results, found: Sequence[Bar]) -> dict[str, Any]:
    """Everything, each round of it; times in seconds, memory in bytes."""
    rows = []
    for (events, name), rounds in results.rounds.items():
        median = results.median((events, name))
        assert median is not None
        rate = None if name == START else results.rate((events, name))
        rows.append({"events": events, "rate": rate, **asdict(median), "rounds": [asdict(each) for each in rounds]})
    return {
        "machine": machine,
        "journals": {events: asdict(made) for events, made in results.made.items()},
        "rows": rows,
        "wrong": results.wrong,
        "notes": results.notes,
        "bars": [bar.as_json() for bar in found],
    }


def read_command_line() -> argparse.Namespace:
    """The options of this program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, nargs="+", help=f"how many [{' '.join(map(str, FULL))}]")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK[0]} events, one round")
    parser.add_argument("--cold", action="store_true", help="also audit journals that have to be read from the disk")
    parser.add_argument("--new", action="store_true", help="without a checkpoint, so new events only")
    parser.add_argument("--alone", action="store_true", help="both engines, and what the bars are multiples of")
    parser.add_argument(
        "--work", type=Path, help="where journals are kept; takes 450 bytes an event, and as much again"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there, too")
    return parser.parse_args()


def main() -> int:
    """Read the command line, measure, print. :returns: 1 if an answer differs, else 0."""
    options = read_command_line()
    installed = {each: importlib.util.find_spec(each.lower()) is not None for each in (DUCKDB, POLARS)}
    with tempfile.TemporaryDirectory(prefix="bench-audit-") as temporary:
        work = (options.work or Path(temporary)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        machine = facts(work)
        for name, value in machine.items():
            print(f"{name}: {value}")
        others = [EMBEDDED, FROM_JSON, READ_JSON]
        others += [] if options.alone else [PYTHON, *(name for name in installed if installed[name])]
        run = Run(work, others, cold=options.cold, with_checkpoint=not options.new)
        for name in installed:
            if not installed[name]:
                run.results.note(f"{name} is not installed: left out")
        run.all_rounds(options.events or (QUICK if options.quick else FULL), 1 if options.quick else options.rounds)
    results, found = run.results, list(bars(run.results))
    print_table(results)
    print_bars(found)
    for text in results.notes:
        print(f"note    {text}")
    for text in results.wrong:
        print(f"WRONG   {text}")
    if not results.wrong and others:
        print("all answers are the same")
    if options.json is not None:
        options.json.write_text(json.dumps(as_json(machine, results, found), indent=1) + "\n")
    return 1 if results.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
