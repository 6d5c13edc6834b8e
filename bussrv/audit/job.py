"""The audit as a job: ``bussrv audit``, ``python -m bussrv.audit.job`` and ``spark-submit`` run it; programs that have
a Spark session call :func:`audit`.

The command is :func:`run`, which prepares an engine, calls :func:`audit`, and prints the outcome. :func:`audit` is the
whole way from journals to the report, one step after the other: the snapshot, the fold, the tables, the report.

Importing this module does not import Spark, so that the command can answer without it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from bussrv.audit.arguments import AUTO, DEFAULT_MASTER, EMBEDDED, PARAMETERS, SPARK, command_line
from bussrv.audit.fold.stored import is_stored
from bussrv.audit.kinds import INCIDENT, SEVERITIES
from bussrv.audit.output import PUBLISHED, check_output, publish, writing
from bussrv.audit.progress import Bars, Counted, Progress
from bussrv.audit.reading.sources import are_small, is_url, size_of, take_snapshot
from bussrv.audit.spark.failure import INSTALL, SparkFailed, as_failure
from bussrv.audit.spark.java import why_no_java
from bussrv.errors import BussrvError
from bussrv.journal.evidence.witnesses import Others
from bussrv.journal.keys import PublicKey, read_public
from bussrv.journal.others import read_others
from bussrv.journal.record import format_time

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bussrv.audit.fold.stripe import Period
    from bussrv.audit.reading.stripes import Workers
    from bussrv.audit.sql.tables import Keeper

CLEAN = 0
FINDINGS = 1
NOT_JUDGED = 2


class AuditFailed(BussrvError):
    """The journals could not be judged. The message says why."""


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
    public_key: Path | None = None,
    others: Others | None = None,
    checkpoint: Path | None = None,
    csv: bool = False,
    command: str | None = None,
    every: int | None = None,
    progress: Progress | None = None,
    ends_cluster: bool = False,
) -> Verdict:
    """Audit journals.

    :param spark: belongs to the caller. It must see the journals, ``out`` and ``checkpoint``. ``None``: the audit
        is made without Spark, in this process and in some that it starts. Each of them imports the main module, so
        a script calls this under ``if __name__ == "__main__":``.
    :param journals: directories of one or more journals, also of running servers, or URLs: ``s3://…``, or
        what Spark can read.
    :param out: the directory for tables, summary and report. An earlier audit in it is replaced. If Spark runs on
        several machines, all of them must see the directory that it is in.
    :param since, until: the period of the tables, UTC microseconds since 1970.
    :param trusted: the key that the seals must be traceable to.
    :param public_key: the file of that key, for commands in the report.
    :param others: the witnesses that are trusted, and checkpoints that were kept elsewhere.
    :param checkpoint: a directory that keeps what was read, so that the next audit reads only new records.
    :param csv: whether the tables are written as CSV, too.
    :param command: the command line that asks for it, for the report.
    :param every: seconds from this audit to the next one, for the summary; ``None``: there is none.
    :param progress: learns of each phase.
    :param ends_cluster: whether ``spark`` is ended as soon as it has done its part, if it runs on a cluster: before the
        report, which DuckDB makes. Java here gives back its memory then, and the cluster its executors.
    :raises AuditFailed: if DuckDB fails, or a process that reads journals is killed.
    :raises bussrv.errors.JournalError: if one of ``journals`` is not a journal, holds no record, or is at a URL that
        only Spark can read and there is none, or if a segment disappears meanwhile.
    :raises bussrv.audit.output.OutputRefused: if ``out`` holds anything else.
    :raises OSError: if ``out`` cannot be written.
    """
    from bussrv.audit.fold.stripe import Period
    from bussrv.audit.reading.checkpoint import opened
    from bussrv.audit.reading.stripes import fold_journals
    from bussrv.audit.report.summary import evidence, finish, in_words
    from bussrv.audit.sql.database import published

    locations, out = [str(each) for each in journals], out.resolve()
    period, progress = Period(since, until), progress or Progress()
    with ExitStack() as stack:
        place = stack.enter_context(writing(out))
        kept = None if checkpoint is None else stack.enter_context(opened(checkpoint))
        stack.enter_context(_as_audit_failed())
        workers = stack.enter_context(closing(_workers(spark, place, progress, locations if kept is None else [])))
        taken = take_snapshot(
            locations,
            workers.directory,
            trusted=trusted,
            since=since,
            until=until,
            parent=out.parent if spark is not None and _is_spread(spark) else None,
            index_of=None if kept is None else kept.index_of,
            others=others,
        )
        with taken as snapshot, progress.phase("reading"):
            covered = fold_journals(snapshot, period, place / "facts", workers, kept)
            workers.close()
        memory = _memory(spark, workers)
        with progress.phase("tables"):
            _make_tables(spark, place, period, None if kept is None else kept.write_sessions, memory)
        if ends_cluster and spark is not None and _is_spread(spark):
            _end(spark)
        made = evidence(snapshot.journals, trusted, public_key, command, out, every, covered=covered)
        with progress.phase("report"), published(place, place / "scratch", memory) as tables:
            totals = finish(tables, place, period, made, csv=csv)
        path = publish(out, place, PUBLISHED, totals)
    return Verdict(totals, path, in_words(totals))


def _is_spread(spark: SparkSession) -> bool:
    from bussrv.audit.spark.session import is_spread

    return is_spread(spark)


def _end(spark: SparkSession) -> None:
    from bussrv.audit.spark.session import end

    end(spark)


def _memory(spark: SparkSession | None, workers: Workers) -> str:
    """The most memory that DuckDB takes in this process."""
    from bussrv.audit.sql.database import BESIDE_CLUSTER, BESIDE_WORKERS, MEMORY

    if spark is not None and _is_spread(spark):
        return BESIDE_CLUSTER
    return BESIDE_WORKERS if workers.keep_memory else MEMORY


def _workers(spark: SparkSession | None, place: Path, progress: Progress, locations: Sequence[str]) -> Workers:
    """Spark's workers, or those of this machine.

    :param locations: journals that are to be read for sure. Processes start at once if that is worth it.
    """
    if spark is None:
        from bussrv.audit.reading.processes import ProcessWorkers

        workers = ProcessWorkers(progress=progress)
        workers.start(size_of(locations) or 0)
        return workers
    from bussrv.audit.spark.workers import SparkWorkers

    return SparkWorkers(spark, place)


def _make_tables(
    spark: SparkSession | None, place: Path, period: Period, write_sessions: Keeper | None, memory: str
) -> None:
    """Spark makes them of large facts, and DuckDB of all others. On a cluster, fewer facts are large."""
    facts = place / "facts"
    if spark is not None:
        from bussrv.audit.spark import tables as of_spark

        if of_spark.are_large(facts, of_spark.LARGEST_ON_CLUSTER if _is_spread(spark) else of_spark.LARGEST):
            of_spark.make_tables(spark, facts, place, period)
            return
    from bussrv.audit.sql.tables import make_tables

    make_tables(facts, place, period, write_sessions, memory)


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
class AuditCommand:
    """The command line. Times are UTC microseconds.

    :ivar out: the directory for the result.
    :ivar fail_on: the mildest severities that make the exit status 1, and ``incident``.
    :ivar public_key: the file of the key that the seals must be traceable to.
    :ivar witness_keys: the verifier keys of witnesses, of which ``quorum`` have to cosign; ``None``: all.
    :ivar kept_checkpoints: files with checkpoints that were kept elsewhere.
    :ivar master: where Spark runs; ``None``: here.
    :ivar remote: a Spark Connect server.
    :ivar as_json: whether the outcome is printed as JSON.
    :ivar csv: whether the tables are written as CSV, too.
    :ivar engine: what computes the tables, one of :data:`bussrv.audit.arguments.ENGINES`, or ``AUTO``.
    :ivar every: seconds from an audit to the next one; ``None``: there is only one.
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
    every: int | None = None
    witness_keys: Sequence[str] = ()
    quorum: int | None = None
    kept_checkpoints: Sequence[Path] = ()

    def others(self) -> Others | None:
        """The journals as others know them.

        :raises JournalError: a key or a file cannot be used.
        """
        return read_others(self.witness_keys, self.quorum, self.kept_checkpoints, time.time_ns() // 1000)


def run(command: AuditCommand) -> int:
    """Audit in a Spark session of its own, or without Spark, and print the outcome.

    :returns: the exit status: ``CLEAN``, ``FINDINGS`` or ``NOT_JUDGED``.
    :raises click.UsageError: if no journal is named.
    """
    if not command.journals:
        raise click.UsageError("Missing argument 'JOURNAL...'.")
    try:
        if command.every is not None:
            _audit_live(command, command.every)
            return CLEAN
        with _engine(command) as spark:
            verdict = _audit_once(command, spark, _progress(spark))
    except BussrvError as error:
        return _not_judged(str(error))
    except OSError as error:
        return _not_judged(_told(error))
    _say(sys.stdout, json.dumps(verdict.summary) if command.as_json else f"{verdict.text}\n{verdict.path}")
    return FINDINGS if verdict.fails(*command.fail_on) else CLEAN


def _told(error: OSError) -> str:
    """An error of the system in a few words, with the file."""
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def _audit_live(command: AuditCommand, every: int) -> None:
    """Audit again and again over a checkpoint, with one engine, and print a line each time."""
    from bussrv.audit.live import repeat
    from bussrv.audit.report.summary import in_one_line

    if command.checkpoint is None:
        command = replace(command, checkpoint=command.out.with_name(f"{command.out.name}-checkpoint"))

    def make_round(spark: SparkSession | None) -> None:
        begun = time.monotonic()
        summary = _audit_once(command, spark).summary
        took = f" ({time.monotonic() - begun:.1f} s)"
        _say(sys.stdout, json.dumps(summary) if command.as_json else in_one_line(summary) + took)
        sys.stdout.flush()

    @contextmanager
    def rounds() -> Iterator[Callable[[], None]]:
        with _engine(command) as spark:
            yield partial(make_round, spark)

    def failed(error: Exception) -> None:
        why = _told(error) if isinstance(error, OSError) else str(error)
        _say(sys.stderr, f"{format_time(time.time_ns() // 1000)}  not judged, and tried again: {why}")

    repeat(rounds(), every, failed)


def _not_judged(why: str) -> int:
    _say(sys.stderr, f"bussrv audit: {why}")
    return NOT_JUDGED


def _say(stream: TextIO, text: str) -> None:
    """Write a text, with replacements for characters that the terminal cannot show."""
    encoding = stream.encoding or "ascii"
    stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")


@contextmanager
def _engine(command: AuditCommand) -> Iterator[SparkSession | None]:
    """The engine that the command names, or the one that fits: a session of Spark, or ``None``.

    :raises AuditFailed: if it cannot do what is asked, or packages are missing, or Spark fails.
    :raises bussrv.audit.output.OutputRefused: if nothing can be written to the directory for the result.
    """
    if command.master is not None and command.remote is not None:
        raise AuditFailed("--remote is not allowed with --master")
    check_output(command.out.resolve())
    if command.public_key is not None:
        # Each audit reads it again, but nobody should wait for Spark to learn that it is no key.
        read_public(command.public_key)
    command.others()
    try:
        prepare()
    except ImportError as error:
        raise AuditFailed(f"the audit needs DuckDB, NumPy, PyArrow and Jinja2 ({error}): {INSTALL}") from error
    engine, why = command.engine, None
    if engine == AUTO:
        engine, why = choose(command.journals, command.master, command.remote)
    for option in ("master", "remote") if engine == EMBEDDED else ():
        if getattr(command, option) is not None:
            raise AuditFailed(f"--{option} is not allowed with --engine {EMBEDDED}, which runs here")
    opened: AbstractContextManager[SparkSession | None] = nullcontext() if engine == EMBEDDED else _session(command)
    with opened as spark:
        yield spark
    if why is not None:
        # Not before: a failure is one sentence.
        _say(sys.stderr, f"bussrv audit: --engine {engine}, since {why}")


def _audit_once(command: AuditCommand, spark: SparkSession | None, progress: Progress | None = None) -> Verdict:
    """Audit as the command says.

    :param spark: what :func:`_engine` gave.
    :raises BussrvError: the journals cannot be judged; see :func:`audit`.
    :raises OSError: a file cannot be written.
    """
    return audit(
        spark,
        command.journals,
        command.out,
        since=command.since,
        until=command.until,
        trusted=None if command.public_key is None else read_public(command.public_key),
        public_key=command.public_key and command.public_key.resolve(),
        others=command.others(),
        checkpoint=command.checkpoint and command.checkpoint.resolve(),
        csv=command.csv,
        command=command_line(vars(command)),
        every=command.every,
        progress=progress,
        ends_cluster=command.every is None,
    )


def prepare() -> None:
    """Import what every audit needs, and compile the templates of its page. An audit then does not wait for it, nor
    find out late that a package is missing.

    :raises ImportError: if one is.
    """
    import bussrv.audit.reading.stripes
    import bussrv.audit.sql.tables  # noqa: F401
    from bussrv.audit.report.page import load_templates

    load_templates()


def choose(journals: Sequence[str], master: str | None, remote: str | None) -> tuple[str, str | None]:
    """The engine if nobody names one: Spark if it can run, or if something is asked for that only Spark can do.

    :param journals: directories of this machine, or URLs.
    :param master, remote: where Spark is to run, if that was said.
    :returns: the engine, and why it is that one; ``None``: the arguments say so.
    """
    if master is not None or remote is not None:
        return SPARK, None
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return SPARK, "spark-submit runs this"
    if (far := next(filter(_is_for_spark, journals), None)) is not None:
        return SPARK, f"only Spark reads {far}"
    if find_spec("pyspark") is None:
        return EMBEDDED, "PySpark is not installed"
    why = why_no_java()
    return (SPARK, "PySpark and Java are installed") if why is None else (EMBEDDED, why)


def _is_for_spark(journal: str) -> bool:
    """Whether only Spark can read a journal."""
    return is_url(journal) and not is_stored(journal)


@contextmanager
def _session(command: AuditCommand) -> Iterator[SparkSession]:
    """A Spark session for one audit.

    :raises AuditFailed: if Spark is missing or fails. The message names the other engine, if that can do the same.
    """
    try:
        try:
            from bussrv.audit.spark.session import remote_session, spark_session
        except ImportError as error:
            raise SparkFailed(f"the audit needs PySpark ({error}): {INSTALL}") from error
        quick_start = are_small(command.journals)
        if command.remote is None:
            opened = spark_session(command.master or DEFAULT_MASTER, quick_start=quick_start)
        else:
            opened = remote_session(command.remote)
        with as_failure(SparkFailed), opened as spark:
            yield spark
    except SparkFailed as error:
        raise AuditFailed(f"{str(error).rstrip('.')}{_instead(command)}") from error


def _instead(command: AuditCommand) -> str:
    """The end of a sentence about a failure of Spark: what can be done without it."""
    if any(map(_is_for_spark, command.journals)):
        return ""
    given = "--master" if command.master is not None else "--remote"
    without = "" if command.master is None and command.remote is None else f", without {given},"
    return f" (--engine {EMBEDDED}{without} needs no Spark)"


def _progress(spark: SparkSession | None) -> Progress | None:
    """Bars, if there is a terminal."""
    if not sys.stderr.isatty():
        return None
    return Counted() if spark is None else Bars(spark)


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m bussrv.audit.job JOURNAL... [--out DIR]``, the same as ``bussrv audit``."""
    command = click.Command(
        "bussrv.audit.job",
        params=list(PARAMETERS),
        callback=lambda **given: run(AuditCommand(**given)),
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
