r"""The manifest of a journal: what is vouched for, and what was done to segments. The only codec of its lines.

::

    {"v":2,"prev":"<hash>","entry":7,"kind":"seal","time":"…","server":"hall","segment":813,…,"key":"…","signature":"…"}\n

Each line holds the hash of the one before (:mod:`bussrv.journal.chain`) and is numbered from 1. With a key it is
signed: :class:`bussrv.journal.keys.Succession` says with which, and what that proves. An entry that should be signed
and is not counts for nothing. That the end was cut off is noticed only by who knows the hash of an entry there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from bussrv.errors import JournalError
from bussrv.journal.chain import START, line_hash
from bussrv.journal.files import FILES, Files
from bussrv.journal.keys import PrivateKey, PublicKey, Succession, sign_line, split_signature
from bussrv.journal.record import format_time, parse_time

VERSION = 2
MANIFEST_NAME = "manifest"
"""Not a name that `*.jsonl` matches: that is for who reads the segments."""
_MOMENTS = ("time", "first_time", "last_time")

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Number = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Hash = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class Seal(Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="seal"):
    """The first ``bytes`` bytes of a segment, uncompressed, were these. Times are UTC in microseconds.

    :ivar closed: nothing is written to the segment any more, and no other seal of it follows.
    :ivar digest: the SHA-256 of those bytes.
    :ivar records: how many records these are; a seal of none is a fault.
    """

    time: Count
    server: str
    segment: Number
    closed: bool
    bytes: Count
    digest: Hash
    records: Count
    first_seq: Number | None = None
    last_seq: Number | None = None
    first_time: Count | None = None
    last_time: Count | None = None


class KeyEntry(Struct, frozen=True, tag_field="kind", tag="key"):
    """Entries behind this one are signed with the key ``public``."""

    time: Count
    server: str
    public: Hash


class Pruned(Struct, frozen=True, tag_field="kind", tag="pruned"):
    """A closed segment is about to be deleted; ``bytes`` and ``digest`` are those of its seal.

    :ivar last_seq: of its last record.
    """

    time: Count
    server: str
    segment: Number
    last_seq: Count
    bytes: Count
    digest: Hash
    reason: Literal["age", "size"]


Body = Seal | KeyEntry | Pruned


class Entry(Struct, frozen=True):
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


class Fault(Struct, frozen=True):
    """Something in a manifest that is not as it should be.

    :ivar entry: what stands there, or ``None`` when the line is not an entry.
    :ivar line: the number of the line, from 1; 0 for the manifest as a whole.
    """

    entry: Entry | None
    line: int
    message: str


class Manifest(Struct):
    """What :func:`read_manifest` found. ``seals`` and ``pruned`` hold only what was found without a fault of its own.

    :ivar seals: the last seal of each segment; ``all_seals`` has them all, in order.
    :ivar pruned: what was deleted, by segment.
    :ivar in_force: the key that the next entry must be signed with.
    :ivar last_hash: what the next entry has for ``prev``.
    :ivar size: how many bytes the lines take.
    :ivar torn: how many bytes follow them: the beginning of a line that a crash cut off, which nobody was told of.
    """

    entries: list[Entry] = []
    faults: list[Fault] = []
    seals: dict[int, Seal] = {}
    all_seals: dict[int, list[Seal]] = {}
    pruned: dict[int, Pruned] = {}
    in_force: PublicKey | None = None
    last_hash: str = START
    next_number: int = 1
    size: int = 0
    torn: int = 0

    def closed(self) -> list[Seal]:
        """The seals of the segments that are closed and not removed."""
        return [seal for number, seal in self.seals.items() if seal.closed and number not in self.pruned]

    def contains(self, entry_hash: str) -> bool:
        """Whether an entry of that hash is there; one that was there once is missing when the end was cut off."""
        return any(entry.hash == entry_hash for entry in self.entries)


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


def decode(line: bytes) -> Entry:
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
        frame = msgspec.convert(members, _Frame)
        body: Body = msgspec.convert(members, Body)
    except (msgspec.DecodeError, TypeError, ValueError, RecursionError) as error:
        raise JournalError(f"not a manifest entry: {error}") from error
    # The bytes say which one is the signature: a second member of that name must not decide what is signed.
    _, signature = split_signature(line.removesuffix(b"\n"))
    if frame.signature != signature or (frame.key is None) != (signature is None):
        raise JournalError('not a manifest entry: a "key" needs a "signature", which stands last')
    return Entry(frame.entry, frame.prev, line_hash(line), body, frame.key)


def read_manifest(path: Path, trusted: PublicKey | None = None) -> Manifest:
    """Read a manifest and check everything in it that can be checked without the segments.

    One that is missing is empty. What is wrong in it stands in ``faults``, and reading goes on behind it.

    :param trusted: a key that must have been in force, and have signed something.
    :raises JournalError: if the file cannot be read.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        text = b""
    except OSError as error:
        raise JournalError(f"cannot read the manifest {path}: {error.strerror}") from error
    *lines, rest = text.split(b"\n")
    found = Manifest(size=len(text) - len(rest), torn=len(rest))
    reader = _Reader(found, Succession(trusted))
    for number, line in enumerate(lines, 1):
        reader.add(number, line)
    found.in_force = reader.keys.in_force
    if wrong := reader.keys.end_fault():
        found.faults.append(Fault(None, 0, wrong))
    return found


