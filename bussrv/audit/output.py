"""The directory that an audit writes to. An earlier audit in it is replaced; whatever else is there stays.

::

    bussrv-audit/
        .bussrv-audit     marks the directory as ours; locked while it is written
        .writing/         what is not finished yet
        summary.json
        report.html
        tables/findings/  tables/sessions/  …
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bussrv.audit.ownership import Ownership
from bussrv.errors import BussrvError

MARKER = ".bussrv-audit"
SUMMARY = "summary.json"
REPORT = "report.html"
TABLES = "tables"

_WRITING = ".writing"


class OutputRefused(BussrvError):
    """Nothing is written, because it would mix with what somebody else put there. The message names the place."""


_OURS = Ownership(
    MARKER,
    OutputRefused,
    not_ours="is neither empty nor an earlier audit: name another directory with --out",
    in_use="another audit is writing to",
)


def check_output(out: Path) -> None:
    """See whether an audit may be written to ``out``, without touching it.

    :raises OutputRefused: if it may not.
    """
    _OURS.check(out)


@contextmanager
def writing(out: Path) -> Iterator[Path]:
    """Where to write what :func:`publish` is then given; gone afterwards, published or not.

    :raises OutputRefused: if the directory is not ours, or another audit is writing to it.
    """
    with _OURS.held(out):
        place = out / _WRITING
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        try:
            yield place
        finally:
            # After an interrupt, Spark may still be writing there; the next audit then clears the rest away.
            shutil.rmtree(place, ignore_errors=True)


def publish(out: Path, place: Path, tables: Sequence[str], summary: Mapping[str, Any]) -> Path:
    """Replace an earlier audit.

    At no time does a summary stand beside tables of another audit.

    :param place: what :func:`writing` gave, with a directory for each of ``tables``, and the report.
    :returns: the file that holds the summary.
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
    finished = place / SUMMARY
    finished.write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    finished.rename(path)
    return path
