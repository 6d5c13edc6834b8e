"""Text of strangers, fit for a terminal: it cannot steer it, start a line, or turn other text around. Pure."""

from __future__ import annotations

import json

MOST = 4096
"""The most characters of one message."""


def cleaned(text: str) -> str:
    r"""``text`` in one line. Controls, invisible characters and line ends are written as in Python: ``\x1b``."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escape(each) for each in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def word(value: object) -> str:
    """A value as one word; in quotes, like in JSON, if a terminal or a reader could take it for something else."""
    text = str(value)
    if text and text.isprintable() and " " not in text and not text.startswith('"'):
        return text
    return json.dumps(text)


def one_line(text: str) -> str:
    """The same, and not too long."""
    cut = cleaned(text[:MOST])
    return cut if len(text) <= MOST else f"{cut}… ({len(text) - MOST} more characters)"
