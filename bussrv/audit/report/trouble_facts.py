"""Facts about refusals, failed logins, reconnect storms, links, leases, and the events."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.report.model import Attacked, Identity, Lease, Link, Listing, Recorded, Refusal, Refused, Storm
from bussrv.audit.report.questions import Question, Tables, first, listing, most_of, total

MOST_EVENTS = 40


def _moments() -> tuple[Column, Column]:
    return F.min("first_moment").alias("first_moment"), F.max("last_moment").alias("last_moment")


def _numbers() -> tuple[Column, ...]:
    counts = (F.coalesce(F.sum("records"), F.lit(0)).alias("number"), total("suppressed"))
    return (*counts, *_moments())


def _by_number() -> Column:
    return (F.col("number") + F.col("suppressed")).desc()


def refusals(tables: Tables) -> Question[Listing[Refusal]]:
    """Refusals, failed logins and limits, by event and reason."""
    by_reason = tables["refusals"].groupBy("event", "reason", "limit").agg(*_numbers())
    return listing(by_reason, Refusal, _by_number(), *first("event", "reason", "limit"))


def refused(tables: Tables) -> Question[Listing[Refused]]:
    """The same by address."""
    names = F.count_distinct(F.coalesce("actor", "claimed")).alias("actors")
    by_address = tables["refusals"].groupBy("address").agg(*_numbers(), names)
    return listing(by_address, Refused, _by_number(), *first("address"))


def attacked(tables: Tables) -> Question[Listing[Attacked]]:
    """The users with failed logins, those with most first."""
    sources = F.count_distinct("address").alias("sources"), F.array_sort(F.collect_set("address")).alias("addresses")
    tried = tables["refusals"].where(F.col("event") == "auth.failed").groupBy("claimed").agg(*_numbers(), *sources)
    return listing(tried, Attacked, _by_number(), *first("claimed"))


def storms(tables: Tables) -> Question[Listing[Storm]]:
    """Addresses that reconnected too often, the worst first."""
    return listing(
        tables["storms"], Storm, most_of("openings"), *first("begin", "server", "protocol", "address", "end")
    )


def identities(tables: Tables) -> Question[Listing[Identity]]:
    """Routing ids that several sessions had at the same time."""
    return listing(tables["identities"], Identity, most_of("overlaps"), *first("server", "routing_id"))


def links(tables: Tables) -> Question[Listing[Link]]:
    """Links to other servers, those lost most often first."""
    worst = F.col("availability").asc_nulls_last()
    return listing(tables["links"], Link, most_of("downs"), worst, *first("server", "neighbour"))


def leases(tables: Tables) -> Question[Listing[Lease]]:
    """Leases that ran out, the latest first."""
    return listing(tables["leases"], Lease, most_of("expired"), *first("server", "session", "service", "added"))


def events(tables: Tables) -> Question[Listing[Recorded]]:
    """The number of records of each event."""
    counts = tables["events"].groupBy("event", "outcome").agg(total("records"), total("suppressed"))
    return listing(counts, Recorded, *first("event", "outcome"), most=MOST_EVENTS)
