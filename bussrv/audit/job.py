"""The audit as a job: ``bussrv audit``, ``python -m bussrv.audit.job`` and ``spark-submit`` run it; programs that have
a Spark session call :func:`audit`.

Importing this module does not import Spark, so that the command can answer without it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from bussrv.audit.arguments import AUTO, DEFAULT_MASTER, EMBEDDED, command_line
from bussrv.audit.kinds import INCIDENT, SEVERITIES
from bussrv.audit.output import PUBLISHED, check_output, publish, writing
from bussrv.audit.spark.failure import INSTALL, SparkFailed, as_failure
from bussrv.errors import BussrvError
from bussrv.journal.keys import PublicKey, read_public

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bussrv.audit.progress import Progress
    from bussrv.audit.reading import crew as of_processes
    from bussrv.audit.reading.gather import Crew
    from bussrv.audit.reading.snapshot import Snapshot
    from bussrv.audit.sql.tables import Keeper

CLEAN = 0
FINDINGS = 1
NOT_JUDGED = 2


class AuditFailed(BussrvError):
    """The journals could not be judged. The message says why."""


@dataclass(frozen=True)
class Request:
    """The arguments of an audit.

    :ivar journals: directories on this machine, also of running servers, or URLs.
    :ivar since, until: the period of the tables, UTC microseconds since 1970.
    :ivar trusted: the key that the seals must be traceable to.
    :ivar public_key: the file of that key, for commands in the report.
    :ivar checkpoint: a directory that keeps what was read, so that the next audit reads only new records.
    :ivar shared: if Spark runs on several machines, a directory that all of them see.
    :ivar command: the command line that asks for it, for the report.
    :ivar csv: whether the tables are written as CSV, too.
    """

    journals: Sequence[str]
    since: int | None = None
    until: int | None = None
    trusted: PublicKey | None = None
    checkpoint: Path | None = None
    shared: Path | None = None
    public_key: Path | None = None
    command: str | None = None
    csv: bool = False


@dataclass(frozen=True)
class Verdict:
    """The result of an audit.

    :ivar summary: the content of ``summary.json``.
    :ivar path: that file.
    :ivar text: the summary for people.
    """

    summary: dict[str, Any]
    path: Path
    text: str

    @property
    def is_intact(self) -> bool:
        """Whether the journals are what their servers wrote: there are neither errors nor warnings."""
        return not self.fails("warning")

    @property
    def is_quiet(self) -> bool:
        """Whether nothing happened that somebody should look at."""
        return not self.fails(INCIDENT)

    def fails(self, *bars: str) -> bool:
        """Whether there are findings of one of these severities or a worse one; or incidents, if that is a bar."""
        return any(map(self._fails, bars))

    def _fails(self, bar: str) -> bool:
        if bar == INCIDENT:
            return bool(self.summary["incident_kinds"])
        counts = self.summary["severities"]
        return any(counts[each] for each in SEVERITIES[: SEVERITIES.index(bar) + 1])


def audit(
    spark: SparkSession | None,
    journals: Sequence[Path | str],
    out: Path,
    *,
    since: int | None = None,
    until: int | None = None,
    trusted: PublicKey | None = None,
    checkpoint: Path | None = None,
    csv: bool = False,
    command: str | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Audit journals.

    :param spark: belongs to the caller. It must see the journals, ``out`` and ``checkpoint``. ``None``: the audit
        is made without Spark, in this process and in some that it starts. Each of them imports the main module, so
        a script calls this under ``if __name__ == "__main__":``.
    :param journals: directories of one or more journals, also of running servers, or URLs: ``s3://…``, or
        what Spark can read.
    :param out: the directory for tables, summary and report. An earlier audit in it is replaced.
    :param since, until: the period of the tables, UTC microseconds since 1970.
    :param trusted: the key that the seals must be traceable to.
    :param checkpoint: a directory that keeps what was read, so that the next audit reads only new records.
    :param csv: whether the tables are written as CSV, too.
    :param command: the command line that asks for it, for the report.
    :param progress: learns of each phase.
    :raises AuditFailed: if DuckDB fails, or a process that reads journals is killed.
    :raises bussrv.errors.JournalError: if one of ``journals`` is not a journal, holds no record, or is at a URL that
        only Spark can read and there is none, or if a segment disappears meanwhile.
    :raises bussrv.audit.output.OutputRefused: if ``out`` holds anything else.
    :raises OSError: if ``out`` cannot be written.
    """
    locations = [str(each) for each in journals]
    request = Request(locations, since, until, trusted, checkpoint, command=command, csv=csv)
    return _examine(spark, request, out.resolve(), progress)


