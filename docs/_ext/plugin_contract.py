"""Write what :mod:`bussrv.plugin` promises into its page and into the listing that a test compares with the code:
``python docs/_ext/plugin_contract.py FRAGMENT``, with the name of the news fragment that tells of the change.

The page has the names between ``<!-- plugin: NAMES -->`` and ``<!-- end of plugin -->``. ``NAME`` promises all that is
public of it, ``NAME.member`` only that, ``NAME.()`` that it can be called, and ``NAME.`` that it is there.

The listing begins with its history: a line for each change, with the digest of the names after it, the fragment, and
the first sentence of the fragment, which is in ``CHANGES.md`` after the release.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache, cached_property
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import Any, Literal, NamedTuple, get_origin

from msgspec import Struct
from zope.interface.interface import InterfaceClass

from bussrv import plugin

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/plugin.md"
LISTING = ROOT / "tests/contract/listing.txt"
FRAGMENTS = ROOT / "newsfragments"

_MARKED = re.compile(r"(?<=<!-- plugin: )([^>]*?)( -->\n).*?(?=<!-- end of plugin -->)", re.DOTALL)
_FIELD = re.compile(r":(param|ivar|cvar|returns|raises) ?([\w.]*): ")
_ROLE = re.compile(r":\w+:`[.~]?(?:[\w.]+\.)?(\w+)`")
_QUALIFIED = re.compile(r"(?:\w+\.)+(?=[A-Z])")
_RULE = "\n"
"""Between the history and the names of the listing."""


class Member(NamedTuple):
    """What authors use of a name: ``form`` is how it is written, with parameters; ``text`` is its docstring."""

    name: str
    form: str
    text: str


class Told(NamedTuple):
    """A line of the history of the listing."""

    digest: str
    fragment: str
    sentence: str


# What is promised.
def promised() -> dict[str, tuple[str, ...] | None]:
    """The names on the page, in their order, each with its members that are promised; ``None``: all that are public."""
    found: dict[str, tuple[str, ...] | None] = {}
    for marked in _MARKED.finditer(PAGE.read_text("utf-8")):
        for each in marked[1].split():
            name, dot, member = each.partition(".")
            if dot:
                found[name] = (*(found.get(name) or ()), *filter(None, [member]))
            elif name in found:
                raise ValueError(f"{name} is on the page twice")
            else:
                found[name] = None
    return found


def members(name: str) -> list[Member]:
    """The members of a name that are promised, sorted."""
    value, wanted = getattr(plugin, name), promised()[name]
    found = {each.name: each for each in _members(value)} if isinstance(value, (type, InterfaceClass)) else {}
    missing = {*(wanted or ())} - {CALL} - found.keys()
    if missing:
        raise ValueError(f"{name} has no {', '.join(missing)}")
    return [found[each] for each in sorted(found) if wanted is None or each in wanted]


def _members(value: Any) -> Iterator[Member]:
    if isinstance(value, InterfaceClass):
        for interface in reversed(value.__iro__[:-1]):
            functions = _functions(interface)
            for name, described in interface.namesAndDescriptions():
                yield Member(name, name + functions.get(name, ""), described.__doc__)
        return
    for base in reversed(value.__mro__):
        if not base.__module__.startswith("bussrv."):
            continue
        for kind, name, text in _fields(base.__doc__ or ""):
            if kind in ("ivar", "cvar"):
                yield Member(name, name, text)
        for name, found in vars(base).items():
            is_public = not name.startswith("_") or name == "__len__"
            if is_public and (callable(found) or isinstance(found, (property, cached_property))):
                yield _member(name, found)


def _functions(interface: InterfaceClass) -> dict[str, str]:
    """The parameters of the methods of an interface, as its source has them: Zope forgets some kinds."""
    classes = {each.name: each for each in _source(interface.__module__).body if isinstance(each, ast.ClassDef)}
    functions = [
        each for each in classes[interface.__name__].body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    return {
        each.name: f"({ast.unparse(each.args)}) -> {ast.unparse(each.returns or ast.Constant(None))}"
        for each in functions
    }


@cache
def _source(module: str) -> ast.Module:
    return ast.parse(Path(str(import_module(module).__file__)).read_text("utf-8"))


def _member(name: str, found: Any) -> Member:
    text = inspect.getdoc(found) or ""
    if isinstance(found, (property, cached_property)):
        return Member(name, name, text)
    is_async = "await " if inspect.iscoroutinefunction(found) else ""
    return Member(name, f"{is_async}{name}{signature(found, bound=True)}", text)


CALL = "()"


def form(name: str) -> str:
    """How a name is written: with its parameters if authors may call it, or with its value if that is promised."""
    value, wanted = getattr(plugin, name), promised()[name]
    if isinstance(value, InterfaceClass):
        bases = ", ".join(each.__name__ for each in value.__bases__ if each.__name__ != "Interface")
        return f"interface {name}({bases})" if bases else f"interface {name}"
    if isinstance(value, type):
        if not (wanted is None or CALL in wanted) or getattr(value, "_is_protocol", False):
            return f"class {name}"
        return name + (_struct(value) if issubclass(value, Struct) else signature(value.__init__, bound=True))
    if inspect.isfunction(value):
        return name + signature(value)
    if isinstance(value, (str, int, UnionType)) or get_origin(value) is Literal:
        return f"{name} = {_QUALIFIED.sub('', repr(value))}"
    return name


def signature(function: Any, *, bound: bool = False) -> str:
    """Parameters as their source has them."""
    found = inspect.signature(function)
    parameters = [each.replace(annotation=_plain(each.annotation)) for each in found.parameters.values()]
    text = str(
        inspect.Signature(parameters[1:] if bound else parameters, return_annotation=_plain(found.return_annotation))
    )
    return text.replace("'", "")


def _plain(annotation: Any) -> Any:
    return annotation if isinstance(annotation, str) or annotation is inspect.Parameter.empty else str(annotation)


def _struct(struct: type[Struct]) -> str:
    """Its fields with their types as the source has them. Values of defaults are not promised, only that there are."""
    types = {
        name: text for base in reversed(struct.__mro__) for name, text in vars(base).get("__annotations__", {}).items()
    }
    fields = inspect.signature(struct).parameters.values()
    shown = [f"{each.name}: {types[each.name]}{'' if each.default is each.empty else ' = …'}" for each in fields]
    are_named = any(each.kind is each.KEYWORD_ONLY for each in fields)
    return f"({'*, ' if are_named else ''}{', '.join(shown)})"


# The listing.
def names() -> str:
    """Everything that is promised, a line each."""
    lines = []
    for name in sorted(promised()):
        lines.append(form(name))
        fields = getattr(getattr(plugin, name), "__struct_fields__", ())
        lines += [f"    {each.form}" for each in members(name) if each.name not in fields]
    return "".join(f"{line}\n" for line in lines)


def listed() -> tuple[list[Told], str]:
    """The history and the names of the listing."""
    history, _, kept = LISTING.read_text("utf-8").partition(_RULE * 2)
    return [Told(*line.split("  ", 2)) for line in history.splitlines()], kept


def digest(text: str) -> str:
    """A few digits that stand for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def told_by(fragment: str) -> str:
    """The first sentence of a news fragment."""
    text = (FRAGMENTS / f"{fragment}.md").read_text("utf-8")
    return text.splitlines()[0].partition(". ")[0].removesuffix(".")


