"""The directory: the sessions of all servers of a net, folded from what each server advertises on its link. Pure.

A net is one server to those that are linked with it. What it tells one of them is what it knows from all the others,
over the shortest path; see :mod:`bussrv.bus.links.paths`. A path through that server itself is not used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from msgspec.structs import replace

from bussrv.bus.links.advertisement_fields import (
    NOTIFY,
    REGISTER,
    UNREGISTER,
    ended,
    events_between,
    learn,
    path_of,
    subject,
)
from bussrv.bus.links.paths import MAX_HOPS, Paths, RemoteSession
from bussrv.errors import Refused
from bussrv.registry.state.session import SERVER_ROLE
from bussrv.uplink.crossing.checks import is_routing_id, is_service_name

_EVENT = NOTIFY[1]
_LOANS = ""
"""Whom loans are known from: no server has such a routing id."""

_LENT = "mqtt"
"""The wire format of loans: one of those whose clients publish under a lease, and take no requests."""

_MOST_ROUTING_IDS = 10_000
"""The server that advertises a session has a limit of its own."""

MOST_OF_SERVER = 200_000
"""The most sessions, further routing ids and services of one server that are known. Further ones are ignored."""

MOST_OF_NET = 1_000_000
"""The most of all servers together."""

MOST_COPIED = 10_000_000
"""The most names of services that are copied for the changes in one entry. Beyond it, a snapshot is read instead."""

MOST_LOANS = 10_000
"""The most sessions that are lent at the same time."""


def fold(paths: Paths, server: str, fields: dict[str, Any], avoid: str | None = None) -> str | None:
    """Take an advertisement of a server.

    :param avoid: paths through this server are not used.
    :returns: the routing id of a session of which something else is known than before.
    :raises Refused: it is none.
    """
    route = _route(fields)
    routing_id = subject(fields, route, server)
    if routing_id in (server, avoid):
        return None
    ended_session = ended(fields)
    if ended_session is not None:
        return routing_id if paths.finish(routing_id, ended_session) else None
    before = paths.heard(server, routing_id)
    remote = learn(before, fields, routing_id, path_of(fields, route, routing_id, server), _MOST_ROUTING_IDS, ())
    if remote is None or avoid in remote.path or len(remote.path) >= MAX_HOPS or paths.has_ended(remote):
        changed = paths.forget(server, routing_id)
    else:
        changed = paths.receive_advertisement(server, remote)
    return routing_id if changed else None


def _route(fields: dict[str, Any]) -> list[str]:
    route = fields.get("route", [])
    if not isinstance(route, list) or not all(isinstance(each, str) for each in route):
        raise Refused("bad-attribute", "route is an array of strings")
    return route


def most_of(server: str, paths: Paths, known: Iterable[Paths]) -> int:
    """The most sessions, further routing ids and services of a server that ``paths`` may have now.

    :param known: all that is known of the net, these paths included.
    """
    return min(MOST_OF_SERVER, paths.size(server) + MOST_OF_NET - sum(each.size_of_all for each in known))


def merged(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Advertisements, with those of several services of one session as one. Each costs as much as the session has."""
    found: list[dict[str, Any]] = []
    last: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for fields in events:
        routing_id, name, names = fields.get("routing-id"), fields.get("name"), fields.get("names")
        several: list[Any] = [name] if "names" not in fields else names if isinstance(names, list) else [None]
        if not isinstance(routing_id, str):
            last.clear()
            found.append(fields)
        elif fields.get("event") not in (REGISTER, UNREGISTER) or not all(map(is_service_name, several)):
            last.pop(routing_id, None)
            found.append(fields)
        else:
            about = {key: value for key, value in fields.items() if key not in ("name", "names")}
            before = last.get(routing_id)
            if before is not None and before[0] == about:
                before[1].extend(several)
            else:
                last[routing_id] = about, list(several)
                found.append({**about, "names": last[routing_id][1]})
    return found


def cost(paths: Paths, server: str, fields: dict[str, Any]) -> int:
    """How much an advertisement costs: the services of its session are copied."""
    route, routing_id = fields.get("route"), fields.get("routing-id")
    if routing_id is None and isinstance(route, list) and route:
        routing_id = route[0]
    before = paths.heard(server, routing_id) if isinstance(routing_id, str) else None
    return 1 if before is None else 1 + len(before.services)


def everything(remotes: Iterable[RemoteSession]) -> Iterator[dict[str, Any]]:
    """The advertisements that tell all these sessions to somebody who knows none of them."""
    for remote in remotes:
        yield from events_between(None, remote, _EVENT, takes_names=True)


