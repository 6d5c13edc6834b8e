"""``/api/v1/servers`` and ``/api/v1/net``: all servers, and all links between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Literal

from msgspec import Struct

from bussrv.admin.http.routes import Call
from bussrv.admin.registry.collections import Page, in_steps, page_of
from bussrv.admin.servers.facts import LinkSummary, ServerSummary, Status
from bussrv.admin.servers.peers import Peer, others
from bussrv.admin.servers.summary import summary
from bussrv.bus.interfaces import IBus
from bussrv.bus.link_clocks import ClockAhead
from bussrv.journal.record import format_time
from bussrv.registry.state.session import SERVER_ROLE

Pair = tuple[str, str]
"""The routing ids of two servers that are linked, in order."""


def pair(one: str, other: str) -> Pair:
    """A link, whichever end says so."""
    return (one, other) if one <= other else (other, one)


class Known:
    """What routing advertisements say of other servers, when all of :meth:`look` is done.

    A server advertises each server that it can reach with the path to it, so two neighbours in a path are linked. A
    link that is on nobody's shortest path from here is not known.

    :ivar links: between other servers.
    :ivar sessions: how many sessions of clients each other server advertises, by its routing id. Each counts once,
        however many neighbours advertise it.
    """

    def __init__(self, bus: IBus) -> None:
        self._bus = bus
        self.links: set[Pair] = set()
        self.sessions: Counter[str] = Counter()

    def look(self) -> Iterator[None]:
        """Look at all advertised sessions, one per step."""
        paths = self._bus.links.paths
        for link in self._bus.links.all():
            for remote in paths.over(link.session_id):
                if remote.role == SERVER_ROLE:
                    self.links.update(pair(one, other) for one, other in pairwise(remote.path))
                yield
        for routing_id in paths:
            best = paths.best(routing_id)
            if best is not None and best.role == SERVER_ROLE:
                self.sessions[routing_id] += 0
            elif best is not None:
                self.sessions[best.home] += 1
            yield


class ServerItem(Struct, frozen=True, kw_only=True):
    """A server.

    :ivar source: ``here``: the server that answers; ``peer``: it was asked (``--admin-peer``); ``link``: routing
        advertisements tell of it, and it is not asked.
    :ivar url: its admin interface, if it is a peer.
    :ivar status: ``unreachable``: it was asked, and does not answer. Other fields are those of its last answer.
    :ivar problem: the reason why it does not answer.
    :ivar seen: when it answered last.
    :ivar sessions: its own open sessions of clients; of a server that was not asked, those that it advertises.
    :ivar objects_in: objects in a second, of all clients; so are the next three.
    :ivar lost_objects: objects of other servers that were lost on their way to it, since its start.
    :ivar clock_ahead: the seconds that its clock is ahead of that of the server that answers, give or take half of
        ``round_trip``.
    :ivar round_trip: the seconds that its answer took: to the question, or to a ping over the link.
    """

    server: str | None
    source: Literal["here", "peer", "link"]
    url: str | None = None
    status: Literal["ready", "degraded", "not-ready", "unreachable", "not-asked"]
    problem: str | None = None
    seen: str | None = None
    degraded: list[str] = []
    version: str | None = None
    started: str | None = None
    sessions: int | None = None
    away: int | None = None
    objects_in: float | None = None
    objects_out: float | None = None
    bytes_in: float | None = None
    bytes_out: float | None = None
    waiting_bytes: int | None = None
    lost_objects: int | None = None
    clock_ahead: float | None = None
    round_trip: float | None = None


class NetLink(Struct, frozen=True, kw_only=True):
    """A link between two servers.

    :ivar state: ``known``: others tell of it, and none of its ends was asked.
    :ivar since: when it came up, or was lost.
    :ivar round_trip: seconds on the network, there and back, as the system of one end measures them.
    :ivar waiting_bytes: bytes that wait at both ends, as far as these were asked.
    """

    one: str
    other: str
    state: Literal["up", "down", "known"]
    since: str | None = None
    reason: str | None = None
    round_trip: float | None = None
    waiting_bytes: int | None = None


class NetView(Struct, frozen=True, kw_only=True):
    """All servers and all links, as far as this server knows.

    :ivar sessions: open sessions of clients of all servers together. Each counts once.
    """

    here: str
    servers: list[ServerItem]
    links: list[NetLink]
    sessions: int


async def servers(call: Call) -> Page:
    """All servers: this one, those of ``--admin-peer``, and those that routing advertisements tell of."""
    return await page_of(call, (await _net(call)).servers)


async def net(call: Call) -> NetView:
    """All servers and all links between them."""
    return await _net(call)


async def _net(call: Call) -> NetView:
    bus, known = call.server.bus, Known(call.server.bus)
    await in_steps(known.look(), bus.slices)
    here = summary(call.server, call.shared)
    peers = others(call.shared.peers, call.server.boot)
    items = [_here(here), *_peers(peers)]
    named = {each.server for each in items}
    told = {here.server: here.links, **_links_of(peers)}
    clocks = {each.server_id: bus.link_clocks.of(each.session_id) for each in bus.links.all()}
    names = [name for name in _names(told, known) if name not in named]
    items += [_linked(name, known.sessions.get(name), clocks.get(name)) for name in names]
    return NetView(
        here=here.server,
        servers=items,
        links=list(_all_links(told, known.links)),
        sessions=sum(each.sessions or 0 for each in items if each.status != "unreachable"),
    )


def _names(told: dict[str, list[LinkSummary]], known: Known) -> Iterable[str]:
    """The servers that advertisements tell of, and those that others are linked with, or should be."""
    ends = (name for each in known.links for name in each)
    linked = (link.server for links in told.values() for link in links)
    return sorted({*known.sessions, *ends, *linked})


def _here(found: ServerSummary) -> ServerItem:
    return ServerItem(source="here", status=found.status, seen=found.time, **_figures(found))


def _peers(peers: Iterable[Peer]) -> Iterator[ServerItem]:
    """One item for each server: two addresses may lead to one."""
    seen: set[str] = set()
    for peer in peers:
        found, answered = peer.last_summary, peer.answered
        if found is not None and found.boot in seen:
            continue
        figures: dict[str, Any] = {"server": None} if found is None else _figures(found)
        if found is not None:
            seen.add(found.boot)
            figures |= {"seen": format_time(peer.at)}
        status: Status | Literal["unreachable", "not-asked"] = "not-asked"
        if answered is not None:
            status = "unreachable" if answered.summary is None else answered.summary.status
            figures |= {"problem": answered.problem, "clock_ahead": answered.ahead, "round_trip": answered.round_trip}
        yield ServerItem(source="peer", url=peer.url, status=status, **figures)


def _figures(found: ServerSummary) -> dict[str, Any]:
    same = ("server", "degraded", "version", "started", "sessions", "away", "waiting_bytes", "lost_objects")
    rates = {name: getattr(found.rates, name) for name in found.rates.__struct_fields__}
    return {**{name: getattr(found, name) for name in same}, **rates}


def _linked(name: str, sessions: int | None, clock: ClockAhead | None) -> ServerItem:
    ahead, trip = (None, None) if clock is None else (clock.ahead, clock.round_trip)
    about: dict[str, Any] = {"clock_ahead": ahead, "round_trip": trip}
    return ServerItem(server=name, source="link", status="not-asked", sessions=sessions, **about)


def _links_of(peers: Iterable[Peer]) -> dict[str, list[LinkSummary]]:
    """The links that peers tell of; those that do not answer tell of none."""
    answers = (each.answered.summary for each in peers if each.answered is not None)
    return {each.server: each.links for each in answers if each is not None}


def _all_links(told: dict[str, list[LinkSummary]], known: set[Pair]) -> Iterator[NetLink]:
    """Every link once, as its ends say, or others if no end was asked. It is up if one of its ends says so."""
    ends: dict[Pair, list[LinkSummary]] = {each: [] for each in known}
    for server, links in told.items():
        for link in links:
            ends.setdefault(pair(server, link.server), []).append(link)
    for (one, other), links in sorted(ends.items()):
        up = [each for each in links if each.state == "up"]
        if not links or (not up and (one, other) in known):
            yield NetLink(one=one, other=other, state="known")
            continue
        first = (up or links)[0]
        times = [each.round_trip for each in up if each.round_trip is not None]
        waiting = [each.waiting_bytes for each in up if each.waiting_bytes is not None]
        yield NetLink(
            one=one,
            other=other,
            state=first.state,
            since=first.since,
            reason=first.reason,
            round_trip=min(times, default=None),
            waiting_bytes=sum(waiting) if waiting else None,
        )
