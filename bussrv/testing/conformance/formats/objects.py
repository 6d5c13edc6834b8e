"""Object System and Business Object, and Object System over WebSocket, for the kit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from wsproto.frame_protocol import FrameProtocol, Opcode

from bussrv.testing.conformance.adapter import (
    Adapter,
    Answered,
    Asked,
    Client,
    Confirmed,
    Login,
    Published,
    Reaction,
    Refused,
    Said,
    events_of,
)
from bussrv.wire.objects import BusObject, ObjectReader, encode

TYPE = "application/octet-stream"


class Member(Client):
    """A member of the object network, which wants publications on services and nothing else."""

    JOINING: ClassVar[str] = "routing/subscribe"
    WANTS: ClassVar[dict[str, str]] = {"receive_mode": "no_echo", "types": "none"}

    def __init__(self, login: Login | None = None) -> None:
        super().__init__(login)
        self._services: list[str] = []
        self._asked: dict[str, str] = {}  # what each request that waits is to do, by its id
        self._reader = ObjectReader()
        self._reader.expect_server()

    def _say(self, what: str, payload: bytes = b"", /, **fields: Any) -> bytes:
        number = f"k{next(self.numbers)}"
        self._asked[number] = what
        return self.framed(encode({"id": number, **{k.replace("_", "-"): v for k, v in fields.items()}}, payload))

    def framed(self, data: bytes) -> bytes:
        """The bytes that carry an object."""
        return data

    def join(self) -> bytes:
        """Become a member."""
        proof = {} if self.login is None else {"user": self.login.user, "secret": self.login.secret}
        return self._member("login", **proof)

    def _member(self, what: str, **proof: str) -> bytes:
        number = f"k{next(self.numbers)}"
        self._asked[number] = what
        fields = {"event": self.JOINING, "id": number, **self.WANTS, "services": list(self._services), **proof}
        return self.framed(encode(fields))

    def subscribe(self, service: str) -> bytes:
        """Name one more service."""
        self._services.append(service)
        return self._member("subscribe")

    def subscribe_below(self, service: str) -> bytes:
        """Name a pattern."""
        return self.subscribe(f"{service}/#")

    def unsubscribe(self, service: str) -> bytes:
        """Name the others only."""
        self._services.remove(service)
        return self._member("unsubscribe")

    def provide(self, service: str) -> bytes:
        """Register a service."""
        return self._say("provide", event="services/register", name=service)

    def publish(self, service: str, payload: bytes) -> bytes:
        """Send content as its provider."""
        return self._say("publish", payload, type=TYPE, sender=service)

    def ask(self, service: str, payload: bytes) -> bytes:
        """Send a request."""
        return self._say("ask", payload, event="services/request", name=service)

    def answer(self, asked: Asked, payload: bytes) -> bytes:
        """Send a reply."""
        return self._say("answer", payload, event="services/reply", in_reply_to=asked.key)

    def read(self, data: bytes) -> Iterator[Said]:
        """Read objects."""
        for found in events_of(self._reader, data):
            if not isinstance(found, BusObject):
                raise ValueError(f"the server sent a bad object: {found}")
            said = self._said(found.fields(), found.payload)
            if said is not None:
                yield said

    def _said(self, fields: dict[str, Any], payload: bytes) -> Said | None:
        event, what = fields.get("event"), self._asked.get(fields.get("in-reply-to", ""), "")
        if event is None:
            return Published(str(fields.get("sender")), payload) if "type" in fields else None
        if event == "error":
            return Refused(f"{fields['reason']}: {fields['message']}")
        if event == "services/request":
            return Asked(str(fields.get("name")), payload, fields["id"])
        if event == "services/reply":
            return Answered(payload)
        return Confirmed(what) if event.endswith("/reply") and what else None


class BusinessMember(Member):
    """The same in the words of Business Object."""

    JOINING = "client/register"
    WANTS: ClassVar[dict[str, str]] = {"receive": "no_echo", "subscribe": "none"}


class WebMember(Member):
    """The same over a WebSocket."""

    REQUEST: ClassVar[bytes] = (
        b"GET /bus HTTP/1.1\r\nHost: 127.0.0.1:7892\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )

    def __init__(self, login: Login | None = None) -> None:
        super().__init__(login)
        self._frames = FrameProtocol(client=True, extensions=[])
        self._head: bytes | None = b""
        self._message = b""

    def join(self) -> bytes:
        """Open the WebSocket, and become a member."""
        return self.REQUEST + super().join()

    def framed(self, data: bytes) -> bytes:
        """A message."""
        return bytes(self._frames.send_data(data, fin=True))

    def read(self, data: bytes) -> Iterator[Said]:
        """Read the answer to the request, then frames."""
        if self._head is not None:
            head, end, data = (self._head + data).partition(b"\r\n\r\n")
            if not end:
                self._head = head
                return
            self._head = None
            if b" 101 " not in head.partition(b"\r\n")[0]:
                yield Refused(head.partition(b"\r\n")[0].decode())
                return
        self._frames.receive_bytes(data)
        for frame in self._frames.received_frames():
            payload: Any = frame.payload
            if frame.opcode is Opcode.CLOSE:
                yield Refused(f"{int(payload[0])} {payload[1]}")
            elif frame.opcode is Opcode.PING:
                yield Reaction(bytes(self._frames.pong(bytes(payload))))
            elif not frame.opcode.iscontrol():
                yield from super().read(bytes(payload))


LACKS = {
    "state": "Members are given what is published after they subscribe; they ask for the state with a request.",
    "deny": "Members name any services, and are given publications on those that they may watch.",
}


class ObjectsAdapter(Adapter):
    """Object System."""

    name = "objects"
    client = Member
    absent: ClassVar[dict[str, str]] = LACKS


class BusinessAdapter(ObjectsAdapter):
    """Business Object."""

    name = "business"
    client = BusinessMember


class WebSocketAdapter(ObjectsAdapter):
    """Object System over WebSocket."""

    name = "websocket"
    client = WebMember
