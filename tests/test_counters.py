"""Every counter is explained in ``docs/errors.md``.

Here those whose names stand in the code; ``tests/conftest.py`` looks at what the tests of a bus really count.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from bussrv.errors import COUNTERS, REASONS
from tests.counters import KnownCounters

PACKAGE = Path(__file__).parents[1] / "bussrv"


def names(key: ast.expr) -> Iterator[str]:
    """The texts that an index can be, as far as they stand there."""
    for node in ast.walk(key):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def counters(tree: ast.AST) -> Iterator[str]:
    """The names that something is counted under: ``counters[...]``, ``self._counters[...]``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript):
            base = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            if base.lstrip("_") == "counters":
                yield from names(node.slice)


@cache
def parsed() -> dict[Path, ast.Module]:
    """An uplink is no server: its counters are explained in a table of its own."""
    paths = (path for path in PACKAGE.rglob("*.py") if "uplink" not in path.parts)
    return {path: ast.parse(path.read_text()) for path in paths if "counters" in path.read_text()}


def test_every_counter_in_the_code_is_explained() -> None:
    found = {name: path for path, tree in parsed().items() for name in counters(tree)}
    assert {"link-objects", "internal-error", "inbus-unreachable"} <= found.keys()
    unknown = {name: path.name for name, path in found.items() if name not in REASONS and name not in COUNTERS}
    assert not unknown, (
        f"{unknown}: add each to COUNTERS in bussrv/errors.py (to REASONS, if it also stands in errors or in the "
        "journal), and a row to its table in docs/errors.md"
    )


def test_every_explained_counter_is_in_the_code() -> None:
    code = "".join(path.read_text() for path in PACKAGE.rglob("*.py") if path.name != "errors.py")
    gone = [name for name in COUNTERS if f'"{name}"' not in code]
    assert not gone, "gone from the code: take them out of COUNTERS and docs/errors.md, too"


def test_no_name_is_in_both_tables() -> None:
    assert not COUNTERS.keys() & REASONS.keys()


def test_a_counter_that_nobody_explained_is_noticed() -> None:
    from tests.counters import UNKNOWN

    counted = KnownCounters()
    counted["not-subscribed"] += 1
    assert not UNKNOWN
    counted["made-up"] += 1
    assert {"made-up"} == UNKNOWN
    UNKNOWN.clear()
