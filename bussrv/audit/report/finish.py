"""The last step of an audit, whatever made its tables: the summary, the report, and the tables as CSV if wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bussrv.audit.output import CSV, REPORT
from bussrv.audit.report import page
from bussrv.audit.report.evidence import Evidence
from bussrv.audit.report.facts import facts
from bussrv.audit.report.journal_facts import Bounds
from bussrv.audit.report.questions import Tables
from bussrv.audit.report.summary import summarize


def finish(tables: Tables, place: Path, period: Bounds, made: Evidence, *, csv: bool) -> dict[str, Any]:
    """Write the report, and CSV if wanted.

    :param tables: those of the audit, for questions.
    :param place: the directory that holds a directory with the Parquet files of each table, on this machine.
    :param period: what the tables are about.
    :returns: the content of ``summary.json``.
    :raises OSError: if it cannot be written.
    """
    totals = summarize(tables, made)
    page.write(place / REPORT, facts(tables, totals, period, made.out))
    if csv:
        from bussrv.audit.query import write_csv

        write_csv(place, place / CSV)
    return totals
