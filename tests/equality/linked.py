"""The plain reference, linked with other servers: what they pass on, and what they tell of their own sessions.

This is ``docs/reference/protocols/links.md``. Of what a server is told only the objects are played here, not the
advertisements of members; of what it tells, the services that sessions of it provide.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any
from zlib import crc32

from tests.bus.reference import Session, identity
from tests.equality.clients import Client
from tests.equality.reference import ReferenceServer
from tests.equality.words import Said, first_object

BETWEEN_SERVERS = (
    "routing/subscribe",
    "routing/subscribe/reply",
    "routing/subscribe/notify",
    "routing/subscribe/notification",
    "routing/announcement/neighbors",
    "routing/announcement/interest",
    "routing/disconnect",
    "services/register",
    "services/unregister",
)
MAX_HOPS = 16
TIME = "2023-11-14T22:13:20.000000Z"
"""The time of day: the clock of the servers is that of :mod:`tests.formats.network`, which stands still here."""


class LinkedReference(ReferenceServer):
    """:param max_seen: how many objects of other servers it remembers, to know them again."""

    def __init__(self, server_id: str, announces: bool, max_seen: int) -> None:
        super().__init__(server_id, announces)
        self.max_seen = max_seen
        self.seen: list[Any] = []
        self.far: dict[str, dict[str, Session]] = defaultdict(dict)
        self.is_marked = False

    def link(self, name: str, neighbour_id: str, tells_all: bool) -> Client:
        """A server dials this one."""
        client = self.connect(name, "server")
        client.session.server, client.session.tells_all = neighbour_id, tells_all
        self.join(client.id, neighbour_id, (), {"subscriptions": ["*"]}, None, None)
        return client

    def say_farewell(self, client: Client, reason: str) -> None:
        """A server that advertises all that it can reach is one of ours, and is told why its link ends."""
        if client.session.server is not None and client.session.tells_all:
            about = {"event": "abboe/close/notify", "reason": reason, "route": [self.server_id]}
            self.tell(client.id, about)

    def leave(self, session_id: str, fresh: None) -> None:
        for session in self.far.pop(session_id, {}).values():
            super().leave(session.id, fresh)
        super().leave(session_id, fresh)

    def serve_member(self, client: Client, said: Said) -> None:
        if client.session.server is not None and not said.wrong:
            self.hear_server(client, client.session.server, said)
        else:
            super().serve_member(client, said)

    def hear_server(self, client: Client, neighbour_id: str, said: Said) -> None:
        route = said.fields.get("route", [])
        if not isinstance(route, list) or not all(isinstance(each, str) for each in route):
            self.counters["bad-attribute"] += 1
            return
        route = list(dict.fromkeys([*route, neighbour_id]))
        event, to = said.fields.get("event"), said.fields.get("to")
        is_for_this = to in (self.server_id, [self.server_id])
        if event in ("services/register", "services/unregister"):
            self.told(client, neighbour_id, event, said.fields)
        elif event == "routing/announcement/interest":
            self.wanted_by(client.session, said.fields)
        elif event == "ping" and (is_for_this or (to is None and len(route) == 1)):
            about = {"event": "pong", "routing-id": self.server_id, "time": TIME, "to": route[0]}
            self.answer(client, said, {**about, "route": [self.server_id]})
        elif event == "error" and to is None and len(route) == 1:
            pass  # The server itself says it, to this one.
        elif event not in BETWEEN_SERVERS and not is_for_this:
            self.relay(client.session, route, said)

    def wanted_by(self, link: Session, fields: dict[str, Any]) -> None:
        """That server says what it wants of what is for everybody; until it begins, it wants all of it."""
        if fields.get("anew"):
            link.interest = {"events": True, "types": "all", "names": set()}
        if link.interest is not None:
            named = {*link.interest["names"]}.difference(fields.get("removed", ())).union(fields.get("added", ()))
            said = {key: fields[key] for key in ("events", "types") if key in fields}
            link.interest = {**link.interest, **said, "names": named}

    def told(self, client: Client, neighbour_id: str, event: str, fields: dict[str, Any]) -> None:
        """A session of that server provides something, or does no longer; it is known for nothing else."""
        routing_id, name = fields["routing-id"], fields["name"]
        session_id = f"{routing_id} at {neighbour_id}"
        if event == "services/register" and routing_id not in self.far[client.id]:
            self.open(session_id, "objects", routing_id)
            self.far[client.id][routing_id] = self.sessions[session_id]
        if routing_id not in self.far[client.id]:
            return
        if event == "services/unregister":
            self.unregister(session_id, name)
        elif name not in self.provided(session_id):
            self.register(session_id, name)
        if not self.provided(session_id):
            del self.sessions[session_id], self.far[client.id][routing_id]

    def relay(self, link: Session, route: list[str], said: Said) -> None:
        """What another server passes on goes on once."""
        self.counters["link-objects"] += 1
        if self.server_id in route:
            self.counters["link-loop"] += 1
            return
        place = route.index(link.server) + 1
        passed, marks = route[:place], route[place:]
        if len(passed) > MAX_HOPS:
            self.counters["link-too-far"] += 1
            return
        hops, unclear = (passed, []) if link.tells_all else ([*passed[:2], *passed[2:][-1:]], passed[2:-1])
        route = [*hops, self.server_id, *unclear, *marks]
        self.is_marked = bool(unclear or marks)
        known = (*route[:2], identity(said.fields.get("id")))
        if said.fields.get("id") is not None:
            if known in self.seen:
                self.counters["link-duplicate"] += 1
                return
            self.seen = [*self.seen, known][-self.max_seen :]
        self.send_on(link, said.fields, said.payload, self.fresh(), route, self.provided_far(route))
        self.is_marked = False

    def provider(self, sender: Session, sent: dict[str, Any]) -> tuple[str | None, list[str]]:
        """What several servers were given at once is asked of the provider that follows from the request."""
        name = sent.get("name", sent.get("service"))
        providers = self.providers.get(name, []) if isinstance(name, str) else []
        if not self.is_marked or not providers:
            chosen: tuple[str | None, list[str]] = super().provider(sender, sent)
            return chosen
        able = sorted(providers, key=lambda each: self.sessions[each].routing_id)
        first = crc32(json.dumps([*sent["route"][:2], sent["id"]], separators=(",", ":"), ensure_ascii=False).encode())
        first %= len(able)
        for each in (*able[first:], *able[:first]):
            if self.takes(sender, self.sessions[each], sent):
                return each, providers
        return None, providers

    def home_of(self, session: Session) -> str:
        homes = [self.sessions[link].server for link, known in self.far.items() if session in known.values()]
        return homes[0] or self.server_id if homes else self.server_id

    def provided_far(self, route: list[str]) -> set[str]:
        """What the session provides that sent an object with that route: each tells of sessions of its own only."""
        homes = {client.id: client.session.server for client in self.clients.values() if client.session.server}
        sessions = [self.far[link].get(route[0]) for link, home in homes.items() if home in route[1:]]
        return {service for session in sessions if session is not None for service in self.provided(session.id)}


def passed_on(data: bytes) -> bool:
    """Whether a frame that a server was sent is an object that was passed on, and not a word between servers.

    Members of Business Object may say ``routing/subscribe``, which means nothing there.
    """
    said, _ = first_object(data)
    assert isinstance(said, Said)
    event = said.fields.get("event")
    return event not in BETWEEN_SERVERS or (event == "routing/subscribe" and "role" not in said.fields)
