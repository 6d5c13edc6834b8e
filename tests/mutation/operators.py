"""Mutants of a module: one small change each, found in its syntax tree and named so that the name survives a rename.

====================  ==============================================================
operator              change
====================  ==============================================================
``comparison``        ``<`` to ``<=``, ``==`` to ``!=``, ``in`` to ``not in`` and so on
``boolean``           ``and`` to ``or``, ``or`` to ``and``; ``not x`` to ``x``
``condition``         ``if x`` and ``while x`` to ``if not x`` and ``while not x``
``constant``          an integer to the next one; ``True`` to ``False`` and back
``arithmetic``        ``+`` to ``-``, ``*`` to ``//``, ``&`` to ``|`` and so on
``return``            ``return x`` to ``return None``
``call``              a call whose result nobody uses to ``pass``
====================  ==============================================================

Text, type annotations, log entries and imports for type checkers are not changed.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}

STATEMENTS = {"return", "call"}
"""The operators that replace a whole statement; the others replace an expression."""


@dataclass(frozen=True)
class Mutant:
    """``occurrence`` counts, from 0, the places in ``function`` where ``operator`` applies; ``function`` is a qualified
    name, empty at the top of the module. ``was`` and ``becomes`` are the source, in one line each."""

    path: str
    function: str
    operator: str
    occurrence: int
    was: str
    becomes: str

    @property
    def name(self) -> str:
        return f"{self.path}:{self.function}:{self.operator}:{self.occurrence}"


@dataclass(frozen=True)
class Place:
    """Where a mutant is in the source as it is now: lines count from 1, the last one included; columns are bytes.
    ``text`` takes the place of what stands there."""

    first_line: int
    last_line: int
    start: int
    end: int
    text: str


def one_line(text: str) -> str:
    return " ".join(text.split())


def changed(node: ast.AST) -> Iterator[tuple[str, ast.AST, str]]:
    """The operator, the node that it replaces and the new source, for each that applies to this very node."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=comparators) if type(op) in COMPARISONS:
            yield "comparison", node, ast.unparse(ast.Compare(left, [COMPARISONS[type(op)]()], comparators))
        case ast.BoolOp(op=op, values=values):
            other: ast.boolop = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "boolean", node, ast.unparse(ast.BoolOp(other, values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "boolean", node, ast.unparse(operand)
        case ast.Constant(value=bool() as value):
            yield "constant", node, repr(not value)
        case ast.Constant(value=int() as value):
            yield "constant", node, repr(value + 1)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC and not is_text(left, right):
            yield "arithmetic", node, ast.unparse(ast.BinOp(left, ARITHMETIC[type(op)](), right))
        case ast.Return(value=ast.expr() as value) if not is_none(value):
            yield "return", node, "return None"
        case ast.Expr(value=ast.Call()):
            yield "call", node, "pass"
        case ast.If(test=test) | ast.While(test=test) if not isinstance(test, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
            yield "condition", test, f"not {ast.unparse(test)}"


def is_text(*operands: ast.expr) -> bool:
    return any(
        isinstance(each, ast.JoinedStr) or (isinstance(each, ast.Constant) and isinstance(each.value, (str, bytes)))
        for each in operands
    )


def is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def is_log(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value).endswith("log")


def is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr():
            return True
        case ast.If(test=test):
            return ast.unparse(test) == "TYPE_CHECKING"
        case ast.Expr(value=ast.Call() as call):
            return is_log(call)
    return False


def walk(node: ast.AST, function: str = "") -> Iterator[tuple[ast.AST, str]]:
    """Every node that may be changed, in the order of the source, with the qualified name of what it is in."""
    yield node, function
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or is_left_alone(child):
                continue
            inner = function
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                inner = f"{function}.{child.name}".lstrip(".")
            yield from walk(child, inner)


def mutants(path: str, source: str) -> Iterator[tuple[Mutant, Place]]:
    """All mutants of a module. ``path`` is only what its mutants are named by."""
    seen: Counter[tuple[str, str]] = Counter()
    for node, function in walk(ast.parse(source)):
        for operator, target, becomes in changed(node):
            if operator == "arithmetic" and not function:
                continue  # at the top of a module it is mostly the ``|`` of types
            was = one_line(ast.get_source_segment(source, target) or "")
            occurrence = seen[function, operator]
            seen[function, operator] += 1
            assert isinstance(target, (ast.expr, ast.stmt))
            place = Place(target.lineno, target.end_lineno or 0, target.col_offset, target.end_col_offset or 0, becomes)
            yield Mutant(path, function, operator, occurrence, was, one_line(becomes)), place


def mutated(source: str, mutant: Mutant, place: Place) -> str:
    """The source of a module with the change in it. Line numbers stay what they were."""
    lines = source.encode().splitlines(keepends=True)
    head = b"".join([*lines[: place.first_line - 1], lines[place.first_line - 1][: place.start]])
    tail = b"".join([lines[place.last_line - 1][place.end :], *lines[place.last_line :]])
    gap = "\n" * (place.last_line - place.first_line)
    new = place.text + gap if mutant.operator in STATEMENTS else f"({place.text}{gap})"
    return (head + new.encode() + tail).decode()
