"""A server of the object network that one client talks to. It is honest, and answers in order."""

from __future__ import annotations

from typing import Any

from bussrv.client.core.framing import PlainFraming
from bussrv.client.core.inbox import Inbox
from bussrv.client.core.objects import ObjectsCore
from bussrv.client.errors import BusError, Lost
from bussrv.client.events import Message, State
from bussrv.client.settings import Settings
from bussrv.errors import JOURNAL_UNAVAILABLE, TOO_MANY_LOGINS
from bussrv.wire.objects import BusObject, ObjectReader, encode

JOINING = ("routing/subscribe", "client/register")
ASKER = "asker"
OWN_ID = "c1"


class FakeServer:
    """It outlives connections, as what it was told does.

    :ivar closed_to: services that nobody may subscribe to.
    :ivar taken_already: services that the client may not provide.
    :ivar has_disk: otherwise it refuses changes.
    :ivar busy: how many of the next logins it does not check.
    :ivar bad_login: whether it accepts nobody.
    :ivar refuses_all: whether it refuses every subscription.
    :ivar knows_services: otherwise it is of a kind that skips the names of services.
    :ivar published: the services and payloads of the publications that it took, in order.
    :ivar asked: the payloads of the requests that it was given.
    :ivar open: the ids of requests of the client, which nobody has answered.
    :ivar waiting: the requests to the client that it has not answered, and their services.
    :ivar answered: the ids of those that it has answered, and how.
    :ivar refused: the services that were refused over this connection.
    :ivar output: the bytes for the client.
    """

    def __init__(self) -> None:
        self.closed_to: set[str] = set()
        self.taken_already: set[str] = set()
        self.has_disk = True
        self.busy = 0
        self.bad_login = self.refuses_all = False
        self.knows_services = True
        self.joins: list[dict[str, Any]] = []
        self.published: list[tuple[str, bytes]] = []
        self.asked: list[bytes] = []
        self.answered: dict[int, str] = {}
        self.ever_refused: set[str] = set()
        self.made = 0
        self.connect()

    def connect(self) -> None:
        """The client has a new connection."""
        self.reader = ObjectReader()
        self.output = b""
        self.is_joined = False
        self.services: set[str] = set()
        self.rules: list[str] | str = []
        self.registered: set[str] = set()
        self.refused: set[str] = set()
        self.open: list[str] = []
        self.waiting: dict[int, str] = {}

    def tell(self, payload: bytes = b"", **fields: Any) -> None:
        """Send the client an object."""
        self.output += encode({name.replace("_", "-"): value for name, value in fields.items()}, payload)

    def receive(self, data: bytes) -> None:
        """Bytes of the client came."""
        self.reader.feed(data)
        while (obj := self.reader.next_event()) is not None:
            assert isinstance(obj, BusObject)
            self.take(obj.fields(), obj.payload)

    def take(self, fields: dict[str, Any], payload: bytes) -> None:
        event, identifier = fields.get("event"), fields.get("id")
        if event in JOINING:
            self.join(fields)
            return
        assert self.is_joined, "a client waits until it is accepted"
        if event is None:
            if fields["sender"] in self.registered:
                self.published.append((fields["sender"], payload))
        elif event == "services/request":
            self.asked.append(payload)
            self.open.append(fields["id"])
        elif event in ("services/reply", "error"):
            assert fields["to"] == ASKER
            assert fields["in-reply-to"] not in self.answered
            self.answered[fields["in-reply-to"]] = fields.get("reason", payload.decode())
            self.waiting.pop(fields["in-reply-to"], None)
        elif event == "ping":
            self.tell(event="pong", in_reply_to=identifier, routing_id=OWN_ID)
        elif event == "services/list":
            self.tell(b"[]", event="services/list/reply", in_reply_to=identifier, type="application/json")
        else:
            self.change(event, identifier, fields["name"])

    def join(self, fields: dict[str, Any]) -> None:
        self.joins.append(fields)
        new = set(fields["services"]) - self.services
        reason = JOURNAL_UNAVAILABLE if new and not self.has_disk else "not-allowed" if new & self.closed_to else None
        if self.busy:
            self.busy -= 1
            reason = TOO_MANY_LOGINS
        elif self.bad_login:
            reason = "bad-credentials"
        elif self.refuses_all:
            reason = "bad-subscription"
        if reason is not None:
            self.refuse(fields["id"], reason)
            return
        self.is_joined, self.services = True, set(fields["services"])
        self.rules = fields.get("subscriptions", fields.get("subscribe"))
        about = {"services": fields["services"]} if self.knows_services else {}
        self.tell(event=f"{fields['event']}/reply", in_reply_to=fields["id"], routing_id=OWN_ID, **about)

    def change(self, event: str, identifier: str, service: str) -> None:
        reason = None
        if not self.has_disk:
            reason = JOURNAL_UNAVAILABLE
        elif event == "services/register":
            reason = "not-allowed" if service in self.taken_already else None
        elif service not in self.registered:
            reason = "not-registered"
        if reason is not None:
            self.refused.add(service)
            self.ever_refused.add(service)
            self.refuse(identifier, reason)
            return
        if event == "services/register":
            self.registered.add(service)
        else:
            self.registered.discard(service)
            # Their askers are told that the provider is gone.
            self.waiting = {number: name for number, name in self.waiting.items() if name != service}
        self.tell(event=f"{event}/reply", in_reply_to=identifier, name=service)

    def refuse(self, identifier: str, reason: str) -> None:
        self.tell(event="error", in_reply_to=identifier, reason=reason, message="It cannot be.")

    def publish(self, service: str, payload: bytes) -> None:
        """Another client publishes."""
        if service in self.services:
            self.tell(payload, sender=service, type="text/plain", route=["c2"])

    def request(self, service: str) -> None:
        """Another client asks, if this one provides the service, and says that it takes requests."""
        takes = isinstance(self.rules, str) or not self.joins[-1]["event"].startswith("routing")
        if service in self.registered and (takes or "@services/request" in self.rules):
            self.made += 1
            self.waiting[self.made] = service
            self.tell(b"?", event="services/request", name=service, id=self.made, type="a/b", route=[ASKER])

    def answer(self, place: int, reason: str | None) -> None:
        """A provider answers an open request of the client; or the server does, with an error."""
        if self.open:
            identifier = self.open.pop(place % len(self.open))
            if reason is None:
                self.tell(b"!", event="services/reply", name="x", in_reply_to=identifier, type="a/b", route=["c2"])
            else:
                self.refuse(identifier, reason)


