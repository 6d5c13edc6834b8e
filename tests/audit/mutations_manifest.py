"""What is done to the manifest; and what only who knows how a journal is made can do, so that everything fits."""

from __future__ import annotations

import json
import re

from bussrv.journal.chain import line_hash
from bussrv.journal.keys import PrivateKey
from tests import tampering
from tests.audit.mutants import (
    MANIFEST,
    SEALED,
    UNDETECTABLE,
    Mutation,
    Named,
    Outcome,
    ends,
    first_seal,
    flipped_in,
    found,
    kinds,
    middle,
    of_a_stranger,
    on,
    other_actor,
    without,
)
from tests.inspection.journals import KEY, STRANGER
from tests.tampering import Copy

# Seals.


def _named_by(copy: Copy, index: int) -> Named:
    """What is found about a seal itself."""
    seal = json.loads(copy.manifest[index])
    return Named(MANIFEST, seal["segment"], seal["first_seq"], seal["last_seq"])


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
    since = first_seal(copy, number)
    copy.seal_anew(STRANGER, since)
    return found(copy, Named(MANIFEST), Named(SEALED, number), beside=copy.numbers)


@on("signed")
def seal_again_what_was_closed(copy: Copy) -> Outcome:
    """Not even with the right key."""
    number, index, _ = middle(copy)
    copy.forge(number, index, other_actor)
    copy.chain_from(number)
    copy.add_entry(KEY, **copy.seal_of(number))
    return found(copy, _named_by(copy, -1), Named(SEALED, number, *ends(copy, number)), beside=copy.numbers)


@on("signed")
def drop_a_seal(copy: Copy) -> Outcome:
    number, _, _ = middle(copy)
    del copy.manifest[first_seal(copy, number)]
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
    del copy.manifest[first_seal(copy, number) - 1 :]
    return found(copy, Named(SEALED, number, first, last), Named(MANIFEST), beside=[copy.numbers[-2]])


@on("growing")
def drop_the_seals_of_the_last_segment(copy: Copy) -> Outcome:
    number = copy.numbers[-1]
    first, last = ends(copy, number)
    del copy.manifest[first_seal(copy, number) :]
    return found(copy, Named(SEALED, number, first, last))


@on("signed")
def drop_the_closing_seal_of_the_last_segment(copy: Copy) -> Outcome:
    """The server might have been killed just before it."""
    assert json.loads(copy.manifest[-2]).get("segment") == copy.numbers[-1]
    del copy.manifest[-1]
    return UNDETECTABLE


@on("signed")
def swap_two_seals(copy: Copy) -> Outcome:
    index = first_seal(copy, middle(copy)[0])
    copy.manifest[index], copy.manifest[index + 1] = copy.manifest[index + 1], copy.manifest[index]
    return found(copy, _named_by(copy, index), beside=copy.numbers)


@on("signed")
def repeat_a_seal(copy: Copy) -> Outcome:
    index = first_seal(copy, middle(copy)[0])
    copy.manifest.insert(index, copy.manifest[index])
    return found(copy, _named_by(copy, index), beside=copy.numbers)


@on("signed")
def edit_a_seal(copy: Copy) -> Outcome:
    number, _, _ = middle(copy)
    index = first_seal(copy, number)
    named = _named_by(copy, index)
    copy.manifest[index] = flipped_in(copy.manifest[index], rb'"digest":"[a-f]*(\d)')
    return found(copy, named, beside=copy.numbers)


@on("unsigned")
def edit_a_seal_and_chain_the_manifest(copy: Copy) -> Outcome:
    """As a seal that is not signed can be; headers refer to the one that was there."""
    number, _, _ = middle(copy)
    index = first_seal(copy, number)
    original = copy.segments[number]
    first, last = ends(copy, number)
    copy.segments[number] = [*original[:-2], other_actor(original[-2]), original[-1]]
    copy.seal_anew(None, index)
    copy.segments[number] = original
    return found(copy, Named(SEALED, number, first, last), beside=copy.numbers)


@on("signed")
def a_signature_flipped(copy: Copy) -> Outcome:
    index = first_seal(copy, middle(copy)[0])
    copy.manifest[index] = flipped_in(copy.manifest[index], rb'"signature":"[a-f]*(\d)')
    return found(copy, _named_by(copy, index), beside=copy.numbers)


@on("signed")
def a_signature_removed(copy: Copy) -> Outcome:
    index = first_seal(copy, middle(copy)[0])
    copy.manifest[index] = copy.manifest[index].partition(b',"key":')[0] + b"}\n"
    return found(copy, _named_by(copy, index), beside=copy.numbers)


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
    return found(copy, without(copy, number), Named(MANIFEST, number))


@on("unsigned")
def a_removal_forged_that_does_not_fit(copy: Copy) -> Outcome:
    """It names another digest than the seal of that segment."""
    number = copy.numbers[0]
    copy.forge(number, -1, other_actor)
    _pruned(copy, number, None)
    return found(copy, without(copy, number), Named(MANIFEST, number))


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
    copy.manifest.insert(first_seal(copy, middle(copy)[0]), b"junk\n")
    return found(copy, Named(MANIFEST), beside=copy.numbers)


@on("growing")
def a_newer_version_in_the_manifest(copy: Copy) -> Outcome:
    index = first_seal(copy, middle(copy)[0])
    copy.manifest[index] = copy.manifest[index].replace(b'{"v":2,', b'{"v":3,')
    return found(copy, Named(MANIFEST), beside=copy.numbers)


@on("signed", is_harmless=True)
def the_manifest_torn(copy: Copy) -> Outcome:
    """An unfinished line was never told of to anybody."""
    copy.manifest.append(b'{"v":2,"prev":"%s' % line_hash(copy.manifest[-1])[:9].encode())
    return Outcome()


@on("signed")
def the_manifest_of_another_journal(copy: Copy) -> Outcome:
    stranger = of_a_stranger(copy)
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


MUTATIONS = [each for each in [*globals().values()] if isinstance(each, Mutation)]
"""All of these."""
