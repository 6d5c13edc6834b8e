"""Judges the tests by mutants: ``python -m tests.mutation draw | map | judge``.

``draw`` writes the list anew, which only a new seed or number calls for. ``map`` runs tests once, in one process, and
writes which of them execute which lines (coverage.py has to be installed). ``judge`` puts each mutant of the list into
a copy of the tree, runs the tests that execute its lines until the first fails, and writes a table: killed and by what,
or survived. A run that takes far longer than the same tests take otherwise is a kill as well. A judgement that was
interrupted goes on when it is started again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.mutation import listed
from tests.mutation.operators import Mutant, Place, mutated

ROOT = Path(__file__).parents[2]
PYTEST = (sys.executable, "-m", "pytest", "-q", "-n0", "-p", "tests.mutation.touched", "-p", "no:cacheprovider")
FAILED = re.compile(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", re.MULTILINE)
PATIENCE = 60
"""Seconds that a mutant has beyond three times what its tests take without it."""


@contextmanager
def copy_of_tree() -> Iterator[Path]:
    """The committed tree, in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        archive = subprocess.Popen(["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE)
        subprocess.run(["tar", "x"], cwd=directory, stdin=archive.stdout, check=True)
        assert archive.wait() == 0
        yield Path(directory)


def environment(tree: Path, **more: str) -> dict[str, str]:
    path = os.pathsep.join([str(tree), str(tree / "bench"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **more}


class Map:
    """Which tests execute a line, and how many seconds each of them takes."""

    def __init__(self, path: Path) -> None:
        import coverage

        self._data = coverage.CoverageData(str(path))
        self._data.read()
        self._seconds: dict[str, float] = json.loads(Path(f"{path}.json").read_text(encoding="utf-8"))
        self._files = {name.partition("/bussrv/")[2]: name for name in self._data.measured_files()}

    def tests(self, mutant: Mutant, place: Place) -> list[str]:
        """Those of the module's own test module first, then those of the quickest modules. A line that is executed on
        import only is a matter of every test that executes anything of the module."""
        lines = self._data.contexts_by_lineno(self._files.get(mutant.path.removeprefix("bussrv/"), ""))
        touching = {name for line in range(place.first_line, place.last_line + 1) for name in lines.get(line, ())}
        names = touching - {""} or {name for contexts in lines.values() for name in contexts} - {""}
        seconds: dict[str, float] = defaultdict(float)
        for name in names:
            seconds[name.partition("::")[0]] += self._seconds.get(name, 0)
        package, module = Path(mutant.path).parts[1], Path(mutant.path).stem

        def distance(name: str) -> tuple[bool, bool, float, str]:
            file = name.partition("::")[0]
            return f"test_{module}.py" not in file, f"/{package}/" not in file, seconds[file], file

        return sorted((name for name in self._seconds if name in names), key=distance)

    def limit(self, tests: Iterable[str]) -> float:
        return PATIENCE + 3 * sum(self._seconds.get(name, 0) for name in tests)


def run(tree: Path, tests: list[str], limit: float) -> str:
    """The first test that fails, ``time`` when it took too long, and nothing when all pass."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as chosen:
        chosen.write("\n".join(tests))
        chosen.flush()
        files = sorted({name.partition("::")[0] for name in tests})
        process = subprocess.Popen(
            [*PYTEST, "-m", "", "-x", "--timeout=60", *files],
            cwd=tree,
            env=environment(tree, MUTATION_TESTS=chosen.name),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            return "time"
    if process.returncode == 0:
        return ""
    # A wrong command line, such as a file of tests that the map has and the tree has not, is no verdict.
    assert process.returncode != pytest.ExitCode.USAGE_ERROR, output
    failed = FAILED.search(output)
    return failed[1] if failed else f"pytest exits with {process.returncode}"


def judge(tree: Path, mutant: Mutant, place: Place, touching: Map) -> tuple[str, str]:
    tests = touching.tests(mutant, place)
    if not tests:
        return "survived", "no test executes it"
    path = tree / mutant.path
    source = path.read_text(encoding="utf-8")
    path.write_text(mutated(source, mutant, place), encoding="utf-8")
    try:
        killer = run(tree, tests, touching.limit(tests))
    finally:
        path.write_text(source, encoding="utf-8")
    return ("killed", killer) if killer else ("survived", f"{len(tests)} tests")


def judge_all(arguments: argparse.Namespace) -> None:
    touching = Map(arguments.map)
    results: Path = arguments.results
    done = {line.split("\t")[0] for line in results.read_text().splitlines()} if results.exists() else set()
    with copy_of_tree() as tree, results.open("a", encoding="utf-8", buffering=1) as table:
        found = listed.in_source(tree)
        for mutant, now in listed.find(listed.read(), found).items():
            if mutant.name not in done and mutant.path.startswith(arguments.only):
                verdict = judge(tree, now, found[now], touching) if now else ("gone", "")
                table.write("\t".join([mutant.name, *verdict]) + "\n")
    verdicts = Counter(line.split("\t")[1] for line in results.read_text().splitlines())
    print(", ".join(f"{number} {verdict}" for verdict, number in verdicts.most_common()))  # noqa: T201


def make_map(arguments: argparse.Namespace) -> None:
    with copy_of_tree() as tree:
        command = [*PYTEST, *arguments.tests]
        subprocess.run(
            command, cwd=tree, env=environment(tree, MUTATION_MAP=str(arguments.map.absolute())), check=False
        )


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    commands = parser.add_subparsers(required=True)
    commands.add_parser("draw").set_defaults(what=lambda _: listed.write(listed.draw(ROOT)))
    mapping = commands.add_parser("map")
    mapping.add_argument("map", type=Path, help="file to write")
    mapping.add_argument("tests", nargs=argparse.REMAINDER, help="arguments of pytest")
    mapping.set_defaults(what=make_map)
    judging = commands.add_parser("judge")
    judging.add_argument("map", type=Path, help="what `map` wrote, of the same revision")
    judging.add_argument("results", type=Path, help="table to write or to go on with")
    judging.add_argument("--only", default="", help="what the paths of the mutants begin with")
    judging.set_defaults(what=judge_all)
    return parser.parse_args()


if __name__ == "__main__":
    arguments = parsed()
    arguments.what(arguments)
