"""A model, in memory, of servers that do not remember what they passed on; linked with bussrv or with each other."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

from bussrv.bus.links.advertisement_fields import NOTIFY
from tests.bus.links.fabric import Fabric
from tests.formats.network import Member, Network

Fields = dict[str, Any]


class RouteOnly:
    """One such server. It has one client, which hears everything.

    :param marks: whether it adds the ids of all servers that get an object in the same flood, or nothing but itself.
    :ivar got: how often the client was given each object, by number.
    """

    def __init__(self, name: str, *, marks: bool = True) -> None:
        self.name = name
        self.marks = marks
        self.got: Counter[int] = Counter()
        self.routes: list[list[str]] = []
        self.links: dict[str, Member | RouteOnly] = {}
        self.waiting: deque[tuple[str, Fields, bytes]] = deque()
        self.answers: set[str] = set()

    def link(self, other: RouteOnly) -> None:
        self.links[other.name], other.links[self.name] = other, self

    def link_with(self, network: Network) -> None:
        self.links[network.server_id] = network.server(self.name)

    def say(self, fields: Fields, payload: bytes = b"") -> None:
        """Its client sends something."""
        self._route({**fields, "route": [f"client-{self.name}"]}, payload)

    def work(self) -> bool:
        """Take in what came. :returns: whether anything did."""
        came = False
        for name, link in self.links.items():
            if isinstance(link, Member):
                self.waiting.extend((name, fields, payload) for fields, payload in link.received())
        while self.waiting:
            came = True
            name, fields, payload = self.waiting.popleft()
            if "number" in fields:
                self._take(fields)
                self._route(fields, payload, name)
            elif self.marks and fields.get("event") in NOTIFY:
                self._route(fields, payload, name)
        return came

    def _take(self, fields: Fields) -> None:
        assert len(set(fields["route"])) == len(fields["route"])
        if fields.get("event") != "services/request" or fields["name"] in self.answers:
            self.got[fields["number"]] += 1
        self.routes.append(fields["route"])

    def _route(self, fields: Fields, payload: bytes, from_: str | None = None) -> None:
        route = [*fields["route"]]
        for passed in (from_, self.name):
            if passed is not None and passed not in route:
                route.append(passed)
        targets = [name for name in self.links if name not in route]
        full = [*route, *targets] if self.marks else route
        for name in targets:
            self._give(name, {**fields, "route": [each for each in full if each != name]}, payload)

    def _give(self, name: str, fields: Fields, payload: bytes) -> None:
        link = self.links[name]
        if isinstance(link, RouteOnly):
            link.waiting.append((self.name, fields, payload))
        else:
            link.send(fields, payload)


class Mixed:
    """A network of both kinds of servers, with a client on each.

    :param bus: the names of the servers that are bussrv.
    :param edges: pairs of names.
    """

    def __init__(self, bus: str, route_only: str, edges: list[tuple[str, str]], **settings: Any) -> None:
        self.fabric = Fabric(*bus, **settings)
        self.route_only = {name: RouteOnly(name) for name in route_only}
        for one, other in edges:
            kinds = one in bus, other in bus
            if kinds == (True, True):
                self.fabric.link(one, other)
            elif kinds == (False, False):
                self.route_only[one].link(self.route_only[other])
        self._let_time_pass(1.0)
        for one, other in edges:
            if (one in bus) != (other in bus):
                server, member = (one, other) if one in bus else (other, one)
                self.route_only[member].link_with(self.fabric[server])
        self.members = {name: self.fabric[name].member(receive_mode="no_echo") for name in bus}
        self.heard: dict[str, list[Fields]] = {name: [] for name in bus}
        self.settle()

    def settle(self) -> None:
        is_busy = True
        while is_busy:
            self._let_time_pass(0.05)
            is_busy = max((each.work() for each in self.route_only.values()), default=False)
            for name, member in self.members.items():
                self.heard[name] += [fields for fields in member.heads() if "number" in fields]

    def _let_time_pass(self, seconds: float) -> None:
        if self.fabric.servers:
            self.fabric.settle(seconds)

    def say(self, server: str, number: int, payload: bytes = b"x", **fields: Any) -> None:
        """The client of a server sends something."""
        said = {"type": "text/plain", "id": f"n{number}", "number": number, **fields}
        said = {key: value for key, value in said.items() if value is not None}
        if server in self.members:
            self.members[server].send(said, payload)
        else:
            self.route_only[server].say({**said, "size": len(payload)}, payload)
        self.settle()

    def copies(self, number: int) -> dict[str, int]:
        """How often the client of each server was given an object."""
        got = {name: each.got[number] for name, each in self.route_only.items()}
        return got | {name: sum(each["number"] == number for each in heard) for name, heard in self.heard.items()}
