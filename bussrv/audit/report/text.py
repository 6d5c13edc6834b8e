"""Numbers, lengths of time, moments and names, formatted for people.

Strangers chose the names of services, users and clients: they may hold any character, and be of any length. Characters
that cannot be seen, and those that turn the direction of text, are spelled out (``U+202E``).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

from markupsafe import Markup, escape
from msgspec import Struct

from bussrv.incidents.amounts import NOTHING, SPACE, length

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SCALES = "kMGTPE"

SECOND = 1_000_000


def number(value: int | None) -> str:
    """``1,234,567``."""
    return NOTHING if value is None else f"{value:,}"


def size(value: int | None) -> str:
    """Bytes: ``999 B``, ``1.2 GB``. Units are powers of 1,000."""
    if value is None:
        return NOTHING
    if abs(value) < 1000:
        return f"{value}{SPACE}B"
    scaled = float(value)
    for scale in _SCALES:
        scaled /= 1000
        if abs(scaled) < 999.5 or scale == _SCALES[-1]:
            break
    digits = 0 if abs(scaled) >= 99.95 else 1
    return f"{scaled:,.{digits}f}{SPACE}{scale}B"


def width(micros: int) -> str:
    """The length of a step or the distance of ticks, which is a round number: ``10 min``, ``20 µs``."""
    return f"{micros}{SPACE}µs" if micros < 1000 else length(micros / SECOND)


def share(value: float | None) -> str:
    """``99.95 %``. Never rounded to 100 % or 0 %."""
    if value is None:
        return NOTHING
    percent = value * 100
    if percent >= 100:
        return f"100{SPACE}%"
    if percent <= 0:
        return f"0{SPACE}%"
    if percent < 0.1:
        return f"<{SPACE}0.1{SPACE}%"
    if percent >= 90:
        return f"{int(percent * 100) / 100:.2f}{SPACE}%"
    return f"{percent:.1f}{SPACE}%"


def moment(micros: int | None) -> str:
    """``2026-11-21 14:02:03``, UTC."""
    return NOTHING if micros is None else f"{_datetime(micros):%Y-%m-%d %H:%M:%S}"


def machine_moment(micros: int) -> str:
    """For programs: ``2026-11-21T14:02:03.123456Z``."""
    return f"{_datetime(micros):%Y-%m-%dT%H:%M:%S.%fZ}"


def day(micros: int) -> str:
    """``21 Nov 2026``."""
    return f"{_datetime(micros):%-d %b %Y}"


def clock(micros: int, step: int) -> str:
    """The time of day, as precise as steps of that length need."""
    when = _datetime(micros)
    if step >= 60 * SECOND:
        return f"{when:%H:%M}"
    if step >= SECOND:
        return f"{when:%H:%M:%S}"
    return f"{when:%H:%M:%S.%f}".rstrip("0")


def _datetime(micros: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return datetime.max.replace(tzinfo=timezone.utc) if micros > 0 else datetime.min.replace(tzinfo=timezone.utc)


LONGEST = 120
"""The most characters of a name that are shown."""

LONG_WORD, LONGISH_WORD = 24, 18
"""Longer words may be broken: long ones wherever a line is full, longish ones only where there is little room (on
paper, on narrow screens, in tables of many columns). Any other word makes its column wide enough."""

_MOST_MARKS = 3
_JOINER = "\u200d"


class NamePart(Struct, frozen=True):
    """A part of a name, escaped: one character that is spelled out, or several others."""

    text: Markup
    is_odd: bool


class ShownName(Struct, frozen=True):
    """A name as it is shown.

    :ivar breaks: ``long``, ``longish`` or nothing: where its words may be broken.
    """

    parts: tuple[NamePart, ...]
    is_cut: bool
    breaks: str


def shown(text: str, longest: int = LONGEST) -> ShownName:
    """A name that is not blank, in parts."""
    cut = text[:longest]
    longest_word = max(map(len, cut.split()), default=0)
    breaks = "long" if longest_word > LONG_WORD else "longish" if longest_word > LONGISH_WORD else ""
    return ShownName(tuple(_parts(cut)), len(text) > longest, breaks)


def _parts(text: str) -> Iterator[NamePart]:
    if _is_plain(text):
        if text:
            yield NamePart(escape(text), False)
        return
    begin = 0
    for at in range(len(text)):
        code = _code(text, at)
        if code is not None:
            if begin < at:
                yield NamePart(escape(text[begin:at]), False)
            yield NamePart(escape(code), True)
            begin = at + 1
    if begin < len(text):
        yield NamePart(escape(text[begin:]), False)


def plain(text: str | None, longest: int = LONGEST) -> str:
    """A name where only text can stand: cut, odd characters in brackets, a dash if there is none."""
    if text is None:
        return "–"
    return clean(text[:longest]) + ("…" if len(text) > longest else "")


def clean(text: str) -> str:
    """A text with odd characters spelled out, in brackets."""
    if _is_plain(text):
        return text
    return "".join(f"[{code}]" if (code := _code(text, at)) else text[at] for at in range(len(text)))


def _is_plain(text: str) -> bool:
    """Whether no character has to be spelled out, for what nearly all texts are. ``False``: look at each."""
    return text.isascii() and text.isprintable()


def _code(text: str, at: int) -> str | None:
    """The code of the character there, if it has to be spelled out."""
    character = text[at]
    if _is_plain(character):
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