class Pair:
    """A core and its server, between which everything arrives at once.

    :ivar states: what the core has told.
    """

    def __init__(self, name: Any = "objects", **settings: Any) -> None:
        self.server = FakeServer()
        self.states: list[State] = []
        given = Settings(**settings)
        self.core = ObjectsCore(given, self.states.append, lambda: PlainFraming(given.max_payload), name)

    def connect(self, now: float = 0.0) -> None:
        """The core joins over a new connection."""
        self.server.connect()
        self.core.opened("hall:7890", now)
        self.exchange(now)

    def exchange(self, now: float = 0.0) -> None:
        """Until nobody says anything any more."""
        for _ in range(100):
            output, self.server.output = self.server.output, b""
            if output:
                self.core.received(output, now)
            if not (output or self.core.has_output):
                return
            self.server.receive(b"".join(self.core.take_output()))
        raise AssertionError("they talk for ever")

    def lose(self, reason: str = "connection-lost") -> None:
        """The connection breaks."""
        self.core.lost(Lost(reason, "it broke"), 0.0)

    def subscribe(self, *names: str) -> tuple[Inbox[Message], list[BusError | None]]:
        """:returns: what comes, and whether the subscription is granted; not before :meth:`exchange`."""
        inbox, told = Inbox[Message](), []
        self.core.subscribe(inbox, names, told.append)
        return inbox, told
