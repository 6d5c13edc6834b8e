"""Closed segments: made read-only, perhaps compressed, one day removed."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from bussrv.errors import JournalError
from bussrv.journal.bounded import open_bounded
from bussrv.journal.digests import digests_in
from bussrv.journal.files import FILES, SEALED, Files
from bussrv.journal.leaves import keep_leaves
from bussrv.journal.regular import read_regular
from bussrv.journal.segment import CORRUPT, NEW_SUFFIX, compressed_path, segment_name, write_file

_BLOCK = 1 << 18
_LEVEL = 6
_GZIP = 16 + zlib.MAX_WBITS


def sync(path: Path, files: Files = FILES) -> None:
    """Return when a segment is on the disk, whoever wrote it and however; one that is missing is no business of this.

    :raises OSError: if the disk fails.
    """
    try:
        descriptor = files.reopen(path)
    except FileNotFoundError:
        return
    try:
        files.sync(descriptor)
    finally:
        files.close(descriptor)


def compress(path: Path, digest: str, files: Files = FILES) -> Path:
    """Put a compressed copy in the place of a segment, once it is on the disk and was read back.

    :param digest: the SHA-256 of the segment.
    :returns: the copy.
    :raises JournalError: if the copy does not say the same.
    :raises OSError: if the disk fails. The segment or its copy is there.
    """
    target = compressed_path(path)
    new = target.with_name(target.name + NEW_SUFFIX)
    try:
        write_file(new, _compressed(path), files)
        if _digest_inside(new) != digest:
            raise JournalError(f"{path} is not what it was when it was sealed, or its copy is not; it is left as it is")
        files.set_mode(new, SEALED)
        files.rename(new, target)
    except (OSError, JournalError):
        with suppress(OSError):
            files.remove(new)
        raise
    files.sync_directory(path.parent)
    files.remove(path)
    files.sync_directory(path.parent)
    return target


def _digest_inside(copy: Path) -> str | None:
    """The SHA-256 of what was compressed; ``None`` if it cannot be read back."""
    try:
        with open_bounded(copy, compressed=True, counts_lines=False) as file:
            return digests_in(file).digest
    except CORRUPT:
        return None


def _compressed(path: Path) -> Iterator[bytes]:
    # Not gzip.GzipFile: one that could not write its first bytes writes its last ones when it is collected, to what has
    # its descriptor by then, such as a segment. Without name and time, too, the same segment gives the same bytes.
    packer = zlib.compressobj(_LEVEL, wbits=_GZIP)
    with read_regular(path) as source:
        while block := source.read(_BLOCK):
            yield packer.compress(block)
    yield packer.flush()


def remove(directory: Path, segment: int, files: Files = FILES) -> None:
    """Remove a segment, compressed or not. The hashes of the leaves of its tree stay.

    :raises OSError: if that cannot be done.
    """
    plain = directory / segment_name(segment)
    for path in (plain, compressed_path(plain)):
        if path.exists():
            keep_leaves(directory, path, files)
            break
    files.remove(plain)
    files.remove(compressed_path(plain))
    files.sync_directory(directory)


def stored_size(path: Path) -> int:
    """How many bytes a segment takes on the disk; 0 if it is gone."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
