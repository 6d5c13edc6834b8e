"""Write the tables of the admin API in its page, from the table of routes: ``python docs/_ext/admin_api.py``.

The tables stand between ``<!-- admin api -->`` and ``<!-- end of admin api -->``; those of problems between
``<!-- admin problems -->`` and ``<!-- end of admin problems -->``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

from msgspec import Raw, Struct

from bussrv.admin.http.answers import PROBLEMS
from bussrv.admin.http.routes import Route
from bussrv.admin.table import ROUTES

PAGE = Path(__file__).parents[1] / "reference" / "admin-api.md"

_MEANING = re.compile(r":ivar (\w+): (.*?)(?=\n\s*:ivar|\n\s*\n|\n\s*$|\Z)", re.DOTALL)


def with_tables(page: str) -> str:
    """The page with its tables made anew."""
    for name, made in (("admin api", _routes(ROUTES)), ("admin problems", _problems())):
        text = "\n".join(made)
        page = re.sub(
            rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)",
            lambda marked, text=text: f"{marked[1]}\n{text}\n\n{marked[2]}",  # type: ignore[misc]
            page,
            flags=re.DOTALL,
        )
    return page


def _problems() -> Iterator[str]:
    yield "| code | status | meaning |"
    yield "|---|---|---|"
    for code, sort in PROBLEMS.items():
        yield f"| `{code}` | {sort.status} | {sort.title} |"


def _routes(rows: Iterable[Route]) -> Iterator[str]:
    for row in rows:
        yield f"### `{row.method} {row.path}`\n"
        yield f"{row.summary} {_permission(row)}\n"
        if row.parameters or row.body is not None:
            yield from _parameters(row)
        answer = row.collection or row.answers
        if row.collection is not None:
            yield "A [page](#pages-filters-order) of items:\n"
        if isinstance(answer, type) and issubclass(answer, Struct):
            yield from _fields(answer)
        if row.problems:
            yield f"Problems of its own: {', '.join(f'`{each}`' for each in row.problems)}.\n"


def _permission(row: Route) -> str:
    if row.permission is None:
        return "Nobody has to prove who they are."
    local = ", or `watch` on `bus/statistics`; or `--admin-scrape-allow`" if row.is_of_statistics else ""
    return f'Permission: `admin = "{row.permission}"`{local}.'


def _parameters(row: Route) -> Iterator[str]:
    yield "| parameter | default | meaning |"
    yield "|---|---|---|"
    for each in row.parameters:
        yield f"| `{each.name}` | {'' if each.default is None else f'`{each.default}`'} | {each.help} |"
    if row.body is not None:
        meanings = _meanings(row.body)
        for name, hint in get_type_hints(row.body).items():
            yield f"| `{name}` (in the body) | | {_type(hint)}. {meanings.get(name, '')} |"
    yield ""


def _fields(answer: type[Struct]) -> Iterator[str]:
    meanings = _meanings(answer)
    yield "| field | value | meaning |"
    yield "|---|---|---|"
    hints = get_type_hints(answer)
    for name in answer.__struct_fields__:
        yield f"| `{name}` | {_type(hints[name])} | {meanings.get(name, '')} |"
    yield ""


def _meanings(answer: type[Any]) -> dict[str, str]:
    documented = (each.__doc__ or "" for each in reversed(answer.__mro__) if issubclass(each, Struct))
    found: dict[str, str] = {}
    for text in documented:
        for name, meaning in _MEANING.findall(text):
            found[name] = re.sub(r"\s+", " ", meaning).replace("``", "`").replace("`None`", "`null`").strip(" .")
    return found


_PLAIN = {str: "text", int: "number", float: "number", bool: "`true` or `false`", Raw: "a record", type(None): "`null`"}


def _type(hint: Any) -> str:
    if hint in _PLAIN:
        return _PLAIN[hint]
    inner = get_args(hint)
    origin = getattr(hint, "__origin__", None)
    if origin in (list, tuple):
        return f"array of {_type(inner[0])}"
    if origin is dict:
        return f"object: {_type(inner[1])} by name"
    if isinstance(hint, type) and issubclass(hint, Struct):
        return f"object: {', '.join(f'`{each}`' for each in hint.__struct_fields__)}"
    if inner and all(isinstance(each, str) for each in inner):
        return ", ".join(f"`{each}`" for each in inner)
    return " or ".join(dict.fromkeys(_type(each) for each in inner)) if inner else "any JSON"


def main() -> None:
    """Write the page if it is not current."""
    page = PAGE.read_text()
    if with_tables(page) != page:
        PAGE.write_text(with_tables(page))


if __name__ == "__main__":
    main()
