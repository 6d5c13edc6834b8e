"""Write the tables of options in the pages, from the one table in the code: ``python docs/_ext/option_tables.py``.

A table stands between ``<!-- options: GROUP -->`` and ``<!-- end of options -->``. The endpoints are
those of the wire formats that are installed. Between ``<!-- sections of options -->`` and the same end there is a list
of the options by sections of the page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from bussrv.options import Option
from bussrv.server.configuration.option_table import table
from bussrv.server.configuration.plugins import installed

DOCS = Path(__file__).parents[1]

_MARKED = re.compile(r"(?<=<!-- options: )(\w+)( -->\n).*?(?=<!-- end of options -->)", re.DOTALL)
_LISTED = re.compile(r"(<!-- sections of options -->\n).*?(<!-- end of options -->)", re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_HEAD = "| option | default | value | change | meaning |\n|---|---|---|---|---|\n"


def with_tables(page: str) -> str:
    """A page with its tables made anew."""
    rows = table(installed().formats, ())

    def made(marked: re.Match[str]) -> str:
        lines = "".join(_row(each) for each in rows if each.group.name == marked[1])
        return f"{marked[1]}{marked[2]}\n{_HEAD}{lines}\n"

    page = _MARKED.sub(made, page)
    return _LISTED.sub(lambda found: found[1] + _listed(page, rows) + found[2], page)


def _listed(page: str, rows: Sequence[Option]) -> str:
    lines = []
    for marked in _MARKED.finditer(page):
        *_, heading = _HEADING.findall(page, 0, marked.start())
        names = ", ".join(f"`--{each.name}`" for each in rows if each.group.name == marked[1])
        place = re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-"))
        lines.append(f"| [{heading}](#{place}) | {names} |\n")
    return f"\n| section | options |\n|---|---|\n{''.join(lines)}\n"


def groups(page: str) -> list[str]:
    """The groups whose tables a page has."""
    return [found[1] for found in _MARKED.finditer(page)]


def _row(option: Option) -> str:
    default = option.shown_default if option.unset else f"`{option.shown_default}`"
    change = "reload" if option.reloadable else "restart"
    return f"| `--{option.name}` | {default} | {option.kind.takes} | {change} | {option.help} |\n"


def main() -> None:
    """Write every page whose tables are not current."""
    for path in sorted(DOCS.rglob("*.md")):
        page = path.read_text()
        if with_tables(page) != page:
            path.write_text(with_tables(page))


if __name__ == "__main__":
    main()
