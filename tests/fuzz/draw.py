"""Bytes of a fuzzer, read as choices: what a stranger sends is drawn from them, mostly valid."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar

from bussrv.wire import inbus, spp
from bussrv.wire.objects import encode

T = TypeVar("T")

NAMES = (
    *("ann", "bob", "cy", "tv", "door", "x" * 255, "hall", "cellar", "attic", "observer", "observed", "bus/clock"),
    *("bus/registry", "BUS/x", "", " tv", "t\u0000v", "\u202etv", "ä" * 128, "*", "?", "_inbus", "boot-1", "boots"),
)
"""Names and routing ids. Most are used again and again, so that what clients do meets; ``hall`` is the server."""

TYPES = ("text/plain", "Text/PLAIN; charset=UTF-8", "image/png", "x", "*/*", "text/*", "*", "a*b?c*" * 9, "", "?" * 200)
EVENTS = (
    *("routing/subscribe", "client/register", "clients/register", "services/register", "services/unregister"),
    *("services/list", "services/request", "services/reply", "services/discovery", "services/discovery/reply"),
    *("ping", "pong", "error", "routing/neighbors", "routing/neighbors/reply", "routing/subscribe/notify"),
    *("routing/subscribe/notification", "routing/disconnect", "routing/subscribe/reply", "abboe/close/notify"),
    *("routing/announcement/neighbors", "services/register/reply", "Routing/Disconnect", "note", ""),
)
JOINING = ("client/register", "routing/subscribe", "Clients/Register", "ROUTING/subscribe")
KEYS = (
    *("id", "to", "type", "name", "service", "sender", "user", "secret", "token", "routing-id", "routing-ids"),
    *("receive_mode", "receive", "types", "subscriptions", "subscribe", "unique-routing-id", "role", "route"),
    *("in-reply-to", "session", "left", "directory", "protocol", "neighbors", "natures", "app-type", "size", "reason"),
)
MODES = ("none", "all", "no_echo", "events_only", "some")
HOSTS = ("10.0.0.1", "10.0.0.2", "127.0.0.1", "::1", "10.0.0.254", "255.255.255.255", "host", "")
DEEP = [[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]


SECRETS = ("MARKED secret", "MARKED guess", "MARKED" * 400)
"""The first one is right. None may be seen anywhere but in what the client itself said."""

TOKEN = "MARKED token"


class Draw:
    """Choices, in order; when the bytes are used up, the first choice each time.

    :ivar may_prove: whether clients say secrets. They do as long as everything that they said was framed well:
        otherwise a secret may be the payload of something.
    :ivar is_spoiled: whether the last message may be framed badly.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._next = 0
        self.may_prove = False
        self.is_spoiled = False

    @property
    def is_over(self) -> bool:
        return self._next >= len(self._data)

    def byte(self) -> int:
        if self.is_over:
            return 0
        self._next += 1
        return self._data[self._next - 1]

    def bytes(self, most: int) -> bytes:
        """The next bytes as they are: so many as the next one says."""
        size = self.byte() % (most + 1)
        begin = self._next
        self._next = min(len(self._data), begin + size)
        return self._data[begin : self._next]

    def one(self, choices: Sequence[T]) -> T:
        return choices[self.byte() % len(choices)]

    def chance(self, in_256: int) -> bool:
        return self.byte() >= 256 - in_256

    # Values.

    def name(self) -> str:
        """Mostly one of the first few."""
        number = self.byte()
        return NAMES[number % 5] if number < 160 else NAMES[number % len(NAMES)]

    def value(self) -> Any:
        """Anything that JSON can say."""
        kind = self.byte() % 12
        if kind < 4:
            return self.name()
        if kind < 6:
            return self.one(TYPES)
        if kind == 6:
            return [self.one(TYPES + NAMES) for _ in range(self.byte() % 5)]
        if kind == 7:
            return self.one((0, 1, -1, 7, 1 << 31, 1 << 64, 0.5, 1e308))
        if kind == 8:
            return self.one((None, True, False))
        if kind == 9:
            return {self.one(KEYS): self.name()}
        if kind == 10:
            return self.one((DEEP, [], [[]], [None], [7], "x" * 3000, ["a*b"] * 300, [str(n) for n in range(300)]))
        return self.bytes(20).decode("latin-1")

    def mostly(self, usual: Any) -> Any:
        """What is usual there; sometimes anything."""
        return self.value() if self.chance(20) else usual

    # Objects.

    def object(self, vocabulary: str) -> bytes:
        """An object as clients of ``objects``, ``business``, ``tls`` or ``link`` send it, now and then spoiled."""
        makes = {
            "objects": (self._join, self._service, self._content, self._request, self._ask, self._any),
            "business": (self._join_business, self._service, self._content, self._request, self._list, self._any),
            "tls": (self._join, self._service, self._content, self._any),
            "link": (self._advertise, self._advertise, self._forwarded, self._ask, self._link, self._any),
        }[vocabulary]
        self.is_spoiled = False
        fields, payload = self.one(makes)()
        for _ in range(self.byte() % 4 if self.chance(40) else 0):
            key = self.one(KEYS)
            fields[key] = self.value()
            self.is_spoiled |= key == "size"
        data = encode({key: value for key, value in fields.items() if value is not None}, payload)
        return self.spoiled(data * self.one((2, 30, 300)) if self.chance(6) else data)

    def _joining(self, event: str, own: str, more: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        if self.chance(20):
            event = self.one(JOINING)  # of another vocabulary, or spelled otherwise
        fields: dict[str, Any] = {"event": event, "id": self.byte(), own: self.mostly(self.name()), **more}
        if self.chance(80):
            fields["routing-ids"] = self.mostly([self.name() for _ in range(self.byte() % 4)])
        if self.chance(40):
            fields["user"] = self.mostly(self.name())
        if self.may_prove and self.chance(100):
            with_secret = {"user": self.one(NAMES[:3]), "secret": self.one(SECRETS)}
            fields |= self.one((with_secret, with_secret, {"token": TOKEN}, {"token": SECRETS[1]}))
        return fields, b""

    def _join(self) -> tuple[dict[str, Any], bytes]:
        more: dict[str, Any] = self.one(
            (
                {},
                {"receive_mode": self.mostly(self.one(MODES))},
                {"types": self.mostly([self.one(TYPES) for _ in range(self.byte() % 4)])},
                {"subscriptions": self.mostly([self.value() for _ in range(self.byte() % 4)])},
            )
        )
        return self._joining("routing/subscribe", "routing-id", more)

    def _join_business(self) -> tuple[dict[str, Any], bytes]:
        more = {"receive": self.mostly(self.one(MODES)), "subscribe": self.mostly([self.one(TYPES)])}
        return self._joining(self.one(("client/register", "clients/register")), "unique-routing-id", more)

    def _service(self) -> tuple[dict[str, Any], bytes]:
        event = self.one(("services/register", "services/register", "services/unregister"))
        name = None if self.chance(20) else self.mostly(self.name())
        return {"event": event, "id": self.byte(), "name": name}, b""

    def _content(self) -> tuple[dict[str, Any], bytes]:
        fields: dict[str, Any] = {"type": self.mostly(self.one(TYPES)), "id": self.mostly(self.byte())}
        if self.chance(120):
            fields["sender"] = self.mostly(self.name())
        if self.chance(80):
            fields["to"] = self.mostly(self.one((self.name(), [self.name(), self.name()])))
        return fields, bytes(self.one((0, 1, 40, 3000, 9000, 40_000)))

    def _request(self) -> tuple[dict[str, Any], bytes]:
        if self.chance(100):
            event = self.one(("services/reply", "error", "pong"))
            return {"event": event, "in-reply-to": self.mostly(self.byte() % 8), "to": self.value()}, b""
        name = self.mostly(self.name())
        return {"event": "services/request", "id": self.mostly(self.byte() % 8), "name": name}, b""

    def _ask(self) -> tuple[dict[str, Any], bytes]:
        event = self.one(("ping", "services/discovery", "routing/neighbors", "note"))
        return {"event": event, "id": self.byte(), "to": self.one((None, None, self.name())), "name": self.name()}, b""

    def _list(self) -> tuple[dict[str, Any], bytes]:
        return {"event": "services/list", "id": self.byte()}, b""

    def _any(self) -> tuple[dict[str, Any], bytes]:
        return {"event": self.one(EVENTS), self.one(KEYS): self.value()}, self.bytes(10)

    # Of servers that link.

    def _route(self) -> list[str]:
        return [self.name() for _ in range(1 + self.byte() % 3)]

    def _link(self) -> tuple[dict[str, Any], bytes]:
        server = self.one(("cellar", "attic", "hall", "ann"))
        fields = {"event": "routing/subscribe", "role": self.mostly("server"), "routing-id": self.mostly(server)}
        return {**fields, "subscriptions": self.mostly(["*"]), "directory": self.mostly(True)}, b""

    def _advertise(self) -> tuple[dict[str, Any], bytes]:
        event = self.one(("routing/subscribe/notify", "routing/disconnect", "services/register", "services/unregister"))
        fields = {"event": event, "routing-id": self.mostly(self.name()), "route": self.mostly(self._route())}
        if event.startswith("services"):
            fields["name"] = self.mostly(self.name())
        if self.chance(100):
            fields["session"] = self.mostly(f"{self.name()}.{self.byte() % 4}")
        return fields, b""

    def _forwarded(self) -> tuple[dict[str, Any], bytes]:
        fields, payload = self.one((self._content, self._request, self._ask))()
        return {**fields, "route": self.mostly(self._route())}, payload

    # SPP and Inbus.

    def packet(self) -> bytes:
        """A packet of SPP."""
        kind = self.byte() % 8
        self.is_spoiled = False
        if kind < 4:
            return self.spoiled(spp.subscribe(self.name()) * (200 if self.chance(6) else 1))
        if kind < 6:
            return self.spoiled(spp.unsubscribe(self.name()))
        if kind == 6:
            secret = self.one(SECRETS) if self.may_prove else self.name()
            return self.spoiled(spp.authenticate(self.one(NAMES[:3]), secret))
        return self.spoiled(spp._packet(self.byte(), self.bytes(20)))

    def datagram(self) -> bytes:
        """A datagram of Inbus."""
        version = 1 + self.byte() % 2
        opcode = self.byte() % 3
        name = self.name()
        try:
            if opcode == 2:
                return self.spoiled(inbus.publish(name, self.byte(), bytes(self.one((0, 1, 30, 3000))), version))
            make = inbus.unsubscribe if opcode else inbus.subscribe
            data = make(name, self.one(HOSTS), 5000 + self.byte() % 4, version)
        except ValueError:
            return self.bytes(40)
        if self.chance(20):
            fields = json.loads(data)
            fields[self.one(sorted(fields))] = self.value()
            data = json.dumps(fields).encode()
        return self.spoiled(data)

    def spoiled(self, data: bytes) -> bytes:
        """Mostly as it is."""
        if not data or b"MARKED" in data or not self.chance(20):
            return data
        self.is_spoiled = True
        at = (self.byte() << 8 | self.byte()) % len(data)
        way = self.byte() % 5
        if way == 0:
            return data[:at] + bytes([self.byte()]) + data[at + 1 :]
        if way == 1:
            return data[:at] + self.bytes(8) + data[at:]
        if way == 2:
            return data[:at]
        if way == 3:
            return data[:at] + data[at + 1 + self.byte() % 8 :]
        return data + data[at:]
