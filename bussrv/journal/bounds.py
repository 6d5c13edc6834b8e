"""The bounds of a journal: how much of it is read, inflated, kept in memory and told.

Whoever can write to a journal directory must not be able to exhaust the memory or the time of the programs that read
it. So each of them reads up to these bounds and no further. Nothing that a server writes comes near them: its segments
end at ``LONGEST_ROTATION`` bytes and a batch. What exceeds a bound is a finding.
"""

from __future__ import annotations

MAX_LINE = 1 << 24
"""The most bytes of a line of a segment. So much is read into memory, at most, of a file that is no journal."""

SEGMENT = 512 << 20
"""The most bytes of a segment: of its file, and of what is in it if that is compressed."""

SEGMENT_LINES = 1 << 21
"""The most lines of a segment. A record takes 200 bytes and more, so that a segment of a server has half as many."""

LONGEST_ROTATION = 256 << 20
"""The most bytes at which a server may be told to end a segment. The snapshot and the last batch come on top."""

MEMBERS = 1 << 16
"""The most gzip members of a compressed segment. A server writes one; some programs compress each 64 KiB apart."""

MANIFEST = 1 << 30
"""The most bytes of a manifest."""

MANIFEST_LINES = 1 << 20
"""The most entries of a manifest. They are seals of two years, if one is made each minute."""

MANIFEST_LINE = 1 << 16
"""The most bytes of an entry of a manifest. A server writes less than 2000."""

ROUTINE_LINES = MANIFEST_LINES // 4 * 3
"""The entries of a manifest from which on a server makes only the seals that each segment needs.

It leaves out those of a growing segment that come each minute. What is left is enough for 100,000 segments.
"""

ROUTINE_BYTES = MANIFEST // 4 * 3
"""The same in bytes."""

FINDINGS = 10_000
"""The most findings about one segment, and about the manifest, that are listed. The others are counted."""

BAD_LINES = 100_000
"""The most findings about a segment or the manifest until the rest of it is not judged."""

ALL_FINDINGS = 100_000
"""The most findings that are listed of a journal. The others are counted."""


class TooLarge(Exception):
    """A segment exceeds a bound, and is read no further. The message says which bound, as a part of a sentence."""
