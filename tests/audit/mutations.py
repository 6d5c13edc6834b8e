"""Journals that somebody tampered with, or that came to harm: each kind says what has to be named, by segment and seq.

Each is a whole journal of some days in which one thing is wrong. ``segment`` below is a closed one in the middle of it,
``seq`` a record in the middle of that, unless something else is said.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bussrv.journal.chain import line_hash
from bussrv.journal.keys import PrivateKey
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.segment import segment_name
from bussrv.journal.upkeep import Policy
from tests import tampering
from tests.audit.days import RUNNING, Shape, write_days
from tests.inspection.journals import KEY, STRANGER, House
from tests.tampering import Copy, flipped

INTEGRITY = frozenset(
    {
        "bad-line", "unreadable-segment", "broken-chain", "broken-link", "broken-seal", "bad-manifest",
        "segment-missing", "journal-salvaged", "seq-gap", "seq-duplicate", "torn-tail",
    }
)  # fmt: skip
"""The kinds of findings that are about the journal as such. What the records say may be wrong as a consequence."""

SHAPES = {
    "signed": Shape(segment=25),
    "compressed": Shape(segment=25, policy=Policy(seal_interval=2.0, compress=True)),
    "unsigned": Shape(segment=25, key=None),
    # Of the last segment, only the first records are sealed.
    "growing": Shape(segment=30, batch=3, end=RUNNING, policy=Policy(seal_interval=600.0)),
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


MUTATIONS: list[Mutation] = []


def on(shape: str, *, is_harmless: bool = False) -> Callable[[Callable[[Copy], Outcome]], Callable[[Copy], Outcome]]:
    """Make a function one of ``MUTATIONS``."""

    def add(tamper: Callable[[Copy], Outcome]) -> Callable[[Copy], Outcome]:
        MUTATIONS.append(Mutation(shape, tamper, is_harmless))
        return tamper

    return add


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


# A line is changed.


@on("signed")
def flip_in_a_value(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    copy.forge(number, index, lambda line: flipped_in(line, rb'"mono":\d*(\d)'))
    return found(copy, Named(CHANGED, number, seq, seq + 1))


@on("growing")
def flip_in_prev(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    copy.forge(number, index, lambda line: flipped_in(line, rb'"prev":"[a-f]*(\d)'))
    return found(copy, Named(CHANGED, number, seq, seq + 1))


@on("signed")
def flip_in_seq(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    copy.forge(number, index, lambda line: flipped_in(line, rb'"seq":\d*(\d)'))
    return found(
        copy,
        Named(CHANGED, number, seq - 1, seq + 1),
        Named(kinds("seq-gap"), number, seq, seq),
        Named(kinds("seq-duplicate"), number, seq ^ 1 if seq % 2 else seq + 1, seq + 1),
    )


@on("unsigned")
def flip_in_a_name(copy: Copy) -> Outcome:
    """Then it is a field that nobody knows, and there is no event."""
    number, index, seq = middle(copy)
    copy.forge(number, index, lambda line: line.replace(b'"event"', b'"dvent"'))
    return found(copy, Named(NO_LINE, number, seq, seq + 1), Named(kinds("bad-line"), number))


@on("signed")
def flip_in_a_newline(copy: Copy) -> Outcome:
    """It makes one line of two."""
    number, index, seq = middle(copy)
    copy.forge(number, index, lambda line: line[:-1] + b"\x0b")
    return found(copy, Named(NO_LINE, number, seq, seq + 2), Named(kinds("bad-line"), number))


@on("signed")
def flip_in_a_header(copy: Copy) -> Outcome:
    number, _, _ = middle(copy)
    copy.forge(number, 0, lambda line: flipped_in(line, rb'"time":"[^"]*(\d)Z'))
    return found(copy, Named(kinds("broken-chain"), number))


@on("compressed")
def flip_in_a_snapshot(copy: Copy) -> Outcome:
    number, _, _ = middle(copy)
    copy.forge(number, 1, lambda line: flipped_in(line, rb'"opened":\d*(\d)'))
    return found(copy, Named(kinds("broken-chain"), number))


@on("chain")
def flip_in_a_snapshot_without_seals(copy: Copy) -> Outcome:
    number, _, _ = middle(copy)
    copy.forge(number, copy.begin(number) - 1, lambda line: flipped_in(line, rb'"part":(\d)'))
    return found(copy, Named(kinds("bad-line", "broken-chain"), number))


def _on_file(path: Path, change: Callable[[bytes], bytes]) -> Callable[[], object]:
    return lambda: path.write_bytes(change(path.read_bytes()))


@on("compressed")
def flip_in_a_compressed_file(copy: Copy) -> Outcome:
    number, _, _ = middle(copy)
    change = _on_file(copy.paths[number], lambda data: flipped(data, len(data) // 2))
    return found(copy, Named(kinds("unreadable-segment"), number), on_disk=change)


@on("compressed")
def flip_in_the_checksum_of_a_compressed_file(copy: Copy) -> Outcome:
    number, _, _ = middle(copy)
    change = _on_file(copy.paths[number], lambda data: flipped(data, len(data) - 6))
    return found(copy, Named(kinds("unreadable-segment"), number), on_disk=change)


@on("compressed")
def cut_a_compressed_file(copy: Copy) -> Outcome:
    number, _, _ = middle(copy)
    change = _on_file(copy.paths[number], lambda data: data[:-20])
    return found(copy, Named(kinds("unreadable-segment"), number), on_disk=change)


@on("compressed", is_harmless=True)
def flip_in_the_time_of_a_compressed_file(copy: Copy) -> Outcome:
    """It is not what is inside."""
    number, _, _ = middle(copy)
    return Outcome(on_disk=_on_file(copy.paths[number], lambda data: flipped(data, 5)))


@on("signed")
def another_value_of_the_same_length(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    copy.forge(number, index, other_actor)
    return found(copy, Named(CHANGED, number, seq, seq + 1))


@on("chain")
def another_value_without_seals(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    copy.forge(number, index, other_actor)
    return found(copy, Named(kinds("broken-chain"), number, seq, seq + 1))


@on("signed")
def the_first_record_changed(copy: Copy) -> Outcome:
    number, _, _ = middle(copy)
    copy.forge(number, copy.begin(number), other_actor)
    return found(copy, Named(CHANGED, number, number, number + 1))


@on("signed")
def the_last_record_of_a_closed_segment_changed(copy: Copy) -> Outcome:
    number, _, _ = middle(copy)
    _, last = ends(copy, number)
    copy.forge(number, -1, other_actor)
    return found(copy, Named(SEALED, number, number, last))


@on("signed")
def the_last_record_of_all_changed(copy: Copy) -> Outcome:
    number = copy.numbers[-1]
    first, last = ends(copy, number)
    copy.forge(number, -1, tampering.changed)
    return found(copy, Named(SEALED, number, first, last))


@on("signed")
def the_same_said_otherwise(copy: Copy) -> Outcome:
    """A space more: it means the same, but is not what was written."""
    number, index, seq = middle(copy)
    tampering.say_the_same_otherwise(copy, number, index)
    return found(copy, Named(CHANGED, number, seq, seq + 1))


# Records are dropped, put in, repeated, or moved.


@on("signed")
def drop_a_record(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    tampering.drop(copy, number, index)
    return found(copy, Named(kinds("seq-gap"), number, seq, seq), Named(CHANGED, number, seq, seq + 1))


@on("chain")
def drop_several_records(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    del copy.segments[number][index : index + 3]
    return found(copy, Named(kinds("seq-gap"), number, seq, seq + 2), Named(CHANGED, number, seq, seq + 3))


@on("compressed")
def drop_the_first_record(copy: Copy) -> Outcome:
    number, _, _ = middle(copy)
    tampering.drop(copy, number, copy.begin(number))
    return found(copy, Named(kinds("seq-gap"), number, number, number))


@on("signed")
def drop_the_last_record_of_a_closed_segment(copy: Copy) -> Outcome:
    number, _, _ = middle(copy)
    first, last = ends(copy, number)
    tampering.drop(copy, number, -1)
    return found(copy, Named(SEALED, number, first, last))


@on("chain")
def drop_the_last_record_of_a_closed_segment_without_seals(copy: Copy) -> Outcome:
    """Which segment it was missing from cannot be told by its number, for segments are named by their first record."""
    number, _, _ = middle(copy)
    _, last = ends(copy, number)
    tampering.drop(copy, number, -1)
    behind = later(copy, number)[0]
    return found(copy, Named(kinds("broken-link"), number), Named(kinds("seq-gap"), behind, last, last))


@on("signed")
def drop_the_last_record_of_all(copy: Copy) -> Outcome:
    number = copy.numbers[-1]
    first, last = ends(copy, number)
    tampering.drop(copy, number, -1)
    return found(copy, Named(SEALED, number, first, last))


@on("growing")
def drop_the_end_that_is_not_sealed(copy: Copy) -> Outcome:
    """It might not have been written."""
    del copy.segments[copy.numbers[-1]][-2:]
    return UNDETECTABLE


@on("growing")
def the_last_record_that_is_not_sealed_changed(copy: Copy) -> Outcome:
    """No line behind it holds its hash."""
    copy.forge(copy.numbers[-1], -1, other_actor)
    return UNDETECTABLE


@on("growing")
def what_is_not_sealed_made_anew(copy: Copy) -> Outcome:
    number = copy.numbers[-1]
    copy.forge(number, len(copy.segments[number]) - 2, other_actor)
    copy.chain(number)
    return UNDETECTABLE


@on("growing")
def a_record_that_is_not_sealed_changed(copy: Copy) -> Outcome:
    """The chain alone tells."""
    number = copy.numbers[-1]
    index = len(copy.segments[number]) - 2
    seq = copy.record(number, index)
    copy.forge(number, index, other_actor)
    return found(copy, Named(kinds("broken-chain"), number, seq, seq + 1))


@on("growing")
def a_record_added_where_nothing_is_sealed(copy: Copy) -> Outcome:
    number = copy.numbers[-1]
    copy.segments[number].append(_next_record(copy, number))
    copy.chain(number)
    return UNDETECTABLE


def _next_record(copy: Copy, number: int) -> bytes:
    """A record that goes on behind the last one of a segment, chained."""
    line = copy.segments[number][-1]
    seq = copy.record(number, -1)
    members = {**json.loads(line), "prev": line_hash(line), "seq": seq + 1, "event": "config.reloaded"}
    wanted = ("v", "prev", "seq", "time", "mono", "server", "boot", "outcome", "event")
    said = {name: members[name] for name in wanted} | {"outcome": "ok"}
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"


@on("signed")
def drop_a_header(copy: Copy) -> Outcome:
    number, _, _ = middle(copy)
    tampering.drop(copy, number, 0)
    return found(copy, Named(kinds("bad-line", "broken-link"), number))


@on("unsigned")
def drop_a_part(copy: Copy) -> Outcome:
    number, _, _ = middle(copy)
    tampering.drop(copy, number, 1)
    return found(copy, Named(kinds("bad-line", "broken-chain"), number))


@on("chain")
def drop_a_snapshot(copy: Copy) -> Outcome:
    number, _, _ = middle(copy)
    del copy.segments[number][1 : copy.begin(number)]
    return found(copy, Named(kinds("bad-line"), number), Named(kinds("broken-chain"), number, number, number))


@on("signed")
def put_in_a_record(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    tampering.put_in_one_that_fits(copy, number, index)
    return found(copy, Named(kinds("seq-duplicate"), number, seq, seq), Named(CHANGED, number, seq, seq + 1))


@on("signed")
def put_in_a_record_and_chain_the_segment(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    _, last = ends(copy, number)
    tampering.put_in_one_that_fits(copy, number, index)
    copy.chain(number)
    return found(copy, Named(SEALED, number, number, last), Named(kinds("seq-duplicate"), number, seq, seq))


@on("signed")
def repeat_a_record(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    tampering.repeat(copy, number, index)
    return found(copy, Named(kinds("seq-duplicate"), number, seq, seq), Named(CHANGED, number, seq, seq + 1))


@on("chain")
def repeat_a_record_at_the_end(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    tampering.repeat_later(copy, number, index)
    return found(copy, Named(kinds("seq-duplicate"), number, seq, seq), Named(kinds("broken-chain"), number, seq, seq))


@on("signed")
def swap_two_records(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    tampering.swap(copy, number, index)
    return found(copy, Named(CHANGED, number, seq, seq + 2))


@on("chain")
def swap_two_records_that_are_apart(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    lines, other = copy.segments[number], index - 4
    lines[index], lines[other] = lines[other], lines[index]
    return found(
        copy,
        Named(kinds("broken-chain"), number, seq - 4, seq - 3),
        Named(kinds("broken-chain"), number, seq - 4, seq + 1),
        Named(kinds("broken-chain"), number, seq + 1, seq + 1),
    )


@on("signed")
def move_a_record_within_a_segment(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    tampering.move_to_the_beginning(copy, number, index)
    return found(
        copy, Named(CHANGED, number, seq, seq), Named(CHANGED, number, number, number), Named(CHANGED, number, seq + 1)
    )


@on("compressed")
def move_a_record_to_another_segment(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    other = copy.numbers[0]
    tampering.move_to_another(copy, number, index)
    return found(
        copy,
        Named(CHANGED, number, seq, seq + 1),
        Named(CHANGED, other, seq, seq),
        Named(CHANGED, other, other + 2, other + 2),
    )


# What is no line of a journal.


@on("signed")
def put_in_junk(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    tampering.put_in_junk(copy, number, index)
    return found(copy, Named(kinds("bad-line"), number), Named(NO_LINE, number, seq, seq))


@on("signed")
def put_in_a_blank_line(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    tampering.put_in_nothing(copy, number, index)
    return found(copy, Named(kinds("bad-line"), number), Named(NO_LINE, number, seq, seq))


@on("compressed")
def garbage_behind_the_value(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    copy.forge(number, index, lambda line: line[:-1] + b" {}\n")
    return found(copy, Named(kinds("bad-line"), number), Named(NO_LINE, number, seq, seq + 1))


@on("chain")
def a_line_that_is_not_utf_8(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    copy.forge(number, index, lambda line: line.replace(b'"outcome":"ok"', b'"outcome":"\xff\xfe"'))
    return found(copy, Named(kinds("bad-line"), number), Named(NO_LINE, number, seq, seq + 1))


@on("signed")
def carriage_returns(copy: Copy) -> Outcome:
    """As an editor may leave it."""
    number, _, _ = middle(copy)
    copy.segments[number] = [line[:-1] + b"\r\n" for line in copy.segments[number]]
    first, last = ends(copy, number)
    return found(copy, Named(CHANGED, number, first, last))


@on("unsigned")
def a_newer_schema_version(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    copy.forge(number, index, lambda line: line.replace(b'{"v":2,', b'{"v":3,'))
    return found(copy, Named(kinds("bad-line"), number), Named(NO_LINE, number, seq, seq + 1))


@on("chain")
def zeros(copy: Copy) -> Outcome:
    """As a power failure may leave them."""
    number, index, seq = middle(copy)
    copy.forge(number, index, lambda line: bytes(len(line)))
    return found(copy, Named(kinds("bad-line"), number), Named(NO_LINE, number, seq, seq + 2))


@on("signed")
def a_line_broken_in_two(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    tampering.part(copy, number, index)
    return found(copy, Named(kinds("bad-line"), number), Named(NO_LINE, number, seq, seq + 1))


# Segments are cut, or added to.


@on("signed")
def cut_at_a_line(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    first, last = ends(copy, number)
    del copy.segments[number][index:]
    return found(copy, Named(SEALED, number, first, last), Named(kinds("seq-gap", "broken-seal"), None, seq, last))


@on("chain")
def cut_at_a_line_without_seals(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    _, last = ends(copy, number)
    del copy.segments[number][index:]
    return found(copy, Named(kinds("broken-link"), number), Named(kinds("seq-gap"), later(copy, number)[0], seq, last))


@on("unsigned")
def cut_in_a_line(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    _, last = ends(copy, number)
    copy.segments[number][index:] = [copy.segments[number][index][:70]]
    return found(copy, Named(kinds("bad-line"), number), Named(kinds("seq-gap"), None, seq, last))


@on("signed")
def cut_to_nothing(copy: Copy) -> Outcome:
    number, _, _ = middle(copy)
    _, last = ends(copy, number)
    copy.segments[number] = []
    named = kinds("broken-seal", "broken-link")
    return found(copy, Named(named, number), Named(kinds("seq-gap", "broken-seal"), None, number, last))


@on("compressed")
def cut_to_its_snapshot(copy: Copy) -> Outcome:
    number, _, _ = middle(copy)
    _, last = ends(copy, number)
    del copy.segments[number][copy.begin(number) :]
    return found(copy, Named(SEALED, number), Named(kinds("seq-gap", "broken-seal"), None, number, last))


@on("signed")
def cut_the_last_segment(copy: Copy) -> Outcome:
    number = copy.numbers[-1]
    first, last = ends(copy, number)
    del copy.segments[number][-3:]
    return found(copy, Named(SEALED, number, first, last))


@on("signed")
def cut_the_last_segment_in_a_line(copy: Copy) -> Outcome:
    number = copy.numbers[-1]
    first, last = ends(copy, number)
    copy.forge(number, -1, lambda line: line[:90])
    return found(copy, Named(SEALED, number, first, last))


@on("growing")
def cut_the_last_segment_before_its_seal(copy: Copy) -> Outcome:
    number = copy.numbers[-1]
    first, last = ends(copy, number)
    del copy.segments[number][copy.begin(number) + 1 :]
    return found(copy, Named(SEALED, number, first, last))


@on("growing", is_harmless=True)
def a_torn_tail(copy: Copy) -> Outcome:
    """As a crash leaves it, or a running server for a moment: behind the last newline nothing is ever promised."""
    copy.segments[copy.numbers[-1]].append(b'{"v":2,"prev":"0')
    return Outcome(beside=frozenset({copy.numbers[-1]}))


@on("signed")
def a_record_added_to_a_closed_segment(copy: Copy) -> Outcome:
    """It takes the number of the first one of the next segment."""
    number, _, _ = middle(copy)
    _, last = ends(copy, number)
    copy.segments[number].append(_next_record(copy, number))
    return found(copy, Named(SEALED, number, number, last + 1), Named(kinds("seq-duplicate"), None, last + 1, last + 1))


@on("signed")
def a_record_added_behind_the_last_seal(copy: Copy) -> Outcome:
    number = copy.numbers[-1]
    first, last = ends(copy, number)
    copy.segments[number].append(_next_record(copy, number))
    return found(copy, Named(SEALED, number, first, last + 1))


@on("unsigned")
def junk_added_to_a_closed_segment(copy: Copy) -> Outcome:
    number, _, _ = middle(copy)
    copy.segments[number].append(b"\x00junk")
    return found(copy, Named(kinds("bad-line", "broken-seal"), number))


@on("signed")
def an_older_state_of_a_segment(copy: Copy) -> Outcome:
    """What it was like at its first seal, for example from a backup."""
    number, _, _ = middle(copy)
    first, last = ends(copy, number)
    del copy.segments[number][copy.begin(number) + _sealed_first(copy, number) :]
    return found(copy, Named(SEALED, number, first, last))


def _sealed_first(copy: Copy, number: int) -> int:
    """How many records the first seal of a segment is about."""
    return next(int(seal["records"]) for seal in map(json.loads, copy.manifest) if seal.get("segment") == number)


@on("signed")
def an_older_state_of_the_journal(copy: Copy) -> Outcome:
    """All of it: a good journal of yesterday."""
    kept = next(i for i, line in enumerate(copy.manifest) if json.loads(line).get("segment") == copy.numbers[2])
    copy.manifest[kept + 1 :] = []
    number = copy.numbers[2]
    del copy.segments[number][copy.begin(number) + _sealed_first(copy, number) :]
    for each in later(copy, number):
        del copy.segments[each]
    return UNDETECTABLE


# Segments are removed, changed for others, or put there.


def _without(copy: Copy, number: int) -> Named:
    first, last = ends(copy, number)
    del copy.segments[number]
    return Named(GONE, number, first, last)


@on("signed")
def remove_the_first_segment(copy: Copy) -> Outcome:
    return found(copy, _without(copy, copy.numbers[0]))


@on("signed")
def remove_a_segment(copy: Copy) -> Outcome:
    return found(copy, _without(copy, copy.numbers[2]))


@on("chain")
def remove_a_segment_without_seals(copy: Copy) -> Outcome:
    number = copy.numbers[2]
    first, last = ends(copy, number)
    behind = copy.numbers[3]
    del copy.segments[number]
    return found(
        copy,
        Named(kinds("broken-link", "segment-missing"), None),
        Named(kinds("seq-gap", "segment-missing"), None, first, last),
        beside=[number, behind],
    )


@on("compressed")
def remove_two_segments(copy: Copy) -> Outcome:
    return found(copy, _without(copy, copy.numbers[1]), _without(copy, copy.numbers[1]))


@on("signed")
def remove_the_last_segment(copy: Copy) -> Outcome:
    return found(copy, _without(copy, copy.numbers[-1]))


@on("growing")
def remove_the_segment_that_grows(copy: Copy) -> Outcome:
    number = copy.numbers[-1]
    del copy.segments[number]
    return found(copy, Named(GONE, number, number, number + _sealed_first(copy, number) - 1))


@on("chain")
def remove_the_last_segment_without_seals(copy: Copy) -> Outcome:
    """Nothing says that it was there."""
    del copy.segments[copy.numbers[-1]]
    return UNDETECTABLE


@on("signed")
def swap_two_segments(copy: Copy) -> Outcome:
    one, other = copy.numbers[1:3]
    copy.segments[one], copy.segments[other] = copy.segments[other], copy.segments[one]
    both = kinds("broken-link", "broken-seal", "bad-line")
    return found(copy, Named(both, one), Named(both, other))


@on("chain")
def rename_a_segment(copy: Copy) -> Outcome:
    """Its lines are all there, under a name that is not theirs."""
    number, _, _ = middle(copy)
    path, behind = copy.paths[number], later(copy, number)[0]
    return Outcome(
        (Named(kinds("bad-line", "broken-link"), number + 1),),
        frozenset({copy.numbers[1], number, number + 1, behind}),
        lambda: path.rename(path.with_name(segment_name(number + 1))),
    )


def _of_a_stranger(copy: Copy) -> Copy:
    """A journal of the same shape, of another server."""
    place = copy.directory.with_name(f"{copy.directory.name}-stranger")
    stranger = make(place, "signed", f"{copy.server}-stranger")
    lines = Copy(stranger)
    shutil.rmtree(stranger)
    return lines


@on("signed")
def the_first_segment_of_another_server(copy: Copy) -> Outcome:
    number = copy.numbers[0]
    copy.segments[number] = _of_a_stranger(copy).segments[1]
    return found(copy, Named(SEALED, number))


@on("compressed")
def a_segment_of_another_server(copy: Copy) -> Outcome:
    number, _, _ = middle(copy)
    stranger = _of_a_stranger(copy)
    copy.segments[number] = stranger.segments[stranger.numbers[1]]
    return found(copy, Named(kinds("broken-seal", "bad-line"), number))


@on("signed")
def a_segment_that_nobody_sealed(copy: Copy) -> Outcome:
    """It goes on where the journal ended, as if the server had been started once more."""
    _, last = ends(copy, copy.numbers[-1])
    server = copy.server

    def boot_again() -> None:
        house = House(copy.directory, seals=False, server=server)
        house.boot()
        house.close()

    return replace(
        found(copy, on_disk=boot_again),
        named=(Named(SEALED, last + 1, last + 1, last + 1),),
        beside=frozenset({last + 1}),
    )


@on("signed")
def a_segment_sealed_by_a_stranger(copy: Copy) -> Outcome:
    _, last = ends(copy, copy.numbers[-1])
    server = copy.server

    def boot_again() -> None:
        house = House(copy.directory, seals=False, server=server)
        house.boot()
        house.close()
        again = Copy(copy.directory)
        again.add_entry(STRANGER, **again.seal_of(last + 1))
        again.save()

    return Outcome((Named(SEALED, last + 1, last + 1, last + 1), Named(MANIFEST)), frozenset({last + 1}), boot_again)


# The chain is made anew.


@on("signed")
def chain_the_segment_anew(copy: Copy) -> Outcome:
    number, index, _ = middle(copy)
    first, last = ends(copy, number)
    copy.forge(number, index, other_actor)
    copy.chain(number)
    return found(copy, Named(SEALED, number, first, last))


@on("signed")
def chain_everything_anew(copy: Copy) -> Outcome:
    number, index, _ = middle(copy)
    behind = later(copy, number)
    extents = [(each, *ends(copy, each)) for each in (number, *behind)]
    copy.forge(number, index, other_actor)
    copy.chain_from(number)
    return found(copy, *[Named(SEALED, *each) for each in extents])


@on("chain")
def chain_everything_anew_without_seals(copy: Copy) -> Outcome:
    """Who knows how a journal is made can make it anew."""
    number, index, _ = middle(copy)
    copy.forge(number, index, other_actor)
    copy.chain_from(number)
    return UNDETECTABLE


@on("growing")
def a_header_that_says_salvaged(copy: Copy) -> Outcome:
    """It would excuse whatever is before it."""
    number, _, _ = middle(copy)
    first, last = ends(copy, number)
    said = b',"salvaged":{"segment":%d,"line":3,"reason":"bad disk"}' % copy.numbers[1]
    copy.forge(number, 0, lambda line: re.sub(rb'"prev":"[0-9a-f]{64}"', b'"prev":"%b"' % (b"0" * 64), line))
    copy.forge(number, 0, lambda line: line.replace(b"}\n", said + b"}\n"))
    copy.chain(number)
    return found(copy, Named(kinds("journal-salvaged"), number), Named(SEALED, number, first, last))


# Seals.


def _sealed_anew(copy: Copy, key: PrivateKey | None) -> None:
    """Make everything fit a change, as who knows how a journal is made does."""
    copy.without_seals()
    copy.chain_from(copy.numbers[0])
    copy.seal_anew(key)


@on("unsigned")
def seal_everything_anew(copy: Copy) -> Outcome:
    """Seals that are not signed can be made by anybody."""
    number, index, _ = middle(copy)
    copy.forge(number, index, other_actor)
    _sealed_anew(copy, None)
    return UNDETECTABLE


@on("signed")
def seal_everything_anew_without_a_key(copy: Copy) -> Outcome:
    """The entry of the key is still there."""
    number, index, _ = middle(copy)
    copy.forge(number, index, other_actor)
    _sealed_anew(copy, None)
    return found(copy, Named(MANIFEST), beside=copy.numbers)


@on("signed")
def seal_everything_anew_with_another_key(copy: Copy) -> Outcome:
    """As another server would have: only who knows the key that it should be can tell."""
    number, index, _ = middle(copy)
    copy.forge(number, index, other_actor)
    _sealed_anew(copy, STRANGER)
    return UNDETECTABLE


@on("signed")
def seal_the_rest_anew_with_another_key(copy: Copy) -> Outcome:
    """From the change on; what is before it is signed as ever."""
    number, index, _ = middle(copy)
    copy.forge(number, index, other_actor)
    copy.chain_from(number)
    since = _first_seal(copy, number)
    copy.seal_anew(STRANGER, since)
    return found(copy, Named(MANIFEST), Named(SEALED, number), beside=copy.numbers)


@on("signed")
def seal_again_what_was_closed(copy: Copy) -> Outcome:
    """Not even with the right key."""
    number, index, _ = middle(copy)
    copy.forge(number, index, other_actor)
    copy.chain_from(number)
    copy.add_entry(KEY, **copy.seal_of(number))
    return found(copy, Named(MANIFEST), Named(SEALED, number, *_ends_of_lines(copy, number)), beside=copy.numbers)


def _ends_of_lines(copy: Copy, number: int) -> tuple[int, int]:
    return ends(copy, number)


def _first_seal(copy: Copy, number: int) -> int:
    """The index of the first entry of the manifest that is about a segment."""
    return next(i for i, line in enumerate(copy.manifest) if json.loads(line).get("segment") == number)


@on("signed")
def drop_a_seal(copy: Copy) -> Outcome:
    number, _, _ = middle(copy)
    del copy.manifest[_first_seal(copy, number)]
    return found(copy, Named(MANIFEST), beside=copy.numbers)


@on("unsigned")
def drop_all_seals_of_a_segment(copy: Copy) -> Outcome:
    """And number the others anew, so that the manifest fits itself."""
    number, _, _ = middle(copy)
    kept = [line for line in copy.manifest if json.loads(line).get("segment") != number]
    copy.manifest = [re.sub(rb'"entry":\d+', b'"entry":%d' % i, line, count=1) for i, line in enumerate(kept, 1)]
    copy.seal_anew(None)
    first, last = ends(copy, number)
    return found(copy, Named(SEALED, number, first, last), beside=copy.numbers)


@on("signed")
def drop_the_last_seals(copy: Copy) -> Outcome:
    """Those of the last segment, and one that it refers to."""
    number = copy.numbers[-1]
    first, last = ends(copy, number)
    del copy.manifest[_first_seal(copy, number) - 1 :]
    return found(copy, Named(SEALED, number, first, last), Named(MANIFEST), beside=[copy.numbers[-2]])


@on("growing")
def drop_the_seals_of_the_last_segment(copy: Copy) -> Outcome:
    number = copy.numbers[-1]
    first, last = ends(copy, number)
    del copy.manifest[_first_seal(copy, number) :]
    return found(copy, Named(SEALED, number, first, last))


@on("signed")
def drop_the_closing_seal_of_the_last_segment(copy: Copy) -> Outcome:
    """The server might have been killed just before it."""
    assert json.loads(copy.manifest[-2]).get("segment") == copy.numbers[-1]
    del copy.manifest[-1]
    return UNDETECTABLE


@on("signed")
def swap_two_seals(copy: Copy) -> Outcome:
    index = _first_seal(copy, middle(copy)[0])
    copy.manifest[index], copy.manifest[index + 1] = copy.manifest[index + 1], copy.manifest[index]
    return found(copy, Named(MANIFEST), beside=copy.numbers)


@on("signed")
def repeat_a_seal(copy: Copy) -> Outcome:
    index = _first_seal(copy, middle(copy)[0])
    copy.manifest.insert(index, copy.manifest[index])
    return found(copy, Named(MANIFEST), beside=copy.numbers)


@on("signed")
def edit_a_seal(copy: Copy) -> Outcome:
    number, _, _ = middle(copy)
    index = _first_seal(copy, number)
    copy.manifest[index] = flipped_in(copy.manifest[index], rb'"digest":"[a-f]*(\d)')
    return found(copy, Named(MANIFEST), beside=copy.numbers)


@on("unsigned")
def edit_a_seal_and_chain_the_manifest(copy: Copy) -> Outcome:
    """As a seal that is not signed can be; headers refer to the one that was there."""
    number, _, _ = middle(copy)
    index = _first_seal(copy, number)
    original = copy.segments[number]
    first, last = ends(copy, number)
    copy.segments[number] = [*original[:-2], other_actor(original[-2]), original[-1]]
    copy.seal_anew(None, index)
    copy.segments[number] = original
    return found(copy, Named(SEALED, number, first, last), beside=copy.numbers)


@on("signed")
def a_signature_flipped(copy: Copy) -> Outcome:
    index = _first_seal(copy, middle(copy)[0])
    copy.manifest[index] = flipped_in(copy.manifest[index], rb'"signature":"[a-f]*(\d)')
    return found(copy, Named(MANIFEST), beside=copy.numbers)


@on("signed")
def a_signature_removed(copy: Copy) -> Outcome:
    index = _first_seal(copy, middle(copy)[0])
    copy.manifest[index] = copy.manifest[index].partition(b',"key":')[0] + b"}\n"
    return found(copy, Named(MANIFEST), beside=copy.numbers)


@on("signed")
def a_key_entry_forged(copy: Copy) -> Outcome:
    """The stranger says it himself that what follows is signed with his key."""
    copy.add_entry(STRANGER, kind="key", public=STRANGER.public.text)
    return found(copy, Named(MANIFEST))


@on("unsigned")
def a_key_entry_put_before_everything(copy: Copy) -> Outcome:
    """From then on every line would have to be signed, and none is."""
    said = {"v": 2, "prev": "0" * 64, "entry": 1, "kind": "key", "time": "2026-11-01T00:00:00.000000Z"}
    entry = tampering.entry_line({**said, "server": copy.server, "public": STRANGER.public.text}, STRANGER)
    copy.manifest.insert(0, entry)
    return found(copy, Named(MANIFEST), beside=copy.numbers)


def _pruned(copy: Copy, number: int, key: PrivateKey | None) -> None:
    seal = copy.seal_of(number)
    said = {name: seal[name] for name in ("segment", "last_seq", "bytes", "digest")}
    copy.add_entry(key, kind="pruned", reason="age", **said)


@on("signed")
def a_removal_forged(copy: Copy) -> Outcome:
    """A stranger says that the first segment was removed by retention."""
    number = copy.numbers[0]
    _pruned(copy, number, STRANGER)
    return found(copy, _without(copy, number), Named(MANIFEST))


@on("unsigned")
def a_removal_forged_that_does_not_fit(copy: Copy) -> Outcome:
    """It names another digest than the seal of that segment."""
    number = copy.numbers[0]
    copy.forge(number, -1, other_actor)
    _pruned(copy, number, None)
    return found(copy, _without(copy, number), Named(MANIFEST))


@on("unsigned")
def a_removal_forged_that_fits(copy: Copy) -> Outcome:
    """Where there is no key, anybody can remove old segments and write down that retention did."""
    number = copy.numbers[0]
    _pruned(copy, number, None)
    del copy.segments[number]
    return UNDETECTABLE


@on("signed")
def remove_the_manifest(copy: Copy) -> Outcome:
    copy.manifest = []
    return found(copy, Named(kinds("bad-manifest", "broken-seal")), beside=copy.numbers)


@on("unsigned")
def remove_the_manifest_and_what_refers_to_it(copy: Copy) -> Outcome:
    """A journal without seals remains, which is a good one."""
    copy.manifest = []
    copy.without_seals()
    copy.chain_from(copy.numbers[0])
    return UNDETECTABLE


@on("growing")
def junk_in_the_manifest(copy: Copy) -> Outcome:
    copy.manifest.insert(_first_seal(copy, middle(copy)[0]), b"junk\n")
    return found(copy, Named(MANIFEST), beside=copy.numbers)


@on("growing")
def a_newer_version_in_the_manifest(copy: Copy) -> Outcome:
    index = _first_seal(copy, middle(copy)[0])
    copy.manifest[index] = copy.manifest[index].replace(b'{"v":2,', b'{"v":3,')
    return found(copy, Named(MANIFEST), beside=copy.numbers)


@on("signed", is_harmless=True)
def the_manifest_torn(copy: Copy) -> Outcome:
    """An unfinished line was never told of to anybody."""
    copy.manifest.append(b'{"v":2,"prev":"0')
    return Outcome()


@on("signed")
def the_manifest_of_another_journal(copy: Copy) -> Outcome:
    stranger = _of_a_stranger(copy)
    copy.manifest = stranger.manifest
    beside = [*copy.numbers, *stranger.numbers]
    return found(copy, Named(SEALED, copy.numbers[0]), Named(MANIFEST), beside=beside)


# Numbers that are wrong though everything else fits: as only who knows how a journal is made can do it.


def _numbered(line: bytes, by: int) -> bytes:
    return re.sub(rb'"seq":(\d+)', lambda found: b'"seq":%d' % (int(found[1]) + by), line, count=1)


@on("chain")
def a_gap_in_the_numbers(copy: Copy) -> Outcome:
    """A record of an open segment was taken out, and the rest chained anew."""
    number = copy.numbers[-1]
    index = len(copy.segments[number]) - 3
    seq = copy.record(number, index)
    tampering.drop(copy, number, index)
    copy.chain_from(number)
    return found(copy, Named(kinds("seq-gap"), number, seq, seq))


@on("chain")
def a_number_twice(copy: Copy) -> Outcome:
    number = copy.numbers[-1]
    index = len(copy.segments[number]) - 3
    seq = copy.record(number, index)
    tampering.repeat(copy, number, index)
    copy.chain_from(number)
    return found(copy, Named(kinds("seq-duplicate"), number, seq, seq))


@on("unsigned")
def a_gap_in_the_numbers_sealed(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    tampering.drop(copy, number, index)
    _sealed_anew(copy, None)
    return found(copy, Named(kinds("seq-gap"), number, seq, seq))


@on("chain")
def hidden_damage(copy: Copy) -> Outcome:
    """A record was taken out of the last segment, and those behind it numbered and chained anew."""
    number = copy.numbers[-1]
    index = len(copy.segments[number]) - 3
    tampering.drop(copy, number, index)
    lines = copy.segments[number]
    lines[index:] = [_numbered(line, -1) for line in lines[index:]]
    copy.chain_from(number)
    return UNDETECTABLE


# Something else that is allowed.


@on("signed", is_harmless=True)
def compress_a_segment(copy: Copy) -> Outcome:
    number, _, _ = middle(copy)
    path = copy.paths[number]

    def compress() -> None:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()

    return Outcome(on_disk=compress)


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


def write_mutants(root: Path, mutations: Sequence[Mutation] = tuple(MUTATIONS)) -> dict[str, Mutant]:
    """All of them, by name."""
    return {each.name: write_mutant(root / each.name, each) for each in mutations}


def is_manifest(file: str | None) -> bool:
    return (file or "").endswith(f"/{MANIFEST_NAME}")
