"""Which conditions of the server hold now: failing checks of its health, missing links, and clocks of others."""

from __future__ import annotations

from collections.abc import Iterable

from bussrv.admin.figures.figures import Figures
from bussrv.admin.figures.health import MissingLink, missing_links, readiness
from bussrv.admin.incidents.troubles import STEP, About, Failing
from bussrv.admin.interfaces import AdministeredServer
from bussrv.admin.servers.peers import Peer, others
from bussrv.incidents.amounts import many

NOT_TROUBLES = ("ports", "drain", "links")
"""Checks that fail because an operator starts or stops the server; links are conditions of their own."""


def failing(server: AdministeredServer, figures: Figures, peers: Iterable[Peer]) -> dict[About, Failing]:
    """The conditions that hold.

    :param peers: the servers of ``--admin-peer``.
    """
    checks = readiness(server, figures).checks
    found = {
        About("trouble", name): Failing(check.message)
        for name, check in checks.items()
        if check.status != "ok" and name not in NOT_TROUBLES
    }
    found |= {About("link", each.server): _link(each) for each in missing_links(server)}
    return found | _clocks(others(peers, server.boot))


def _link(missing: MissingLink) -> Failing:
    lost = missing.lost
    if lost is None:
        return Failing(missing.sentence)
    known = f"; {many(lost.sessions, 'session')} known over it" if lost.sessions else ""
    return Failing(f"{missing.sentence}{known}", lost.time, lost.peer)


def _clocks(peers: Iterable[Peer]) -> dict[About, Failing]:
    """The servers whose clocks certainly differ: half of the time that an answer took is not known."""
    found = {}
    for each in peers:
        answered = each.answered
        if answered is None or answered.summary is None or answered.ahead is None:
            continue
        doubt, ahead = (answered.round_trip or 0.0) / 2, answered.ahead
        if abs(ahead) - doubt >= STEP:
            said = f"it is {abs(ahead):.1f} s {'ahead' if ahead > 0 else 'behind'}, give or take {doubt:.1g} s"
            found[About("clock", answered.summary.server)] = Failing(said, address=each.url)
    return found
