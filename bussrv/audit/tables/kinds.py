"""The tables of an audit, the kinds of findings and their severities. Importing this does not import Spark."""

from __future__ import annotations

from bussrv.journal.evidence import findings as evidence

SEVERITIES = ("error", "warning", "notice")
"""From worst to harmless. Notices alone leave a journal clean."""

KINDS: dict[str, str] = {
    # Damage to the journal.
    **evidence.SEVERITIES,
    # Contradictions between records.
    "session-opened-twice": "error",
    "session-never-closed": "error",
    "session-closed-twice": "error",
    "session-closed-unopened": "error",
    "session-record-before-opening": "error",
    "session-record-after-end": "error",
    "session-miscounted": "error",
    "session-duration-wrong": "error",
    "boot-not-started": "error",
    "boot-started-twice": "error",
    "boot-interleaved": "error",
    "boot-record-after-stop": "error",
    "boot-not-recovered": "error",
    "boot-miscounted": "error",
    "clock-backwards": "error",
    # Such a record does not change the registry.
    "service-not-registered": "warning",
    "service-registered-twice": "warning",
    "service-never-unregistered": "warning",
    "subscription-not-added": "warning",
    "subscription-added-twice": "warning",
    # Setting the clock of the machine causes this as well.
    "time-backwards": "warning",
    # A start that was aborted before its first record causes this.
    "boot-recovered-after-stop": "notice",
}
"""Every kind of finding, and its severity."""

PUBLISHED = (
    *("findings", "segments", "boots", "servers", "sessions", "concurrency", "services", "uptimes", "orphans"),
    *("events", "refusals", "links", "leases", "talkers", "identities", "storms"),
)
"""The tables that an audit publishes."""

PARTITIONED = ("date", "protocol")
"""The largest tables have a directory for each value of these columns."""

MOMENTS = frozenset(
    {"first_moment", "last_moment", "opened", "closed", "moment", "first_registered", "last_registered", "begin",
     "end", "added", "renewed", "expired"}
)  # fmt: skip
"""The columns that are times."""
