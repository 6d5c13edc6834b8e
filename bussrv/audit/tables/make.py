"""The recipes of all tables of an audit. Each table is made once, and kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from pyspark.sql import DataFrame

from bussrv.audit.activity import boots, concurrency, leases, links, services, sessions, trouble
from bussrv.audit.activity import talkers as traffic
from bussrv.audit.consistency import rules as consistency
from bussrv.audit.reading.ingest import Ingested
from bussrv.audit.spark.store import Store
from bussrv.audit.tables.findings import union
from bussrv.audit.tables.kinds import PARTITIONED
from bussrv.audit.tables.period import Period

AT_ONCE = 4
"""The most tables made at the same time. For small ones, planning takes longest."""

_Make = Callable[..., DataFrame]


def make_tables(read: Ingested, period: Period, store: Store) -> dict[str, DataFrame]:
    """Every table, by name.

    :param period: the time that the tables are about. Findings about segments and lines are never left out.
    """
    records = read.records.where(period.is_not_over(read.records.moment))

    def findings(boots: DataFrame) -> DataFrame:
        return union([*read.findings, *consistency.findings(records, boots, period)]).coalesce(1)

    recipes: dict[str, tuple[_Make, Sequence[str]]] = {
        "segments": (lambda: read.segments.coalesce(1), ()),
        "boots": (lambda: boots.boots(records), ()),
        "servers": (boots.servers, ["boots"]),
        "events": (lambda: trouble.events(records, period), ()),
        "sessions": (lambda: sessions.sessions(records, period), ()),
        "spans": (lambda servers: services.spans(records, servers, period), ["servers"]),
        "findings": (findings, ["boots"]),
        "refusals": (lambda: trouble.refusals(records, period), ()),
        "storms": (lambda: trouble.storms(records, period), ()),
        "leases": (lambda: leases.leases(records, period), ()),
        "links": (lambda boots: links.links(records, boots, period), ["boots"]),
        "uptimes": (services.uptimes, ["spans"]),
        "services": (
            lambda spans, uptimes, servers: services.services(records, spans, uptimes, servers, period),
            ["spans", "uptimes", "servers"],
        ),
        "orphans": (services.orphans, ["spans", "uptimes"]),
        "concurrency": (
            lambda sessions, servers: concurrency.concurrency(sessions, servers, period),
            ["sessions", "servers"],
        ),
        "talkers": (traffic.talkers, ["sessions"]),
        "identities": (traffic.identities, ["sessions"]),
    }
    return _made(recipes, store)


def _made(recipes: Mapping[str, tuple[_Make, Sequence[str]]], store: Store) -> dict[str, DataFrame]:
    """Make the tables, some at a time.

    :param recipes: how to make each table, and from which others. Those come before it, so that they are begun first.
    """
    made: dict[str, Future[DataFrame]] = {}

    def make(name: str) -> DataFrame:
        recipe, of = recipes[name]
        table = recipe(*[made[each].result() for each in of])
        return store.keep(name, table, PARTITIONED if "date" in table.columns else ())

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for name in recipes:
            made[name] = pool.submit(make, name)
    return {name: future.result() for name, future in made.items()}
