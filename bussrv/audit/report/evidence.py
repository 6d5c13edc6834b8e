"""How an audit was made, the seals of its journals, and what they verify: what makes its report evidence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct

from bussrv.audit.arguments import DEFAULT_OUT
from bussrv.journal.manifest import Manifest, Seal

if TYPE_CHECKING:
    from bussrv.audit.reading.snapshot import Journal
    from bussrv.journal.keys import PublicKey


class LastSeal(Struct, frozen=True, kw_only=True):
    """The last seal of a journal.

    :ivar time: when it was made.
    :ivar digest: the SHA-256 of the sealed part of the segment.
    :ivar entry: the number of its line in the manifest.
    :ivar hash: of that line. Whoever notes it finds out later whether the journal was cut off before it.
    :ivar key: the fingerprint of the key that it is signed with.
    """

    journal: str
    server: str
    time: int
    segment: int
    closed: bool
    digest: str
    entry: int
    hash: str
    last_seq: int | None = None
    key: str | None = None


class Sealing(Struct, frozen=True, kw_only=True):
    """The segments of one journal, and the state of their seals."""

    journal: str
    server: str | None
    segments: int
    records: int
    bytes: int
    closed: int
    open: int
    unsealed: int
    verified: int

    @property
    def unverified(self) -> int:
        """The number of segments that no seal verifies."""
        return self.segments - self.verified


class Segment(Struct, frozen=True, kw_only=True):
    """A segment that no seal verifies."""

    segment: int
    file: str
    sealed: str
    server: str | None = None
    first_seq: int | None = None
    last_seq: int | None = None

    @property
    def file_name(self) -> str:
        """The name of the file, without its directory."""
        return PurePosixPath(self.file).name


class Evidence(Struct, frozen=True):
    """How an audit was made.

    :ivar seals: the last one of each journal that has one.
    :ivar keys: the fingerprints of the keys in force.
    :ivar trusted: the fingerprint of the key that was given to the audit.
    :ivar command: the command line; ``None``: a program made it.
    :ivar out: the directory of the audit.
    """

    seals: tuple[LastSeal, ...] = ()
    keys: tuple[str, ...] = ()
    trusted: str | None = None
    command: str | None = None
    out: str = str(DEFAULT_OUT)


def evidence(
    journals: Sequence[Journal], trusted: PublicKey | None, command: str | None, out: Path | str = str(DEFAULT_OUT)
) -> Evidence:
    """How an audit of these journals was made.

    :param trusted: the key that the seals had to be signed with, or with its successors.
    """
    manifests = [(each.location, each.late) for each in journals]
    found = (_last_seal(*each) for each in manifests)
    return Evidence(
        tuple(each for each in found if each is not None),
        tuple(sorted({each.in_force.fingerprint for _, each in manifests if each.in_force is not None})),
        None if trusted is None else trusted.fingerprint,
        command,
        str(out),
    )


def _last_seal(journal: str, manifest: Manifest) -> LastSeal | None:
    for entry in reversed(manifest.entries):
        body = entry.body
        if isinstance(body, Seal):
            return LastSeal(
                journal=journal,
                server=body.server,
                time=body.time,
                segment=body.segment,
                last_seq=body.last_seq,
                closed=body.closed,
                digest=body.digest,
                entry=entry.number,
                hash=entry.hash,
                key=entry.key,
            )
    return None
