"""Journals that are not on this machine, at URLs: ``s3://…``, ``hdfs://…``.

They are read in place, as copies that no server writes to. Only the last segment is fetched, because it may end in an
unfinished record, which is left out.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from bussrv.audit.fold.stored import reading
from bussrv.audit.reading.snapshot import Journal, TakenSegment, cut_torn_tail, taken_as
from bussrv.errors import JournalError
from bussrv.journal import bounds
from bussrv.journal.keys import PublicKey
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.manifest_file import read_manifest
from bussrv.journal.segment import COMPRESSED_SUFFIX, SUFFIX, is_segment_name

LARGEST_FETCHED = 256 << 20
"""The largest last segment, in bytes, that is fetched. A larger one is read in place, as it is."""


@dataclass(frozen=True)
class RemoteFile:
    """A file of a directory.

    :ivar bytes: its size.
    :ivar stamp: a text that differs if the file was replaced or written to.
    """

    name: str
    bytes: int
    stamp: str


class RemoteDirectory(Protocol):
    """A directory at a URL. Methods raise :exc:`JournalError` if it cannot be read."""

    def files(self) -> Iterable[RemoteFile]:
        """The files in it, in any order."""

    def fetch(self, name: str, target: Path) -> None:
        """Copy one of the files to this machine."""


class StoredDirectory:
    """A directory in an object store, see :class:`RemoteDirectory`.

    :param url: ``s3://BUCKET/PATH``.
    """

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def files(self) -> Iterator[RemoteFile]:
        """The files in it."""
        from pyarrow.fs import FileSelector, FileType

        with reading(self._url) as (store, path):
            found = store.get_file_info(FileSelector(path))
        for each in found:
            if each.type == FileType.File:
                yield RemoteFile(each.base_name, each.size, f"{each.size} {each.mtime_ns}")

    def fetch(self, name: str, target: Path) -> None:
        """Copy a file to this machine."""
        with (
            target.open("wb") as file,
            reading(self._url) as (store, path),
            store.open_input_stream(f"{path}/{name}") as source,
        ):
            shutil.copyfileobj(source, file, 1 << 20)


def take_remote(directory: RemoteDirectory, url: str, index: int, root: Path, trusted: PublicKey | None) -> Journal:
    """Find the segments of a journal, and read its manifest.

    :param root: a directory on this machine for the manifest and the last segment.
    :raises JournalError: if there is no segment, or it cannot be read.
    """
    if url.endswith((SUFFIX, COMPRESSED_SUFFIX)):
        raise JournalError(f"{url} is a segment: name the directory that holds it")
    files = {file.name: file for file in directory.files()}
    manifest_path = root / f"{index}-{MANIFEST_NAME}"
    if MANIFEST_NAME in files:
        size = files[MANIFEST_NAME].bytes
        if size > bounds.MANIFEST:
            raise JournalError(
                f"the manifest of {url} is too large ({size} bytes): no server writes more than {bounds.MANIFEST}"
            )
        directory.fetch(MANIFEST_NAME, manifest_path)
    manifest = read_manifest(manifest_path, trusted)
    segments = _segments(files.values(), url.rstrip("/"), index)
    if not (manifest.seals.keys() - manifest.pruned.keys()) <= {segment.number for segment in segments}:
        # A segment is shipped before its seals. So those that came meanwhile are there now.
        segments = _segments(directory.files(), url.rstrip("/"), index)
    if manifest.entries and segments and segments[-1].number not in manifest.seals:
        # It is being shipped, and the next manifest has its seals.
        segments.pop()
    _fetch_last(directory, segments, root)
    if not any(segment.bytes for segment in segments):
        raise JournalError(f"{url} holds no journal records")
    numbers = frozenset(segment.number for segment in segments)
    return Journal(url, tuple(segments), numbers, manifest, manifest)


def _segments(files: Iterable[RemoteFile], url: str, index: int) -> list[TakenSegment]:
    """The segments in order."""
    found = {}
    # If both files exist, the one that is not compressed comes last, and counts.
    for file in sorted(files, key=lambda file: file.name, reverse=True):
        if is_segment_name(file.name):
            number, path = int(file.name.partition(".")[0]), f"{url}/{file.name}"
            found[number] = TakenSegment(path, taken_as(index, number), number, file.bytes, file.stamp, in_place=True)
    return [found[number] for number in sorted(found)]


def _fetch_last(directory: RemoteDirectory, segments: list[TakenSegment], root: Path) -> None:
    """Put the last segment into the snapshot, without an unfinished record at its end."""
    if not segments or segments[-1].is_compressed or segments[-1].bytes > LARGEST_FETCHED:
        return
    last = replace(segments[-1], in_place=False)
    taken = last.path_in(root)
    taken.parent.mkdir()
    taken.touch()
    directory.fetch(taken.name, taken)
    segments[-1] = replace(cut_torn_tail(last, root), bytes=taken.stat().st_size)
