"""The arguments of the audit on a command line. Importing this imports nothing of the audit."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

# Older releases of click have no generic class.
if TYPE_CHECKING:
    Base = click.ParamType[Any]
else:
    Base = click.ParamType

DEFAULT_OUT = Path("bussrv-audit")
DEFAULT_MASTER = "local[*]"

SPARK, EMBEDDED = ENGINES = ("spark", "embedded")
"""The engines that compute the tables: Spark, which needs Java and may run on several machines, or DuckDB here."""

AUTO = "auto"
"""Spark if it can run here, and otherwise the embedded engine; see :func:`bussrv.audit.job.choose`."""


class Converted(Base):
    """A value that a function makes of the text. It raises :exc:`ValueError` with one sentence if it cannot."""

    def __init__(self, name: str, convert: Callable[[str], Any]) -> None:
        self.name = name
        self._convert = convert

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value."""
        if not isinstance(value, str):
            return value
        try:
            return self._convert(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _instant(text: str) -> int:
    from bussrv.journal.moments import parse_instant

    return parse_instant(text)


def _bar(text: str) -> str:
    from bussrv.audit.kinds import INCIDENT, SEVERITIES

    if text not in (*SEVERITIES, INCIDENT):
        raise ValueError(f"{text!r} is none of {', '.join(SEVERITIES)} and {INCIDENT}")
    return text


FILE = click.Path(path_type=Path)
INSTANT = Converted("TIME", _instant)

PARAMETERS: tuple[click.Parameter, ...] = (
    click.Argument(["journals"], nargs=-1, metavar="JOURNAL..."),
    click.Option(
        ["--out"],
        type=FILE,
        default=DEFAULT_OUT,
        show_default=True,
        metavar="DIR",
        help="The directory for tables, report and summary; replaces an earlier audit.",
    ),
    click.Option(
        ["--since"],
        type=INSTANT,
        metavar="TIME",
        help="Leave records before this time out of the tables, such as 2026-11-21T14:02:03Z.",
    ),
    click.Option(["--until"], type=INSTANT, metavar="TIME", help="Leave out records at or after this time."),
    click.Option(
        ["--checkpoint"],
        type=FILE,
        metavar="DIR",
        help="Keep what was read there, so that the next audit of these journals reads only new records.",
    ),
    click.Option(
        ["--every"],
        type=click.IntRange(min=1),
        metavar="SECONDS",
        help="Audit again and again, and print a line each time, until a signal ends it (exit status 0). Without "
        "--checkpoint, that is beside --out, with -checkpoint at the end of its name.",
    ),
    click.Option(
        ["--fail-on"],
        type=Converted("WHAT", _bar),
        multiple=True,
        default=("warning",),
        show_default=True,
        metavar="WHAT",
        help="Exit with 1 if there are findings that severe (error, warning or notice), or, with incident, if something"
        " happened that somebody should look at. Repeat it for both: each counts by itself.",
    ),
    click.Option(["--public-key"], type=FILE, metavar="FILE", help="The key that the seals must be traceable to."),
    click.Option(
        ["--witness-key", "witness_keys"],
        multiple=True,
        metavar="VKEY",
        help="The verifier key of a witness that must have cosigned the records; may be repeated. The report says "
        "which witnesses cosigned which records. Reading takes a fifth longer, since trees are computed.",
    ),
    click.Option(
        ["--quorum"], type=click.IntRange(min=1), metavar="N", help="How many of the witnesses.  [default: all]"
    ),
    click.Option(
        ["--kept-checkpoint", "kept_checkpoints"],
        type=FILE,
        multiple=True,
        metavar="FILE",
        help="A checkpoint, or a proof, that was kept elsewhere: one of the journals must hold it; may be repeated.",
    ),
    click.Option(
        ["--engine"],
        type=click.Choice((AUTO, *ENGINES)),
        default=AUTO,
        show_default=True,
        help="What reads the journals. The embedded engine runs here, without Java, and reads directories of this "
        "machine and s3:// URLs. auto takes Spark if PySpark and Java 17 are installed, and the embedded engine "
        "otherwise, and says which on the standard error.",
    ),
    click.Option(["--master"], metavar="URL", help=f"Where Spark runs.  [default: {DEFAULT_MASTER}]"),
    click.Option(
        ["--remote"],
        metavar="URL",
        help="A Spark Connect server, such as sc://spark.example:15002.",
    ),
    click.Option(["--csv"], is_flag=True, help="Write the tables as CSV, too."),
    click.Option(["--json", "as_json"], is_flag=True, help="Print the content of summary.json."),
)
"""The fields of :class:`bussrv.audit.job.AuditCommand`."""


def command_line(given: Mapping[str, Any]) -> str:
    """The command line of ``bussrv audit`` with these values, for a shell. Values that are the default are left out.

    :param given: the values of ``PARAMETERS``, by their names.
    """
    return shlex.join(["bussrv", "audit", *given["journals"], *_options(given)])


def _options(given: Mapping[str, Any]) -> Iterator[str]:
    for each in PARAMETERS:
        value = given[each.name or ""]
        if not isinstance(each, click.Option) or value in (None, False, each.default):
            continue
        for one in value if each.multiple else (value,):
            yield each.opts[0]
            if not each.is_flag:
                yield _time(one) if each.type is INSTANT else str(one)


def _time(micros: int) -> str:
    from bussrv.journal.record import format_time

    return format_time(micros)
