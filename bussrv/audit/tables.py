"""All tables of an audit, each made once and kept, in an order in which each finds what it is made from."""

from __future__ import annotations

from pyspark.sql import DataFrame

from bussrv.audit import activity, boots, consistency, leases, links, trouble
from bussrv.audit.findings import union
from bussrv.audit.ingest import Ingested
from bussrv.audit.period import Period
from bussrv.audit.progress import Progress
from bussrv.audit.store import Store

PARTITIONED = ("date", "protocol")
"""What the largest tables have a directory for each value of."""


def make_tables(read: Ingested, period: Period, store: Store, progress: Progress) -> dict[str, DataFrame]:
    """Every table, by name.

    :param period: what it is to be about. Findings about segments and lines are not left out, whenever that was.
    """
    records = read.records.where(period.is_not_over(read.records.moment))
    tables = {"segments": store.keep("segments", read.segments.coalesce(1))}

    def keep(name: str, table: DataFrame) -> None:
        by = [column for column in PARTITIONED if column in table.columns] if "date" in table.columns else []
        with progress.phase(name):
            tables[name] = store.keep(name, table, by)

    keep("boots", boots.boots(records))
    keep("servers", boots.servers(tables["boots"]))
    keep("events", trouble.events(records, period))
    keep("sessions", activity.sessions(activity.session_histories(records)))
    servers = tables["servers"].withColumn("last_time", tables["servers"].last_moment)
    keep("services", activity.services(store.keep("provisions", activity.provisions(records)), servers))
    keep("refusals", trouble.refusals(records, period))
    keep("storms", trouble.storms(records, period))
    keep("links", links.links(records, tables["boots"], period))
    keep("leases", leases.leases(records, period))
    found = [*read.findings, *consistency.findings(records, tables["boots"], period)]
    keep("findings", union(found).coalesce(1))
    return tables
