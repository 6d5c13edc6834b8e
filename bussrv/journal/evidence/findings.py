"""Findings about a journal as such: what the judge (:mod:`bussrv.journal.evidence`) returns."""

from __future__ import annotations

from msgspec import Struct

SEVERITIES = {
    "bad-line": "error",
    "unreadable-segment": "error",
    "broken-chain": "error",
    "broken-link": "error",
    "broken-snapshot": "error",
    "broken-seal": "error",
    "broken-tree": "error",
    "bad-manifest": "error",
    "not-witnessed": "error",
    "other-history": "error",
    "segment-missing": "error",
    "journal-salvaged": "warning",
    "seq-gap": "error",
    "seq-duplicate": "error",
    "torn-tail": "notice",
}
"""Every code, and how severe it is. A notice is no fault: a crash, or a server that writes, causes it."""


UNCHAINED = "does not hold the hash of the line before it: that line was changed, or lines were put in or taken out"
"""The sentence about a line, of a segment or of the manifest, that does not follow the one before."""


class Finding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that is not what it should be.

    :ivar code: a key of ``SEVERITIES``.
    :ivar message: a sentence without its end.
    :ivar segment: the number in the name of the segment.
    :ivar line: the number of the line, from 1; in the manifest if the code is ``bad-manifest``.
    :ivar first_seq: the first record that it is about, or that is missing, and ``last_seq`` the last one.
    :ivar server, boot: the ids in the line that it is about.
    :ivar quote: the beginning of a bad line.
    """

    code: str
    message: str
    segment: int | None = None
    line: int | None = None
    first_seq: int | None = None
    last_seq: int | None = None
    server: str | None = None
    boot: str | None = None
    quote: bytes | None = None
