"""The whole server, written to be obvious: bytes of clients come in, and each client has a list of what it is sent.

This is what the bus does as ``docs/reference/protocols`` and the seeds have it, for all wire formats. Whatever a client
says is done at once, one thing after the other, for one receiver after the other. Who is given what is said in
:mod:`tests.bus.reference`; here is what clients may ask for, and in which words they are answered.

While a change is on its way to a slow journal, the one who asked for it is *busy*: what it says meanwhile waits.
"""

from __future__ import annotations

import base64
import json
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from tests.bus.reference import ReferenceBus, Session, frame, spp_info
from tests.equality.clients import Client, Published
from tests.equality.words import Malformed, Packet, Said, packet

RESERVED = (
    "routing/subscribe/reply",
    "routing/subscribe/notify",
    "routing/subscribe/notification",
    "routing/disconnect",
    "routing/announcement/neighbors",
    "routing/announcement/interest",
    "routing/announcement/gap",
    "services/gap",
    "routing/neighbors/reply",
    "client/register/reply",
    "clients/register/reply",
    "services/register/reply",
    "services/unregister/reply",
    "services/list/reply",
    "abboe/close/notify",
)
JOINING = {"objects": ("routing/subscribe",), "business": ("client/register", "clients/register")}
MODES = ("none", "all", "no_echo", "events_only")
TEXT = "text/plain; charset=UTF-8"


