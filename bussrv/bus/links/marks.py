"""Marks: ids in a ``route`` that keep route-only servers from doubling objects. Pure.

A route-only server does not remember the objects that it forwarded. It gives an object to every linked server that is
not in its ``route``. Some of these servers first add the ids of all servers that they give the object to. bussrv keeps
them from doubling objects in two ways:

1. *Marks.* bussrv adds further ids after its own one. In copies for route-only servers it adds the ids of all other
   servers that get the object. In all other copies it adds the ids of the route-only servers that it gives the object
   to. A server that adds the id of another one makes sure that the other one is given the object.
2. *One server serves.* Several linked bussrv servers may be linked with the same route-only server. Then one of them
   gives it the object: the home of the sender if that is one of them, otherwise the one with the least id. They know
   this from each other's advertisements. If two of them are not linked with each other, each serves it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from bussrv.bus.links.link import Link
from bussrv.bus.links.paths import Paths


class Given(NamedTuple):
    """A server that is given an object.

    :ivar marks: the ids that are added to the route in its copy.
    """

    link: Link
    marks: tuple[str, ...] = ()


class Flood(NamedTuple):
    """The recipients of an object among linked servers.

    :ivar given: the servers that this one gives it to.
    :ivar left: the route-only servers that another server gives it to.
    """

    given: list[Given]
    left: Sequence[Link] = ()


def flood(able: list[Link], links: Iterable[Link], paths: Paths, route: Sequence[str], server_id: str) -> Flood:
    """Give an object to all servers that may not have it yet.

    :param able: the links to servers that are not in its route, and want it.
    :param links: every link.
    :param route: its route, this server included.
    :param server_id: the routing id of this server.
    """
    bus = [link for link in able if link.tells_all]
    if len(bus) == len(able):
        return Flood([Given(link) for link in able])
    reached = [link for link in links if link.tells_all and (link in bus or link.server_id in route)]
    serving: list[Link] = []
    left: list[Link] = []
    for link in able:
        if not link.tells_all:
            (serving if _serves(link, reached, paths, route, server_id) else left).append(link)
    served = tuple(link.server_id for link in serving)
    others = tuple(link.server_id for link in (*bus, *left))
    given = [Given(link, served) for link in bus]
    given += [Given(link, (*_without(served, link.server_id), *others)) for link in serving]
    return Flood(given, left)


def _serves(link: Link, reached: list[Link], paths: Paths, route: Sequence[str], server_id: str) -> bool:
    """Whether this server gives an object to a route-only server, or another one does.

    :param reached: the links to bussrv servers that have the object, or are given it now.
    """
    if route[1:2] == [server_id]:
        return True
    rivals = [each for each in reached if _are_linked(each, link.server_id, paths)]
    if not rivals or not all(_are_linked(one, other.server_id, paths) for one, other in combinations(rivals, 2)):
        return True
    names = [each.server_id for each in rivals]
    return route[1] not in names and server_id < min(names)


def _are_linked(neighbour: Link, server_id: str, paths: Paths) -> bool:
    far = paths.heard(neighbour.session_id, server_id)
    return far is not None and far.path == (server_id, neighbour.server_id)


def directed(able: list[Link], others: Iterable[Link]) -> list[Given]:
    """Give an object to some servers. A route-only server must not forward it to ``others``."""
    if all(link.tells_all for link in able):
        return [Given(link) for link in able]
    served = tuple(link.server_id for link in able if not link.tells_all)
    names = tuple(each.server_id for each in others)
    return [Given(link, served if link.tells_all else _without(names, link.server_id)) for link in able]


def _without(server_ids: Iterable[str], server_id: str) -> tuple[str, ...]:
    return tuple(each for each in server_ids if each != server_id)
