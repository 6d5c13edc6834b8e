"""TOML documents, with the number of the line in which each key stands. Pure.

The parser says nothing of lines. So the text is cut into statements here, once it is known to be TOML. A key is known
by its *path*: ``("rule", 0, "watch")`` is the key ``watch`` of the first ``[[rule]]``, and ``("rule", 0, "watch", 2)``
the third value of its array.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Path = tuple[str | int, ...]

_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)\Z")
_WHAT_TO_DO = {
    "Cannot overwrite a value": "this key stands there already; delete one of the two",
    "Invalid value": "this is not a value; write text in quotes",
}

_TOKEN = re.compile(
    r"""
      \#[^\n]*
    | \"{3} (?: \\. | \"{1,2}(?!\") | [^"\\] )* \"{3,5}
    | '{3} (?: '{1,2}(?!') | [^'] )* '{3,5}
    | " (?: \\. | [^"\\\n] )* "
    | ' [^'\n]* '
    | [\[\]{}=\n]
    """,
    re.VERBOSE | re.DOTALL,
)
"""Everything that ends a statement, or hides an end: comments, strings, brackets, equals signs, line ends."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")


class Document(NamedTuple):
    """A TOML document.

    :ivar values: the values, as the parser returns them.
    :ivar lines: the number of the line in which each key, and each value of an array of strings, stands first.
    """

    values: dict[str, Any]
    lines: dict[Path, int]


class _Statement(NamedTuple):
    """A key with its value, or the header of a table.

    :ivar line: the number of its first line.
    :ivar key: the key as it stands there; of a header, with its brackets.
    :ivar items: the line of each string in its array.
    """

    line: int
    key: str
    items: tuple[int, ...]


class NotToml(ValueError):
    """A text is not TOML.

    :ivar line: the number of the line where the parser noticed it; ``None``: it does not say.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line

    def within(self, path: object) -> str:
        """One sentence about a file."""
        return f"{path}{'' if self.line is None else f':{self.line}'}: not TOML: {self}"


def read(text: str) -> Document:
    """Parse a document.

    :raises NotToml: the text is not TOML.
    """
    try:
        values = tomllib.loads(text)
    except RecursionError as error:
        raise NotToml("it nests too deep") from error
    except ValueError as error:
        # Also from numbers of very many digits.
        raise _fault(str(error), text) from error
    return Document(values, _lines(text))


def _fault(said: str, text: str) -> NotToml:
    """The words of the parser. The place stands before them; some sentences say what to do instead."""
    found = _PLACE.search(said)
    if found is None:
        return NotToml(said)
    message = said[: found.start()]
    line = int(found[1]) if found[1] else len(text.splitlines())
    return NotToml(_WHAT_TO_DO.get(message, message), line)


def _lines(text: str) -> dict[Path, int]:
    lines: dict[Path, int] = {}
    arrays: Counter[Path] = Counter()
    table: Path = ()
    for line, key, items in _statements(text):
        if key.startswith("[["):
            path = _path(key[2:-2], (), arrays)
            arrays[path] += 1
            path = table = (*path, arrays[path] - 1)
        elif key.startswith("["):
            path = table = _path(key[1:-1], (), arrays)
        else:
            path = _path(key, table, arrays)
        for end in range(1, len(path) + 1):
            lines.setdefault(path[:end], line)
        lines.update({(*path, number): each for number, each in enumerate(items)})
    return lines


def _path(key: str, table: Path, arrays: Counter[Path]) -> Path:
    """The path of a key in a table. An array of tables on the way stands for its last one."""
    path = table
    for name in _names(key):
        if path in arrays:
            path = (*path, arrays[path] - 1)
        path = (*path, name)
    return path


def _names(key: str) -> Iterator[str]:
    """The names of a key: one, or several with dots between them."""
    if _BARE.fullmatch(key):
        yield key
        return
    value: Any = tomllib.loads(f"{key} = 0")
    while isinstance(value, dict):
        ((name, value),) = value.items()
        yield name


def _statements(text: str) -> Iterator[_Statement]:
    """The statements of a document that is known to be TOML."""
    line = begun = 1
    begin = depth = closed = 0
    equals: int | None = None
    items: list[int] = []
    for token in _TOKEN.finditer(f"{text}\n"):
        found = token[0]
        if found == "\n" and not depth:
            end = closed if equals is None else equals
            if end:
                yield _Statement(begun, text[begin:end].strip(), tuple(items))
            begin, begun, closed, equals, items = token.end(), line + 1, 0, None, []
        elif found in ("[", "{"):
            depth += 1
        elif found in ("]", "}"):
            depth -= 1
            closed = token.end()
        elif found == "=" and not depth and equals is None:
            equals = token.start()
        elif found[0] in "\"'" and depth == 1 and equals is not None:
            items.append(line)
        line += found.count("\n")
