"""``/healthz`` and ``/readyz``: whether the server lives, and whether it should be sent clients.

A server is not ready only if it cannot serve: its ports are not open, it drains, or a journal write has waited too
long. Everything else that is wrong makes it *degraded*: it serves, and somebody should look. Asked strictly, it is not
ready either as long as it refuses clients that are within their limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from msgspec import Struct

from bussrv.admin.figures.figures import Figures
from bussrv.admin.interfaces import AdministeredServer
from bussrv.bus.links.lost_links import LostLink
from bussrv.bus.sessions.admission import INBUS
from bussrv.journal.record import format_time

MOST_WAIT = 5.0
"""The longest time that a write of the journal may wait, in seconds."""

SOON = 14
"""A certificate that expires within so many days makes its check degraded."""

MOST_NAMED = 3
"""So many certificates that expire soon, or servers that are not linked, are named."""

Status = Literal["ready", "degraded", "not-ready"]


class Check(Struct, frozen=True):
    """One check.

    :ivar status: ``failed``: the server is not ready.
    :ivar message: one sentence about the trouble; empty if there is none.
    :ivar refuses: whether clients are refused because of it, although they are within their limits.
    """

    status: Literal["ok", "degraded", "failed"]
    message: str = ""
    refuses: bool = False


class Alive(Struct, frozen=True):
    """The server answers."""

    status: Literal["alive"] = "alive"


class Readiness(Struct, frozen=True):
    """The answer of ``/readyz``.

    :ivar degraded: the names of the checks that are not ``ok``.
    :ivar checks: every check, by name.
    """

    status: Status
    degraded: list[str]
    checks: dict[str, Check]


OK = Check("ok")


def readiness(server: AdministeredServer, figures: Figures, *, is_strict: bool = False) -> Readiness:
    """The outcome of all checks now.

    :param is_strict: whether a server that refuses clients is not ready.
    """
    checks = {name: check(server, figures) for name, check in CHECKS.items()}
    wrong = [name for name, each in checks.items() if each.status != "ok"]
    status: Status = "degraded" if wrong else "ready"
    if any(each.status == "failed" or (is_strict and each.refuses) for each in checks.values()):
        status = "not-ready"
    return Readiness(status, wrong, checks)


def _ports(server: AdministeredServer, figures: Figures) -> Check:
    return OK if server.formats() else Check("failed", "no port is open")


def _drain(server: AdministeredServer, figures: Figures) -> Check:
    return Check("failed", "the server is about to stop") if server.is_draining() else OK


def _journal(server: AdministeredServer, figures: Figures) -> Check:
    condition = server.journal_condition()
    if condition.oldest_wait > MOST_WAIT:
        return Check("failed", f"a write has waited for {condition.oldest_wait:.0f} s")
    if condition.trouble is None:
        return OK
    return Check("degraded", f"changes are refused: {condition.trouble}", refuses=True)


def _disk(server: AdministeredServer, figures: Figures) -> Check:
    condition = server.journal_condition()
    if condition.usable != 0:
        return OK
    return Check("degraded", condition.shortage or "too little is free for the journal", refuses=True)


def _shipping(server: AdministeredServer, figures: Figures) -> Check:
    shipping = server.journal_condition().shipping
    return OK if shipping is None or shipping.trouble is None else Check("degraded", shipping.trouble)


def _spool(server: AdministeredServer, figures: Figures) -> Check:
    trouble = server.bus.spool.trouble
    return OK if trouble is None else Check("degraded", f"nothing more is kept: {trouble}", refuses=True)


def _reload(server: AdministeredServer, figures: Figures) -> Check:
    return Check("degraded", "the last reload failed; nothing has changed") if figures.reloaded is False else OK


def _certificates(server: AdministeredServer, figures: Figures) -> Check:
    found = [(each.days_left(), name, each.file) for name, each in server.bus.streams.certificates.items()]
    expiring = sorted((days, name, str(file)) for days, name, file in found if days is not None and days < SOON)
    if not expiring:
        return OK
    said = [f"{file} ({name}) expires in {days} days" for days, name, file in expiring[:MOST_NAMED]]
    more = f" and {len(expiring) - MOST_NAMED} more" if len(expiring) > MOST_NAMED else ""
    are_over = expiring[0][0] < 0
    return Check("degraded", f"{'; '.join(said)}{more}: replace the file, and reload", are_over)


class MissingLink(NamedTuple):
    """A server that this one should be linked with, and is not.

    :ivar server: its routing id, or the address that is dialed if it never answered.
    :ivar lost: what is known of the link; ``None``: it was never there.
    """

    server: str
    lost: LostLink | None

    @property
    def sentence(self) -> str:
        """The link that is missing, and why it is."""
        if self.lost is None:
            return f"{self.server} is not linked"
        if self.lost.reason is None:
            return f"{self.server} was never linked since the start, {format_time(self.lost.time)}"
        return f"{self.server} is not linked since {format_time(self.lost.time)}, {self.lost.reason}"


def missing_links(server: AdministeredServer) -> Iterator[MissingLink]:
    """The links that are not there, although they should be."""
    missing = server.bus.links.missing()
    known = {*server.bus.links.neighbors(), *(each.server_id for each in missing)}
    for lost in missing:
        yield MissingLink(lost.server_id, lost)
    for dialed in server.dialed():
        if dialed.server not in known:
            yield MissingLink(dialed.server or dialed.address, None)


def _links(server: AdministeredServer, figures: Figures) -> Check:
    said = [each.sentence for each in missing_links(server)]
    if not said:
        return OK
    more = f"; and {len(said) - MOST_NAMED} more" if len(said) > MOST_NAMED else ""
    return Check("degraded", f"{'; '.join(said[:MOST_NAMED])}{more}: see `bussrv links`")


def _connections(server: AdministeredServer, figures: Figures) -> Check:
    crowded = server.bus.streams.is_crowded
    if not crowded:
        return OK
    return Check("degraded", "the system has no descriptors left for further connections", refuses=True)


def _limits(server: AdministeredServer, figures: Figures) -> Check:
    settings, totals = server.bus.settings, figures.look().totals
    inbus = totals[INBUS].open if INBUS in totals else 0
    full = []
    if sum(each.open for each in totals.values()) - inbus >= settings.max_sessions:
        full.append("max-sessions")
    if inbus >= settings.inbus_max_sessions:
        full.append("inbus-max-sessions")
    reached = dict.fromkeys([*full, *figures.refusals.lately()])
    if not reached:
        return OK
    values = (f"--{name} {getattr(settings, name.replace('-', '_'))}" for name in reached)
    return Check("degraded", f"clients are refused, or were in the last minute: {', '.join(values)}", refuses=True)


CHECKS: dict[str, Callable[[AdministeredServer, Figures], Check]] = {
    "ports": _ports,
    "drain": _drain,
    "journal": _journal,
    "disk": _disk,
    "shipping": _shipping,
    "spool": _spool,
    "reload": _reload,
    "certificates": _certificates,
    "links": _links,
    "connections": _connections,
    "limits": _limits,
}
"""Every check, by name."""
