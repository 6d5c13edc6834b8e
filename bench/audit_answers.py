"""The questions to the journals: a few tables of whole numbers, the same whoever computes them.

==========  =====================================  ==============================================================
answer      key                                    numbers
==========  =====================================  ==============================================================
records     server, event, protocol, outcome       records, suppressed
refusals    server, event, reason                  records, suppressed
sessions    server, protocol                       opened, closed, open; far sessions left out
traffic     server, protocol                       objects in, objects out, bytes in, bytes out
peak        server, protocol                       the most sessions at a time, far sessions left out
provided    server, service                        microseconds for which somebody provided it
numbers     server                                 places where the numbers of records do not go on by one
chain       (none)                                 lines that do not hold the hash of the line before
==========  =====================================  ==============================================================

Rows of ``numbers`` and ``chain`` are there only if something is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

NAMES = ("records", "refusals", "sessions", "traffic", "peak", "provided", "numbers", "chain")

Answer = dict[str, list[int]]
Answers = dict[str, Answer]

MOST_SHOWN = 3


def key_of(*parts: str | None) -> str:
    """The parts of a key as one string."""
    return " | ".join("-" if part is None else part for part in parts)


def as_answer(rows: Iterable[Sequence[Any]], keys: int) -> Answer:
    """Rows whose first ``keys`` columns are the key; the others are numbers, NULL is 0."""
    return {key_of(*row[:keys]): [int(number or 0) for number in row[keys:]] for row in rows}


def differences(ours: Answers, theirs: Answers) -> Iterator[str]:
    """The differences between two answers, in words, as far as both say something."""
    for name in NAMES:
        if name not in ours or name not in theirs:
            continue
        one, other = ours[name], theirs[name]
        wrong = sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
        for key in wrong[:MOST_SHOWN]:
            yield f"{name}: {key}: {one.get(key)}, not {other.get(key)}"
        if len(wrong) > MOST_SHOWN:
            yield f"{name}: and {len(wrong) - MOST_SHOWN} more"


def missing(answers: Answers) -> list[str]:
    """Those that nobody gave."""
    return [name for name in NAMES if name not in answers]
