"""Text of strangers for a terminal or the log. It cannot steer a terminal, begin a line, or turn text around. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable

MOST = 4096
"""The most characters of one message, before escaping."""


def cleaned(text: str) -> str:
    r"""``text`` in one line. Characters that are not printable are escaped as in Python, such as ``\x1b``."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else escape(each) for each in text)


def escape(character: str) -> str:
    r"""A character as in a string of Python, such as ``\x1b``."""
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def word(value: object) -> str:
    """A value as one word. A value with blanks or unprintable characters is in quotes, and escaped as in JSON."""
    text = str(value)
    if text and text.isprintable() and " " not in text and not text.startswith('"'):
        return text
    return json.dumps(text)


def one_line(text: str, clean: Callable[[str], str] = cleaned) -> str:
    """``text`` in one line, cut after :data:`MOST` characters.

    :param clean: escapes the characters that are unfit.
    """
    cut = clean(text[:MOST])
    return cut if len(text) <= MOST else f"{cut}… ({len(text) - MOST} more characters)"
