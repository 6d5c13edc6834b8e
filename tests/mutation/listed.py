"""The 300 mutants that a change of the tests is measured by: drawn once, with a seed, and kept in ``mutants.tsv``.

Each package has as many as its share of the lines, each module as many as its share of those. A mutant of the list is
found again in the source as long as its function still has the same expression, wherever the module has gone.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.mutation.operators import Mutant, Place, mutants

PACKAGES = ("wire", "registry", "bus", "journal")
NUMBER = 300
SEED = 16
LIST = Path(__file__).parent / "mutants.tsv"
COLUMNS = ("path", "function", "operator", "occurrence", "was", "becomes")

Found = dict[Mutant, Place]


def modules(root: Path) -> list[Path]:
    return sorted(path for name in PACKAGES for path in (root / "bussrv" / name).rglob("*.py"))


def in_source(root: Path) -> Found:
    """Every mutant of the four packages below ``root``."""
    return {
        mutant: place
        for path in modules(root)
        for mutant, place in mutants(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
    }


def shares(weights: dict[str, int], number: int) -> dict[str, int]:
    """``number`` dealt out in proportion to the weights; the largest remainders get what is left over."""
    total = sum(weights.values())
    exact = {name: number * weight / total for name, weight in weights.items()}
    dealt = {name: int(share) for name, share in exact.items()}
    by_remainder = sorted(exact, key=lambda name: (dealt[name] - exact[name], name))
    for name in by_remainder[: number - sum(dealt.values())]:
        dealt[name] += 1
    return dealt


def draw(root: Path) -> list[Mutant]:
    of_module: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in in_source(root):
        of_module[mutant.path].append(mutant)
    lines = {path: len((root / path).read_text(encoding="utf-8").splitlines()) for path in of_module}
    rng = random.Random(SEED)
    drawn = []
    for path, number in shares(lines, NUMBER).items():
        drawn += rng.sample(of_module[path], min(number, len(of_module[path])))
    return sorted(drawn, key=lambda mutant: (mutant.path, mutant.function, mutant.operator, mutant.occurrence))


def write(chosen: Iterable[Mutant]) -> None:
    rows = [COLUMNS, *([str(getattr(mutant, name)) for name in COLUMNS] for mutant in chosen)]
    LIST.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


def read() -> list[Mutant]:
    rows = [line.split("\t") for line in LIST.read_text(encoding="utf-8").splitlines()[1:]]
    return [Mutant(path, function, operator, int(number), *texts) for path, function, operator, number, *texts in rows]


def find(listed: Iterable[Mutant], found: Found) -> dict[Mutant, Mutant | None]:
    """Each mutant of the list, and what it is called in the source now; None for one whose expression is gone.

    When a module or function was renamed, or has got more of the same, that one is taken which has most in common with
    the listed one, if it makes the same change.
    """
    same_change: dict[tuple[str, str, str], list[Mutant]] = defaultdict(list)
    for mutant in found:
        same_change[mutant.operator, mutant.was, mutant.becomes].append(mutant)
    return {
        mutant: max(
            (each for each in same_change[mutant.operator, mutant.was, mutant.becomes] if likeness(each, mutant)),
            key=lambda each: likeness(each, mutant),
            default=None,
        )
        for mutant in listed
    }


def likeness(one: Mutant, other: Mutant) -> tuple[bool, ...] | None:
    """Larger is more alike; None when neither module nor function is the same."""
    if one.path != other.path and (one.function != other.function or not one.function):
        return None
    return one.function == other.function, one.path == other.path, one.occurrence == other.occurrence
