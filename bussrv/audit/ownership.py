"""Directories that belong to an audit: marked as such, and used by one audit at a time."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bussrv.errors import BussrvError


@dataclass(frozen=True)
class Ownership:
    """What a kind of directory is known by, and what is said of one that cannot be used.

    :ivar marker: the name of a file in it, which is locked while it is used.
    :ivar refused: what is raised.
    :ivar not_ours: said behind its path when it holds something, but not the marker.
    :ivar in_use: said before its path when another audit uses it.
    """

    marker: str
    refused: type[BussrvError]
    not_ours: str
    in_use: str

    def check(self, directory: Path) -> None:
        """See whether a directory may be used, without touching it.

        :raises BussrvError: the kind that is ``refused``.
        """
        if not directory.exists():
            return
        if not directory.is_dir():
            raise self.refused(f"{directory} is not a directory")
        if not (directory / self.marker).exists() and any(directory.iterdir()):
            raise self.refused(f"{directory} {self.not_ours}")

    @contextmanager
    def held(self, directory: Path) -> Iterator[None]:
        """Use a directory, which is made if need be.

        :raises BussrvError: as :meth:`check`, and if another audit uses it.
        """
        self.check(directory)
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / self.marker).open("a") as marker:
            try:
                fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise self.refused(f"{self.in_use} {directory}") from error
            yield