def _examine(spark: SparkSession | None, request: Request, out: Path, progress: Progress | None) -> Verdict:
    from bussrv.audit.fold.stripe import Period
    from bussrv.audit.progress import Progress as Silent
    from bussrv.audit.reading.checkpoint import opened
    from bussrv.audit.reading.gather import gather
    from bussrv.audit.reading.sources import take_snapshot
    from bussrv.audit.report.summary import evidence, finish, in_words
    from bussrv.audit.sql.database import BESIDE_WORKERS, MEMORY, published

    progress = progress or Silent()
    period = Period(request.since, request.until)
    with ExitStack() as stack:
        place = stack.enter_context(writing(out))
        checkpoint = None if request.checkpoint is None else stack.enter_context(opened(request.checkpoint))
        stack.enter_context(_as_audit_failed())
        own = stack.enter_context(closing(_processes(request, progress))) if spark is None else None
        with take_snapshot(
            spark,
            request.journals,
            trusted=request.trusted,
            since=request.since,
            until=request.until,
            parent=request.shared,
            index_of=None if checkpoint is None else checkpoint.index_of,
        ) as snapshot:
            with progress.phase("reading"), closing(own or _of_spark(spark, snapshot, place)) as crew:
                gather(snapshot, period, place / "facts", crew, checkpoint)
            memory = BESIDE_WORKERS if crew.keeps_workers else MEMORY
            made = evidence(snapshot.journals, request.trusted, request.public_key, request.command, out)
        with progress.phase("tables"):
            _make_tables(spark, place, request, None if checkpoint is None else checkpoint.write_sessions, memory)
        with progress.phase("report"), published(place, place / "scratch", memory) as asked:
            totals = finish(asked, place, period, made, csv=request.csv)
        path = publish(out, place, PUBLISHED, totals)
    return Verdict(totals, path, in_words(totals))


def _processes(request: Request, progress: Progress) -> of_processes.Crew:
    """Workers on this machine. They start at once, unless a checkpoint may know everything."""
    from bussrv.audit.reading.crew import Crew
    from bussrv.audit.reading.sources import size_of

    crew = Crew(progress=progress)
    if request.checkpoint is None:
        crew.start(size_of(request.journals) or 0)
    return crew


def _of_spark(spark: SparkSession | None, snapshot: Snapshot, place: Path) -> Crew:
    """The workers of Spark."""
    from bussrv.audit.spark.crew import Crew

    assert spark is not None
    return Crew(spark, snapshot, place)


def _make_tables(
    spark: SparkSession | None, place: Path, request: Request, write_sessions: Keeper | None, memory: str
) -> None:
    facts, period = place / "facts", (request.since, request.until)
    if spark is None:
        from bussrv.audit.sql import tables

        tables.make_tables(facts, place, *period, write_sessions, memory)
        return
    from bussrv.audit.spark import tables as with_spark

    with_spark.make_tables(spark, facts, place, *period, write_sessions, memory)


@contextmanager
def _as_audit_failed() -> Iterator[None]:
    """Raise errors of DuckDB, and the end of a process that reads journals, as :class:`AuditFailed`."""
    from concurrent.futures.process import BrokenProcessPool

    import duckdb

    try:
        yield
    except BrokenProcessPool as error:
        raise AuditFailed("a process that reads journals was killed, maybe because memory ran out") from error
    except duckdb.Error as error:
        raise AuditFailed(f"DuckDB failed: {str(error).splitlines()[0]}") from error


@dataclass(frozen=True)
class Asked:
    """The command line. Times are UTC microseconds.

    :ivar out: the directory for the result.
    :ivar fail_on: the mildest severities that make the exit status 1, and ``incident``.
    :ivar public_key: the file of the key that the seals must be traceable to.
    :ivar master: where Spark runs; ``None``: here.
    :ivar remote: a Spark Connect server.
    :ivar as_json: whether the outcome is printed as JSON.
    :ivar csv: whether the tables are written as CSV, too.
    :ivar engine: what computes the tables, one of :data:`bussrv.audit.arguments.ENGINES`, or ``AUTO``.
    """

    journals: Sequence[str]
    out: Path
    fail_on: Sequence[str]
    since: int | None
    until: int | None
    checkpoint: Path | None
    public_key: Path | None
    master: str | None
    remote: str | None
    as_json: bool = False
    engine: str = AUTO
    csv: bool = False


