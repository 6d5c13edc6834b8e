"""Kinds of findings, events and reasons, explained to people who did not write the server."""

from __future__ import annotations

from bussrv.errors import REASONS

SEVERITIES: dict[str, tuple[str, str]] = {
    "error": ("Errors", "Something is damaged, missing or contradictory. Do not rely on the affected records."),
    "warning": ("Warnings", "Something is wrong, but the journals can still be relied on."),
    "notice": ("Notices", "Worth knowing, and harmless. Notices alone leave the verdict clean."),
}

KINDS: dict[str, tuple[str, str]] = {
    "bad-line": (
        "A line is not a record",
        "A line of the journal cannot be read. A disk may have damaged it, or somebody edited it. Its content is lost.",
    ),
    "unreadable-segment": (
        "A file cannot be decompressed",
        "A compressed segment is damaged, so none of its records could be checked.",
    ),
    "broken-chain": (
        "The chain of records is broken",
        (
            "Each line holds the hash of the line before it. This one does not: one of the two was changed, or lines "
            "were inserted or removed between them."
        ),
    ),
    "broken-link": (
        "A segment does not fit the one before it",
        (
            "Each segment states the size and the digest of the one before it. They differ here: a file was changed, "
            "replaced or removed."
        ),
    ),
    "broken-snapshot": (
        "A segment begins with another registry",
        (
            "Each segment begins with a snapshot of the registry. This one is not what the segment before adds up to: "
            "the snapshot was changed, or records were, and the chain was made to fit."
        ),
    ),
    "broken-seal": (
        "A segment does not match its seal",
        "The file differs from what was sealed. The file was changed later, or the seal was.",
    ),
    "bad-manifest": (
        "The list of seals is damaged",
        "The manifest, which holds the seals, is unreadable or inconsistent. Seals after that place prove nothing.",
    ),
    "segment-missing": (
        "A segment is missing",
        "The seals name a file that is not there, and no record says that it was removed because of its age or size.",
    ),
    "journal-salvaged": (
        "The journal was repaired",
        (
            "The server found damage, and an operator told it to continue after it. Records in the damaged part may be "
            "lost."
        ),
    ),
    "seq-gap": (
        "Records are missing",
        "Records are numbered without gaps. Numbers are missing here: records were lost or removed.",
    ),
    "seq-duplicate": (
        "A number was used twice",
        "Several records have the same number. Two servers wrote to one journal, or a record was inserted.",
    ),
    "torn-tail": (
        "The last record is unfinished",
        (
            "The journal ends in the middle of a record. The server crashed, or is writing at this moment. It never "
            "confirmed such a record to any client."
        ),
    ),
    "session-opened-twice": (
        "A session was opened twice",
        "A session is opened once. Several records open this one.",
    ),
    "session-never-closed": (
        "A session was never closed",
        "The boot of the session is over, but no record says how and when the session ended.",
    ),
    "session-closed-twice": (
        "A session was closed twice",
        "A session is closed once. Several records close this one, so its duration is in doubt.",
    ),
    "session-closed-unopened": (
        "A session was closed that was never opened",
        "No record says when the session was opened, by which client, and from which address.",
    ),
    "session-record-before-opening": (
        "A record comes before the opening of its session",
        "A record concerns a session that was not open yet.",
    ),
    "session-record-after-end": (
        "A record comes after the end of its session",
        "A record concerns a session that was closed before.",
    ),
    "session-miscounted": (
        "The traffic of a session does not add up",
        "The numbers in the closing record cannot be right.",
    ),
    "session-duration-wrong": (
        "The duration of a session does not add up",
        "The duration in the closing record differs from the time between opening and closing.",
    ),
    "boot-not-started": (
        "A boot has no beginning",
        "There are records of a boot, but none that says that the server started.",
    ),
    "boot-started-twice": (
        "A boot began twice",
        "A boot begins once. Several records begin this one.",
    ),
    "boot-interleaved": (
        "Two boots of a server overlap",
        "Records of one boot are between those of another, as if two servers had written to one journal.",
    ),
    "boot-record-after-stop": (
        "A record comes after the stop of the server",
        "The record that says that the server stopped is the last one of a boot. Others follow here.",
    ),
    "boot-not-recovered": (
        "The server did not notice a crash",
        "A boot ended without a stop, and the next one does not say that it found that.",
    ),
    "boot-miscounted": (
        "The sessions that a crash left open do not add up",
        "After the crash the server stated how many sessions were left open. It was another number.",
    ),
    "boot-recovered-after-stop": (
        "The server noticed a crash that did not happen",
        "The boot before was stopped properly. A start that is aborted very early causes this.",
    ),
    "clock-backwards": (
        "The monotonic clock ran backwards",
        (
            "The monotonic clock of a boot never runs backwards. A later record has an earlier time here: records were "
            "moved or changed."
        ),
    ),
    "time-backwards": (
        "The time of day ran backwards",
        (
            "A later record has an earlier time. Somebody set back the clock of the machine, or records were changed. "
            "Durations are in doubt there."
        ),
    ),
    "service-not-registered": (
        "A service ended that was not provided",
        "A session stopped providing a service that it did not provide according to the journal.",
    ),
    "service-registered-twice": (
        "A service was registered twice",
        "A session began to provide a service that it provided already according to the journal.",
    ),
    "service-never-unregistered": (
        "A service was never unregistered",
        "The session that provided the service is closed, but no record says that the service ended with it.",
    ),
    "subscription-not-added": (
        "A subscription ended or was renewed that never began",
        "A session ended or renewed a subscription that it did not have according to the journal.",
    ),
    "subscription-added-twice": (
        "A subscription was added twice",
        "A session added a subscription that it had already according to the journal.",
    ),
}
"""The title and the meaning of each kind of finding. Other kinds are shown by their name."""

EVENTS: dict[str, str] = {
    "server.started": "the server started",
    "server.stopped": "the server was stopped",
    "server.recovered": "the server found that it had crashed",
    "session.opened": "a session was opened",
    "session.identified": "a client stated its names",
    "session.closed": "a session was closed",
    "service.registered": "a client began to provide a service",
    "service.unregistered": "a client stopped providing a service",
    "service.refused": "a client was refused to provide a service",
    "subscription.added": "a client subscribed",
    "subscription.removed": "a subscription ended",
    "subscription.renewed": "a client renewed a subscription",
    "subscription.refused": "a subscription was refused",
    "auth.succeeded": "a login succeeded",
    "auth.failed": "a login failed",
    "access.denied": "the policy did not allow something to a client",
    "limit.reached": "a limit was reached",
    "link.up": "a link to another server was established",
    "link.down": "a link to another server was lost",
    "config.reloaded": "the configuration was reloaded",
    "config.reload-failed": "the configuration could not be reloaded, so nothing changed",
    "admin.action": "an operator did something through the admin interface",
    "journal.degraded": "the journal could not be written",
    "journal.restored": "the journal could be written again",
    "journal.salvaged": "the journal was repaired",
    "journal.pruned": "an old segment was removed, as configured",
}


def kind(code: str) -> tuple[str, str]:
    """The title and the meaning of a kind of finding."""
    return KINDS.get(code) or (code.replace("-", " ").capitalize() or "(no kind)", "")


def reason(code: str | None) -> str:
    """The meaning of a reason; empty if it is not known."""
    return REASONS.get(code or "", "")


def event(code: str) -> str:
    """The meaning of an event; empty if it is not known."""
    return EVENTS.get(code, "")
