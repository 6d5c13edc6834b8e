"""A journal that grows before the reader's eyes: copied from a whole one, some bytes at a time."""

from __future__ import annotations

from pathlib import Path

from bussrv.journal.batch import Rotation
from bussrv.journal.reading import read_journal
from bussrv.journal.segment import list_segments
from bussrv.synth.journal import write_journal
from tests.audit.journals import compress

EVENTS = 3000


def write_whole(directory: Path, server: str = "hall", seed: int = 0) -> Path:
    """A journal of some segments, as a server leaves it: with attacks, leases, crashes and snapshots."""
    rotation = Rotation(bytes=1 << 17)
    write_journal(directory, events=EVENTS, server=server, seed=seed, rotation=rotation, attacks=("password-guessing",))
    return directory


def seqs_of(directory: Path) -> list[int]:
    return [record.seq for record in read_journal(directory)]


class Growing:
    """The beginning of another journal.

    :ivar size: how many bytes of it are there, over all segments.
    """

    def __init__(self, whole: Path, directory: Path) -> None:
        self.directory = directory
        self._whole = {path.name: path.read_bytes() for path in list_segments(whole)}
        self.all = sum(map(len, self._whole.values()))
        self.size = 0
        directory.mkdir()

    def grow(self, size: int, *, compressed: bool = False) -> None:
        """Have so many bytes more there.

        :param compressed: whether the segments that are closed by then are compressed.
        """
        self.size = left = min(self.size + size, self.all)
        for name, text in self._whole.items():
            path = self.directory / name
            if left <= 0:
                return
            if not path.with_name(f"{name}.gz").exists():
                path.write_bytes(text[:left])
                if compressed and left > len(text):
                    compress(path)
            left -= len(text)
