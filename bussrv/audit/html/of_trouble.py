"""What was refused, who came back too often, and what was lost."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from bussrv.audit.html.asking import Tables, first, listing, most_of, total
from bussrv.audit.html.model import Identity, Lease, Link, Listing, Recorded, Refusal, Refused, Storm
from bussrv.audit.questions import Question

MOST_EVENTS = 40


def _moments() -> tuple[Column, Column]:
    return F.min("first_moment").alias("first_moment"), F.max("last_moment").alias("last_moment")


def _numbers() -> tuple[Column, ...]:
    counts = (F.coalesce(F.sum("records"), F.lit(0)).alias("number"), total("suppressed"))
    return (*counts, *_moments())


def _by_number() -> Column:
    return (F.col("number") + F.col("suppressed")).desc()


def refusals(tables: Tables) -> Question[Listing[Refusal]]:
    """What was refused, and why."""
    by_reason = tables["refusals"].groupBy("event", "reason", "limit").agg(*_numbers())
    return listing(by_reason, Refusal, _by_number(), *first("event", "reason", "limit"))


def refused(tables: Tables) -> Question[Listing[Refused]]:
    """Who was refused something, by address."""
    by_address = tables["refusals"].groupBy("address").agg(*_numbers(), F.count_distinct("actor").alias("actors"))
    return listing(by_address, Refused, _by_number(), *first("address"))


def storms(tables: Tables) -> Question[Listing[Storm]]:
    """Addresses that connected again and again, the worst first."""
    return listing(
        tables["storms"], Storm, most_of("openings"), *first("begin", "server", "protocol", "address", "end")
    )


def identities(tables: Tables) -> Question[Listing[Identity]]:
    """Routing ids that several sessions held at the same time."""
    return listing(tables["identities"], Identity, most_of("overlaps"), *first("server", "routing_id"))


def links(tables: Tables) -> Question[Listing[Link]]:
    """Links to other servers, those that were lost most often first."""
    worst = F.col("availability").asc_nulls_last()
    return listing(tables["links"], Link, most_of("downs"), worst, *first("server", "neighbour"))


def leases(tables: Tables) -> Question[Listing[Lease]]:
    """Leases that ran out, the latest first."""
    return listing(tables["leases"], Lease, most_of("expired"), *first("server", "session", "service", "added"))


def events(tables: Tables) -> Question[Listing[Recorded]]:
    """How many records there are of each event."""
    counts = tables["events"].groupBy("event", "outcome").agg(total("records"), total("suppressed"))
    return listing(counts, Recorded, *first("event", "outcome"), most=MOST_EVENTS)
