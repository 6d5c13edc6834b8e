"""A server in memory with its admin interface, and clients of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import succeed

from bussrv.admin.http.login import Login
from bussrv.admin.http.routes import Route, Routes
from bussrv.admin.site import AdminSite
from bussrv.admin.table import ROUTES
from bussrv.server.log.text import Threshold
from bussrv.server.running.admin import AdminView
from bussrv.server.running.journal import NoJournal
from bussrv.server.running.links import DialedLinks
from tests.formats.network import MovedClock, Network, Transport

TOKEN = "the-token-of-the-file"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


class Answer:
    """One answer, as it came."""

    def __init__(self, data: bytes) -> None:
        head, _, self.body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        _, status, self.phrase = first.split(" ", 2)
        self.status = int(status)
        self.headers = dict(line.split(": ", 1) for line in lines)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """That of a problem; empty: it is none."""
        is_problem = self.headers.get("Content-Type") == "application/problem+json"
        return self.json["type"].removeprefix("urn:bussrv:problem:") if is_problem else ""


class Client:
    """A connection to the admin interface."""

    def __init__(self, scene: Admin, host: str) -> None:
        self._reactor = scene.reactor
        self.channel = scene.site.buildProtocol(None)
        peer = IPv4Address("TCP", host, 50_000)
        self.transport = Transport(IPv4Address("TCP", "127.0.0.1", 7280), peer)
        self.transport.protocol = self.channel
        self.channel.makeConnection(self.transport)

    @property
    def is_closed(self) -> bool:
        return not self.transport.connected

    def send(self, data: bytes) -> None:
        if not self.is_closed:
            self.channel.dataReceived(data)
            self._reactor.pump([0] * 8)

    def said(self) -> bytes:
        data: bytes = self.transport.value()
        self.transport.clear()
        return data

    def ask(self, path: str, method: str = "GET", body: bytes = b"", **headers: str) -> Answer:
        """:param headers: with underscores for dashes; ``None`` leaves out one that is sent otherwise."""
        fields: dict[str, Any] = {"Host": "localhost", "Content-Type": "application/json"}
        fields["Content-Length"] = str(len(body))
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value is not None)
        self.send(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        return Answer(self.said())


class Admin(Network):
    """:param rows: the table of routes."""

    def __init__(self, *, rows: Iterable[Route] = ROUTES, **settings: Any) -> None:
        super().__init__(**settings)
        self.calls: list[str] = []
        self.view = view = AdminView(
            bus=self.bus,
            journal=self.journal,
            reactor=self.reactor,
            boot="boot",
            clock=MovedClock(self.reactor),
            journal_place=NoJournal(),
            links=DialedLinks(self.bus, self.reactor),
            listeners={},
            witnesses=list,
            witness_answers=dict,
            threshold=Threshold(),
            is_draining=lambda: "drain" in self.calls,
            reload=lambda: succeed(None),
            drain=lambda: self.calls.append("drain"),
        )
        self.site = AdminSite(view, Routes(rows), Login(self.bus, lambda: TOKEN))

    def client(self, host: str = "127.0.0.1") -> Client:
        return Client(self, host)

    def pass_time(self, seconds: float) -> None:
        self.reactor.pump([0.25] * int(seconds * 4))