class _Reader(Struct):
    """Goes through the lines of a manifest in their order and says what is wrong."""

    found: Manifest
    keys: Succession
    last: Seal | None = None

    def add(self, number: int, line: bytes) -> None:
        found = self.found
        try:
            entry = decode(line)
        except JournalError as error:
            found.faults.append(Fault(None, number, str(error)))
            found.next_number += 1
        else:
            found.entries.append(entry)
            found.faults += [Fault(entry, number, text) for text in self._check(line, entry)]
            found.next_number = entry.number + 1
        found.last_hash = line_hash(line)

    def _check(self, line: bytes, entry: Entry) -> Iterator[str]:
        found, body = self.found, entry.body
        if entry.prev != found.last_hash:
            yield "it does not follow the line before it: that was changed, or lines were dropped or put in between"
        if entry.number != found.next_number:
            yield f"it is entry {entry.number}, but should be entry {found.next_number}"
        introduced = body.public if isinstance(body, KeyEntry) else None
        if wrong := self.keys.fault(line, entry.key, introduced):
            yield wrong
            return
        self.keys.pass_line(introduced)
        if wrong := self._body_fault(body):
            yield wrong
        elif isinstance(body, Seal):
            found.seals[body.segment] = self.last = body
            found.all_seals.setdefault(body.segment, []).append(body)
        elif isinstance(body, Pruned):
            found.pruned[body.segment] = body

    def _body_fault(self, body: Body) -> str | None:
        if isinstance(body, Seal):
            return _shape_fault(body) or self._order_fault(body)
        return self._pruned_fault(body) if isinstance(body, Pruned) else None

    def _order_fault(self, seal: Seal) -> str | None:
        before, last = self.found.seals.get(seal.segment), self.last
        if before is not None and before.closed:
            return f"segment {seal.segment} is sealed again after it was closed"
        if last is not None and seal.segment != last.segment and seal.segment <= last_seq(last):
            return f"segment {seal.segment} is sealed behind segment {last.segment}, which goes to seq {last_seq(last)}"
        return None if before is None else _growth_fault(before, seal)

    def _pruned_fault(self, pruned: Pruned) -> str | None:
        seal = self.found.seals.get(pruned.segment)
        if pruned.segment in self.found.pruned:
            return f"segment {pruned.segment} is pruned again"
        if seal is None or not seal.closed:
            return f"segment {pruned.segment} is pruned, but was not sealed as closed"
        if (pruned.digest, pruned.bytes, pruned.last_seq) != (seal.digest, seal.bytes, last_seq(seal)):
            return f"segment {pruned.segment} is pruned, but its digest, bytes or last seq are not those of its seal"
        return None


def last_seq(seal: Seal) -> int:
    """The seq of the last record up to the end of a sealed segment, which may have none itself."""
    return seal.segment - 1 if seal.last_seq is None else seal.last_seq


def _shape_fault(seal: Seal) -> str | None:
    ends = (seal.first_seq, seal.last_seq, seal.first_time, seal.last_time)
    if not seal.records or None in ends:
        return "a seal is of records, and names the first and the last of them"
    if seal.first_seq != seal.segment or last_seq(seal) != seal.segment + seal.records - 1:
        return f"segment {seal.segment} cannot have {seal.records} records from {seal.first_seq} to {seal.last_seq}"
    return None


