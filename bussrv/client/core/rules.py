"""The rules of observers, as the server reads them: a content type, ``@event`` or ``#nature``, each with a trailing
``*`` or not; a ``!`` before it excludes what it matches. See the reference of the Object System. An observer has
several, and the last one that matches decides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

FOR_REQUESTS = ("@services/reply", "@error")
"""The rules of a client that only asks or only publishes: replies to its requests, and nothing of others."""


def check_rules(rules: Collection[str]) -> tuple[str, ...]:
    """:returns: the rules without blanks around them; of none: all objects.

    :raises ValueError: one of them is no rule.
    """
    for rule in rules:
        if not isinstance(rule, str) or "," in rule:
            raise ValueError(f"a rule is a content type, @event or #nature, with or without * and !, not {rule!r}")
    return tuple(rule.strip() for rule in rules) or ("*",)


class ObserverRules:
    """The rules of one observer.

    :ivar texts: the rules as they are sent.
    """

    def __init__(self, texts: Collection[str]) -> None:
        self.texts = tuple(texts)
        rules = [text.lower() for text in reversed(self.texts)]
        self._tests = [(_test(rule.removeprefix("!").strip()), not rule.startswith("!")) for rule in rules]

    def match(self, metadata: dict[str, Any]) -> bool:
        """Whether an object with this metadata passes."""
        return next((passes for test, passes in self._tests if test(metadata)), False)


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
