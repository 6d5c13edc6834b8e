"""The kinds of findings, how severe they are, and what they mean to people who did not write the server; and the
meanings of events and reasons. Importing this imports neither Spark nor PyArrow.
"""

from __future__ import annotations

from bussrv.errors import REASONS
from bussrv.journal.evidence import findings as evidence

SEVERITIES = ("error", "warning", "notice")
"""From worst to harmless. Notices alone leave a journal intact."""

INCIDENT = "incident"
"""Something that somebody should look at, and no finding about a journal: an attack, a crash, an outage."""

HEADINGS: dict[str, tuple[str, str]] = {
    "error": ("Errors", "Something is damaged, missing or contradictory. Do not rely on the affected records."),
    "warning": ("Warnings", "Something is wrong, but the journals can still be relied on."),
    "notice": ("Notices", "Worth knowing, and harmless. With notices alone a journal is intact."),
}
"""The heading of the findings of each severity, and what they have in common."""

# Damage to the journal. The judge says how severe it is.
_OF_JOURNALS = {
    "bad-line": (
        "A line is not a record",
        "A line of the journal cannot be read. A disk may have damaged it, or somebody edited it. Its content is lost.",
    ),
    "unreadable-segment": (
        "A segment cannot be read to its end",
        (
            "A compressed segment is damaged, or a segment is larger than any that a server writes. None of its "
            "records could be checked."
        ),
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
    "broken-tree": (
        "A tree is not that of the records",
        (
            "Beside the chain, the records are the leaves of a tree of hashes. A header or a checkpoint has another "
            "tree than the records before it: it was changed, or a faulty server wrote it."
        ),
    ),
    "bad-manifest": (
        "The list of seals is damaged",
        "The manifest, which holds the seals, is unreadable or inconsistent. Seals after that place prove nothing.",
    ),
    "not-witnessed": (
        "Records that no witness cosigned",
        "The witnesses that were named should have cosigned a checkpoint of them. They may be another history.",
    ),
    "other-history": (
        "Another history than the one that was kept",
        "A checkpoint that was kept elsewhere is not of this journal: it was cut off, rolled back or written anew.",
    ),
    "segment-missing": (
        "A segment is missing",
        "The seals name a file that is not there, and no record says that it was removed because of its age or size.",
    ),
    "journal-salvaged": (
        "The journal was repaired",
        (
            "The server found damage, and an operator told it to continue after it. Records in the damaged part may "
            "be lost."
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
}
# Contradictions between records.
_OF_RECORDS = {
    "session-opened-twice": (
        "error",
        "A session was opened twice",
        "A session is opened once. Several records open this one.",
    ),
    "session-never-closed": (
        "error",
        "A session was never closed",
        "The boot of the session is over, but no record says how and when the session ended.",
    ),
    "session-closed-twice": (
        "error",
        "A session was closed twice",
        "A session is closed once. Several records close this one, so its duration is in doubt.",
    ),
    "session-closed-unopened": (
        "error",
        "A session was closed that was never opened",
        "No record says when the session was opened, by which client, and from which address.",
    ),
    "session-record-before-opening": (
        "error",
        "A record comes before the opening of its session",
        "A record concerns a session that was not open yet.",
    ),
    "session-record-after-end": (
        "error",
        "A record comes after the end of its session",
        "A record concerns a session that was closed before.",
    ),
    "session-left-twice": (
        "error",
        "A session left twice",
        "A client that went has to come back before it can go again. No record says that it came back.",
    ),
    "session-resumed-unleft": (
        "error",
        "A session came back that had not left",
        "Only a session that is away can be taken up again. No record says that it left.",
    ),
    "session-changed-while-away": (
        "error",
        "A session changed while it was away",
        "The client of the session was not connected. Nobody could change what it provides or wants in its name.",
    ),
    "session-kept-too-long": (
        "warning",
        "A session was not closed in time",
        (
            "A session that is away is kept until a certain time. The server was running for an hour after that, and "
            "did not close the session. Setting the clock of the machine causes this as well."
        ),
    ),
    "session-miscounted": (
        "error",
        "The traffic of a session does not add up",
        "The numbers in the closing record cannot be right.",
    ),
    "session-duration-wrong": (
        "error",
        "The duration of a session does not add up",
        "The duration in the closing record differs from the time between opening and closing.",
    ),
    "boot-not-started": (
        "error",
        "A boot has no beginning",
        "There are records of a boot, but none that says that the server started.",
    ),
    "boot-started-twice": (
        "error",
        "A boot began twice",
        "A boot begins once. Several records begin this one.",
    ),
    "boot-interleaved": (
        "error",
        "Two boots of a server overlap",
        "Records of one boot are between those of another, as if two servers had written to one journal.",
    ),
    "boot-record-after-stop": (
        "error",
        "A record comes after the stop of the server",
        "The record that says that the server stopped is the last one of a boot. Others follow here.",
    ),
    "boot-not-recovered": (
        "error",
        "The server did not notice a crash",
        "A boot ended without a stop, and the next one does not say that it found that.",
    ),
    "boot-miscounted": (
        "error",
        "The sessions that a crash left open do not add up",
        "After the crash the server stated how many sessions were left open. It was another number.",
    ),
    "clock-backwards": (
        "error",
        "The monotonic clock ran backwards",
        (
            "The monotonic clock of a boot never runs backwards. A later record has an earlier time here: records "
            "were moved or changed."
        ),
    ),
    # These five: such a record does not change the registry.
    "service-not-registered": (
        "warning",
        "A service ended that was not provided",
        "A session stopped providing a service that it did not provide according to the journal.",
    ),
    "service-registered-twice": (
        "warning",
        "A service was registered twice",
        "A session began to provide a service that it provided already according to the journal.",
    ),
    "service-never-unregistered": (
        "warning",
        "A service was never unregistered",
        "The session that provided the service is closed, but no record says that the service ended with it.",
    ),
    "subscription-not-added": (
        "warning",
        "A subscription ended or was renewed that never began",
        "A session ended or renewed a subscription that it did not have according to the journal.",
    ),
    "subscription-added-twice": (
        "warning",
        "A subscription was added twice",
        "A session added a subscription that it had already according to the journal.",
    ),
    # Setting the clock of the machine causes this as well.
    "time-backwards": (
        "warning",
        "The time of day ran backwards",
        (
            "A later record has an earlier time. Somebody set back the clock of the machine, or records were changed. "
            "Durations are in doubt there."
        ),
    ),
    # A start that was aborted before its first record causes this.
    "boot-recovered-after-stop": (
        "notice",
        "The server noticed a crash that did not happen",
        "The boot before was stopped properly. A start that is aborted very early causes this.",
    ),
}

DAMAGE = frozenset(_OF_JOURNALS)
"""The kinds that are about a journal as such."""

KINDS: dict[str, str] = {**evidence.SEVERITIES, **{kind: severity for kind, (severity, *_) in _OF_RECORDS.items()}}
"""Every kind of finding, and its severity."""

MEANINGS = {**_OF_JOURNALS, **{kind: (title, meaning) for kind, (_, title, meaning) in _OF_RECORDS.items()}}
"""The title of each kind, and what it means."""

EVENTS: dict[str, str] = {
    "server.started": "the server started",
    "server.stopped": "the server was stopped",
    "server.recovered": "the server found that it had crashed",
    "session.opened": "a session was opened",
    "session.identified": "a client stated its names",
    "session.left": "a client went, and its session is kept",
    "session.resumed": "a client came back to its session",
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
    "access.used": "what a user published, sent or asked for in an hour",
    "limit.reached": "a limit was reached",
    "link.up": "a link to another server was established",
    "link.down": "a link to another server was lost",
    "link.gap": "objects of another server were lost on their way",
    "link.forgotten": "a link to another server is not missed, since an operator removed or forgot it",
    "link.clock": "the clock of another server was found to differ, or to do so no longer",
    "config.reloaded": "the configuration was reloaded",
    "config.reload-failed": "the configuration could not be reloaded, so nothing changed",
    "admin.action": "an operator did something through the admin interface",
    "incident.acknowledged": "an operator took note of an incident",
    "journal.degraded": "the journal could not be written",
    "journal.restored": "the journal could be written again",
    "journal.salvaged": "the journal was repaired",
    "journal.pruned": "an old segment was removed, as configured",
    "seal.witnessed": "a witness cosigned the checkpoint of a seal",
    "seal.refused": "a witness does not cosign the checkpoint of a seal",
}
"""The meaning of each event."""


def meaning(kind: str) -> tuple[str, str]:
    """The title and the meaning of a kind of finding. Other kinds are shown by their name."""
    return MEANINGS.get(kind) or (kind.replace("-", " ").capitalize() or "(no kind)", "")


def reason(code: str | None) -> str:
    """The meaning of a reason; empty if it is not known."""
    return REASONS.get(code or "", "")


def event(code: str) -> str:
    """The meaning of an event; empty if it is not known."""
    return EVENTS.get(code, "")
