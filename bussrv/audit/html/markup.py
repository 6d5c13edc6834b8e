"""Writing HTML: what is not marked as HTML is text, and is escaped. Names that strangers chose can do no harm, and
cannot look like what they are not: control characters, and those that turn the direction of text, are spelled out.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from html import escape
from typing import TypeAlias

LONGEST = 120
"""How many characters of a name are shown."""

_MOST_MARKS = 3
_JOINER = "\u200d"
_VOID = frozenset({"br", "link", "meta"})
_SHAPES = frozenset({"path"})


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Content: TypeAlias = "str | int | Iterable[Content] | None"


def html(*content: Content) -> Html:
    """Several things one after the other; ``None`` is nothing."""
    return Html("".join(map(_written, content)))


def element(name: str, /, *content: Content, **attributes: str | int | float | bool | None) -> Html:
    """An element. Underscores in names of attributes are dashes, but for one at the end, which goes.

    ``None`` and ``False`` leave an attribute out.
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(_clean(str(value)))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{written}>")
    if name in _SHAPES:
        return Html(f"<{name}{written}/>")
    return Html(f"<{name}{written}>{html(*content)}</{name}>")


def _written(content: Content) -> str:
    if content is None:
        return ""
    if isinstance(content, Html):
        return content
    if isinstance(content, str):
        return escape(_clean(content))
    if isinstance(content, int):
        return str(content)
    return html(*content)


def _clean(text: str) -> str:
    """What our own sentences may have taken in."""
    return "".join(f"[{code}]" if (code := _code(text, at)) else text[at] for at in range(len(text)))


def name(text: str | None, longest: int = LONGEST) -> Html:
    """What a stranger called something, cut to a length that can be read; ``None`` is a dash."""
    if text is None:
        return element("span", "–", class_="none")
    if not text.strip():
        return element("span", "(empty)" if not text else f"({len(text)} blank characters)", class_="none")
    cut = text[:longest]
    shown = html(
        element("span", code, class_="odd") if (code := _code(cut, at)) else Html(escape(cut[at]))
        for at in range(len(cut))
    )
    more = "…" if len(text) > longest else None
    return element("bdi", shown, more)


def plain(text: str | None, longest: int = LONGEST) -> str:
    """The same where only text can stand."""
    if text is None:
        return "–"
    return _clean(text[:longest]) + ("…" if len(text) > longest else "")


def _code(text: str, at: int) -> str | None:
    """How to spell out the character there, if it has to be."""
    character = text[at]
    if character.isascii() and character.isprintable():
        return None
    kind = unicodedata.category(character)
    if kind.startswith("M"):
        is_odd = at >= _MOST_MARKS and all(unicodedata.category(each)[0] == "M" for each in text[at - _MOST_MARKS : at])
    elif character == _JOINER:
        # Emoji are joined of others by it.
        is_odd = not (at and unicodedata.category(text[at - 1]) in {"So", "Sk", "Mn"})
    else:
        is_odd = kind.startswith("C") or kind in {"Zl", "Zp"}
    return f"U+{ord(character):04X}" if is_odd else None
