"""What those of a history say, as bytes, where that depends on what was said before."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.bus.reference import frame
from tests.equality.histories import Item
from tests.equality.judging import Ids
from tests.equality.peer import Peer
from tests.equality.words import spaced

FAR = ("cellar", "attic")
"""The servers that link with this one."""


class Writer:
    """:ivar said: how many objects were said so far: most payloads end with that."""

    def __init__(self, peers: list[Peer], ids: Ids) -> None:
        self.said = 0
        self._peers = peers
        self._ids = ids
        self._far_objects: list[tuple[dict[str, Any], bytes, list[Any]]] = []

    def written(self, peer: Peer, item: Item) -> bytes:
        what, about = item
        if what == "bytes":
            return bytes(about)
        if what == "join":
            return frame(self.joining(peer.kind, **about))
        if what == "passed on":
            return self.far_object(peer, about)
        if what == "again":
            return self.far_object_again(peer, about)
        if what == "advertisement":
            return self.neighbour_advertises(peer, about)
        fields, payload = about
        self.said += 1
        if payload:
            payload += b"%d" % self.said
            fields = {**fields, "size": len(payload)}
        return frame(self.addressed(peer, fields), payload)

    def joining(
        self, kind: str, subscription: dict[str, Any], shared: list[str], wanted: str | None, spelling: int
    ) -> dict[str, Any]:
        """A subscription in one of the ways in which it may be written."""
        fields: dict[str, Any] = {"id": f"join{spelling}", "routing-ids": shared}
        if "services" in subscription:
            fields["services"] = subscription["services"]
        receive, types = subscription.get("receive"), subscription.get("types")
        if kind == "business":
            key = ("subscribe", "subscriptions", "subscribe")[spelling]
            fields["event"] = ("client/register", "clients/register", "clients/register")[spelling]
            about = {"receive": receive, key: types, "unique-routing-id": wanted}
        elif "subscriptions" in subscription:
            fields["event"] = "routing/subscribe"
            about = {**subscription, "routing-id": wanted}
        else:
            fields["event"] = "routing/subscribe"
            mode = ("receive_mode", "receive-mode", "receive")[spelling]
            about = {mode: receive, "types": types, "routing-id": wanted}
        return {**fields, **{key: value for key, value in about.items() if value is not None}}

    def addressed(self, peer: Peer, fields: dict[str, Any]) -> dict[str, Any]:
        """An object to those whose routing ids were told by the server, and a reply to what was asked last."""
        to = fields.get("to")
        if isinstance(to, str):
            fields = {**fields, "to": self.routing_id(to)}
        elif to:
            fields = {**fields, "to": [self.routing_id(each) for each in to]}
        if fields.get("in-reply-to") == "a":
            for sent in reversed(peer.client.session.got[: peer.judged]):
                asked = json.loads(sent.partition(b"\0")[0])
                if asked.get("event") == "services/request":
                    return {**fields, "in-reply-to": asked["id"]}
        return fields

    def routing_id(self, name: str) -> str:
        """What stands for ``r1`` and so on, once somebody was told it; every other name is itself."""
        if name not in ("r1", "r2", "r3"):
            return name
        known = pick(self._peers, int(name[1]), lambda peer: self._ids.is_known(peer.client.session.routing_id))
        return known.client.session.routing_id if known is not None else name

    # Linked servers.

    def far_object(self, peer: Peer, about: dict[str, Any]) -> bytes:
        """What a server passes on, in the way that is asked for."""
        fields, payload, route = about["fields"], about["payload"], about["route"]
        self.said += 1
        if payload:
            payload += b"%d" % self.said
            fields = {**fields, "size": len(payload)}
        if about["has_own_id"]:
            fields = {**fields, "id": f"i{self.said}"}
        fields = {key: value for key, value in self.addressed(peer, fields).items() if key != "route"}
        if isinstance(route, list):
            route = [self.far_name(peer, each) for each in route]
            self._far_objects.append((fields, payload, route))
        if about["written"] == "missing":
            return frame(fields, payload)
        if about["written"] == "first":
            return frame({"route": route, **fields}, payload)
        if about["written"] == "spaced":
            return spaced({**fields, "route": route}) + b"\0" + payload
        return frame({**fields, "route": route}, payload)

    def far_name(self, peer: Peer, name: Any) -> Any:
        """What stands for this server, and for another one, in the route of what it passes on."""
        own = str(peer.client.session.server)
        other = next(each for each in FAR if each != own)
        return name.replace("me", own).replace("you", other) if isinstance(name, str) else name

    def far_object_again(self, peer: Peer, number: int) -> bytes:
        """One of the latest that some server passed on, by another way; or the same of a namesake on another server."""
        if not self._far_objects:
            return b""
        fields, payload, route = self._far_objects[-1 - number % min(6, len(self._far_objects))]
        return frame({**fields, "route": [*route[: 1 + number % 2], str(peer.client.session.server)]}, payload)

    def neighbour_advertises(self, peer: Peer, about: dict[str, str]) -> bytes:
        server_id = peer.client.session.server
        self.said += 1
        return frame(
            {**about, "id": f"t{self.said}", "routing-id": f"far-{server_id}", "route": [f"far-{server_id}", server_id]}
        )


def pick(peers: list[Peer], number: int, fits: Callable[[Peer], Any]) -> Peer | None:
    """One of those that fit."""
    found = [peer for peer in peers if fits(peer)]
    return found[number % len(found)] if found else None