# The page.
def with_names(page: str) -> str:
    """The page with its names made anew."""

    def made(marked: re.Match[str]) -> str:
        found = dict.fromkeys(each.partition(".")[0] for each in marked[1].split())
        return f"{marked[1]}{marked[2]}\n{''.join(map(_entry, found))}"

    return _MARKED.sub(made, page)


def _entry(name: str) -> str:
    text = f"### `{name}`\n\n`{form(name)}`\n\n{_paragraphs(documentation(name))}"
    rows = [f"| `{_cell(each.form)}` | {_cell(_sentence(each.text))} |\n" for each in members(name)]
    return text + ("\n| member | what it is |\n|---|---|\n" + "".join(rows) if rows else "") + "\n"


def documentation(name: str) -> str:
    """The docstring of a name; that of a value is the string after it in the source."""
    value = getattr(plugin, name)
    if isinstance(value, type | InterfaceClass) or inspect.isfunction(value):
        return inspect.cleandoc(value.__doc__ or "")
    return inspect.cleandoc(_strings(_places().get(name, "bussrv.plugin")).get(name, ""))


@cache
def _places() -> dict[str, str]:
    """The modules that define the heavy names."""
    imports = [each for each in _source("bussrv.contract.names").body if isinstance(each, ast.ImportFrom)]
    return {alias.name: str(each.module) for each in imports for alias in each.names}


@cache
def _strings(module: str) -> dict[str, str]:
    """The strings that stand after the values of a module."""
    body = _source(module).body
    found = {}
    for value, text in pairwise(body):
        targets = value.targets if isinstance(value, ast.Assign) else [getattr(value, "target", None)]
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(targets[0], ast.Name):
            found[targets[0].id] = str(text.value.value)
    return found


def _fields(text: str) -> Iterator[tuple[str, str, str]]:
    """The fields of a docstring: kind, name and text."""
    parts = _FIELD.split(inspect.cleandoc(text))[1:]
    return zip(parts[::3], parts[1::3], parts[2::3], strict=True)


_BEFORE = {"returns": "Returns:", "raises": "Raises"}


def _paragraphs(text: str) -> str:
    """A docstring in Markdown. Fields of members are in their table."""
    body = _FIELD.split(text)[0].strip()
    lines = [f"- {_said(*field)}\n" for field in _fields(text) if field[0] not in ("ivar", "cvar")]
    return f"{_markdown(body)}\n" + ("\n" + "".join(lines) if lines else "")


def _sentence(text: str) -> str:
    """The docstring of a member in one line."""
    said = " ".join([_markdown(_FIELD.split(inspect.cleandoc(text))[0]), *(_said(*each) for each in _fields(text))])
    return said[:1].upper() + said[1:]


def _said(kind: str, name: str, text: str) -> str:
    what = f"{_BEFORE[kind]} " if kind in _BEFORE else ""
    about = f"`{name.rpartition('.')[2]}`: " if name else ""
    return f"{what}{about}{' '.join(_markdown(text).split())}"


def _markdown(text: str) -> str:
    return _ROLE.sub(r"`\1`", text).replace("``", "`")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    """Write the page and the listing."""
    fragment = sys.argv[1]
    PAGE.write_text(with_names(PAGE.read_text("utf-8")), "utf-8")
    kept = names()
    history = listed()[0] if LISTING.exists() else []
    if not history or history[-1].digest != digest(kept):
        told = Told(digest(kept), fragment, told_by(fragment))
        history = [*(each for each in history if each.fragment != fragment), told]
    LISTING.write_text("".join("  ".join(each) + "\n" for each in history) + _RULE + kept, "utf-8")


if __name__ == "__main__":
    main()
