"""Names that strangers chose: services, users, clients. They may hold any character, and be of any length.

Characters that cannot be seen, and those that turn the direction of text, are spelled out (``U+202E``).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from markupsafe import Markup, escape
from msgspec import Struct

LONGEST = 120
"""The most characters of a name that are shown."""

LONG_WORD, LONGISH_WORD = 24, 18
"""Longer words may be broken: long ones wherever a line is full, longish ones only where there is little room (on
paper, on narrow screens, in tables of many columns). Any other word makes its column wide enough."""

_MOST_MARKS = 3
_JOINER = "\u200d"


class Part(Struct, frozen=True):
    """A part of a name, escaped: one character that is spelled out, or several others."""

    text: Markup
    is_odd: bool


class Shown(Struct, frozen=True):
    """A name as it is shown.

    :ivar breaks: ``long``, ``longish`` or nothing: where its words may be broken.
    """

    parts: tuple[Part, ...]
    is_cut: bool
    breaks: str


def shown(text: str, longest: int = LONGEST) -> Shown:
    """A name that is not blank, in parts."""
    cut = text[:longest]
    longest_word = max(map(len, cut.split()), default=0)
    breaks = "long" if longest_word > LONG_WORD else "longish" if longest_word > LONGISH_WORD else ""
    return Shown(tuple(_parts(cut)), len(text) > longest, breaks)


def _parts(text: str) -> Iterator[Part]:
    begin = 0
    for at in range(len(text)):
        code = _code(text, at)
        if code is not None:
            if begin < at:
                yield Part(escape(text[begin:at]), False)
            yield Part(escape(code), True)
            begin = at + 1
    if begin < len(text):
        yield Part(escape(text[begin:]), False)


def plain(text: str | None, longest: int = LONGEST) -> str:
    """A name where only text can stand: cut, odd characters in brackets, a dash if there is none."""
    if text is None:
        return "–"
    return clean(text[:longest]) + ("…" if len(text) > longest else "")


def clean(text: str) -> str:
    """A text with odd characters spelled out, in brackets."""
    return "".join(f"[{code}]" if (code := _code(text, at)) else text[at] for at in range(len(text)))


def _code(text: str, at: int) -> str | None:
    """The code of the character there, if it has to be spelled out."""
    character = text[at]
    if character.isascii() and character.isprintable():
        return None
    kind = unicodedata.category(character)
    if kind.startswith("M"):
        is_odd = at >= _MOST_MARKS and all(unicodedata.category(each)[0] == "M" for each in text[at - _MOST_MARKS : at])
    elif character == _JOINER:
        # It joins emoji.
        is_odd = not (at and unicodedata.category(text[at - 1]) in {"So", "Sk", "Mn"})
    else:
        is_odd = kind.startswith("C") or kind in {"Zl", "Zp"}
    return f"U+{ord(character):04X}" if is_odd else None
