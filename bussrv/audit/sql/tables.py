"""The tables of an audit, made of facts and written as Parquet.

DuckDB makes them in this process, also if Spark folded the journals: facts are some megabytes of a million events, and
to plan the queries takes Spark longer than to run them takes DuckDB. See :mod:`bussrv.audit.spark.tables` for very
large ones.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

from bussrv.audit.fold.facts import FACTS
from bussrv.audit.fold.stripe import Period
from bussrv.audit.output import PARTITIONED, PUBLISHED
from bussrv.audit.sql import activity, findings, services
from bussrv.audit.sql.database import MEMORY, Database

AT_ONCE = 1
"""The most tables written at the same time, while another one is made. DuckDB uses all processors for a large one."""

FILE = "part-0.parquet"

ALWAYS = 2**62
"""Microseconds. The period without a bound begins at ``-ALWAYS`` and ends at ``ALWAYS``."""

FROM_FACTS = (*(f"fact_{name}" for name in FACTS), "fact_findings", "segments")
"""The tables that are there before all others."""

RECIPES: dict[str, str] = {**activity.RECIPES, **services.RECIPES, **findings.RECIPES}

_NAMED = Counter(name for query in RECIPES.values() for name in re.findall(r"@(\w+)", query))


Keeper = Callable[[Path, Path, Callable[[Sequence[Path], Path], None]], None]
"""Like :meth:`bussrv.audit.reading.checkpoint.Checkpoint.write_sessions`."""


def make_tables(
    facts: Path, place: Path, period: Period, write_sessions: Keeper | None = None, memory: str = MEMORY
) -> None:
    """Write every table that is published, as Parquet, into directories of their names.

    :param facts: the directory of :mod:`bussrv.audit.reading.stripes`.
    :param write_sessions: writes the table of sessions, of which a part may be kept.
    :param memory: the most that DuckDB takes.
    """

    def write(name: str) -> None:
        table = place / name
        table.mkdir()
        if name == "sessions" and write_sessions is not None:
            write_sessions(facts, table, partial(_write_sessions, database, recipe(name, period)))
        elif "date" in database.columns(name):
            database.write(name, table, PARTITIONED)
        if not any(table.iterdir()):
            database.write(name, table / FILE)

    with closing(Database(place / "scratch", memory)) as database, ThreadPoolExecutor(AT_ONCE) as pool:
        names = (name for name in define(database, facts, period) if name in PUBLISHED)
        for written in [pool.submit(write, name) for name in names]:
            written.result()


def _write_sessions(database: Database, query: str, files: Sequence[Path], place: Path) -> None:
    """Write the sessions of some files of facts."""
    if files:
        some = database.files_at(files)
        database.write(f"({query.replace('@fact_sessions', some)})", place, PARTITIONED)


def recipe(name: str, period: Period) -> str:
    """The query of a table."""
    begin = -ALWAYS if period.since is None else period.since
    end = ALWAYS if period.until is None else period.until
    return RECIPES[name].replace(":since", str(begin)).replace(":until", str(end))


def define(database: Database, facts: Path, period: Period) -> Iterator[str]:
    """Make every table known to a database. Those that several others are made of are computed on the way.

    :returns: the name of each table, as soon as it is known.
    """
    for name in FROM_FACTS:
        database.add_files(name, sorted(facts.glob(f"*/{name.removeprefix('fact_')}.parquet")))
        yield name
    for name in RECIPES:
        make = database.make if _NAMED[name] > 1 else database.define
        make(name, recipe(name, period))
        yield name
