"""From a journal directory to a store: what is closed and sealed, read back before it counts.

A server may be writing the journal. Each look goes this way:

1. The manifest is read here. The one at the store has to be the beginning of it, to the byte.
2. Each closed segment that is not there yet is held against its seal, written, read back, and held against its seal
   again. One that is there is only read.
3. The manifest is written there up to the last line before which every seal is about a segment that is there, or was
   removed here by retention. It is read back, too.
4. The file ``shipped`` says so: see :mod:`bussrv.journal.shipped`.

It may be killed anywhere: the next look does again what the file does not say.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from msgspec import Struct

from bussrv.archive.store import Store, StoreError, segment_names
from bussrv.errors import JournalError, os_errors_as
from bussrv.journal import bounds
from bussrv.journal.bounded import bounded, lines_in
from bussrv.journal.digests import Digests, digests_in, digests_of
from bussrv.journal.files import PRIVATE
from bussrv.journal.keys import PublicKey
from bussrv.journal.leaves import is_leaves_name, list_leaves
from bussrv.journal.manifest import MANIFEST_NAME, Manifest, Pruned, Seal, decode, last_seq
from bussrv.journal.manifest_file import GrowingManifest
from bussrv.journal.record import format_time
from bussrv.journal.regular import open_regular, read_regular
from bussrv.journal.segment import (
    COMPRESSED_SUFFIX,
    CORRUPT,
    compressed_path,
    first_seq,
    list_segments,
    segment_name,
)
from bussrv.journal.shipped import SHIPPED_NAME, Shipped, read_shipped, write_shipped
from bussrv.turns.clock import Clock, SystemClock

LOCK = "shipping"
"""The file of a journal directory that is locked while it is shipped."""

POLL = 5.0
"""The seconds between two looks at the size of the manifest, for one that follows a journal."""

LONGEST = 300.0
"""The longest time until a store that failed is tried again, in seconds."""

_CLOSED = b'"closed":true'
_BLOCK = 1 << 20


class Mismatch(JournalError):
    """Something is not what it should be, here or at the store. Nothing of it is shipped or overwritten."""


class _Gone(JournalError):
    """A segment is not here any more under that name."""


class Unshipped(Struct, frozen=True):
    """The closed segments that are not shipped yet.

    :ivar segments: how many there are.
    :ivar since: when the first of them ended, UTC microseconds; ``None``: there is none.
    """

    segments: int
    since: int | None

    def __str__(self) -> str:
        if self.since is None:
            return "all closed segments are shipped"
        noun = "segment is" if self.segments == 1 else "segments are"
        return f"{self.segments} closed {noun} not shipped, the oldest ended at {format_time(self.since)}"


class Shipper:
    """Ships the closed segments of a journal directory.

    :param tell: is told the seal of each segment that was shipped, and its URL.
    :param trusted: the key that the seals must be traceable to.
    :raises JournalError: the store is the directory itself.
    """

    def __init__(
        self,
        directory: Path,
        store: Store,
        tell: Callable[[Seal, str], object] = lambda seal, url: None,
        *,
        trusted: PublicKey | None = None,
        clock: Clock | None = None,
    ) -> None:
        if store.is_at(directory):
            raise JournalError(f"{store.url} is the journal directory itself: name another place")
        self._directory = directory
        self._store = store
        self._tell = tell
        self._clock = clock or SystemClock()
        self._path = directory / MANIFEST_NAME
        self._growing = GrowingManifest(self._path, trusted)
        self._manifest = Manifest()
        # Bytes of the manifest at the store.
        self._there = 0
        # The names at the store, by the number of the segment; the segments of which are verified there.
        self._names: dict[int, str] = {}
        self._leaves: set[str] = set()
        self._verified: set[int] = set()
        # Bytes of segments that were shipped after the manifest.
        self._unsettled = 0

    def look(self) -> Unshipped:
        """Ship what is closed by now.

        :returns: what is left, such as segments before a seal that waits for a later one.
        :raises Mismatch: something is not what it should be. What comes before it is shipped.
        :raises StoreError: the store failed.
        :raises JournalError: the directory cannot be read, or is shipped to another URL.
        """
        local = {first_seq(path) for path in list_segments(self._directory)}
        self._read()
        if not local and not self._manifest.entries:
            raise JournalError(f"{self._directory} holds no journal: there is no segment in it")
        self._look_there()
        try:
            for number in self._pending(local):
                self._ship(number)
                # Thousands of segments do not take as many copies of a long manifest.
                if self._unsettled >= self._manifest.size:
                    self._settle()
        except Mismatch:
            self._settle()
            raise
        self._settle()
        self._ship_leaves()
        return self.backlog()

    def backlog(self) -> Unshipped:
        """The segments that are not shipped yet, as far as the last look read the manifest."""
        shipped = self._shipped()
        last = 0 if shipped is None else shipped.segment
        left = [seal for seal in self._manifest.closed() if seal.segment > last]
        return Unshipped(len(left), min((seal.time for seal in left), default=None))

    def removed(self) -> int:
        """How many of the segments that retention removed here are not at the store."""
        return len(self._manifest.pruned.keys() - self._names.keys())

    def is_more(self) -> bool:
        """Whether a segment may have been closed since the last look. It reads only what was added to the manifest."""
        return self._growing.may_say(_CLOSED)

    def _read(self) -> None:
        self._manifest = self._growing.read()
        for finding in self._manifest.findings:
            place = f"{self._path}, line {finding.line}" if finding.line else str(self._path)
            raise Mismatch(f"{place}: {finding.message}. Nothing is shipped")

    def _shipped(self) -> Shipped | None:
        """The part of this journal that is shipped to this URL."""
        with os_errors_as(JournalError, f"cannot read {self._directory / SHIPPED_NAME}"):
            shipped = read_shipped(self._directory)
        if shipped is None or not shipped.is_of(self._manifest.seals):
            return None
        if shipped.url != self._store.url:
            raise JournalError(
                f"{self._directory} is shipped to {shipped.url}: to ship it to {self._store.url}, remove "
                f"{self._directory / SHIPPED_NAME} first"
            )
        return shipped

    def _look_there(self) -> None:
        """Find what is at the store.

        :raises Mismatch: there is something of another journal.
        """
        seals, names = self._manifest.seals, self._store.names()
        self._there = self._check_manifest() if MANIFEST_NAME in names else 0
        self._names = segment_names(names)
        self._leaves = {*filter(is_leaves_name, names)}
        for number, name in self._names.items():
            if number not in seals or not seals[number].closed:
                raise Mismatch(f"{self._store.at(name)} is not of this journal: one URL holds one journal")
        shipped = self._shipped()
        last = 0 if shipped is None else shipped.segment
        self._verified = {number for number in self._names if number <= last}

    def _pending(self, local: Iterable[int]) -> list[int]:
        """The segments to ship, in order; also those that are here, but should be sealed and are not."""
        seals, pruned = self._manifest.seals, self._manifest.pruned
        closed = {number for number, seal in seals.items() if seal.closed}
        unsealed = {number for number in local if number < max(closed, default=0)} - closed - pruned.keys()
        left = closed - self._verified - (pruned.keys() - self._names.keys())
        return sorted(left | unsealed)

    def _ship(self, number: int) -> None:
        seal = self._manifest.seals.get(number)
        if seal is None or not seal.closed:
            raise Mismatch(f"segment {number} of {self._directory} is not sealed, though later ones are: see verify")
        is_new = number not in self._names
        if is_new:
            name = self._write(seal)
            if name is None:
                return
            self._names[number] = name
        self._check_there(self._names[number], seal)
        self._verified.add(number)
        self._unsettled += seal.bytes
        if is_new:
            self._tell(seal, self._store.at(self._names[number]))

    def _write(self, seal: Seal) -> str | None:
        """Write a segment there. :returns: its name; ``None``: retention has removed it."""
        plain = self._directory / segment_name(seal.segment)
        # In this order: while one is compressed, the copy is there before it is removed.
        for path in (plain, compressed_path(plain)):
            with suppress(_Gone):
                _check_here(path, seal)
                self._store.create(path.name, partial(_content, path))
                return path.name
        self._read()
        if seal.segment not in self._manifest.pruned:
            raise Mismatch(f"{plain} is missing, though it is sealed")
        return None

    def _ship_leaves(self) -> None:
        """Ship what proves later records although a segment was removed here. It is small, and nothing trusts it."""
        for path in list_leaves(self._directory):
            if path.name not in self._leaves:
                self._store.create(path.name, partial(_content, path))

    def _check_there(self, name: str, seal: Seal) -> None:
        found = self._store.read(name, partial(_digests, is_compressed=name.endswith(COMPRESSED_SUFFIX)))
        if found is None or (found.size, found.digest) != (seal.bytes, seal.digest):
            raise Mismatch(
                f"{self._store.at(name)} is not what the seal of segment {seal.segment} says: it was damaged there, or "
                "is of another journal. It is not overwritten: look at it, and move it away"
            )

    def _check_manifest(self) -> int:
        """See that the manifest there is the beginning of the one here. :returns: its size."""
        with _reading(self._path) as near:
            size = self._store.read(MANIFEST_NAME, partial(_common, near))
        if size is None:
            first = self._store.read(MANIFEST_NAME, lambda file: file.read(bounds.MANIFEST_LINE))
            raise Mismatch(
                f"{self._store.at(MANIFEST_NAME)} is not the beginning of {self._path}: {_whose(first)}. One URL holds "
                "one journal, and nothing there is overwritten"
            )
        return size

    def _settle(self) -> None:
        """Write the manifest there, as far as it may be, and say what is shipped."""
        self._unsettled = 0
        entries, last = beginning(self._manifest, self._verified)
        if last is None:
            return
        with _reading(self._path) as near:
            size = sum(map(len, islice(lines_in(near), entries)))
        if self._there < size:
            self._store.replace(MANIFEST_NAME, partial(_content, self._path, size))
            self._there = self._check_manifest()
        if self._there < size:
            raise Mismatch(f"{self._store.at(MANIFEST_NAME)} has {self._there} bytes of the {size} that were written")
        shipped = self._shipped()
        if shipped is None or shipped.segment != last.segment:
            now = format_time(self._clock.utc())
            write_shipped(
                self._directory,
                Shipped(
                    url=self._store.url, segment=last.segment, digest=last.digest, last_seq=last_seq(last), time=now
                ),
            )


def beginning(manifest: Manifest, there: Iterable[int]) -> tuple[int, Seal | None]:
    """The longest beginning of a manifest in which every seal is about a segment that is there, or was removed.

    :param there: the numbers of closed segments.
    :returns: how many entries it has, and the last closing seal among them.
    """
    numbers, missing = frozenset(there), set[int]()
    newest: Seal | None = None
    found: tuple[int, Seal | None] = (0, None)
    for count, entry in enumerate(manifest.entries, start=1):
        body = entry.body
        if isinstance(body, Seal) and not (body.closed and body.segment in numbers):
            missing.add(body.segment)
        elif isinstance(body, (Seal, Pruned)):
            missing.discard(body.segment)
            newest = body if isinstance(body, Seal) else newest
        if not missing:
            found = count, newest
    return found


def follow(shipper: Shipper, tell: Callable[[str], object], pause: Callable[[float], object] = time.sleep) -> None:
    """Ship segments as they are closed; never ends. A store that fails for a while is tried again.

    :param tell: is told of trouble, as a sentence without its end, and when it is over.
    :raises JournalError: as :meth:`Shipper.look`, except for what may pass.
    """
    delay = 0.0
    while True:
        try:
            shipper.look()
        except StoreError as error:
            if not error.is_passing:
                raise
            delay = min(LONGEST, max(POLL, delay * 2))
            tell(f"{error}; {shipper.backlog()}; trying again in {delay:.0f} s")
            pause(delay)
            continue
        if delay:
            tell(f"the store works again; {shipper.backlog()}")
        delay = 0.0
        pause(POLL)
        while not shipper.is_more():
            pause(POLL)


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Keep a second program from shipping a journal directory.

    :raises JournalError: there is one, or the directory cannot be written.
    """
    with os_errors_as(JournalError, f"cannot write {directory / LOCK}"):
        descriptor = open_regular(directory / LOCK, os.O_RDWR | os.O_CREAT, PRIVATE)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise JournalError(f"another program ships {directory} already") from error
        except OSError as error:
            raise JournalError(f"cannot lock {directory / LOCK}: {error.strerror}") from error
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _reading(path: Path) -> Iterator[BinaryIO]:
    with os_errors_as(JournalError, f"cannot read {path}"):
        file = read_regular(path)
    with file:
        yield file


