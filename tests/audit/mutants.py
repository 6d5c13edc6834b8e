"""Journals that somebody tampered with, or that came to harm: each kind says what has to be named, by segment and seq.

Each is a whole journal of some days in which one thing is wrong. ``segment`` below is a closed one in the middle of it,
``seq`` a record in the middle of that, unless something else is said.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bussrv.journal.chain import line_hash
from bussrv.journal.upkeep import UpkeepPolicy
from tests import tampering
from tests.audit.days import RUNNING, Shape, write_days
from tests.tampering import Copy, flipped

INTEGRITY = frozenset(
    {
        "bad-line", "unreadable-segment", "broken-chain", "broken-link", "broken-snapshot", "broken-seal",
        "bad-manifest", "segment-missing", "journal-salvaged", "seq-gap", "seq-duplicate", "torn-tail",
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
    :ivar first: what it names is not before this record, nor behind ``last``; ``None``: it is about no record.
    """

    kinds: frozenset[str]
    segment: int | None = None
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of a journal.

    :ivar named: what has to be found; nothing: it cannot be found out.
    :ivar beside: which segments may be named besides.
    :ivar on_disk: what is done last, in its directory.
    """

    named: tuple[Named, ...] = ()
    beside: frozenset[int] = frozenset()
    on_disk: Callable[[], object] | None = None


@dataclass(frozen=True)
class Mutation:
    """A kind of tampering.

    :ivar shape: what is tampered with, a name in ``SHAPES``.
    :ivar is_harmless: the journal says and proves the same as before.
    """

    shape: str
    tamper: Callable[[Copy], Outcome]
    is_harmless: bool = False

    @property
    def name(self) -> str:
        return self.tamper.__name__.replace("_", "-")


def on(shape: str, *, is_harmless: bool = False) -> Callable[[Callable[[Copy], Outcome]], Mutation]:
    """Make a mutation of a function that tampers with journals of that shape, and is named like it."""
    return lambda tamper: Mutation(shape, tamper, is_harmless)


def kinds(*names: str) -> frozenset[str]:
    assert INTEGRITY.issuperset(names), names
    return frozenset(names)


CHANGED = kinds("broken-chain", "broken-seal")
NO_LINE = kinds("bad-line", "seq-gap", "broken-chain")
SEALED = kinds("broken-seal")
MANIFEST = kinds("bad-manifest")
GONE = kinds("segment-missing")


def found(
    copy: Copy, *named: Named, beside: Iterable[int] = (), on_disk: Callable[[], object] | None = None
) -> Outcome:
    """``named``; the segment behind each may be named, too."""
    numbers = copy.numbers
    others = {number for each in named if each.segment is not None for number in (each.segment, next_to(copy, each))}
    assert others <= {*numbers, *copy.paths, None}, (others, numbers)
    return Outcome(named, frozenset({*others, *beside} - {None}), on_disk)  # type: ignore[arg-type]


def next_to(copy: Copy, named: Named) -> int | None:
    return next((number for number in sorted(copy.paths) if number > (named.segment or 0)), None)


UNDETECTABLE = Outcome()


def middle(copy: Copy) -> tuple[int, int, int]:
    """A closed segment, the index of a line in it, and the seq of the record that this is."""
    number = copy.numbers[2]
    index = (copy.begin(number) + len(copy.segments[number])) // 2
    return number, index, copy.record(number, index)


def ends(copy: Copy, number: int) -> tuple[int, int]:
    """The first and the last record of a segment."""
    return copy.record(number, copy.begin(number)), copy.record(number, -1)


def later(copy: Copy, number: int) -> list[int]:
    return [each for each in copy.numbers if each > number]


def flipped_in(line: bytes, pattern: bytes) -> bytes:
    """With the lowest bit of a digit flipped: the first that ``pattern`` finds as a group."""
    match = re.search(pattern, line)
    assert match is not None, line
    return flipped(line, match.start(1))


def other_actor(line: bytes) -> bytes:
    """Said to come from another client, at an address of the same length."""
    changed = re.sub(rb'"peer":"10\.0\.', b'"peer":"10.9.', line, count=1)
    return changed if changed != line else tampering.changed(line)


def next_record(copy: Copy, number: int) -> bytes:
    """A record that goes on behind the last one of a segment, chained."""
    line = copy.segments[number][-1]
    seq = copy.record(number, -1)
    members = {**json.loads(line), "prev": line_hash(line), "seq": seq + 1, "event": "config.reloaded"}
    wanted = ("v", "prev", "seq", "time", "mono", "server", "boot", "outcome", "event")
    said = {name: members[name] for name in wanted} | {"outcome": "ok"}
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"


def without(copy: Copy, number: int) -> Named:
    first, last = ends(copy, number)
    del copy.segments[number]
    return Named(GONE, number, first, last)


def of_a_stranger(copy: Copy) -> Copy:
    """A journal of the same shape, of another server."""
    place = copy.directory.with_name(f"{copy.directory.name}-stranger")
    stranger = make(place, "signed", f"{copy.server}-stranger")
    lines = Copy(stranger)
    shutil.rmtree(stranger)
    return lines


def first_seal(copy: Copy, number: int) -> int:
    """The index of the first entry of the manifest that is about a segment."""
    return next(i for i, line in enumerate(copy.manifest) if json.loads(line).get("segment") == number)


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
    outcome = mutation.tamper(copy)
    for path in copy.paths.values():
        path.chmod(0o640)
    copy.save()
    if outcome.on_disk is not None:
        outcome.on_disk()
    return Mutant(mutation, directory, outcome)


def write_mutants(root: Path, mutations: Sequence[Mutation]) -> dict[str, Mutant]:
    """One of each, by name."""
    return {each.name: write_mutant(root / each.name, each) for each in mutations}
