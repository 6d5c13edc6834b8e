"""The file of a manifest: read a line at a time, up to the bounds, and added to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from bussrv.errors import JournalError
from bussrv.journal import bounds
from bussrv.journal.chain import line_hash
from bussrv.journal.evidence.manifest import EntryJudge
from bussrv.journal.files import FILES, Files
from bussrv.journal.keys import PrivateKey, PublicKey
from bussrv.journal.manifest import Body, Cosigned, KeyEntry, Manifest, Pruned, Seal, encode
from bussrv.journal.outside_changes import Changed, Identity, OutsideChange, change, identity
from bussrv.journal.regular import read_regular


def read_manifest(path: Path, trusted: PublicKey | None = None) -> Manifest:
    """Read a manifest and check everything in it that can be checked without the segments.

    A manifest that is missing is empty. Reading goes on after a line that is wrong; see ``findings``.

    :param trusted: a key that must have been in force, and have signed something.
    :raises JournalError: if the file cannot be read.
    """
    return GrowingManifest(path, trusted).read()


class GrowingManifest:
    """The file of a manifest that another program adds to. What was read of it is not read again.

    :param trusted: see :func:`read_manifest`.
    """

    def __init__(self, path: Path, trusted: PublicKey | None = None) -> None:
        self._path = path
        self._trusted = trusted
        self._judge = EntryJudge(trusted)
        self._inode = self._asked = 0

    def read(self) -> Manifest:
        """The manifest as it is now; see :func:`read_manifest`. The next call may change it."""
        try:
            with read_regular(self._path) as file:
                self._read_on(file)
        except FileNotFoundError:
            self._judge = EntryJudge(self._trusted)
        except OSError as error:
            raise JournalError(f"cannot read the manifest {self._path}: {error.strerror}") from error
        return self._judge.end()

    def may_say(self, text: bytes) -> bool:
        """Whether the file is another one, or a text is in what was added to it, as far as nobody asked before."""
        try:
            with read_regular(self._path) as file:
                if self._is_another(file):
                    return True
                file.seek(self._asked)
                added = file.read()
        except OSError:
            return True
        self._asked += added.rfind(b"\n") + 1
        return text in added

    def _read_on(self, file: BinaryIO) -> None:
        if self._is_another(file) or self._judge.found.findings:
            self._judge = EntryJudge(self._trusted)
        found = self._judge.found
        file.seek(found.size)
        found.torn, found.is_torn = 0, True
        found.size = self._asked = _pass_lines(file, self._judge, found.size)
        self._inode = os.fstat(file.fileno()).st_ino

    def _is_another(self, file: BinaryIO) -> bool:
        about = os.fstat(file.fileno())
        return about.st_ino != self._inode or about.st_size < self._judge.found.size


def _pass_lines(file: BinaryIO, judge: EntryJudge, size: int) -> int:
    """Judge the lines of a manifest, as far as it goes or the bounds allow.

    :param size: the bytes of the lines that were judged before.
    :returns: how many bytes they take now.
    """
    at = size
    begin, hashed = b"", sha256()
    while text := file.readline(bounds.MANIFEST_LINE):
        if exceeded := _exceeded(judge, at + len(text)):
            judge.pass_too_large(exceeded)
            return size
        is_first, at = at == size, at + len(text)
        if is_first and text.endswith(b"\n"):
            judge.pass_line(text[:-1])
            size = at
            continue
        if is_first:
            begin, hashed = text, sha256()
        hashed.update(text.removesuffix(b"\n"))
        if text.endswith(b"\n"):
            judge.pass_long(hashed.hexdigest())
            size = at
    if at > size:
        judge.pass_rest(begin, at - size)
    return size


def _exceeded(judge: EntryJudge, size: int) -> str | None:
    """The bound that a manifest of ``size`` bytes exceeds with its next line; ``None``: it exceeds none."""
    if size > bounds.MANIFEST:
        return f"{bounds.MANIFEST} bytes"
    if judge.lines >= bounds.MANIFEST_LINES:
        return f"{bounds.MANIFEST_LINES} lines"
    return f"{bounds.BAD_LINES} faults" if judge.faults >= bounds.BAD_LINES else None


class ManifestFile:
    """A manifest that entries are added to. When :meth:`append` returns, they are on the disk.

    :ivar last_hash: of the last entry.
    :param manifest: the result of :func:`read_manifest`; nobody else may have written to it since.
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
        # Bytes that the file has at least, and at most: a write that failed may have left a part of a line.
        self._size, self._most = manifest.size, manifest.size + manifest.torn
        self._known = self._find()
        self._is_named = manifest.size > 0
        self._has_rest = manifest.torn > 0
        self._check_key(self._key, self._in_force)

    @property
    def is_long(self) -> bool:
        """Whether it comes near the bounds, so that only entries are added that every segment needs."""
        return self._number > bounds.ROUTINE_LINES or self._size > bounds.ROUTINE_BYTES

    @property
    def is_begun(self) -> bool:
        """Whether there is a file."""
        return self._known is not None

    def append(self, bodies: Sequence[Seal | Pruned | Cosigned]) -> list[str]:
        """Add entries, with one write and one sync.

        :returns: their hashes.
        :raises OSError: if the disk fails. Nothing was added; the same entries may be added again later.
        :raises Changed: another program changed the file.
        :raises JournalError: if the key in force is not the one that was given, or the file would exceed the bounds.
        """
        self._check_key(self._key, self._in_force)
        return self._append(bodies, self._key)

    def change(self) -> OutsideChange | None:
        """The change that another program made to the file, if there is one.

        :raises OSError: if the disk fails.
        """
        return change(str(self._path), self._known, self._size, self._most, self._files)

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
            data = b"".join(lines)
            self._check_room(self._number + len(lines) - 1, self._size + len(data))
            self._write(data)
            self.last_hash = hashes[-1]
            self._number += len(lines)
        return hashes[1:]

    def _check_room(self, lines: int, size: int) -> None:
        if lines > bounds.MANIFEST_LINES or size > bounds.MANIFEST:
            raise JournalError(
                f"{self._path} is full, with {self._number - 1} entries of {self._size} bytes, so no more segments are "
                "sealed: let the server begin another journal directory"
            )

    def _write(self, data: bytes) -> None:
        found = self.change()
        if found is not None:
            raise Changed(self._path, found)
        descriptor = self._files.open(self._path)
        try:
            self._known = self._known or identity(descriptor, self._files)
            self._cut(descriptor)
            self._has_rest, self._most = True, self._size + len(data)
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
        # From now on the entries are there. If another program has changed the file meanwhile, that is found later.
        self._is_named, self._has_rest = True, False
        self._size = self._most

    def _find(self) -> Identity | None:
        try:
            found = self._files.look(str(self._path))
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _cut(self, descriptor: int) -> None:
        """Synced: what is cut off must not come back after a crash, when something else was told of meanwhile."""
        if self._has_rest:
            self._files.truncate(descriptor, self._size)
            self._files.sync(descriptor)
            self._has_rest, self._most = False, self._size


def _key_words(key: PublicKey | None) -> str:
    return "no key" if key is None else f"the key {key.fingerprint}"
