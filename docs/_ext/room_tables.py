"""Write the tables of packages: ``python docs/_ext/room_tables.py`` takes them from the docstrings of the packages.

Each package is a heading with what it is for, and a table of what is in it. ``tests/test_architecture.py`` holds the
docstrings to what there is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/explanation/rooms.md"

HEAD = """# Packages and their rooms

For engineers who look for the place of a thing. `python docs/_ext/room_tables.py` makes this page from the docstrings
of the packages; [Architecture](architecture.md) has the picture.
"""

_LINE = re.compile(r"^- ``(\w+)``: (.*(?:\n  .*)*)", re.MULTILINE)
_ROLE = re.compile(r":\w+:`\.?([^`]*)`")


def page() -> str:
    """The page."""
    inits = sorted((ROOT / "bussrv").rglob("__init__.py"), key=lambda path: path.parent.parts)
    return HEAD + "".join(piece for path in inits for piece in _of_package(path))


def _of_package(path: Path) -> Iterator[str]:
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    name = ".".join(path.relative_to(ROOT).parent.parts)
    yield f"\n## `{name}`\n\n{_plain(text.partition(chr(10) * 2)[0])}\n"
    lines = _LINE.findall(text)
    if lines:
        yield "\n| in it | what it is for |\n|---|---|\n"
        yield from (f"| `{each}` | {_plain(what)} |\n" for each, what in lines)


def _plain(text: str) -> str:
    """Markdown of what stands in a docstring, in one line."""
    return _ROLE.sub(r"`\1`", " ".join(text.split())).replace("``", "`").replace("|", "\\|")


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