def run(asked: Asked) -> int:
    """Audit in a Spark session of its own, or without Spark, and print the outcome.

    :returns: the exit status: ``CLEAN``, ``FINDINGS`` or ``NOT_JUDGED``.
    :raises click.UsageError: if no journal is named.
    """
    if not asked.journals:
        raise click.UsageError("Missing argument 'JOURNAL...'.")
    try:
        verdict = _audit_alone(asked)
    except BussrvError as error:
        return _not_judged(str(error))
    except OSError as error:
        return _not_judged(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    _say(sys.stdout, json.dumps(verdict.summary) if asked.as_json else f"{verdict.text}\n{verdict.path}")
    return FINDINGS if verdict.fails(*asked.fail_on) else CLEAN


def _not_judged(why: str) -> int:
    _say(sys.stderr, f"bussrv audit: {why}")
    return NOT_JUDGED


def _say(stream: TextIO, text: str) -> None:
    """Write a text, with replacements for characters that the terminal cannot show."""
    encoding = stream.encoding or "ascii"
    stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")


def _audit_alone(asked: Asked) -> Verdict:
    if asked.master is not None and asked.remote is not None:
        raise AuditFailed("--remote is not allowed with --master")
    out = asked.out.resolve()
    check_output(out)
    trusted = None if asked.public_key is None else read_public(asked.public_key)
    try:
        prepare()
    except ImportError as error:
        raise AuditFailed(f"the audit needs DuckDB, NumPy, PyArrow and Jinja2 ({error}): {INSTALL}") from error
    request = Request(
        asked.journals,
        asked.since,
        asked.until,
        trusted,
        asked.checkpoint and asked.checkpoint.resolve(),
        public_key=asked.public_key and asked.public_key.resolve(),
        command=command_line(vars(asked)),
        csv=asked.csv,
    )
    engine, why = _engine(asked)
    verdict = (_embedded if engine == EMBEDDED else _with_spark)(asked, request, out)
    if why is not None:
        # Not before: a failure is one sentence.
        _say(sys.stderr, f"bussrv audit: --engine {engine}, since {why}")
    return verdict


def _with_spark(asked: Asked, request: Request, out: Path) -> Verdict:
    """Audit in a Spark session of its own.

    :raises AuditFailed: if Spark is missing or fails. The message names the other engine, if that can do the same.
    """
    try:
        return _in_session(asked, request, out)
    except SparkFailed as error:
        raise AuditFailed(f"{str(error).rstrip('.')}{_instead(asked)}") from error


def _instead(asked: Asked) -> str:
    """The end of a sentence about a failure of Spark: what can be done without it."""
    from bussrv.audit.fold.stored import is_stored
    from bussrv.audit.reading.sources import is_url

    if any(is_url(each) and not is_stored(each) for each in asked.journals):
        return ""
    given = "--master" if asked.master is not None else "--remote"
    without = "" if asked.master is None and asked.remote is None else f", without {given},"
    return f" (--engine {EMBEDDED}{without} needs no Spark)"


def _in_session(asked: Asked, request: Request, out: Path) -> Verdict:
    try:
        from bussrv.audit.spark.session import remote_session, spark_session
    except ImportError as error:
        raise SparkFailed(f"the audit needs PySpark ({error}): {INSTALL}") from error
    from bussrv.audit.reading.sources import HANDED_OUT, are_small

    quick_start = are_small(asked.journals, HANDED_OUT)
    master = asked.master or DEFAULT_MASTER
    if asked.remote is not None or not master.startswith("local"):
        request = replace(request, shared=out.parent)
    opened = spark_session(master, quick_start=quick_start) if asked.remote is None else remote_session(asked.remote)
    with as_failure(SparkFailed), opened as spark:
        return _examine(spark, request, out, _progress(spark))


def _engine(asked: Asked) -> tuple[str, str | None]:
    """The engine, and why it is that one, if nothing in the arguments says so."""
    if asked.engine != AUTO:
        return asked.engine, None
    from bussrv.audit.engine import choose

    return choose(asked.journals, asked.master, asked.remote)


def prepare() -> None:
    """Import what every audit needs, and compile the templates of its page. An audit then does not wait for it, nor
    find out late that a package is missing.

    :raises ImportError: if one is.
    """
    import bussrv.audit.reading.gather
    import bussrv.audit.sql.tables  # noqa: F401
    from bussrv.audit.report.page import load_templates

    load_templates()


def _embedded(asked: Asked, request: Request, out: Path) -> Verdict:
    """Audit in this process."""
    for option in ("master", "remote"):
        if getattr(asked, option) is not None:
            raise AuditFailed(f"--{option} is not allowed with --engine {EMBEDDED}, which runs here")
    from bussrv.audit.progress import Counted

    return _examine(None, request, out, Counted() if sys.stderr.isatty() else None)


def _progress(spark: SparkSession) -> Progress | None:
    from bussrv.audit.progress import Bars

    return Bars(spark) if sys.stderr.isatty() else None


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m bussrv.audit.job JOURNAL... [--out DIR]``, the same as ``bussrv audit``."""
    from bussrv.audit.arguments import PARAMETERS

    command = click.Command(
        "bussrv.audit.job",
        params=list(PARAMETERS),
        callback=lambda **given: run(Asked(**given)),
        help="Audit the journals of bussrv servers.",
    )
    try:
        status: int = command.main(argv, "bussrv.audit.job", standalone_mode=False)
    except click.UsageError as error:
        error.show()
        return error.exit_code
    return status


if __name__ == "__main__":
    sys.exit(main())
