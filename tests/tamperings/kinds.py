"""What a kind of tampering is, and the helpers that all of them use."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.tamperings.copies import Copy

Tamper = Callable[[Copy, int, int], object]
"""Is given a copy, the number of a segment, and the index of a record in the middle of it."""


@dataclass(frozen=True)
class Kind:
    """A kind of tampering.

    :ivar name: what is done, in words.
    :ivar why: why nobody can find it once everything fits; nothing: it is found all the same.
    :ivar is_mended: making the chain fit undoes it.
    :ivar is_about_seals: it is done to the manifest, so there has to be one, and nothing is made to fit after it.
    """

    name: str
    tamper: Tamper
    why: str = ""
    is_mended: bool = False
    is_about_seals: bool = False


def elsewhere(line: bytes) -> bytes:
    """In the name of another server, which no other journal has."""
    return re.sub(rb'"server":"([^"]*)"', rb'"server":"\1-elsewhere"', line, count=1)


def in_line(change: Callable[[bytes], bytes]) -> Tamper:
    """Change the record in the middle."""
    return lambda copy, number, index: copy.forge(number, index, change)


def replaced(old: bytes, new: bytes) -> Tamper:
    """Replace the first match of a pattern in the record in the middle."""
    return in_line(lambda line: re.sub(old, new, line, count=1))


def in_header(old: bytes, new: bytes) -> Tamper:
    """Replace the first match of a pattern in the header."""
    return lambda copy, number, index: copy.forge(number, 0, lambda line: re.sub(old, new, line, count=1))


def in_snapshot(old: bytes, new: bytes) -> Tamper:
    """Replace the first match of a pattern in the snapshot; where there is none, a record is dropped.

    The first segment of a journal has no snapshot: the registry is empty.
    """

    def tamper(copy: Copy, number: int, index: int) -> None:
        for part in range(1, copy.begin(number)):
            line = copy.segments[number][part]
            changed = re.sub(old, new, line, count=1)
            if changed != line:
                copy.segments[number][part] = changed
                return

    return tamper