class ReferenceServer(ReferenceBus):
    """:ivar counters: what the server says of itself, as far as that follows from what was said to it."""

    def __init__(self, server_id: str, announces: bool) -> None:
        super().__init__(server_id)
        self.announces = announces
        self.counters: Counter[str] = Counter()
        self.clients: dict[str, Client] = {}
        self.inbus: dict[Any, Client] = {}
        self.held = False
        self.on_the_way: deque[tuple[Client, Callable[[], None]]] = deque()
        self.made = 0

    def fresh(self) -> str:
        """An id that the server makes; the real one makes others, but as many."""
        self.made += 1
        return f"#{self.made:06}"

    def another(self, fresh: str) -> str:
        return self.fresh()

    def unasked(self) -> None:
        self.counters["no-such-request"] += 1

    def provider_gone(self, ask: Any) -> None:
        self.counters["provider-gone"] += 1
        super().provider_gone(ask)

    # Coming, talking, going.

    def connect(self, name: str, kind: str) -> Client:
        self.open(name, kind, self.fresh())
        client = self.clients[name] = Client(kind, self.sessions[name])
        if kind == "spp":
            client.session.got += [packet(1, service) for service in sorted(self.providers)]
        return client

    def receive_advertisement(self, client: Client, data: bytes) -> None:
        """A chunk came."""
        if not client.ended:
            client.stream.data += data
            self.go_on(client)

    def go_on(self, client: Client) -> None:
        """Do what a client said, as far as there is no change of it on its way."""
        while not client.busy and not client.ended:
            said = client.waiting.popleft() if client.waiting else client.stream.next()
            if said is None:
                break
            self.serve(client, said)
        if client.input_ended and not client.busy:
            self.end(client)

    def no_more_input(self, client: Client) -> None:
        client.input_ended = True
        self.go_on(client)

    def end(self, client: Client) -> None:
        """Its session is over, however it ended."""
        if client.ended:
            return
        client.ended = True
        self.leave(client.id, None)

    def change(self, client: Client, apply: Callable[[], None]) -> None:
        """Do what a client asked for, when that is written down."""
        if not self.held:
            apply()
            return
        client.busy = True
        self.on_the_way.append((client, apply))

    def catch_up(self) -> None:
        """The journal is no longer slow."""
        while self.on_the_way:
            client, apply = self.on_the_way.popleft()
            if not client.ended:
                apply()
                client.busy = False
                self.go_on(client)
        self.held = False

    def say_farewell(self, client: Client, reason: str) -> None:
        """This server ends a session: only linked servers are told why by an event of their own."""

    def serve(self, client: Client, said: Any) -> None:
        if isinstance(said, Malformed):
            self.counters[said.reason] += 1
            if client.kind != "spp":
                self.tell(client.id, {"event": "error", "reason": said.reason, "message": "…"})
            self.say_farewell(client, said.reason)
            self.end(client)
        elif isinstance(said, Packet):
            self.serve_spp_client(client, said)
        elif isinstance(said, Published):
            self.serve_publisher(client, said)
        else:
            self.serve_member(client, said)

    # Object System and Business Object.

    def serve_member(self, client: Client, said: Said) -> None:
        event = said.fields.get("event")
        joining = not said.wrong and event in JOINING[client.kind]
        if client.session.subscription is None and not joining:
            self.counters["not-subscribed"] += 1
        elif said.wrong:
            self.refuse(client, said, "bad-attribute")
        elif joining:
            self.subscribe(client, said.fields)
        elif (event or "").lower() in RESERVED:
            self.refuse(client, said, "reserved-event")
        elif event in ("services/register", "services/unregister"):
            self.provide(client, said)
        elif event == "services/list" and client.kind == "business":
            names = json.dumps(sorted(self.providers), separators=(",", ":"), ensure_ascii=False).encode()
            self.answer(client, said, {"event": "services/list/reply", "type": "application/json"}, names)
        elif event == "services/discovery" and client.kind == "objects" and said.fields.get("to") is None:
            self.discover(client, said)
        elif event == "ping" and client.kind == "objects" and said.fields.get("to") is None:
            self.answer(client, said, {"event": "pong", "routing-id": self.server_id})
        elif event == "services/request":
            self.request(client, said)
        else:
            self.pass_on(client, said)

    def pass_on(self, client: Client, said: Said) -> int:
        """:returns: how many others took it."""
        if said.fields.get("size") and not said.fields.get("type"):
            self.counters["missing-type"] += 1
        return self.route(client.id, said.fields, said.payload, self.fresh())

    def request(self, client: Client, said: Said) -> None:
        if self.pass_on(client, said) == 0:
            self.refuse(client, said, "no-such-service")

    def discover(self, client: Client, said: Said) -> None:
        """Who never registers answers for itself: what nobody registered is asked of everybody."""
        name = said.fields.get("name")
        if name is not None and (not isinstance(name, str) or name not in self.providers):
            self.request(client, said)
            return
        for service in sorted(self.providers) if name is None else [name]:
            for provider in self.providers[service]:
                session = self.sessions[provider]
                about = {"name": service, "routing-id": session.routing_id, "protocol": session.kind}
                route = [session.routing_id, self.home_of(session)]
                self.answer(client, said, {"event": "services/discovery/reply", **about, "route": route})
        if name is None:
            self.pass_on(client, said)

    def home_of(self, session: Session) -> str:
        """The server that a session is connected to."""
        return self.server_id

    def answer(self, client: Client, said: Said, fields: dict[str, Any], payload: bytes = b"") -> None:
        if client.deaf:
            return
        if payload:
            fields = {**fields, "size": len(payload)}
        self.sessions[client.id].got.append(frame({**fields, **in_reply_to(said.fields)}, payload))

    def refuse(self, client: Client, said: Said, reason: str) -> None:
        self.counters[reason] += 1
        self.answer(client, said, {"event": "error", "reason": reason, "message": "…"})

    def subscribe(self, client: Client, fields: dict[str, Any]) -> None:
        """Become a member, or another one."""
        if client.kind == "business":
            types = fields.get("subscribe", fields.get("subscriptions"))
            mode, wanted = fields.get("receive"), fields.get("unique-routing-id")
        else:
            mode = fields.get("receive_mode", fields.get("receive-mode", fields.get("receive")))
            types, wanted = fields.get("types"), fields.get("routing-id")
        by_rules = client.kind == "objects" and "subscriptions" in fields
        if not by_rules and (mode not in (*MODES, None) or isinstance(types, (int, float))):
            self.refuse(client, Said(fields), "bad-subscription")
            return
        asked = {"receive": mode, "types": types}
        subscription = {key: value for key, value in asked.items() if value is not None}
        if by_rules:
            subscription = {"subscriptions": fields["subscriptions"]}
        named = fields.get("services")
        if named is not None:
            if not isinstance(named, list) or not all(isinstance(each, str) for each in named):
                self.refuse(client, Said(fields), "bad-subscription")
                return
            if "" in named or any("#" in each.split("/")[:-1] for each in named):
                self.refuse(client, Said(fields), "bad-service-name")
                return
            subscription["services"] = list(dict.fromkeys(named))
        session = client.session
        own = self.granted(session, wanted)
        shared = [each for each in dict.fromkeys(fields.get("routing-ids", [])) if not self.is_taken(each, session)]
        session.planned = (own, shared)
        vocabulary = "business" if client.kind == "business" else "rules" if by_rules else "objects"

        def joined() -> None:
            self.join(client.id, own, tuple(shared), subscription, vocabulary, None)
            client.deaf = not by_rules and mode == "none"
            about = {"routing-id": own, "routing-ids": shared}
            if by_rules:
                about["subscriptions"] = fields["subscriptions"]
            if named is not None:
                about["services"] = subscription["services"]
            self.tell(client.id, {"event": f"{fields['event']}/reply", **in_reply_to(fields), **about})

        self.change(client, joined)

    def is_taken(self, routing_id: str, asking: Session) -> bool:
        """Whether it is another session's own, or the server's; those count that are just being written down."""
        others = [each for each in self.sessions.values() if each is not asking]
        return routing_id == self.server_id or any(routing_id == planned(each)[0] for each in others)

    def granted(self, session: Session, wanted: str | None) -> str:
        """What it asks for if that is free; otherwise what it has."""
        others = [each for each in self.sessions.values() if each is not session]
        if wanted is None or self.is_taken(wanted, session) or any(wanted in planned(each)[1] for each in others):
            return planned(session)[0]
        return wanted

    def provide(self, client: Client, said: Said) -> None:
        """``services/register`` and ``services/unregister``."""
        event, name = said.fields["event"], said.fields.get("name")
        if event == "services/unregister" and "name" not in said.fields:
            self.provide_nothing(client, said)
            return
        reply = {"event": f"{event}/reply", "name": name}
        if not isinstance(name, str) or not name:
            self.refuse(client, said, "bad-service-name")
        elif event == "services/register" and name.startswith("bus/"):
            self.refuse(client, said, "reserved-name")
        elif event == "services/unregister" and name not in client.planned:
            self.refuse(client, said, "not-registered")
        elif event == "services/register" and name in client.planned:
            self.answer(client, said, reply)
        elif event == "services/register":
            self.register_and(client, name, lambda: self.answer(client, said, reply))
        else:
            client.planned.discard(name)
            self.change(client, lambda: (self.unregister(client.id, name), self.answer(client, said, reply)))

    def register_and(self, client: Client, name: str, then: Callable[[], None]) -> None:
        client.planned.add(name)
        self.change(client, lambda: (self.register(client.id, name), then()))

    def provide_nothing(self, client: Client, said: Said) -> None:
        names, client.planned = sorted(client.planned), set()

        def done() -> None:
            for name in names:
                self.unregister(client.id, name)
            self.answer(client, said, {"event": "services/unregister/reply"})

        self.change(client, done)

    def announce(self, event: str, vocabulary: str, about: dict[str, Any], session_id: str, fresh: None) -> None:
        if self.announces:
            super().announce(event, vocabulary, about, session_id, self.fresh())

    # SPP.

    def register(self, session_id: str, service: str) -> None:
        is_new = service not in self.providers
        super().register(session_id, service)
        if is_new:
            self.tell_spp_clients(packet(1, service))

    def unregister(self, session_id: str, service: str) -> None:
        was_there = service in self.providers
        super().unregister(session_id, service)
        if was_there and service not in self.providers:
            self.tell_spp_clients(packet(2, service))

    def tell_spp_clients(self, data: bytes) -> None:
        for session in self.sessions.values():
            if session.kind == "spp":
                session.got.append(data)

    def serve_spp_client(self, client: Client, said: Packet) -> None:
        service = said.service
        if said.name == "ignored":
            return
        if said.name == "unsubscribe":
            if service in client.session.subscribed:
                self.change(client, lambda: self.unsubscribe_from(client.id, service))
            else:
                self.counters["no-such-subscription"] += 1
        elif service not in self.providers:
            self.counters["no-such-service"] += 1
        elif service in client.session.subscribed:
            self.show(client, service)
        else:
            self.change(client, lambda: self.subscribed(client, service))

    def subscribed(self, client: Client, service: str) -> None:
        """A subscription is written down; the service may be gone by now."""
        if service in self.providers:
            self.subscribe_to(client.id, service, None)
            self.show(client, service)
        else:
            self.counters["no-such-service"] += 1

    def show(self, client: Client, service: str) -> None:
        """The snapshot: what was published last."""
        client.session.got.append(spp_info(service, self.last.get(service, b"")))

    # Inbus.

    def datagram(self, data: bytes, host: str) -> None:
        fields = json.loads(data)
        (app_key, app_type), opcode, version = fields["application"], fields["opcode"], fields["version"]
        if opcode == 3:
            self.inbus_publish(host, app_key, app_type, fields["payload"], version)
        else:
            self.inbus_subscribe(tuple(fields["address"]), app_key, version if opcode == 1 else None)

    def at(self, address: Any) -> Client:
        if address not in self.inbus:
            name = str(address)
            self.open(name, "inbus", self.fresh())
            self.inbus[address] = Client("inbus", self.sessions[name])
        return self.inbus[address]

    def inbus_subscribe(self, address: Any, app_key: str, version: int | None) -> None:
        """:param version: ``None`` to unsubscribe."""
        if version is None and address not in self.inbus:
            self.counters["no-such-subscription"] += 1
            return
        client = self.at(address)
        if version is None and app_key not in client.wanted:
            self.counters["no-such-subscription"] += 1
        elif version is None:
            client.wanted.discard(app_key)
            self.change(client, lambda: self.unsubscribe_from(client.id, app_key))
        elif app_key not in client.wanted:
            client.wanted.add(app_key)
            self.change(client, lambda: self.subscribe_to(client.id, app_key, version))

    def inbus_publish(self, host: str, app_key: str, app_type: int, text: str, version: int) -> None:
        """On a service that is new once that is written down; what the same machine publishes later comes behind it."""
        payload = text.encode() if version == 1 else base64.b64decode(text)
        if app_type == 0:
            self.counters["reserved-app-type"] += 1
        client = self.at(host)
        client.waiting.append(Published(app_key, payload, app_type))
        self.go_on(client)

    def serve_publisher(self, client: Client, said: Published) -> None:
        def publish() -> None:
            content_type = TEXT if is_text(said.payload) else "application/octet-stream"
            self.publish(client.id, said.app_key, content_type, said.payload, said.app_type, self.fresh())

        if said.app_key in client.planned:
            publish()
        else:
            self.register_and(client, said.app_key, publish)


def planned(session: Session) -> tuple[str, list[str]]:
    """The routing ids that a session has, or will have once that is written down."""
    return getattr(session, "planned", (session.routing_id, list(session.routing_ids)))


def in_reply_to(fields: dict[str, Any]) -> dict[str, Any]:
    return {"in-reply-to": fields["id"]} if isinstance(fields.get("id"), (str, int, float)) else {}


def is_text(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True
