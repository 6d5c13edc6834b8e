"""What is done to lines: they are changed, dropped, put in, repeated, moved, or are no lines of a journal any more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests import tampering
from tests.audit.mutants import (
    CHANGED,
    NO_LINE,
    SEALED,
    UNDETECTABLE,
    Mutation,
    Named,
    Outcome,
    ends,
    flipped_in,
    found,
    kinds,
    later,
    middle,
    next_record,
    on,
    other_actor,
)
from tests.tampering import Copy, flipped

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
    copy.segments[number].append(next_record(copy, number))
    copy.chain(number)
    return UNDETECTABLE


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
    return found(copy, Named(CHANGED, number, seq, seq), Named(CHANGED, number, seq, seq + 1))


@on("compressed")
def move_a_record_to_another_segment(copy: Copy) -> Outcome:
    number, index, seq = middle(copy)
    other = copy.numbers[0]
    tampering.move_to_another(copy, number, index)
    return found(
        copy,
        Named(CHANGED, number, seq, seq + 1),
        Named(CHANGED, other, seq, seq),
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
    copy.forge(number, index, lambda line: line.replace(b'{"v":3,', b'{"v":4,'))
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


MUTATIONS = [each for each in [*globals().values()] if isinstance(each, Mutation)]
"""All of these."""
