"""The services that a member provides, and the requests that it was given for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import msgspec

from bussrv.client.core.base import OnAnswer, OnDone, OnRequest
from bussrv.client.errors import BusError, Closed, Lost
from bussrv.client.events import Reply, Request, came_from

Ask = Callable[[dict[str, Any], OnAnswer, str], None]
"""Sends an object with a fresh id, and waits for its answer."""


class _Asked(msgspec.Struct, gc=False):
    """The attributes of a request that its answer repeats."""

    id: Any = None
    route: Any = None


_decode_asked = msgspec.json.Decoder(_Asked).decode


@dataclass
class _Service:
    """A service.

    :ivar on_request: ``None``: it is only published on.
    :ivar state: what the server knows of it: nothing, that it is asked to register it, or its own answer.
    :ivar waiting: for the answer of the server.
    :ivar unconfirmed: what to call for each publication, by its id, if the server does not register the service.
    """

    on_request: OnRequest | None
    state: Literal["new", "asked", "refused", "registered"] = "new"
    waiting: list[OnDone] = field(default_factory=list)
    unconfirmed: dict[str, OnDone] = field(default_factory=dict)


class ProvidedServices:
    """The services of one member, over all its connections.

    :param ask: asks the server.
    :param changed: is called when a service is registered, or refused: then with the error. Its last argument: whether
        a publication was told so.
    """

    def __init__(self, ask: Ask, changed: Callable[[str, BusError | None, bool], None]) -> None:
        self._ask = ask
        self._changed = changed
        self._services: dict[str, _Service] = {}
        self._open: dict[int, Request] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The services, in the order in which they came."""
        return tuple(self._services)

    @property
    def has_handlers(self) -> bool:
        """Whether one of them answers requests."""
        return any(each.on_request is not None for each in self._services.values())

    @property
    def is_settled(self) -> bool:
        """Whether the server has registered or refused each of them."""
        return all(each.state in ("refused", "registered") for each in self._services.values())

    @property
    def open_requests(self) -> int:
        """How many requests are not answered."""
        return len(self._open)

    def add(self, name: str, on_request: OnRequest | None, done: OnDone) -> None:
        """Provide a service. :raises ValueError: it has a handler already."""
        service = self._services.setdefault(name, _Service(None))
        if on_request is not None:
            if service.on_request is not None:
                raise ValueError(f"{name} is served by this client already")
            service.on_request = on_request
        if service.state == "registered":
            done(None)
        else:
            service.waiting.append(done)
            if service.state == "refused":
                service.state = "new"  # That was after a reconnect. Perhaps it is not refused now.

    def remove(self, name: str) -> bool:
        """Provide it no longer. :returns: whether the server may have registered it."""
        service = self._services.pop(name, None)
        if service is None:
            return False
        _tell(service, Closed(f"{name} was withdrawn"))
        return service.state != "new"

    def register(self, *, with_handlers: bool) -> None:
        """Register those that the server was not asked to register.

        :param with_handlers: also those that answer requests. That these are received has to be said before.
        """
        for name, service in list(self._services.items()):
            if with_handlers or service.on_request is None:
                self._register(name, service)

    def publish_on(self, name: str) -> None:
        """Provide a service from now on at the latest, because something is about to be published on it."""
        self._register(name, self._services.setdefault(name, _Service(None)))

    def unconfirmed(self, name: str) -> dict[str, OnDone]:
        """The publications on a service of this client, to be added to until they are confirmed; see ``_Service``."""
        return self._services[name].unconfirmed

    def _register(self, name: str, service: _Service) -> None:
        if service.state == "new":
            service.state = "asked"
            fields = {"event": "services/register", "name": name}
            self._ask(fields, partial(self._answered, name, service), "services/register")

    def lost(self) -> None:
        """The connection is gone: nothing is registered, and nobody waits for an answer."""
        self._open.clear()
        for service in self._services.values():
            service.state = "new"

    def fail(self, error: BusError) -> None:
        """Nothing more is registered."""
        for service in self._services.values():
            _tell(service, error)

    def _answered(self, name: str, service: _Service, answer: Reply | BusError) -> None:
        if isinstance(answer, Lost):
            return
        error = answer if isinstance(answer, BusError) else None
        unconfirmed = list(service.unconfirmed.values()) if error is not None else []
        for done in unconfirmed:
            done(error)
        if self._services.get(name) is not service:
            return
        service.state = "registered" if error is None else "refused"
        if error is not None and (service.on_request is None or service.waiting):
            del self._services[name]  # otherwise it was registered once, and may be again
        _tell(service, error)
        self._changed(name, error, bool(unconfirmed))

    # Requests.

    def take(self, name: str, request: Request) -> bool:
        """Give a request to whom it is for. :returns: whether it is for a service of this member.

        One that comes before the server has answered that the service is registered is not: members are shown the
        requests for services that nobody provides, and their askers are told so.
        """
        service = self._services.get(name)
        if service is None or service.state != "registered":
            return False
        self._open[id(request)] = request
        if service.on_request is not None:
            service.on_request(request)
        return service.on_request is not None

    def answer(self, request: Request, fields: dict[str, Any]) -> dict[str, Any] | None:
        """The metadata of an answer; ``None``: nobody waits for one any more."""
        if self._open.pop(id(request), None) is not request:
            return None
        try:
            asked = _decode_asked(request.raw)
        except msgspec.DecodeError:
            # There is a number that no double can hold.
            return fields | answer_to(request.metadata)
        if asked.id is not None:
            fields["in-reply-to"] = asked.id
        if isinstance(asked.route, list) and asked.route:
            fields["to"] = asked.route[0]
        return fields


def answer_to(asked: dict[str, Any]) -> dict[str, Any]:
    """The attributes that make an answer of an object, to a request with these attributes."""
    found = {} if asked.get("id") is None else {"in-reply-to": asked["id"]}
    asker = came_from(asked)
    return found if asker is None else {**found, "to": asker}


def _tell(service: _Service, error: BusError | None) -> None:
    waiting, service.waiting = service.waiting, []
    for done in waiting:
        done(error)
