"""What is done to segments: they are cut, added to, removed, changed for others, put there, or chained anew."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace

from bussrv.journal.segment import segment_name
from tests.audit.mutants import (
    GONE,
    MANIFEST,
    SEALED,
    UNDETECTABLE,
    Mutation,
    Named,
    Outcome,
    ends,
    found,
    kinds,
    later,
    middle,
    next_record,
    of_a_stranger,
    on,
    other_actor,
    without,
)
from tests.inspection.journals import STRANGER, House
from tests.tampering import Copy

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
    copy.segments[copy.numbers[-1]].append(b'{"v":3,"prev":"0')
    return Outcome(beside=frozenset({copy.numbers[-1]}))


@on("signed")
def a_record_added_to_a_closed_segment(copy: Copy) -> Outcome:
    """It takes the number of the first one of the next segment."""
    number, _, _ = middle(copy)
    _, last = ends(copy, number)
    copy.segments[number].append(next_record(copy, number))
    return found(copy, Named(SEALED, number, number, last + 1), Named(kinds("seq-duplicate"), None, last + 1, last + 1))


@on("signed")
def a_record_added_behind_the_last_seal(copy: Copy) -> Outcome:
    number = copy.numbers[-1]
    first, last = ends(copy, number)
    copy.segments[number].append(next_record(copy, number))
    return found(copy, Named(SEALED, number, first, last + 1))


@on("unsigned")
def junk_added_to_a_closed_segment(copy: Copy) -> Outcome:
    number, _, _ = middle(copy)
    copy.segments[number].append(b"\x00junk")
    return found(copy, Named(kinds("bad-line", "broken-seal"), number))


def _sealed_first(copy: Copy, number: int) -> int:
    """How many records the first seal of a segment is about."""
    return next(int(seal["records"]) for seal in map(json.loads, copy.manifest) if seal.get("segment") == number)


@on("signed")
def an_older_state_of_a_segment(copy: Copy) -> Outcome:
    """What it was like at its first seal, for example from a backup."""
    number, _, _ = middle(copy)
    first, last = ends(copy, number)
    del copy.segments[number][copy.begin(number) + _sealed_first(copy, number) :]
    return found(copy, Named(SEALED, number, first, last))


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


@on("signed")
def remove_the_first_segment(copy: Copy) -> Outcome:
    return found(copy, without(copy, copy.numbers[0]))


@on("signed")
def remove_a_segment(copy: Copy) -> Outcome:
    return found(copy, without(copy, copy.numbers[2]))


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
    return found(copy, without(copy, copy.numbers[1]), without(copy, copy.numbers[1]))


@on("signed")
def remove_the_last_segment(copy: Copy) -> Outcome:
    return found(copy, without(copy, copy.numbers[-1]))


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


@on("signed")
def the_first_segment_of_another_server(copy: Copy) -> Outcome:
    number = copy.numbers[0]
    copy.segments[number] = of_a_stranger(copy).segments[1]
    return found(copy, Named(SEALED, number))


@on("compressed")
def a_segment_of_another_server(copy: Copy) -> Outcome:
    number, _, _ = middle(copy)
    stranger = of_a_stranger(copy)
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
    """Somebody who knows how a journal is made makes it anew, snapshots included."""
    for number in copy.numbers:
        for index in range(len(copy.segments[number])):
            copy.forge(number, index, lambda line: line.replace(b'"peer":"10.0.', b'"peer":"10.9.'))
    copy.chain_from(copy.numbers[0])
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


# Something else that is allowed.


@on("signed", is_harmless=True)
def compress_a_segment(copy: Copy) -> Outcome:
    number, _, _ = middle(copy)
    path = copy.paths[number]

    def compress() -> None:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()

    return Outcome(on_disk=compress)


MUTATIONS = [each for each in [*globals().values()] if isinstance(each, Mutation)]
"""All of these."""
