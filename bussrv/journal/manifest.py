r"""The manifest of a journal: seals, keys, and removed segments. The only codec of its lines.

::

    {"v":2,"prev":"<hash>","entry":7,"kind":"seal","time":"…","server":"hall","segment":813,…,"key":"…","signature":"…"}\n

Each line holds the hash of the one before (:mod:`bussrv.journal.chain`) and is numbered from 1. With a key it is
signed: :class:`bussrv.journal.keys.Succession` says with which, and what that proves. An entry that should be signed
and is not counts for nothing. To notice that the end was cut off, one has to know the hash of an entry there.
"""

from __future__ import annotations

from sys import intern
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from bussrv.errors import JournalError
from bussrv.journal.chain import START, line_hash
from bussrv.journal.evidence.findings import Finding
from bussrv.journal.keys import PrivateKey, PublicKey, sign_line, split_signature
from bussrv.journal.record import format_time, parse_time

VERSION = 2
MANIFEST_NAME = "manifest"
"""Not a name that `*.jsonl` matches: that is for who reads the segments."""
_MOMENTS = ("time", "first_time", "last_time")
_REPEATED = ("server", "key")
"""Most entries have the same texts here: each is in memory once."""

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Moment = int
"""UTC microseconds since 1970. A clock that is set wrong may be before that."""

Number = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Hash = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class Seal(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="seal"):
    """The first ``bytes`` bytes of a segment, uncompressed, were these. Times are UTC in microseconds.

    :ivar closed: nothing is written to the segment any more, and no other seal of it follows.
    :ivar digest: the SHA-256 of those bytes.
    :ivar checkpoint: the tree of all records up to there, see :mod:`bussrv.journal.checkpoints`; ``None``: the segment
        has no tree.
    :ivar records: how many records these are; a seal of none is a fault.
    """

    time: Moment
    server: str
    segment: Number
    closed: bool
    bytes: Count
    digest: Hash
    records: Count
    first_seq: Number | None = None
    last_seq: Number | None = None
    first_time: Moment | None = None
    last_time: Moment | None = None
    checkpoint: str | None = None


class KeyEntry(Struct, frozen=True, tag_field="kind", tag="key"):
    """Entries after this one are signed with the key ``public``."""

    time: Moment
    server: str
    public: Hash


class Pruned(Struct, frozen=True, tag_field="kind", tag="pruned"):
    """A closed segment is about to be deleted; ``bytes`` and ``digest`` are those of its seal.

    :ivar last_seq: of its last record.
    """

    time: Moment
    server: str
    segment: Number
    last_seq: Count
    bytes: Count
    digest: Hash
    reason: Literal["age", "size"]


class Cosigned(Struct, frozen=True, tag_field="kind", tag="cosigned"):
    """Witnesses cosigned the checkpoint of a seal.

    :ivar seal: the hash of the line of that seal.
    :ivar signatures: the lines of their signatures, each with its newline.
    """

    time: Moment
    server: str
    seal: Hash
    signatures: str


Body = Seal | KeyEntry | Pruned | Cosigned


class ManifestEntry(Struct, frozen=True):
    """A line of a manifest.

    :ivar number: its ``entry``.
    :ivar hash: of its line, which identifies it.
    :ivar key: the fingerprint of the key that it says it is signed with.
    """

    number: int
    prev: str
    hash: str
    body: Body
    key: str | None = None


class Manifest(Struct):
    """All that the lines of a manifest say. ``seals`` and ``pruned`` hold only entries that are as they should be.

    :ivar findings: all with the code ``bad-manifest``; without a line: about the manifest as a whole.

    :ivar seals: the last seal of each segment; ``all_seals`` has them all, in order.
    :ivar pruned: what was deleted, by segment.
    :ivar checkpoints: the seals that have a checkpoint, by the hash of their lines.
    :ivar cosigned: what witnesses cosigned, by the hash of the line of the seal.
    :ivar lines: the number of each line, by its hash, whatever it says. One is missing when the end was cut off.
    :ivar in_force: the key that the next entry must be signed with.
    :ivar last_hash: what the next entry has for ``prev``.
    :ivar size: how many bytes the lines take.
    :ivar torn: how many bytes follow them.
    :ivar is_torn: whether these are the beginning of a line that a crash cut off, which nobody was told of.
    """

    entries: list[ManifestEntry] = []
    findings: list[Finding] = []
    seals: dict[int, Seal] = {}
    all_seals: dict[int, list[Seal]] = {}
    pruned: dict[int, Pruned] = {}
    checkpoints: dict[str, Seal] = {}
    cosigned: dict[str, list[Cosigned]] = {}
    lines: dict[str, int] = {}
    in_force: PublicKey | None = None
    last_hash: str = START
    next_number: int = 1
    size: int = 0
    torn: int = 0
    is_torn: bool = True

    def closed(self) -> list[Seal]:
        """The seals of the segments that are closed and not removed."""
        return [seal for number, seal in self.seals.items() if seal.closed and number not in self.pruned]


class _Head(Struct):
    v: Annotated[int, Meta(ge=VERSION)]


class _Frame(Struct):
    prev: Hash
    entry: Number
    key: str | None = None
    signature: str | None = None


def encode(body: Body, number: int, prev: str, key: PrivateKey | None = None) -> bytes:
    """The line of an entry, newline included.

    :param key: what to sign it with.
    :raises ValueError: if a text in it cannot be written as UTF-8.
    """
    members: dict[str, Any] = {"v": VERSION, "prev": prev, "entry": number, **msgspec.to_builtins(body)}
    for name in _MOMENTS & members.keys():
        members[name] = format_time(members[name])
    if key is None:
        return msgspec.json.encode(members) + b"\n"
    return sign_line(msgspec.json.encode({**members, "key": key.public.fingerprint}), key) + b"\n"


def beginning(number: int, prev: str) -> bytes:
    """The first bytes of the line of any entry with this number."""
    return f'{{"v":{VERSION},"prev":"{prev}","entry":{number},"kind":"'.encode()


def decode(line: bytes) -> ManifestEntry:
    """The entry that a line holds; the newline at its end may be missing.

    :raises JournalError: if it is not an entry of this schema version.
    """
    try:
        members = msgspec.json.decode(line)
        head = msgspec.convert(members, _Head)
        if head.v > VERSION:
            raise JournalError(f"written by a newer program: version {head.v}, this program reads version {VERSION}")
        for name in _MOMENTS & members.keys():
            members[name] = parse_time(members[name])
        for name in _REPEATED & members.keys():
            if isinstance(members[name], str):
                members[name] = intern(members[name])
        frame = msgspec.convert(members, _Frame)
        body: Body = msgspec.convert(members, Body)
    except (msgspec.DecodeError, TypeError, ValueError, RecursionError) as error:
        raise JournalError(f"not a manifest entry: {error}") from error
    # The bytes say which one is the signature: a second member of that name must not decide what is signed.
    _, signature = split_signature(line.removesuffix(b"\n"))
    if frame.signature != signature or (frame.key is None) != (signature is None):
        raise JournalError('not a manifest entry: a "key" needs a "signature", which stands last')
    return ManifestEntry(frame.entry, frame.prev, line_hash(line), body, frame.key)


def last_seq(seal: Seal) -> int:
    """The seq of the last record up to the end of a sealed segment, which may have none itself."""
    return seal.segment - 1 if seal.last_seq is None else seal.last_seq
