"""Paths for DuckDB and Arrow to open.

Both take text in UTF-8. DuckDB also reads a path as a pattern, and a backslash in it as a separator. A directory with
such a path gets an alias: a symbolic link with a plain path.
"""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

_UNFIT = re.compile(r"[\\\ud800-\udfff]")
_PATTERN_CHARACTER = re.compile(r"[\[*?]")


class Aliases:
    """The aliases of directories, as long as they are open. Several threads may ask."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._links: TemporaryDirectory[str] | None = None
        self._known: dict[Path, Path] = {}

    def of(self, directory: Path) -> Path:
        """A path for a directory: its own if that can be opened, and otherwise an alias.

        :raises OSError: if the alias cannot be made.
        """
        directory = directory.absolute()
        if not _UNFIT.search(str(directory)):
            return directory
        with self._lock:
            if directory not in self._known:
                self._links = self._links or TemporaryDirectory(prefix="bussrv-audit-")
                alias = Path(self._links.name, str(len(self._known)))
                alias.symlink_to(directory, target_is_directory=True)
                self._known[directory] = alias
            return self._known[directory]

    def close(self) -> None:
        """Remove the aliases."""
        if self._links is not None:
            self._links.cleanup()


def literal(path: str) -> str:
    """A path for DuckDB to read, escaped: it reads patterns."""
    return _PATTERN_CHARACTER.sub(r"[\g<0>]", path)
