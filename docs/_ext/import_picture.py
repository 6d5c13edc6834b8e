"""Draw which package imports which, from the source: ``python docs/_ext/import_picture.py`` writes the picture anew.

A package stands above all that it imports. An arrow is left out if it follows from others. Modules that import no
package are one box, *base*. The tools for tests are left out.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs/explanation/imports.svg"

BASE = "base"
LEFT_OUT = ("__init__", "testing")
BOX_WIDTH, BOX_HEIGHT = 92, 32
COLUMN, ROW = 108, 74
SWEEPS = 24
"""How often the order in the rows is improved, so that few arrows cross."""
STRAIGHTENINGS = 200
"""How often the places are moved, so that arrows are straight."""

Graph = Mapping[str, set[str]]
Place = tuple[str, str]
"""The first and the last box of an arrow that passes a row; a box is its own first and last."""
Near = Mapping[tuple[int, Place], Sequence[tuple[int, Place]]]
"""The places next to a place in a row, with their rows."""


def imported(source: str) -> Iterator[str]:
    """The modules that a module imports at run time, by name; what it imports from them is added to the name."""
    for node in _at_run_time(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _at_run_time(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield child
            yield from _at_run_time(child)


def packages() -> Graph:
    """The packages of bussrv, each with those that it imports."""
    found: dict[str, set[str]] = {}
    place = ROOT / "bussrv"
    for path in sorted(place.rglob("*.py")):
        name = path.relative_to(place).parts[0].removesuffix(".py")
        targets = {each.split(".")[1] for each in imported(path.read_text("utf-8")) if each.startswith("bussrv.")}
        found.setdefault(name, set()).update(targets)
    for name in LEFT_OUT:
        del found[name]
    base = {name for name in found if not (place / name).is_dir()}
    while higher := {name for name in base if found[name] & found.keys() - base}:
        base -= higher
    above = found.keys() - base
    return {
        BASE: set(),
        **{name: {BASE if each in base else each for each in found[name] & found.keys()} - {name} for name in above},
    }


def reduced(graph: Graph) -> Graph:
    """The same without the arrows that follow from others.

    :raises graphlib.CycleError: packages import each other in a circle.
    """
    below: dict[str, set[str]] = {}
    for name in TopologicalSorter(graph).static_order():
        below[name] = graph[name].union(*(below[each] for each in graph[name]))
    return {
        name: {each for each in targets if not any(each in below[other] for other in targets)}
        for name, targets in graph.items()
    }


def heights(graph: Graph) -> dict[str, int]:
    """In which row each box stands, from 0, the lowest."""
    found: dict[str, int] = {}
    for name in TopologicalSorter(graph).static_order():
        found[name] = 1 + max((found[each] for each in graph[name]), default=-1)
    return found


def arrows(graph: Graph) -> list[list[Place]]:
    """Every arrow as the places that it goes through, one in each row, from its first box to its last."""
    height = heights(graph)
    return [
        [(name, name), *[(name, target)] * (height[name] - height[target] - 1), (target, target)]
        for name in sorted(graph)
        for target in sorted(graph[name])
    ]


def neighbours(graph: Graph) -> Near:
    """The places in the rows above and below that each place has arrows to or from."""
    height, near = heights(graph), defaultdict[tuple[int, Place], list[tuple[int, Place]]](list)
    for arrow in arrows(graph):
        top = height[arrow[0][0]]
        for step, (upper, lower) in enumerate(pairwise(arrow)):
            near[top - step, upper].append((top - step - 1, lower))
            near[top - step - 1, lower].append((top - step, upper))
    return near


def arranged(graph: Graph, near: Near) -> list[list[Place]]:
    """The places of each row, from the lowest row up, each row from left to right."""
    height = heights(graph)
    rows: list[list[Place]] = [[] for _ in range(1 + max(height.values()))]
    for name in sorted(graph):
        rows[height[name]].append((name, name))
    for arrow in arrows(graph):
        for step, place in enumerate(arrow[1:-1], 1):
            rows[height[arrow[0][0]] - step].append(place)
    for sweep in range(SWEEPS):
        step = 1 if sweep % 2 else -1
        for index in range(len(rows))[::step]:
            if 0 <= index - step < len(rows):
                _put_near(rows[index], rows[index - step], near, index)
    return rows


def _put_near(row: list[Place], other: list[Place], near: Near, index: int) -> None:
    """Order a row by where the neighbours of each place stand in another row."""
    at = {place: (number + 0.5) / len(other) for number, place in enumerate(other)}
    now = {place: (number + 0.5) / len(row) for number, place in enumerate(row)}

    def wanted(place: Place) -> float:
        found = [at[each] for _, each in near.get((index, place), ()) if each in at]
        return fmean(found) if found else now[place]

    row.sort(key=wanted)


def spread(rows: list[list[Place]], near: Near) -> dict[tuple[int, Place], float]:
    """How far to the right each place is: between its neighbours as far as its row allows, so that arrows are straight.

    Only whole pixels, so that the picture is the same everywhere.
    """
    at = {(index, place): number * COLUMN for index, row in enumerate(rows) for number, place in enumerate(row)}
    for _ in range(STRAIGHTENINGS):
        for index, row in enumerate(rows):
            wanted = [fmean([at[each] for each in near.get((index, place), [(index, place)])]) for place in row]
            at |= zip([(index, place) for place in row], _apart(row, wanted), strict=True)
    least = min(at.values()) - COLUMN / 2
    return {each: round(x - least) for each, x in at.items()}


def _apart(row: list[Place], wanted: list[float]) -> list[float]:
    """The nearest to what is wanted that keeps the order of a row, and its places apart. Boxes yield to arrows."""
    halves = [COLUMN / 2 if first == last else COLUMN / 6 for first, last in row]
    offsets = list(accumulate((left + right for left, right in pairwise(halves)), initial=0.0))
    blocks: list[tuple[float, float, int]] = []  # the sum of what is wanted in a block, its weight, and its places
    for x, offset, (first, last) in zip(wanted, offsets, row, strict=True):
        weight = 1.0 if first == last else 3.0
        total, count = (x - offset) * weight, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / weight:
            before = blocks.pop()
            total, weight, count = total + before[0], weight + before[1], count + before[2]
        blocks.append((total, weight, count))
    shifts = [total / weight for total, weight, count in blocks for _ in range(count)]
    return [shift + offset for shift, offset in zip(shifts, offsets, strict=True)]


def picture() -> str:
    """The picture as SVG."""
    graph = reduced(packages())
    near = neighbours(graph)
    rows = arranged(graph, near)
    far = spread(rows, near)
    width = max(far.values()) + COLUMN / 2
    at = {(index, place): (x, (len(rows) - index - 0.5) * ROW) for (index, place), x in far.items()}
    height = heights(graph)
    shapes = [_line(arrow, height[arrow[0][0]], at) for arrow in arrows(graph)]
    shapes += [_box(name, *at[height[name], (name, name)]) for name in sorted(graph)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {len(rows) * ROW:g}" '
        'font-family="sans-serif" font-size="14">\n'
        "<title>Packages of bussrv: each stands above those that it imports</title>\n"
        '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#777"/></marker></defs>\n'
        f"{''.join(shapes)}</svg>\n"
    )


def _line(arrow: list[Place], top: int, at: Mapping[tuple[int, Place], tuple[float, float]]) -> str:
    passed = [at[top - step, place] for step, place in enumerate(arrow)]
    # Between boxes of a row, an arrow is upright, so that it touches none.
    points = [(x, y + side * BOX_HEIGHT / 2) for x, y in passed for side in (-1, 1)][1:-1]
    path = " ".join(f"{x:g},{y:g}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="#777" marker-end="url(#head)"/>\n'


def _box(name: str, x: float, y: float) -> str:
    left, top = x - BOX_WIDTH / 2, y - BOX_HEIGHT / 2
    return (
        f'<rect x="{left:g}" y="{top:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="4" fill="#eef3f8" '
        f'stroke="#35608f"/><text x="{x:g}" y="{y + 5:g}" text-anchor="middle" fill="#111">{name}</text>\n'
    )


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(picture(), "utf-8")


if __name__ == "__main__":
    main()