def _check_here(path: Path, seal: Seal) -> None:
    try:
        path.stat()
        found = digests_of(path)
    except FileNotFoundError as error:
        raise _Gone(str(path)) from error
    except CORRUPT:
        found = None
    except OSError as error:
        raise JournalError(f"cannot read {path}: {error.strerror}") from error
    if found is None or (found.size, found.digest) != (seal.bytes, seal.digest):
        raise Mismatch(f"{path} is not what its seal says: it was changed or damaged here. It is not shipped")


def _content(path: Path, size: int | None = None) -> Iterator[bytes]:
    """A file, or its first ``size`` bytes, in parts."""
    left = size
    try:
        with read_regular(path) as file:
            while block := file.read(_BLOCK if left is None else min(_BLOCK, left)):
                left = None if left is None else left - len(block)
                yield block
    except FileNotFoundError as error:
        raise _Gone(str(path)) from error
    except OSError as error:
        raise JournalError(f"cannot read {path}: {error.strerror}") from error


def _digests(file: BinaryIO, *, is_compressed: bool) -> Digests | None:
    """The digests of a segment; ``None``: it cannot be read to its end."""
    try:
        return digests_in(bounded(cast("Any", file), compressed=is_compressed, counts_lines=False))
    except CORRUPT:
        return None


def _common(near: BinaryIO, far: BinaryIO) -> int | None:
    """The size of ``far``; ``None``: it is not the beginning of ``near``."""
    near.seek(0)
    size = 0
    while block := far.read(_BLOCK):
        if near.read(len(block)) != block:
            return None
        size += len(block)
    return size


def _whose(text: bytes) -> str:
    try:
        server = decode(text.partition(b"\n")[0]).body.server
    except JournalError:
        return "it was damaged"
    return f"it is of a journal of the server {server} that is another one, or went on differently"