class Directory:
    """What the server of this uplink is told of the sessions of all the others.

    :param server: its routing id.
    :param node: the routing id of the net.
    :param takes_names: whether the server understands several services in one advertisement.
    :ivar version: grows when something changes that decides where an object goes.
    """

    def __init__(self, server: str, node: str, *, takes_names: bool = False) -> None:
        self._takes_names = takes_names
        self.server = server
        self.node = node
        self.version = 0
        self.others = Paths()
        self.servers: set[str] = set()
        self._told: dict[str, RemoteSession] = {}
        self._changed: dict[str, None] = {}
        self._at: dict[str, dict[str, None]] = {}
        self._providers: dict[str, dict[str, None]] = {}
        self._round: Counter[str] = Counter()

    def joined(self, server: str) -> None:
        """A server has come to the net."""
        self.servers.add(server)
        itself = RemoteSession(routing_id=server, path=(server,), is_member=True, role=SERVER_ROLE, tells_all=True)
        self._note(server if self.others.receive_advertisement(server, itself) else None)

    def left(self, server: str) -> None:
        """A server has gone, or has to tell everything anew."""
        self.servers.discard(server)
        for routing_id in self.others.drop(server):
            self._note(routing_id)

    def replaced(self, server: str, told: Paths) -> None:
        """A server told everything: these sessions, and no others.

        :param told: what it told, folded by itself.
        """
        for routing_id in self.others.advertised_over(server):
            if routing_id != server and told.heard(server, routing_id) is None:
                self._note(routing_id if self.others.forget(server, routing_id) else None)
        for remote in told.over(server):
            self._note(remote.routing_id if self.others.receive_advertisement(server, remote) else None)

    def advertised(self, server: str, fields: dict[str, Any]) -> None:
        """A server advertised something.

        :raises Refused: it is no advertisement.
        """
        self._note(fold(self.others, server, fields, self.server))

    def lend(self, sender: str, path: tuple[str, ...], service: str) -> None:
        """Tell of a session that publishes on a service, though its server does not, or not yet, or no more.

        Otherwise what it has published would be no publication to the server.
        """
        if self.server in path or service in self.others.services_of(sender, path):
            return
        if self.others.size(_LOANS) >= MOST_LOANS or len(path) > MAX_HOPS:
            return
        if not all(map(is_routing_id, (sender, *path))):
            return
        lent = self.others.heard(_LOANS, sender)
        services = frozenset((service,)) if lent is None else lent.services | {service}
        loan = RemoteSession(routing_id=sender, path=path, protocol=_LENT, services=services)
        self._note(sender if self.others.receive_advertisement(_LOANS, loan) else None)

    def end_loans(self) -> None:
        """What these sessions have published was taken."""
        for routing_id in self.others.drop(_LOANS):
            self._note(routing_id)

    def _note(self, routing_id: str | None) -> None:
        if routing_id is not None:
            self._changed[routing_id] = None
            self.version += 1

    def news(self, most: int) -> list[dict[str, Any]]:
        """Advertisements for the server of what changed, of at most so many sessions."""
        events: list[dict[str, Any]] = []
        for routing_id in list(islice(self._changed, most)):
            del self._changed[routing_id]
            events += self._tell(routing_id)
        return events

    @property
    def has_news(self) -> bool:
        """Whether something is to be told."""
        return bool(self._changed)

    def _tell(self, routing_id: str) -> Iterator[dict[str, Any]]:
        best = self.others.best(routing_id)
        now = None if best is None else replace(best, path=(*best.path, self.node))
        before = self._told.pop(routing_id, None)
        if now is not None:
            self._told[routing_id] = now
        self._index(before, now)
        return events_between(before, now, _EVENT, takes_names=self._takes_names)

    def _index(self, before: RemoteSession | None, now: RemoteSession | None) -> None:
        for index, keys in ((self._at, _addresses), (self._providers, _services)):
            were, are = keys(before), keys(now)
            for key in were - are:
                del index[key][before.routing_id]  # type: ignore[union-attr]
                if not index[key]:
                    del index[key]
            for key in are - were:
                index.setdefault(key, {})[now.routing_id] = None  # type: ignore[union-attr]
        self.version += 1

    # Where objects go.

    def servers_at(self, address: str) -> set[str] | None:
        """The servers of the net on the way to the sessions with an address; ``None``: none is known."""
        found = self._at.get(address)
        return None if found is None else {each for rid in found if (each := self._towards(rid)) is not None}

    def _towards(self, routing_id: str) -> str | None:
        """The server of the net on the way to a session."""
        link, best = self.others.link_to(routing_id), self.others.best(routing_id)
        return best.home if link == _LOANS and best is not None else link

    def server_of_provider(self, service: str) -> str | None:
        """The server on the way to a provider of a service that takes requests, in turn; ``None``: there is none."""
        able = [
            link
            for routing_id in self._providers.get(service, ())
            if (remote := self.others.best(routing_id)) is not None
            and remote.answers(service)
            and (link := self._towards(routing_id)) is not None
        ]
        if not able:
            return None
        self._round[service] += 1
        return able[self._round[service] % len(able)]


def _addresses(remote: RemoteSession | None) -> frozenset[str]:
    return frozenset() if remote is None else frozenset((remote.routing_id, *remote.routing_ids))


def _services(remote: RemoteSession | None) -> frozenset[str]:
    return frozenset() if remote is None else remote.services
