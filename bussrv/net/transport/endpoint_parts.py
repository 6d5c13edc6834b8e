"""Endpoint descriptions taken apart, as Twisted writes them: parts with ``:`` between them, and a backslash before a
colon, an equals sign or a backslash that belongs to a part. Pure.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(r"\\(.)|([:=])|([^\\:=]+)|(\\)", re.DOTALL)


class Parts(NamedTuple):
    """The parts of an endpoint description.

    :ivar values: those without a name; the first one is the kind of the endpoint.
    :ivar named: those of the form ``name=value``.
    """

    values: list[str]
    named: dict[str, str]


def take_apart(description: str) -> Parts:
    """The parts of an endpoint description.

    :raises ValueError: says what is wrong with it.
    """
    parts = Parts([], {})
    name: str | None = None
    text = ""
    for found in _TOKEN.finditer(f"{description}:"):
        escaped, sign, plain, _ = found.groups()
        if sign == ":":
            _add(parts, name, text)
            name, text = None, ""
        elif sign == "=" and name is None:
            name, text = text, ""
        else:
            text += escaped or plain or found[0]
    return parts


def split_parts(description: str) -> list[str]:
    """The parts of an endpoint description as they are written. Joined by colons they are the description again."""
    parts = [""]
    for found in _TOKEN.finditer(description):
        if found[2] == ":":
            parts.append("")
        else:
            parts[-1] += found[0]
    return parts


def unescaped(part: str) -> str:
    """A part as it is meant."""
    return re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL)


def _add(parts: Parts, name: str | None, text: str) -> None:
    if name is None:
        parts.values.append(text)
    elif name in parts.named:
        raise ValueError(f"{name!r} is set twice")
    else:
        parts.named[name] = text


def number(text: str, what: str, most: int) -> int:
    """The number from 0 to ``most`` in a part.

    :raises ValueError: the part is not such a number.
    """
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(most)) or int(text) > most:
        raise ValueError(f"{what} is a number from 0 to {most}, not {text!r}")
    return int(text)
