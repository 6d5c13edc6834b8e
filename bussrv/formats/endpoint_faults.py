"""Faults of endpoint descriptions, in sentences for operators.

Endpoints are plugins of Twisted. They open files and parse numbers, and let the exceptions of these pass. The texts of
those name functions and arguments of Python; here they become sentences about the description.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

_MOST_SAID = 200
_QUOTED = r"'([^']*)'"

_SENTENCES: tuple[tuple[type[Exception], str, Callable[[re.Match[str]], str]], ...] = (
    (TypeError, rf"unexpected keyword argument {_QUOTED}", lambda found: f"there is no parameter {found[1]!r}"),
    (
        TypeError,
        rf"unrecognized keyword arguments present \[{_QUOTED}",
        lambda found: f"there is no parameter {found[1]!r}",
    ),
    (TypeError, r"missing \d+ required positional arguments?: (.*)", lambda found: f"it lacks {found[1]}"),
    (TypeError, rf"multiple values for argument {_QUOTED}", lambda found: f"{found[1]!r} is set twice"),
    (TypeError, r"positional arguments? but", lambda _: "it has too many parts"),
    (
        ValueError,
        rf"invalid literal for int\(\) with base 8: {_QUOTED}",
        lambda found: f"{found[1]!r} is no octal number",
    ),
    (ValueError, rf"invalid literal for int\(\).*: {_QUOTED}", lambda found: f"{found[1]!r} is no number"),
    (ValueError, r"Exceeds the limit", lambda _: "a number in it is too large"),
    (OverflowError, r"port must be", lambda _: "ports are 0 to 65535"),
    (OverflowError, r"", lambda _: "a number in it is too large"),
    (AttributeError, rf"has no attribute {_QUOTED}", lambda found: f"{found[1]!r} is unknown"),
    (LookupError, r"", lambda _: "its parts have no such form"),
)


def explain(error: BaseException | None) -> str:
    """The fault that an exception of an endpoint stands for, in one line."""
    if isinstance(error, OSError) and error.strerror:
        path = error.filename2 or error.filename
        return f"{os.fsdecode(path)}: {error.strerror}" if path else error.strerror
    said = error.args if error is not None else ()
    if said and isinstance(said[0], list):
        # OpenSSL: a list of a library, a function and a reason each.
        reasons = ", ".join(str(each[-1]) for each in said[0] if each)
        return f"the key or the certificate cannot be used (OpenSSL: {reasons or 'no reason'})"
    text = " ".join(" ".join(map(str, said))[:_MOST_SAID].split())
    for kind, pattern, sentence in _SENTENCES:
        found = re.search(pattern, text)
        if isinstance(error, kind) and found is not None:
            text = sentence(found)
            break
    return "".join(each if each.isprintable() else "?" for each in text) or type(error).__name__
