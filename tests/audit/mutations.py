"""What the audit has to name of each kind of tampering: the kinds are those of the catalogue, each done to a journal in
one place or several.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.audit.mutants import INTEGRITY, Mutation, Named, Spot
from tests.inspection.journals import KEY, STRANGER
from tests.size import sample
from tests.tamperings import fits
from tests.tamperings.of_lines import OTHER_ADDRESS
from tests.tamperings.of_manifests import SUPERSEDED
from tests.tamperings.of_segments import REMOVED

Finding = Callable[[Spot], Named]


def kinds(*names: str) -> frozenset[str]:
    assert INTEGRITY.issuperset(names), names
    return frozenset(names)


CHANGED = kinds("broken-chain", "broken-seal")
NO_LINE = kinds("bad-line", "seq-gap", "broken-chain")
GAP = kinds("seq-gap")
GAP_OR_SEAL = kinds("seq-gap", "broken-seal")
TWICE = kinds("seq-duplicate")
SEAL = kinds("broken-seal")
CHAIN = kinds("broken-chain")
GONE = kinds("segment-missing")
MANIFEST = kinds("bad-manifest")


def near(kinds: frozenset[str], before: int = 0, after: int = 0) -> Finding:
    """About the record, or so many before or after it."""
    return lambda spot: Named(kinds, spot.number, spot.seq - before, spot.seq + after)


def of(*names: str) -> Finding:
    """About the segment, and about no record."""
    return lambda spot: Named(kinds(*names), spot.number)


def about(kinds: frozenset[str], more: int = 0) -> Finding:
    """About the records of the segment, and so many more after them."""
    return lambda spot: Named(kinds, spot.number, spot.first, spot.last + more)


def about_later(kinds: frozenset[str], index: int) -> Finding:
    """About the records of a later segment."""
    return lambda spot: Named(kinds, spot.later[index], *spot.extents[spot.later[index]])


def until_the_end(kinds: frozenset[str], since: Callable[[Spot], int] = lambda spot: spot.seq) -> Finding:
    """About the records from one on to the last one of the segment, in whatever segment."""
    return lambda spot: Named(kinds, None, since(spot), spot.last)


def in_the_next(kinds: frozenset[str], since: Callable[[Spot], int] = lambda spot: spot.seq) -> Finding:
    """The same, in the next segment."""
    return lambda spot: Named(kinds, spot.later[0], since(spot), spot.last)


def after_the_last(kinds: frozenset[str]) -> Finding:
    """About a segment after the last one."""
    return lambda spot: Named(kinds, spot.last + 1, spot.last + 1, spot.last + 1)


def seal(index: int) -> Finding:
    """About a seal: the first one of the segment, or a later one."""
    return lambda spot: Named(
        MANIFEST, spot.seals[index]["segment"], spot.seals[index]["first_seq"], spot.seals[index]["last_seq"]
    )


def manifest(spot: Spot) -> Named:
    """About the manifest, and no seal."""
    return Named(MANIFEST)


def last(spot: Spot) -> int:
    return spot.last


def first(spot: Spot) -> int:
    return spot.first


def flipped_number_twice(spot: Spot) -> Named:
    return Named(TWICE, spot.number, spot.seq ^ 1 if spot.seq % 2 else spot.seq + 1, spot.seq + 1)


OF_LINES = (
    # A line is changed.
    Mutation("flip-in-a-value", "signed", "another moment", (near(CHANGED, 0, 1),)),
    Mutation("flip-in-prev", "growing", "another hash of the line before", (near(CHANGED, 0, 1),)),
    Mutation("flip-in-seq", "signed", "a digit of the number flipped",
             (near(CHANGED, 1, 1), near(GAP), flipped_number_twice)),
    # Then it is a field that nobody knows, and there is no event.
    Mutation("flip-in-a-name", "unsigned", "another name of a member", (near(NO_LINE, 0, 1), of("bad-line"))),
    # It makes one line of two.
    Mutation("flip-in-a-newline", "signed", "another end of the line", (near(NO_LINE, 0, 2), of("bad-line"))),
    Mutation("flip-in-a-header", "signed", "another time in the header", (of("broken-chain"),)),
    Mutation("flip-in-a-snapshot", "compressed", "another time in the snapshot", (of("broken-chain"),)),
    Mutation("flip-in-a-snapshot-without-seals", "chain", "a part of the snapshot with another number",
             (of("bad-line", "broken-chain"),)),
    Mutation("flip-in-a-compressed-file", "compressed", "a byte of a compressed file flipped",
             (of("unreadable-segment"),)),
    Mutation("flip-in-the-checksum-of-a-compressed-file", "compressed", "the checksum of a compressed file flipped",
             (of("unreadable-segment"),)),
    Mutation("cut-a-compressed-file", "compressed", "a compressed file cut", (of("unreadable-segment"),)),
    # It is not what is inside.
    Mutation("flip-in-the-time-of-a-compressed-file", "compressed", "the time in a compressed file flipped",
             is_harmless=True),
    Mutation("another-value-of-the-same-length", "signed", OTHER_ADDRESS, (near(CHANGED, 0, 1),)),
    Mutation("another-value-without-seals", "chain", OTHER_ADDRESS, (near(CHAIN, 0, 1),)),
    Mutation("the-first-record-changed", "signed", OTHER_ADDRESS, (near(CHANGED, 0, 1),), record=0),
    Mutation("the-last-record-of-a-closed-segment-changed", "signed", OTHER_ADDRESS, (about(SEAL),), record=-1),
    Mutation("the-last-record-of-all-changed", "signed", "another moment", (about(SEAL),), -1, -1),
    # A space more: it means the same, but is not what was written.
    Mutation("the-same-said-otherwise", "signed", "a space after every colon", (near(CHANGED, 0, 1),)),
    # Records are dropped, put in, repeated, or moved.
    Mutation("drop-a-record", "signed", "a record dropped", (near(GAP), near(CHANGED, 0, 1))),
    Mutation("drop-several-records", "chain", "three records dropped", (near(GAP, 0, 2), near(CHANGED, 0, 3))),
    Mutation("drop-the-first-record", "compressed", "the first record dropped", (near(GAP),), record=0),
    Mutation("drop-the-last-record-of-a-closed-segment", "signed", "the last record dropped", (about(SEAL),)),
    # Which segment it was missing from cannot be told by its number, for segments are named by their first record.
    Mutation("drop-the-last-record-of-a-closed-segment-without-seals", "chain", "the last record dropped",
             (of("broken-link"), in_the_next(GAP, last))),
    Mutation("drop-the-last-record-of-all", "signed", "the last record dropped", (about(SEAL),), -1),
    # It might not have been written.
    Mutation("drop-the-end-that-is-not-sealed", "growing", "a segment cut at a line", (), -1, -2),
    # No line after it holds its hash.
    Mutation("the-last-record-that-is-not-sealed-changed", "growing", OTHER_ADDRESS, (), -1, -1),
    Mutation("what-is-not-sealed-made-anew", "growing", OTHER_ADDRESS, (), -1, -2, fits.the_segment),
    # The chain alone tells.
    Mutation("a-record-that-is-not-sealed-changed", "growing", OTHER_ADDRESS, (near(CHAIN, 0, 1),), -1, -2),
    Mutation("a-record-added-where-nothing-is-sealed", "growing", "a record added at the end, chained", (), -1,
             fit=fits.the_segment),
    Mutation("drop-a-header", "signed", "the header dropped", (of("bad-line", "broken-link"),)),
    Mutation("drop-a-part", "unsigned", "the first part of the snapshot dropped", (of("bad-line", "broken-chain"),)),
    Mutation("drop-a-snapshot", "chain", "the snapshot dropped", (of("bad-line"), near(CHAIN)), record=0),
    Mutation("put-in-a-record", "signed", "a record put in", (near(TWICE), near(CHANGED, 0, 1))),
    Mutation("put-in-a-record-and-chain-the-segment", "signed", "a record put in", (about(SEAL), near(TWICE)),
             fit=fits.the_segment),
    Mutation("repeat-a-record", "signed", "a record repeated", (near(TWICE), near(CHANGED, 0, 1))),
    Mutation("repeat-a-record-at-the-end", "chain", "a record repeated at the end", (near(TWICE), near(CHAIN))),
    Mutation("swap-two-records", "signed", "two records swapped", (near(CHANGED, 0, 2),)),
    Mutation("swap-two-records-that-are-apart", "chain", "two records swapped that are apart",
             (near(CHAIN, 4, -3), near(CHAIN, 4, 1), near(CHAIN, -1, 1))),
    Mutation("move-a-record-within-a-segment", "signed", "a record moved to the beginning",
             (near(CHANGED), near(CHANGED, 0, 1))),
    Mutation("move-a-record-to-another-segment", "compressed", "a record moved to another segment",
             (near(CHANGED, 0, 1), lambda spot: Named(CHANGED, spot.numbers[0], spot.seq, spot.seq))),
    # What is no line of a journal.
    Mutation("put-in-junk", "signed", "junk put in", (of("bad-line"), near(NO_LINE))),
    Mutation("put-in-a-blank-line", "signed", "an empty line put in", (of("bad-line"), near(NO_LINE))),
    Mutation("garbage-behind-the-value", "compressed", "a second value after the first",
             (of("bad-line"), near(NO_LINE, 0, 1))),
    Mutation("a-line-that-is-not-utf-8", "chain", "a byte that is not UTF-8", (of("bad-line"), near(NO_LINE, 0, 1))),
    # As an editor may leave it.
    Mutation("carriage-returns", "signed", "a carriage return at the end of every line", (about(CHANGED),)),
    Mutation("a-newer-schema-version", "unsigned", "an unknown schema version",
             (of("bad-line"), near(NO_LINE, 0, 1))),
    # As a power failure may leave them.
    Mutation("zeros", "chain", "zeros instead of a record", (of("bad-line"), near(NO_LINE, 0, 2))),
    Mutation("a-line-broken-in-two", "signed", "a line in two", (of("bad-line"), near(NO_LINE, 0, 1))),
)  # fmt: skip

OF_SEGMENTS = (
    # Segments are cut, or added to.
    Mutation("cut-at-a-line", "signed", "a segment cut at a line", (about(SEAL), until_the_end(GAP_OR_SEAL))),
    Mutation("cut-at-a-line-without-seals", "chain", "a segment cut at a line",
             (of("broken-link"), in_the_next(GAP))),
    Mutation("cut-in-a-line", "unsigned", "a segment cut in a line", (of("bad-line"), until_the_end(GAP))),
    Mutation("cut-to-nothing", "signed", "a segment emptied",
             (of("broken-seal", "broken-link"), until_the_end(GAP_OR_SEAL, first))),
    Mutation("cut-to-its-snapshot", "compressed", "all records of a segment dropped",
             (of("broken-seal"), until_the_end(GAP_OR_SEAL, first))),
    Mutation("cut-the-last-segment", "signed", "a segment cut at a line", (about(SEAL),), -1, -3),
    Mutation("cut-the-last-segment-in-a-line", "signed", "a segment cut in a line", (about(SEAL),), -1, -1),
    Mutation("cut-the-last-segment-before-its-seal", "growing", "a segment cut at a line", (about(SEAL),), -1, 1),
    # As a crash leaves it, or a running server for a moment: after the last newline nothing is ever promised.
    Mutation("a-torn-tail", "growing", "the beginning of a line added at the end", (), -1,
             beside=lambda spot: [spot.number], is_harmless=True),
    # It takes the number of the first one of the next segment.
    Mutation("a-record-added-to-a-closed-segment", "signed", "a record added at the end, chained",
             (about(SEAL, 1), lambda spot: Named(TWICE, None, spot.last + 1, spot.last + 1))),
    Mutation("a-record-added-behind-the-last-seal", "signed", "a record added at the end, chained",
             (about(SEAL, 1),), -1),
    Mutation("junk-added-to-a-closed-segment", "unsigned", "junk added at the end", (of("bad-line", "broken-seal"),)),
    Mutation("an-older-state-of-a-segment", "signed", "a segment as it was at its first seal", (about(SEAL),)),
    Mutation("an-older-state-of-the-journal", "signed", "the journal as it was at the first seal of a segment"),
    # Segments are removed, changed for others, or put there.
    Mutation("remove-the-first-segment", "signed", REMOVED, (about(GONE),), 0),
    Mutation("remove-a-segment", "signed", REMOVED, (about(GONE),)),
    Mutation("remove-a-segment-without-seals", "chain", REMOVED,
             (lambda spot: Named(kinds("broken-link", "segment-missing")),
              until_the_end(kinds("seq-gap", "segment-missing"), first)),
             beside=lambda spot: [spot.number, spot.later[0]]),
    Mutation("remove-two-segments", "compressed", "two segments removed", (about(GONE), about_later(GONE, 0)), 1),
    Mutation("remove-the-last-segment", "signed", REMOVED, (about(GONE),), -1),
    Mutation("remove-the-segment-that-grows", "growing", REMOVED,
             (lambda spot: Named(GONE, spot.number, spot.first, spot.seals[0]["last_seq"]),), -1),
    # Nothing says that it was there.
    Mutation("remove-the-last-segment-without-seals", "chain", REMOVED, (), -1),
    Mutation("swap-two-segments", "signed", "two segments swapped",
             (of("broken-link", "broken-seal", "bad-line"),
              lambda spot: Named(kinds("broken-link", "broken-seal", "bad-line"), spot.later[0])), 1),
    Mutation("rename-a-segment", "chain", "a segment renamed",
             (lambda spot: Named(kinds("bad-line", "broken-link"), spot.number + 1),),
             beside=lambda spot: [spot.numbers[1], spot.number]),
    Mutation("the-first-segment-of-another-server", "signed", "a segment of another server", (of("broken-seal"),), 0),
    Mutation("a-segment-of-another-server", "compressed", "a segment of another server",
             (of("broken-seal", "bad-line"),)),
    Mutation("a-segment-that-nobody-sealed", "signed", "a segment more", (after_the_last(SEAL),), -1),
    Mutation("a-segment-sealed-by-a-stranger", "signed", "a segment more, sealed by a stranger",
             (after_the_last(SEAL), manifest), -1),
    # The chain is made anew.
    Mutation("chain-the-segment-anew", "signed", OTHER_ADDRESS, (about(SEAL),), fit=fits.the_segment),
    Mutation("chain-everything-anew", "signed", OTHER_ADDRESS,
             (about(SEAL), *(about_later(SEAL, index) for index in range(4))), fit=fits.the_rest),
    # Somebody who knows how a journal is made makes it anew, snapshots included.
    Mutation("chain-everything-anew-without-seals", "chain", "another address everywhere", (), 0, fit=fits.the_rest),
    Mutation("a-header-that-says-salvaged", "growing",
             "a header that says that the segment was salvaged, and begins a chain",
             (of("journal-salvaged"), about(SEAL)), fit=fits.the_segment),
    # Something else that is allowed.
    Mutation("compress-a-segment", "signed", "a segment compressed", is_harmless=True),
)  # fmt: skip

OF_MANIFESTS = (
    # Seals that are not signed can be made by anybody.
    Mutation("seal-everything-anew", "unsigned", OTHER_ADDRESS, fit=fits.everything(None)),
    # The entry of the key is still there.
    Mutation("seal-everything-anew-without-a-key", "signed", OTHER_ADDRESS, (manifest,), fit=fits.everything(None),
             is_seen_everywhere=True),
    # As another server would have: only who knows the key that it should be can tell.
    Mutation("seal-everything-anew-with-another-key", "signed", OTHER_ADDRESS, fit=fits.everything(STRANGER)),
    # From the change on; what is before it is signed as ever.
    Mutation("seal-the-rest-anew-with-another-key", "signed", OTHER_ADDRESS, (manifest, of("broken-seal")),
             fit=fits.the_rest_sealed(STRANGER), is_seen_everywhere=True),
    # Not even with the right key.
    Mutation("seal-again-what-was-closed", "signed", OTHER_ADDRESS, (about(MANIFEST), about(SEAL)),
             fit=fits.sealed_again(KEY), is_seen_everywhere=True),
    Mutation("drop-a-seal", "signed", "a seal dropped", (manifest,), is_seen_everywhere=True),
    Mutation("drop-all-seals-of-a-segment", "unsigned", "all seals of a segment dropped", (about(SEAL),),
             is_seen_everywhere=True),
    Mutation("drop-the-last-seals", "signed", "all seals from the one before on cut off", (about(SEAL), manifest), -1,
             beside=lambda spot: [spot.numbers[-2]]),
    Mutation("drop-the-seals-of-the-last-segment", "growing", "all seals from one on cut off", (about(SEAL),), -1),
    # The server might have been killed just before it.
    Mutation("drop-the-closing-seal-of-the-last-segment", "signed", "the last seal cut off"),
    Mutation("swap-two-seals", "signed", "two seals swapped", (seal(1),), is_seen_everywhere=True),
    Mutation("repeat-a-seal", "signed", "a seal repeated", (seal(0),), is_seen_everywhere=True),
    Mutation("edit-a-seal", "signed", SUPERSEDED, (seal(0),), is_seen_everywhere=True),
    # Headers refer to the one that was there.
    Mutation("edit-a-seal-and-chain-the-manifest", "unsigned", "a seal of other lines", (about(SEAL),),
             is_seen_everywhere=True),
    Mutation("a-signature-flipped", "signed", "a signature flipped", (seal(0),), is_seen_everywhere=True),
    Mutation("a-signature-removed", "signed", "a signature removed", (seal(0),), is_seen_everywhere=True),
    Mutation("a-key-entry-forged", "signed", "a key of a stranger", (manifest,)),
    Mutation("a-key-entry-put-before-everything", "unsigned", "a key of a stranger before everything", (manifest,),
             is_seen_everywhere=True),
    Mutation("a-removal-forged", "signed", "a segment removed, and its removal noted by a stranger",
             (about(GONE), of("bad-manifest")), 0),
    Mutation("a-removal-forged-that-does-not-fit", "unsigned",
             "a segment removed, and the removal of another one noted", (about(GONE), of("bad-manifest")), 0),
    # Where there is no key, anybody can remove old segments and write down that retention did.
    Mutation("a-removal-forged-that-fits", "unsigned", "a segment removed, and its removal noted", (), 0),
    Mutation("remove-the-manifest", "signed", "the manifest removed",
             (lambda spot: Named(kinds("bad-manifest", "broken-seal")),), is_seen_everywhere=True),
    # A journal without seals remains, which is a good one.
    Mutation("remove-the-manifest-and-what-refers-to-it", "unsigned", "the manifest removed",
             fit=fits.everything_but_seals),
    Mutation("junk-in-the-manifest", "growing", "junk in the manifest", (manifest,), is_seen_everywhere=True),
    Mutation("a-newer-version-in-the-manifest", "growing", "a newer version in the manifest", (manifest,),
             is_seen_everywhere=True),
    Mutation("the-manifest-torn", "signed", "the manifest torn", is_harmless=True),
    Mutation("the-manifest-of-another-journal", "signed", "the manifest of another server",
             (of("broken-seal"), manifest), 0, is_seen_everywhere=True),
    # Numbers that are wrong though everything else fits: as only who knows how a journal is made can do it.
    Mutation("a-gap-in-the-numbers", "chain", "a record dropped", (near(GAP),), -1, -3, fits.the_rest),
    Mutation("a-number-twice", "chain", "a record repeated", (near(TWICE),), -1, -3, fits.the_rest),
    Mutation("a-gap-in-the-numbers-sealed", "unsigned", "a record dropped", (near(GAP),), fit=fits.everything(None)),
    Mutation("hidden-damage", "chain", "a record dropped, and the later ones of its segment numbered anew", (), -1,
             -3, fits.the_rest),
)  # fmt: skip

MUTATIONS = (*OF_LINES, *OF_SEGMENTS, *OF_MANIFESTS)

TRIED = sample(MUTATIONS)
"""Those that are audited together; the judge of evidence has tests of its own."""
