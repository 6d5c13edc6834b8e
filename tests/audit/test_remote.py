"""Journals at URLs, while they are shipped there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from bussrv.audit.reading.remote import RemoteFile, take_remote
from bussrv.journal.batch import Rotation
from bussrv.journal.manifest import MANIFEST_NAME
from bussrv.journal.segment import list_segments
from bussrv.synth.journal import write_journal


class Directory:
    """A directory as if it were at a URL.

    :ivar listed: is called after the files were listed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.listed: Callable[[], object] = lambda: None

    def files(self) -> Iterator[RemoteFile]:
        found = [RemoteFile(path.name, path.stat().st_size, "") for path in self._path.iterdir()]
        self.listed()
        yield from found

    def fetch(self, name: str, target: Path) -> None:
        shutil.copyfile(self._path / name, target)


def test_what_is_shipped_meanwhile_is_taken_with_its_seals(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    write_journal(here, events=3000, rotation=Rotation(bytes=60_000))
    paths = list_segments(here)
    assert len(paths) > 5
    lines = (here / MANIFEST_NAME).read_bytes().splitlines(keepends=True)

    def ship(count: int, sealed: int) -> None:
        """So many segments are there, and the seals of so many."""
        there.mkdir(exist_ok=True)
        for path in paths[:count]:
            shutil.copyfile(path, there / path.name)
        until = int(paths[sealed].name.partition(".")[0])
        kept = [line for line in lines if int(line.partition(b'"segment":')[2].partition(b",")[0]) < until]
        (there / MANIFEST_NAME).write_bytes(b"".join(kept))

    def taken(directory: Directory) -> int:
        place = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        place.mkdir()
        journal = take_remote(directory, "s3://bus/hall", 0, place, None)
        assert len(journal.segments) == len(journal.numbers)
        assert journal.manifest.findings == []
        return len(journal.segments)

    directory = Directory(there)
    ship(3, 3)
    assert taken(directory) == 3
    # The seals of the fourth are on their way.
    ship(4, 3)
    assert taken(directory) == 3

    def come() -> None:
        directory.listed = lambda: None
        ship(5, 5)

    directory.listed = come
    assert taken(directory) == 5
    # More than one without seals is left to the judge.
    ship(5, 2)
    assert taken(directory) == 4
