"""What kinds of findings, events and reasons mean, for people who did not write the server."""

from __future__ import annotations

from bussrv.errors import REASONS

SEVERITIES: dict[str, tuple[str, str]] = {
    "error": ("Errors", "Something is damaged, missing or contradicts itself: what stands there cannot be relied on."),
    "warning": ("Warnings", "Something that should not be, though the journals can still be relied on."),
    "notice": ("Notices", "Worth knowing, and harmless: notices alone leave the verdict clean."),
}

KINDS: dict[str, tuple[str, str]] = {
    "bad-line": (
        "A line that is no record",
        (
            "A line of the journal cannot be read as what it should be. It may have been damaged by a disk, or "
            "changed by hand. What it said is lost to the audit."
        ),
    ),
    "unreadable-segment": (
        "A file that cannot be unpacked",
        "A compressed segment is damaged, so nothing of what it holds could be looked at.",
    ),
    "broken-chain": (
        "The chain of records is broken",
        (
            "Each line holds the hash of the line before it. Here one does not: one of the two was changed, or "
            "lines were put in or taken out between them."
        ),
    ),
    "broken-link": (
        "A segment does not fit the one before it",
        (
            "Each segment says how long the one before it was and what its digest is. That does not agree here: a "
            "file was changed, exchanged or removed."
        ),
    ),
    "broken-seal": (
        "A segment is not what its seal says",
        "What stands in the file is not what was sealed: it was changed afterwards, or the seal was.",
    ),
    "bad-manifest": (
        "The list of seals is damaged",
        (
            "The manifest, which holds the seals, cannot be read or does not agree with itself. Seals behind that "
            "place prove nothing."
        ),
    ),
    "segment-missing": (
        "A segment is missing",
        (
            "The seals tell of a file that is not there, and nothing says that it was removed because of its age "
            "or size."
        ),
    ),
    "journal-salvaged": (
        "The journal was repaired",
        (
            "The server found damage, and somebody told it to go on behind that. What stood in the damaged part "
            "may be lost."
        ),
    ),
    "seq-gap": (
        "Records are missing",
        "Records are numbered without gaps. Here numbers are missing, so records were lost or taken out.",
    ),
    "seq-duplicate": (
        "A number was used twice",
        "More than one record has the same number. Two servers wrote to one journal, or a record was put in.",
    ),
    "torn-tail": (
        "The last record is unfinished",
        (
            "The journal ends in the middle of a record. A crash leaves that, or a server that is writing right "
            "now. The server never confirmed such a record to anybody."
        ),
    ),
    "session-opened-twice": (
        "A session began twice",
        "A session begins once. Here more than one record says so.",
    ),
    "session-never-closed": (
        "A session has no end",
        ("The run of the server that the session belongs to is over, but nothing says how and when the session ended."),
    ),
    "session-closed-twice": (
        "A session ended twice",
        "A session ends once. Here more than one record says so, and how long it lasted is in doubt.",
    ),
    "session-closed-unopened": (
        "A session ended that never began",
        "Nothing says when it began, who it was and where it came from.",
    ),
    "session-record-before-opening": (
        "Something happened before the session began",
        "A record tells of a session that had not begun by then.",
    ),
    "session-record-after-end": (
        "Something happened after the session had ended",
        "A record tells of a session that was over by then.",
    ),
    "session-miscounted": (
        "What a session sent and received does not add up",
        "The numbers in the record of its end cannot be right.",
    ),
    "session-duration-wrong": (
        "How long a session lasted does not add up",
        "The record of its end says another length than there is between its beginning and its end.",
    ),
    "boot-not-started": (
        "A run of the server has no beginning",
        "Records of a run are there, but not the one that says that the server started.",
    ),
    "boot-started-twice": (
        "A run of the server began twice",
        "A run begins once. Here more than one record says so.",
    ),
    "boot-interleaved": (
        "Two runs of a server overlap",
        "Records of one run stand between those of another, as if two servers had written to one journal.",
    ),
    "boot-record-after-stop": (
        "Something happened after the server had stopped",
        "The record that says that the server stopped is the last one of a run. Here others follow.",
    ),
    "boot-not-recovered": (
        "A crash that the server did not notice",
        "A run ended without a word, and the next one does not say that it found that.",
    ),
    "boot-miscounted": (
        "What a crash left behind does not add up",
        "When the server came back it said how many sessions the crash had left open. It was another number.",
    ),
    "boot-recovered-after-stop": (
        "A crash was noticed where there was none",
        "The run before ended in an orderly way. A start that was broken off very early leaves this behind.",
    ),
    "clock-backwards": (
        "The clock inside the server ran backwards",
        (
            "The monotonic clock of a run only ever goes forward. Here a later record has an earlier time: "
            "records were moved or changed."
        ),
    ),
    "time-backwards": (
        "The time of day ran backwards",
        (
            "A later record has an earlier time. Somebody set the clock of the machine back, or records were "
            "changed. How long things lasted is in doubt there."
        ),
    ),
    "service-not-registered": (
        "A service ended that was not provided",
        "A session stopped to provide a service that it did not provide according to the journal.",
    ),
    "service-registered-twice": (
        "A service was registered twice",
        "A session began to provide a service that it provided already according to the journal.",
    ),
    "service-never-unregistered": (
        "A service has no end",
        "The session that provided the service is over, but nothing says that the service ended with it.",
    ),
    "subscription-not-added": (
        "A subscription ended that never began",
        "A session no longer wants, or still wants, what it never wanted according to the journal.",
    ),
    "subscription-added-twice": (
        "A subscription was made twice",
        "A session began to want what it wanted already according to the journal.",
    ),
}
"""Kind: a title and what it means. Kinds that are not here are shown by their name."""

EVENTS: dict[str, str] = {
    "server.started": "the server started",
    "server.stopped": "the server stopped in an orderly way",
    "server.recovered": "the server found that it had crashed",
    "session.opened": "a client came",
    "session.identified": "a client said who it is",
    "session.closed": "a client went",
    "service.registered": "somebody began to provide a service",
    "service.unregistered": "somebody stopped providing a service",
    "service.refused": "somebody may not provide a service",
    "subscription.added": "somebody wants a service or messages",
    "subscription.removed": "somebody wants them no longer",
    "subscription.renewed": "somebody still wants them",
    "subscription.refused": "a subscription was refused",
    "auth.succeeded": "somebody proved who they are",
    "auth.failed": "somebody could not prove who they are",
    "limit.reached": "a limit was hit",
    "link.up": "a link to another server came up",
    "link.down": "a link to another server was lost",
    "config.reloaded": "the configuration was read again",
    "journal.degraded": "the journal could not be written",
    "journal.restored": "the journal could be written again",
    "journal.salvaged": "the journal was repaired",
    "journal.pruned": "an old segment was removed, as configured",
}


def kind(code: str) -> tuple[str, str]:
    """Title and meaning of a kind of finding."""
    return KINDS.get(code) or (code.replace("-", " ").capitalize() or "(no kind)", "")


def reason(code: str | None) -> str:
    """What a reason means; empty if nobody knows."""
    return REASONS.get(code or "", "")


def event(code: str) -> str:
    """What an event means; empty if nobody knows."""
    return EVENTS.get(code, "")
