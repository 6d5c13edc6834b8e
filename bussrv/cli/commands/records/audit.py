"""``bussrv audit``: check journals and report sessions, services and events; ask the tables of an audit."""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from bussrv.audit.arguments import PARAMETERS
from bussrv.cli.command import command
from bussrv.cli.failure import Failure, explained
from bussrv.cli.parameters import exclude
from bussrv.cli.show import output

_OF_ANSWERS = ("out", "csv", "as_json")


@command(
    params=[*PARAMETERS],
    examples=("bussrv audit bussrv-journal",),
    statuses={
        0: "nothing that --fail-on names; with --sql: done",
        1: "findings, or incidents, as --fail-on names them",
        2: "the journals could not be judged, or the query not answered",
    },
)
@click.option(
    "--sql",
    metavar="QUERY",
    help="Answer a SELECT from the tables of the finished audit in --out: as a table, or with --csv or --json. Needs "
    "DuckDB, and neither Spark nor Java.",
)
def audit(sql: str | None, **given: Any) -> int:
    """Check journals for records that are damaged, missing, repeated or contradictory, and report sessions, services
    and events. JOURNAL is a journal directory, or its URL. The last line of the output is the path of summary.json.
    Needs more packages: pip install 'bussrv[audit]', in a checkout: pip install -e '.[audit]'. Spark needs Java 17 or
    newer, too. With --sql nothing is audited: a query of the tables of the audit in --out is answered.
    """
    if sql is not None:
        _check(click.get_current_context())
        with explained():
            _answer(sql, **{name: given[name] for name in _OF_ANSWERS})
        return 0
    from bussrv.audit.job import AuditCommand, run

    return run(AuditCommand(**given))


def _check(context: click.Context) -> None:
    """:raises click.UsageError: if something is given that asks for an audit."""
    for each in PARAMETERS:
        name = each.name or ""
        is_given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE and context.params[name] != ()
        if is_given and name not in _OF_ANSWERS:
            said = "no JOURNAL is allowed" if isinstance(each, click.Argument) else f"{each.opts[0]} is not allowed"
            raise click.UsageError(f"{said} with --sql")


def _answer(query: str, *, out: Path, csv: bool, as_json: bool) -> None:
    """Print the answer to a query."""
    exclude(csv=csv, json=as_json)
    try:
        from bussrv.audit.query import answered, print_csv
        from bussrv.audit.spark.failure import INSTALL
    except ImportError as error:
        raise Failure(f"--sql needs DuckDB and PyArrow ({error}): {INSTALL}") from error
    with answered(out, query) as rows:
        if csv:
            print_csv(rows, sys.stdout.buffer)
            return
        names = rows.schema.names
        values = ([_readable(each) for each in row.values()] for batch in rows for row in batch.to_pylist())
        if as_json:
            for row in values:
                output.json_line(dict(zip(names, row, strict=True)))
        else:
            output.table(names, values)


def _readable(value: Any) -> Any:
    """A value for people and for JSON: times as in journals."""
    if isinstance(value, datetime):
        return f"{value.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%S.%fZ}"
    if isinstance(value, Decimal):
        # The sum of whole numbers, for example.
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, list):
        return [_readable(each) for each in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
