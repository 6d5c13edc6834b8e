"""Journals that somebody tampered with, or that came to harm, and what has to be named of each, by segment and seq.

Each is a whole journal of some days in which one thing is wrong.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bussrv.journal.upkeep import UpkeepPolicy
from tests.audit.days import RUNNING, Shape, write_days
from tests.tamperings.catalogue import KINDS
from tests.tamperings.copies import Copy
from tests.tamperings.fits import Fit, nothing

INTEGRITY = frozenset(
    {
        "bad-line", "unreadable-segment", "broken-chain", "broken-link", "broken-tree", "broken-snapshot",
        "broken-seal", "bad-manifest", "segment-missing", "journal-salvaged", "seq-gap", "seq-duplicate", "torn-tail",
    }
)  # fmt: skip
"""The kinds of findings that are about the journal as such. What the records say may be wrong as a consequence."""

SHAPES = {
    "signed": Shape(segment=25),
    "compressed": Shape(segment=25, policy=UpkeepPolicy(seal_interval=2.0, compress=True)),
    "unsigned": Shape(segment=25, key=None),
    # Of the last segment, only the first records are sealed.
    "growing": Shape(segment=30, batch=3, end=RUNNING, policy=UpkeepPolicy(seal_interval=600.0)),
    # No manifest at all.
    "chain": Shape(segment=25, key=None, seals=False),
}
"""What is tampered with."""


@dataclass(frozen=True)
class Named:
    """A finding that there has to be.

    :ivar kinds: one of these.
    :ivar segment: the number of the segment that is named; ``None``: it is about something else.
    :ivar first: what it names is not before this record, nor after ``last``; ``None``: it is about no record.
    """

    kinds: frozenset[str]
    segment: int | None = None
    first: int | None = None
    last: int | None = None


class Spot:
    """A place in a journal as it is before somebody tampers with it.

    :ivar number: a segment.
    :ivar index: the index of a record among its lines.
    :ivar seq: the number of that record.
    :ivar extents: the first and the last record of each segment, by its number.
    :ivar seals: the seals in the manifest from the first one of the segment on.
    """

    def __init__(self, copy: Copy, segment: int, record: int | None) -> None:
        self.numbers = copy.numbers
        self.number = number = copy.numbers[segment]
        begin, end = copy.begin(number), len(copy.segments[number])
        self.index = (begin + end) // 2 if record is None else begin + record if record >= 0 else end + record
        self.seq = copy.record(number, self.index)
        self.extents = {each: (copy.record(each, copy.begin(each)), copy.record(each, -1)) for each in copy.numbers}
        self.first, self.last = self.extents[number]
        self.later = [each for each in copy.numbers if each > number]
        entries = copy.seals_of(number)
        self.seals = [json.loads(line) for line in copy.manifest[entries[0] :]] if entries else []


@dataclass(frozen=True)
class Outcome:
    """What became of a journal.

    :ivar named: what has to be found; nothing: it cannot be found out.
    :ivar beside: which segments may be named besides.
    """

    named: tuple[Named, ...]
    beside: frozenset[int]


@dataclass(frozen=True)
class Mutation:
    """A kind of tampering, done to a journal in one place.

    :ivar shape: what is tampered with, a name in ``SHAPES``.
    :ivar kind: what is done, a name in the catalogue.
    :ivar named: make of the place what has to be found; nothing: it cannot be found out.
    :ivar segment: which segment it is done to, by its index; the third one is closed, and in the middle.
    :ivar record: which of its records, by its index; ``None``: the one in the middle.
    :ivar fit: what is made to fit afterwards.
    :ivar beside: which segments may be named besides those named, and those after them.
    :ivar is_seen_everywhere: all segments may be named.
    :ivar is_harmless: the journal says and proves the same as before.
    """

    name: str
    shape: str
    kind: str
    named: tuple[Callable[[Spot], Named], ...] = ()
    segment: int = 2
    record: int | None = None
    fit: Fit = nothing
    beside: Callable[[Spot], Iterable[int]] = lambda spot: ()
    is_seen_everywhere: bool = False
    is_harmless: bool = False

    def outcome(self, copy: Copy) -> Outcome:
        """Tamper with a copy, and make of it what is wanted."""
        spot = Spot(copy, self.segment, self.record)
        named = tuple(each(spot) for each in self.named)
        KINDS[self.kind].tamper(copy, spot.number, spot.index)
        self.fit(copy, spot.number)
        beside = {number for each in named if each.segment is not None for number in _with_the_next(copy, each.segment)}
        if self.is_seen_everywhere:
            beside |= {*copy.numbers, *(json.loads(line)["segment"] for line in copy.manifest if b'"segment":' in line)}
        return Outcome(named, frozenset({*beside, *self.beside(spot)}))


def _with_the_next(copy: Copy, segment: int) -> Iterable[int]:
    return [segment, *[number for number in sorted(copy.paths) if number > segment][:1]]


def make(directory: Path, shape: str, server: str) -> Path:
    """A journal of that shape which has enough in it to be tampered with."""
    for seed in range(100):
        copy = Copy(write_days(directory, SHAPES[shape], server, seed))
        if _is_enough(copy, shape):
            return directory
        shutil.rmtree(directory)
    raise AssertionError(f"no journal of the shape {shape}")


def _is_enough(copy: Copy, shape: str) -> bool:
    sizes = [len(copy.segments[number]) - copy.begin(number) for number in copy.numbers]
    if len(sizes) < 5 or min(*sizes[:3]) < 9 or sizes[-1] < 6 or copy.begin(copy.numbers[2]) < 3:
        return False
    seals = [json.loads(line) for line in copy.manifest]
    last = [each for each in seals if each.get("segment") == copy.numbers[-1]]
    if shape == "growing":
        return bool(last) and not last[-1]["closed"] and 2 < last[-1]["records"] < sizes[-1] - 4
    return not seals or len(last) > 1


@dataclass(frozen=True)
class Mutant:
    """A journal that was tampered with. It is named like its server."""

    mutation: Mutation
    directory: Path
    outcome: Outcome


def write_mutant(directory: Path, mutation: Mutation) -> Mutant:
    """Make a journal, and tamper with it."""
    copy = Copy(make(directory, mutation.shape, directory.name))
    copy.stranger = lambda: of_a_stranger(copy)
    outcome = mutation.outcome(copy)
    for path in copy.paths.values():
        path.chmod(0o640)
    copy.save()
    return Mutant(mutation, directory, outcome)


def of_a_stranger(copy: Copy) -> Copy:
    """A journal of the same shape, of another server."""
    place = copy.directory.with_name(f"{copy.directory.name}-stranger")
    stranger = make(place, "signed", f"{copy.server}-stranger")
    lines = Copy(stranger)
    shutil.rmtree(stranger)
    return lines


def write_mutants(root: Path, mutations: Sequence[Mutation]) -> dict[str, Mutant]:
    """One of each, by name."""
    return {each.name: write_mutant(root / each.name, each) for each in mutations}
