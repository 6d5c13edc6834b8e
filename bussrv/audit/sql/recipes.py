"""All tables of an audit, in an order in which each is made from those before it and from facts."""

from __future__ import annotations

from bussrv.audit.fold.facts import FACTS
from bussrv.audit.sql import activity, findings, services

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
    "extents": activity.EXTENTS,
    "concurrency": activity.CONCURRENCY,
    "talkers": activity.TALKERS,
    "identities": activity.IDENTITIES,
    "link_steps": activity.LINK_STEPS,
    "links": activity.LINKS,
    "mentions": services.MENTIONS,
    "spans": services.SPANS,
    "uptimes": services.UPTIMES,
    "known_times": services.KNOWN_TIMES,
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


def recipe(name: str, since: int | None, until: int | None) -> str:
    """The query of a table.

    :param since, until: the period, UTC microseconds.
    """
    begin, end = (-ALWAYS if since is None else since), (ALWAYS if until is None else until)
    return RECIPES[name].replace(":since", str(begin)).replace(":until", str(end))
