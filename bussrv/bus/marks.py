"""Keeps copies from doubling at servers that go by ``route`` alone. Pure.

Servers of the field do not remember what they passed on. They give an object to every server that is not in its
``route``; before that, some of them add the ids of all servers that get it in the same flood. bussrv helps them in two
ways:

1. *Marks.* Behind its own id it adds the ids of such servers that it gives the object to, in the copies of all others.
   To the copies for such servers it adds the ids of all others that get the object.
2. *One server serves.* If several linked servers are linked with the same such server, one of them gives it the object:
   the home of the sender if that is one of them, otherwise the one with the least id. They know of each other from what
   they tell each other of sessions. If two of them are not linked with each other, each serves it.

Marks are promises: whoever adds the id of a server makes sure that it is given the object.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from bussrv.bus.link import Link
from bussrv.bus.paths import Paths


class Given(NamedTuple):
    """A server that is given an object.

    :ivar marks: the ids that are added to the route in its copy.
    """

    link: Link
    marks: tuple[str, ...] = ()


class Flood(NamedTuple):
    """The recipients of an object among linked servers.

    :ivar given: the servers that this one gives it to.
    :ivar left: those that another server gives it to.
    """

    given: list[Given]
    left: Sequence[Link] = ()


def flood(able: list[Link], links: Iterable[Link], paths: Paths, route: Sequence[str], server_id: str) -> Flood:
    """Give an object to all servers that may not have it yet.

    :param able: those that are not in its route, and want it.
    :param links: every link.
    :param route: its route, in which this server stands.
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
    """Whether it is this server that gives an object to one that goes by the route alone.

    :param reached: the links to servers of the same make that have the object, or are given it now.
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
    """Give an object to some servers. One that goes by the route alone is not to pass it on to ``others``."""
    if all(link.tells_all for link in able):
        return [Given(link) for link in able]
    served = tuple(link.server_id for link in able if not link.tells_all)
    names = tuple(each.server_id for each in others)
    return [Given(link, served if link.tells_all else _without(names, link.server_id)) for link in able]


def _without(server_ids: Iterable[str], server_id: str) -> tuple[str, ...]:
    return tuple(each for each in server_ids if each != server_id)