def _growth_fault(before: Seal, seal: Seal) -> str | None:
    if seal.bytes < before.bytes or seal.records < before.records:
        return f"segment {seal.segment} has fewer bytes or records than in the seal before"
    if seal.bytes == before.bytes and (seal.digest, seal.records) != (before.digest, before.records):
        return f"segment {seal.segment} has as many bytes as in the seal before, but other ones"
    return None


class ManifestFile:
    """A manifest that is added to. What :meth:`append` returned for is on the disk.

    :ivar last_hash: of the last entry.
    :param manifest: what :func:`read_manifest` said of the file; nobody else may have written to it since.
    :param key: the key in force; none when there is none.
    :raises JournalError: if it is another one.
    """

    def __init__(self, path: Path, manifest: Manifest, key: PrivateKey | None = None, *, files: Files = FILES) -> None:
        self.last_hash = manifest.last_hash
        self._path = path
        self._key = key
        self._files = files
        self._in_force = manifest.in_force
        self._number = manifest.next_number
        self._size = manifest.size
        self._is_named = manifest.size > 0
        self._has_rest = manifest.torn > 0
        self._check_key(self._key, self._in_force)

    def append(self, bodies: Sequence[Seal | Pruned]) -> list[str]:
        """Add entries, with one write and one sync.

        :returns: their hashes.
        :raises OSError: if the disk fails, or if the file is not as long as it was left. Nothing was added; the same
            entries may be added again later.
        :raises JournalError: if the key in force is not the one that was given.
        """
        self._check_key(self._key, self._in_force)
        return self._append(bodies, self._key)

    def introduce(self, new: PublicKey, signer: PrivateKey, *, time: int, server: str) -> str:
        """Say that what follows is signed with ``new``; it is added by this object only if ``signer`` is ``new``.

        :param signer: the key in force, which so hands over; the private half of ``new`` when there is none.
        :returns: the hash of the entry.
        :raises OSError, JournalError: as :meth:`append`.
        """
        self._check_key(signer, self._in_force or new)
        (entry_hash,) = self._append([KeyEntry(time, server, new.text)], signer)
        self._key, self._in_force = (signer if signer.public == new else None), new
        return entry_hash

    def _check_key(self, given: PrivateKey | None, needed: PublicKey | None) -> None:
        if (given and given.public) != needed:
            has, needs = _key_words(None if given is None else given.public), _key_words(needed)
            raise JournalError(
                f"{self._path} is signed with {needs}, so it cannot go on with {has}: "
                "give that key, or let it hand over to a new one (bussrv journal keygen --replaces)"
            )

    def _append(self, bodies: Sequence[Body], key: PrivateKey | None) -> list[str]:
        lines: list[bytes] = []
        hashes = [self.last_hash]
        for number, body in enumerate(bodies, self._number):
            lines.append(encode(body, number, hashes[-1], key))
            hashes.append(line_hash(lines[-1]))
        if lines:
            self._write(b"".join(lines))
            self.last_hash = hashes[-1]
            self._number += len(lines)
        return hashes[1:]

    def _write(self, data: bytes) -> None:
        self._check_size()
        descriptor = self._files.open(self._path)
        try:
            self._cut(descriptor)
            self._has_rest = True
            self._files.write(descriptor, data)
            self._files.sync(descriptor)
            if not self._is_named:
                self._files.sync_directory(self._path.parent)
        except OSError:
            with suppress(OSError):
                self._cut(descriptor)
            raise
        finally:
            with suppress(OSError):
                self._files.close(descriptor)
        self._is_named, self._has_rest = True, False
        self._size += len(data)

    def _check_size(self) -> None:
        size = self._path.stat().st_size if self._path.exists() else 0
        if size < self._size or (size > self._size and not self._has_rest):
            raise OSError(f"{self._path} has {size} bytes, not the {self._size} that it was left with")

    def _cut(self, descriptor: int) -> None:
        """Synced: what is cut off must not come back after a crash, when something else was told of meanwhile."""
        if self._has_rest:
            self._files.truncate(descriptor, self._size)
            self._files.sync(descriptor)
            self._has_rest = False


def _key_words(key: PublicKey | None) -> str:
    return "no key" if key is None else f"the key {key.fingerprint}"
