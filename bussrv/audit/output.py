"""The directory that an audit writes to, and the tables in it. An earlier audit in it is replaced. Other files stay.

::

    bussrv-audit/
        .bussrv-audit     marks the directory as an audit's; locked while it is written
        .writing/         unfinished files
        summary.json
        report.html
        csv/findings.csv  if wanted
        tables/findings/  tables/sessions/  …
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bussrv.errors import BussrvError

MARKER = ".bussrv-audit"
SUMMARY = "summary.json"
REPORT = "report.html"
TABLES = "tables"
CSV = "csv"

PUBLISHED = (
    *("findings", "segments", "boots", "servers", "sessions", "absences", "concurrency", "services", "uptimes"),
    *("orphans", "events", "refusals", "links", "leases", "talkers", "identities", "storms", "witnesses", "lost_links"),
    "link_clocks",
)
"""The tables that an audit publishes."""

PARTITIONED = ("date", "protocol")
"""The largest tables have a directory for each value of these columns."""

UNKNOWN = "unknown"
"""The value of the second of these columns if no wire format is known."""

MOMENTS = frozenset(
    {"first_moment", "last_moment", "opened", "closed", "moment", "first_registered", "last_registered", "begin",
     "end", "added", "renewed", "expired", "away_since", "kept_until"}
)  # fmt: skip
"""The columns of tables that are times."""

_WRITING = ".writing"


@dataclass(frozen=True)
class Ownership:
    """A kind of directory that only one audit uses at a time.

    :ivar marker: the name of a file in it, which is locked while the directory is used.
    :ivar refused: the error to raise.
    :ivar not_ours: the error text after its path, if it is not empty and has no marker.
    :ivar in_use: the error text before its path, if another audit uses it.
    """

    marker: str
    refused: type[BussrvError]
    not_ours: str
    in_use: str

    def check(self, directory: Path) -> None:
        """Check whether a directory may be used, without touching it.

        :raises BussrvError: ``refused``, if it may not.
        """
        if not directory.exists():
            return
        if not directory.is_dir():
            raise self.refused(f"{directory} is not a directory")
        if not (directory / self.marker).exists() and any(directory.iterdir()):
            raise self.refused(f"{directory} {self.not_ours}")

    @contextmanager
    def held(self, directory: Path) -> Iterator[None]:
        """Use a directory, which is created if it does not exist.

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


class OutputRefused(BussrvError):
    """The directory holds other files, so nothing is written. The message names it."""


_OURS = Ownership(
    MARKER,
    OutputRefused,
    not_ours="is neither empty nor an earlier audit: name another directory with --out",
    in_use="another audit is writing to",
)


def in_utf8(text: str) -> str:
    r"""A text as files can hold it: bytes of a path that are not UTF-8 are shown as ``\xff``."""
    return os.fsencode(text).decode("utf-8", "backslashreplace")


def check_output(out: Path) -> None:
    """Check whether an audit may be written to ``out``, without touching it.

    :raises OutputRefused: if it may not.
    """
    _OURS.check(out)


@contextmanager
def writing(out: Path) -> Iterator[Path]:
    """A directory for the files that :func:`publish` moves. It is removed afterwards.

    :raises OutputRefused: if ``out`` holds other files, or another audit is writing to it.
    """
    with _OURS.held(out):
        place = out / _WRITING
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        try:
            yield place
        finally:
            # After an interrupt Spark may still write there. The next audit removes the rest.
            shutil.rmtree(place, ignore_errors=True)


def publish(out: Path, place: Path, tables: Sequence[str], summary: Mapping[str, Any]) -> Path:
    """Replace an earlier audit.

    A summary is never beside tables of another audit.

    :param place: the directory of :func:`writing`, with a directory for each of ``tables``, the report, and maybe
        ``CSV``.
    :returns: the path of the summary.
    """
    path = out / SUMMARY
    path.unlink(missing_ok=True)
    (out / TABLES).mkdir(exist_ok=True)
    for name in tables:
        table = out / TABLES / name
        if table.exists():
            table.rename(place / f"old-{name}")
        (place / name).rename(table)
    (place / REPORT).rename(out / REPORT)
    # Those of an earlier audit would contradict the tables.
    shutil.rmtree(out / CSV, ignore_errors=True)
    if (place / CSV).exists():
        (place / CSV).rename(out / CSV)
    finished = place / SUMMARY
    finished.write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    finished.rename(path)
    return path
