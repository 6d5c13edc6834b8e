"""The tables of an audit, made of facts and written as Parquet.

DuckDB makes them in this process, also if Spark folded the journals: facts are some megabytes of a million events, and
to plan the queries takes Spark longer than to run them takes DuckDB. See :mod:`bussrv.audit.spark.tables` for very
large ones.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from bussrv.audit.database import Database, literal
from bussrv.audit.fold.facts import FACTS
from bussrv.audit.output import PARTITIONED, PUBLISHED
from bussrv.audit.sql import activity, findings, services

AT_ONCE = 1
"""The most tables written at the same time, while another one is made. DuckDB uses all processors for a large one."""

FILE = "part-0.parquet"

ALWAYS = 2**62
"""Microseconds. The period without a bound begins at ``-ALWAYS`` and ends at ``ALWAYS``."""

FROM_FACTS = (*(f"fact_{name}" for name in FACTS), "fact_findings", "segments")
"""The tables that are there before all others."""

RECIPES: dict[str, str] = {
    "boot_sums": activity.BOOT_SUMS,
    "boots": activity.BOOTS,
    "servers": activity.SERVERS,
    "watched": activity.WATCHED,
    "events": activity.EVENTS,
    "refusals": activity.REFUSALS,
    "storms": activity.STORMS,
    "leases": activity.LEASES,
    "sessions": activity.SESSIONS,
    "counted": activity.COUNTED,
    "extents": activity.EXTENTS,
    "concurrency": activity.CONCURRENCY,
    "talkers": activity.TALKERS,
    "identities": activity.IDENTITIES,
    "link_steps": activity.LINK_STEPS,
    "links": activity.LINKS,
    "mentions": services.MENTIONS,
    "numbered": services.NUMBERED,
    "spans": services.SPANS,
    "provided": services.PROVIDED,
    "uptimes": services.UPTIMES,
    "up": services.UP,
    "known": services.KNOWN,
    "held": services.HELD,
    "services": services.SERVICES,
    "orphans": services.ORPHANS,
    "disk_failures": findings.DISK_FAILURES,
    "boots_over": findings.OVER,
    "suspected": findings.SUSPECTED,
    "boot_order": findings.BOOT_ORDER,
    "boot_findings": findings.BOOT_FINDINGS,
    "findings": findings.FINDINGS,
}

_NAMED = Counter(name for query in RECIPES.values() for name in re.findall(r"@(\w+)", query))


def make_tables(facts: Path, place: Path, since: int | None, until: int | None) -> None:
    """Write every table that is published, as Parquet, into directories of their names.

    :param facts: the directory of :mod:`bussrv.audit.reading.gather`.
    :param since, until: the period, UTC microseconds.
    """
    with closing(Database(place / "scratch")) as database, ThreadPoolExecutor(AT_ONCE) as pool:
        names = (name for name in define(database, facts, since, until) if name in PUBLISHED)
        for written in [pool.submit(_write, database, name, place / name) for name in names]:
            written.result()


def recipe(name: str, since: int | None, until: int | None) -> str:
    """The query of a table.

    :param since, until: the period, UTC microseconds.
    """
    begin, end = (-ALWAYS if since is None else since), (ALWAYS if until is None else until)
    return RECIPES[name].replace(":since", str(begin)).replace(":until", str(end))


def define(database: Database, facts: Path, since: int | None, until: int | None) -> Iterator[str]:
    """Make every table known to a database. Those that several others are made of are computed on the way.

    :returns: the name of each table, as soon as it is known.
    """
    for name in FROM_FACTS:
        database.add_files(name, f"{literal(str(facts))}/*/{name.removeprefix('fact_')}.parquet")
        yield name
    for name in RECIPES:
        make = database.make if _NAMED[name] > 1 else database.define
        make(name, recipe(name, since, until))
        yield name


def _write(database: Database, name: str, place: Path) -> None:
    place.mkdir()
    partitioned = PARTITIONED if "date" in database.columns(name) else ()
    if partitioned:
        database.write(name, place, partitioned)
    if not any(place.iterdir()):
        database.write(name, place / FILE)
