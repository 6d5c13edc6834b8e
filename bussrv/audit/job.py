"""The audit as a job: ``bussrv audit``, ``python -m bussrv.audit.job`` and ``spark-submit`` run it; programs that have
a Spark session call :func:`audit`.

Importing this module does not import Spark, so that the command can answer without it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from bussrv.audit.output import check_output, publish, writing
from bussrv.audit.snapshot import Snapshot, take_snapshot
from bussrv.errors import BussrvError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_OUT = "bussrv-audit"

SMALL = 256 << 20
"""Journals up to this size, in bytes, are audited in less time by a Spark that starts quickly."""

CLEAN = 0
FINDINGS = 1
NOT_JUDGED = 2


class AuditFailed(BussrvError):
    """The audit cannot say anything about the journals. The message says why."""


@dataclass(frozen=True)
class Verdict:
    """What an audit came to.

    :ivar summary: what stands in ``summary.json``.
    :ivar path: that file.
    :ivar text: the same for people.
    """

    summary: dict[str, Any]
    path: Path
    text: str

    @property
    def is_clean(self) -> bool:
        """Whether there are neither errors nor warnings."""
        return bool(self.summary["verdict"] == "clean")


def audit(spark: SparkSession, journals: Sequence[Path], out: Path) -> Verdict:
    """Audit journals.

    :param spark: runs on this machine, and stays the caller's.
    :param journals: the directories of one or more journals, of running servers too.
    :param out: the directory for tables and summary; an earlier audit in it is replaced.
    :raises bussrv.errors.JournalError: if one of ``journals`` is no journal or holds no record, or if a segment goes
        away meanwhile.
    :raises bussrv.audit.output.OutputRefused: if ``out`` is somebody else's.
    :raises OSError: if ``out`` cannot be written.
    """
    out = out.resolve()
    check_output(out)
    with take_snapshot(journals) as snapshot:
        return _examine(spark, snapshot, out)


def _examine(spark: SparkSession, snapshot: Snapshot, out: Path) -> Verdict:
    from bussrv.audit import activity, chain, consistency, integrity, report
    from bussrv.audit.findings import union
    from bussrv.audit.load import bad_lines, places_of, read_journals, records_of
    from bussrv.audit.store import Store

    with writing(out) as place:
        store = Store(spark, place)
        try:
            lines = store.keep("lines", read_journals(spark, snapshot))
        finally:
            snapshot.check()
        places = store.keep("places", places_of(lines))
        segments = chain.segments(spark, snapshot, places)
        records = records_of(lines)
        boots = store.keep("boots", activity.boots(records))
        servers = activity.servers(boots)
        histories = store.keep("histories", activity.session_histories(records))
        provisions = store.keep("provisions", activity.provisions(records))
        findings = union(
            [
                integrity.bad_line_findings(bad_lines(places)),
                integrity.torn_tail_findings(spark, snapshot),
                integrity.unreadable_findings(spark, snapshot),
                chain.line_findings(places),
                chain.link_findings(segments),
                chain.part_findings(segments),
                chain.salvage_findings(segments),
                integrity.gap_findings(records),
                integrity.duplicate_findings(records),
                consistency.session_findings(histories, boots),
                consistency.service_findings(provisions, boots),
            ]
        )
        tables = {
            "findings": store.keep("findings", findings.coalesce(1)),
            "sessions": store.keep("sessions", activity.sessions(histories)),
            "services": store.keep("services", activity.services(provisions, servers)),
            "events": store.keep("events", activity.events(records)),
        }
        summary = report.summarize(tables, servers, len(snapshot.segments))
        path = publish(out, place, tuple(tables), summary)
    return Verdict(summary, path, report.in_words(summary))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("journals", nargs="+", type=Path, metavar="JOURNAL", help="a journal directory")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(DEFAULT_OUT),
        metavar="DIR",
        help="where tables and summary.json go; an earlier audit there is replaced [default: ./%(default)s]",
    )


def run(arguments: argparse.Namespace) -> int:
    """Audit in a Spark session of its own, and say the outcome.

    :returns: the exit status: ``CLEAN``, ``FINDINGS`` or ``NOT_JUDGED``.
    """
    try:
        verdict = _audit_alone(arguments.journals, arguments.out.resolve())
    except BussrvError as error:
        return _not_judged(str(error))
    except OSError as error:
        return _not_judged(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    _say(sys.stdout, f"{verdict.text}\n{verdict.path}")
    return CLEAN if verdict.is_clean else FINDINGS


def _not_judged(why: str) -> int:
    _say(sys.stderr, f"bussrv audit: {why}")
    return NOT_JUDGED


def _say(stream: TextIO, text: str) -> None:
    """Write a text that may hold what the terminal cannot show."""
    encoding = stream.encoding or "ascii"
    stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")


def _audit_alone(journals: Sequence[Path], out: Path) -> Verdict:
    check_output(out)
    with take_snapshot(journals) as snapshot:
        try:
            from bussrv.audit.session import spark_session
        except ImportError as error:
            raise AuditFailed(f"the audit needs PySpark ({error}): pip install 'bussrv[audit]'") from error
        with spark_session(quick_start=snapshot.size <= SMALL) as spark:
            try:
                return _examine(spark, snapshot, out)
            except Exception as error:
                if type(error).__module__.partition(".")[0] not in {"pyspark", "py4j"}:
                    raise
                first_line = str(error).strip().partition("\n")[0]
                raise AuditFailed(f"Spark failed: {first_line}") from error


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m bussrv.audit.job JOURNAL... [--out DIR]``, the same as ``bussrv audit``."""
    parser = argparse.ArgumentParser(prog="bussrv.audit.job", description="Audit the journals of bussrv servers.")
    add_arguments(parser)
    return run(parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
