r"""The beginning of a segment: its header, and the registry before its first record, in one line or more.

::

    {"v":4,"prev":"9f86d0…","segment":813,"parts":1,"time":"2026-11-21T14:02:03.123456Z","server":"hall","boot":"5f1c…",
     "previous":{"segment":1,"bytes":251034,"digest":"60303a…"},"seal":"fcde2b…","tree":{"begin":1,"edge":["…",…]}}\n
    {"v":4,"prev":"d2a84f…","snapshot":813,"part":1,"state":{…}}\n

So a segment can be replayed without those before it, and says what the one before it was when it ended. ``tree`` is the
Merkle tree of all records before it (:mod:`bussrv.journal.record_tree`); programs before that wrote none.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from bussrv.errors import JournalError
from bussrv.journal.record import format_time, parse_time, version_of
from bussrv.journal.record_tree import HeaderTree, RecordTree
from bussrv.journal.versions import SCHEMA_VERSION

MANIFEST = 0
"""The ``segment`` of a damage that is in the manifest."""


class Previous(Struct, frozen=True):
    """The segment before: the ``seq`` it begins with, its size in bytes and the SHA-256 of these."""

    segment: int
    bytes: int
    digest: str


class Damage(Struct, frozen=True, omit_defaults=True):
    """The place at which a salvaged journal was damaged: the ``line`` of a segment and, if that is known, the
    ``seq`` of the first record that is in doubt; ``reason`` is a sentence.
    """

    segment: int
    line: int
    reason: str
    seq: int | None = None


class Header(Struct, frozen=True, kw_only=True):
    """The first line of a segment.

    :ivar prev: the hash of the last line of the segment before.
    :ivar segment: the ``seq`` of the first record of this segment, or of the record that would be the first.
    :ivar parts: how many lines of snapshot follow.
    :ivar time: when the segment was begun, UTC in microseconds since 1970.
    :ivar previous: the segment before, ``None`` in the first of a journal.
    :ivar seal: the hash of the last line of the manifest then, if there was one.
    :ivar salvaged: the damage after which this segment begins a new chain.
    :ivar tree: the tree of the records before, ``None`` if the program that wrote it kept none.
    """

    prev: str
    segment: int
    parts: int
    time: int
    server: str
    boot: str
    previous: Previous | None = None
    seal: str | None = None
    salvaged: Damage | None = None
    tree: HeaderTree | None = None


class Part(Struct, frozen=True):
    """A line of snapshot. ``state`` is JSON that who keeps the state understands; ``part`` counts from 1.

    :ivar version: the schema version that the state is written in.
    """

    prev: str
    snapshot: int
    part: int
    state: Raw
    version: int = SCHEMA_VERSION


class _HeaderLine(Struct, omit_defaults=True):
    v: int
    prev: str
    segment: int
    parts: int
    time: str
    server: str
    boot: str
    previous: Previous | UnsetType = UNSET
    seal: str | UnsetType = UNSET
    salvaged: Damage | UnsetType = UNSET
    tree: HeaderTree | UnsetType = UNSET


class _PartLine(Struct):
    v: int
    prev: str
    snapshot: int
    part: int
    state: Raw


_encode = msgspec.json.Encoder().encode
_decode_header = msgspec.json.Decoder(_HeaderLine).decode
_decode_part = msgspec.json.Decoder(_PartLine).decode


def encode_header(header: Header, version: int = SCHEMA_VERSION) -> bytes:
    """The line of a header, newline included."""
    line = _HeaderLine(
        v=version,
        prev=header.prev,
        segment=header.segment,
        parts=header.parts,
        time=format_time(header.time),
        server=header.server,
        boot=header.boot,
        previous=UNSET if header.previous is None else header.previous,
        seal=UNSET if header.seal is None else header.seal,
        salvaged=UNSET if header.salvaged is None else header.salvaged,
        tree=UNSET if header.tree is None else header.tree,
    )
    return _encode(line) + b"\n"


def decode_header(text: bytes) -> Header:
    """The header that a line holds.

    :raises JournalError: if it is no header of a schema version that this program reads.
    """
    try:
        version_of(text)
        line = _decode_header(text)
        time = parse_time(line.time)
        if line.tree:
            RecordTree.of_header(line.tree, line.segment)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise JournalError(f"not the header of a segment: {error}") from error
    return Header(
        prev=line.prev,
        segment=line.segment,
        parts=line.parts,
        time=time,
        server=line.server,
        boot=line.boot,
        previous=line.previous or None,
        seal=line.seal or None,
        salvaged=line.salvaged or None,
        tree=line.tree or None,
    )


def encode_part(part: Part) -> bytes:
    """The line of a part of a snapshot, newline included."""
    return _encode(_PartLine(part.version, part.prev, part.snapshot, part.part, part.state)) + b"\n"


def decode_part(text: bytes) -> Part:
    """The part of a snapshot that a line holds.

    :raises JournalError: if it is none of a schema version that this program reads.
    """
    try:
        version = version_of(text)
        line = _decode_part(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise JournalError(f"not a part of a snapshot: {error}") from error
    return Part(line.prev, line.snapshot, line.part, line.state, version)
