"""An audit in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from bussrv.audit.database import published
from bussrv.audit.embedded.crew import Crew
from bussrv.audit.embedded.tables import make_tables
from bussrv.audit.fold.stripe import Period
from bussrv.audit.output import PUBLISHED, publish, writing
from bussrv.audit.reading.gather import gather
from bussrv.audit.reading.sources import take_snapshot
from bussrv.audit.report.summary import evidence, finish
from bussrv.audit.spark.progress import Progress
from bussrv.errors import BussrvError
from bussrv.journal.keys import PublicKey


class EngineFailed(BussrvError):
    """The audit cannot be made in this process. The message says why."""


def examine(
    journals: Sequence[str],
    period: Period,
    trusted: PublicKey | None,
    out: Path,
    *,
    command: str | None = None,
    csv: bool = False,
    progress: Progress | None = None,
) -> tuple[dict[str, Any], Path]:
    """Audit journals.

    :param journals: directories on this machine, also of running servers, or ``s3://…``.
    :param period: what the tables are about.
    :param trusted: the key that the seals must be traceable to.
    :param command: the command line that asks for it, for the report.
    :param csv: whether the tables are written as CSV, too.
    :param progress: learns of each phase.
    :returns: the content of ``summary.json``, and the path of it.
    :raises EngineFailed: if DuckDB fails.
    :raises bussrv.errors.JournalError: if one of ``journals`` is not a journal, holds no record, or is at a URL that
        only Spark can read, or if a segment disappears meanwhile.
    :raises bussrv.audit.output.OutputRefused: if ``out`` holds anything else.
    :raises OSError: if ``out`` cannot be written.
    """
    progress = progress or Progress()
    with writing(out) as place, _as_failure():
        with (
            take_snapshot(None, journals, trusted=trusted, since=period.since, until=period.until) as snapshot,
            progress.phase("reading"),
        ):
            gather(snapshot, period, place / "facts", Crew(progress=progress))
        with progress.phase("tables"):
            make_tables(place / "facts", place, period.since, period.until)
        made = evidence(snapshot.journals, trusted, command, out)
        with progress.phase("report"), published(place, place / "scratch") as asked:
            totals = finish(asked, place, period, made, csv=csv)
        return totals, publish(out, place, PUBLISHED, totals)


@contextmanager
def _as_failure() -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        raise EngineFailed(f"DuckDB failed: {str(error).splitlines()[0]}") from error
