"""What happened and what to do, in sentences. No heading holds a name that a stranger chose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bussrv.incidents.amounts import length, many
from bussrv.incidents.judging import Incident, weight_of
from bussrv.incidents.vocabulary import LOGIN

NEXT = {
    "guessing": "Find out whether one of these addresses logged in later, and have the user choose another secret.",
    "logins": "Find out whether a login from there succeeded, and which program tries.",
    "address": "Find out which program runs there, and why it comes back that often.",
    "crash": "Look for the reason in the log of the server, before that time.",
    "identity": "Find out which of these clients should have the id.",
    "takeover": "A server gives a session back to its own user only. Find out who could change its records.",
    "outage": "The history says which client left, and why.",
    "witness": "Look at the witness, and at the network. If it has cosigned more records, or another history, the "
    "journal was cut, rolled back or rewritten: keep it as it is, and verify it with `--witness-key`.",
    "link": "`bussrv links` says since when and why. Look at the other server, and at the network.",
    "clock": "Have all servers take the time from one source. Until then, times of their records differ.",
}
"""What to do, by kind."""

OVER = "that is over"
"""Is said of a condition that does not last, since the sentence about it is one of the time when it did."""

CLOCK_SET = ("trouble", "clock")
"""The condition that lasts for no time."""

KINDS = (*NEXT, "trouble")
"""Every kind of a running server, as :func:`kind_of` says it."""

NAMES = {
    "guessing": ("user whose secret was guessed at", "users whose secrets were guessed at"),
    "address": ("address that was refused or reconnected", "addresses that were refused or reconnected"),
    "crash": ("server that crashed", "servers that crashed"),
    "identity": ("contested routing id", "contested routing ids"),
    "takeover": ("session that another user took over", "sessions that other users took over"),
    "outage": ("service that was down", "services that were down"),
    "witness": ("witness that did not cosign", "witnesses that did not cosign"),
    "link": ("link to another server that was lost", "links to other servers that were lost"),
    "clock": ("other server with another time", "other servers with another time"),
    "trouble": ("trouble of the server", "troubles of the server"),
}
"""One and several of a kind."""

_TITLES = {
    "guessing": "Several addresses failed to log in as one user",
    "crash": "The server crashed",
    "identity": "Several sessions had one routing id at the same time",
    "takeover": "Another user took over a session",
    "clock": "The clock of another server differs",
    "witness": "A witness does not cosign the journal",
}

_TROUBLES = {
    "journal": ("The journal cannot be written", "Look at the disk of the journal, and at the log of the server."),
    "disk": ("The disk is nearly full", "Make room on the volume of the journal. Clients are refused until then."),
    "shipping": ("Segments are not shipped", "Look at the shipper: `bussrv journal ship` says what is wrong."),
    "spool": ("Nothing more is kept for sessions that are away", "Look at the disk of the spool."),
    "reload": ("The last reload failed", "`bussrv check` names the faults of the configuration. Then reload."),
    "certificates": ("A certificate is about to expire", "Replace the file of the certificate, and reload."),
    "connections": ("No descriptors are left", "Raise the limit of open files of the server, or lower its sessions."),
    "limits": (
        "Clients are refused, although they are within their limits",
        "See who takes the room, or raise them.",
    ),
    "clock": ("The clock of this machine was set", "Find out who set it. Times of records before and after differ."),
}
"""The heading of a trouble, and what to do, by the name of its check."""

_OTHER_TROUBLE = ("A check of the server failed", "`bussrv health` says which one, and why.")


def kind_of(incident: Incident) -> str:
    """The kind of an incident, where failed logins of an address differ from its refusals."""
    return "logins" if incident.what == "address" and LOGIN in incident.kinds else incident.what


def title(incident: Incident) -> str:
    """The heading of an incident that is about no finding. It holds no name."""
    if incident.what == "trouble":
        return _TROUBLES.get(incident.subject or "", _OTHER_TROUBLE)[0]
    if incident.what == "outage":
        return f"A service was down for {length(incident.seconds)}"
    if incident.what == "address":
        if LOGIN in incident.kinds:
            return "An address failed to log in again and again"
        return "An address was refused again and again" if incident.kinds else "An address reconnected again and again"
    if incident.what == "link":
        if not incident.number:
            return "Objects of another server were lost"
        return f"A link to another server {'is' if incident.lasts else 'was'} lost"
    return _TITLES.get(incident.what, incident.what)


def what_happened(incident: Incident) -> str:
    """The numbers."""
    number, others = incident.number, incident.others
    storm = f"{many(others, 'session')} in a reconnect storm" if others else ""
    over = "" if incident.lasts else OVER
    return {
        "guessing": f"{many(number, 'failed login')} from {many(others, 'address', 'addresses')}",
        "address": ", ".join(filter(None, (_refusals(incident) if number else "", storm))),
        "crash": f"{many(number, 'crash', 'crashes')}; down for {length(incident.seconds)} at most",
        "identity": f"{many(others, 'session')}, {many(number, 'overlap')}",
        "takeover": f"{many(number, 'return')} of another user",
        "outage": ("the only outage" if number == 1 else f"the longest of {many(number, 'outage')}")
        + " after a lost provider"
        + ("; still down at the last record" if incident.lasts else ""),
        "witness": f"{many(number, 'refusal')}; "
        + ("not cosigned since" if incident.lasts else "cosigned again")
        + (f": {incident.detail}" if incident.detail else ""),
        "link": _link(incident),
        "clock": _said(incident.detail, over),
        "trouble": _said(incident.detail, "" if (incident.what, incident.subject) == CLOCK_SET else over),
    }.get(incident.what, "")


def _refusals(incident: Incident) -> str:
    if incident.kinds == (LOGIN,):
        return many(incident.number, "failed login")
    return f"{many(incident.number, 'refusal')} ({', '.join(incident.kinds)})"


def _link(incident: Incident) -> str:
    times = f"{many(incident.number, 'loss', 'losses')}" if incident.number > 1 else ""
    objects = f"at least {many(incident.others, 'object')} lost" if incident.others else ""
    over = OVER if incident.number and not incident.lasts else ""
    return _said(incident.detail, times, objects, over)


def _said(*parts: str | None) -> str:
    return "; ".join(filter(None, parts))


def what_to_do(incident: Incident) -> str:
    """What to do next."""
    if incident.what == "trouble":
        return _TROUBLES.get(incident.subject or "", _OTHER_TROUBLE)[1]
    return NEXT[kind_of(incident)]


def of_kinds(numbers: Mapping[str, int]) -> str:
    """How many incidents there are of each kind."""
    return ", ".join(many(number, *NAMES[what]) for what, number in numbers.items())


WELL = "Nothing needs a look."


def verdict(incidents: Sequence[Incident]) -> str:
    """The verdict on a server, in a sentence without names.

    :param incidents: those that nobody took note of.
    """
    if not incidents:
        return WELL
    worst = max(incidents, key=lambda each: (weight_of(each), each.number))
    said = title(worst).replace("\N{NO-BREAK SPACE}", " ")
    if len(incidents) == 1:
        return f"One incident needs a look: {said[:1].lower()}{said[1:]}."
    return f"{len(incidents)} incidents need a look. The worst: {said[:1].lower()}{said[1:]}."
