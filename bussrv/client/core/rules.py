"""The rules of observers, as the server reads them: a content type, ``@event`` or ``#nature``, each with a trailing
``*``; see the reference of the Object System. An observer has several, and one that matches is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any


def check_rules(rules: Collection[str]) -> tuple[str, ...]:
    """:returns: the rules without blanks around them; of none: all objects.

    :raises ValueError: one of them excludes objects: whoever gets them is decided for each observer by itself.
    """
    for rule in rules:
        if not isinstance(rule, str) or rule.strip().startswith("!") or "," in rule:
            raise ValueError(f"a rule is a content type, @event or #nature, perhaps with a * at its end, not {rule!r}")
    return tuple(rule.strip() for rule in rules) or ("*",)


def matcher(rules: Collection[str]) -> Callable[[dict[str, Any]], bool]:
    """:returns: whether metadata matches one of the rules."""
    tests = [_test(rule.lower()) for rule in rules]

    def matches(metadata: dict[str, Any]) -> bool:
        return any(test(metadata) for test in tests)

    return matches


def _test(rule: str) -> Callable[[dict[str, Any]], bool]:
    if rule == "*":
        return lambda _: True
    kind = rule[0] if rule[:1] in ("@", "#") else ""
    wanted = rule[len(kind) :]
    if kind == "@":
        return lambda metadata: _fits(wanted, metadata.get("event"))
    if kind == "#":
        return lambda metadata: any(_fits(wanted, each) for each in _natures(metadata.get("natures")))
    return lambda metadata: _fits(wanted, str(metadata.get("type") or "").partition(";")[0].strip())


def _natures(value: Any) -> list[Any]:
    """An array of natures, or a single one."""
    return value if isinstance(value, list) else [value]


def _fits(wanted: str, text: Any) -> bool:
    if not isinstance(text, str):
        return False
    text = text.lower()
    return bool(text.startswith(wanted[:-1])) if wanted.endswith("*") else bool(text == wanted)
