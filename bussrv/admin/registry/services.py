"""``/api/v1/services``: the services, with their providers and subscribers and the wire format of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from msgspec import Struct

from bussrv.admin.history.busiest import Ranking, Rate
from bussrv.admin.http.answers import Problem
from bussrv.admin.http.routes import Call
from bussrv.admin.registry.collections import Page, in_steps, page_of
from bussrv.admin.registry.sessions import away_facts, waiting_messages
from bussrv.bus.interfaces import IBus
from bussrv.journal.record import format_time
from bussrv.registry.state.session import Session, Subscription
from bussrv.registry.state.state import RegistryState
from bussrv.service_patterns import is_pattern, matches
from bussrv.values import Interest

FEW = 3
"""The most providers, and the most subscribers, that a list names of each service."""

MOST = 1_000
"""The most providers, and the most subscribers, that the view of one service names."""


class Formats(Struct, frozen=True):
    """The wire formats of the providers and of the subscribers of a service, sorted."""

    providers: list[str]
    subscribers: list[str]


class ServiceItem(Struct, frozen=True, kw_only=True):
    """A service that somebody provides or is subscribed to.

    :ivar service: its name.
    :ivar providers: how many sessions provide it.
    :ivar subscribers: how many sessions are subscribed to it.
    :ivar objects_per_second: publications on it in a second, in the last ten seconds.
    :ivar bytes_per_second: the bytes of their payloads.
    :ivar first_providers: the routing ids of the first few providers.
    :ivar first_subscribers: the routing ids of the first few subscribers.
    """

    service: str
    providers: int
    subscribers: int
    objects_per_second: float
    bytes_per_second: float
    formats: Formats
    first_providers: list[str]
    first_subscribers: list[str]


class Provider(Struct, frozen=True, kw_only=True):
    """A session that provides a service.

    :ivar name: the program that it says it is.
    :ivar actor: the user that it has proved to be.
    :ivar claimed: the user that it merely says it is.
    """

    session: str
    name: str | None
    actor: str | None
    claimed: str | None
    peer: str
    routing_id: str
    protocol: str
    home: str | None
    since: str


class Subscriber(Provider, frozen=True, kw_only=True):
    """A session that is subscribed to a service.

    :ivar state: ``away``: it is durable, and its client is not connected.
    :ivar away_since: when its client left; ``None``: it is open.
    :ivar kept_until: when it ends unless its client comes back; ``None``: it is open.
    :ivar name: the program that it says it is.
    :ivar actor: the user that it has proved to be.
    :ivar claimed: the user that it merely says it is.
    :ivar interest: ``None``: it wants all of it.
    :ivar pattern: the pattern over names that it is subscribed to; ``None``: it is to the service by its name.
    :ivar waiting_messages: messages that wait for its client in the spool; ``None``: it is a session of another server.
    """

    state: Literal["open", "away"]
    away_since: str | None
    kept_until: str | None
    interest: Interest | None
    pattern: str | None = None
    waiting_messages: int | None


class ServiceView(Struct, frozen=True, kw_only=True):
    """One service, with at most 1,000 providers and 1,000 subscribers. The counts are those of all."""

    service: str
    providers: list[Provider]
    subscribers: list[Subscriber]
    providers_count: int
    subscribers_count: int
    formats: Formats


class _Audience:
    """The subscribers of one service."""

    def __init__(self) -> None:
        self.count = 0
        self.protocols: set[str] = set()
        self.first: list[str] = []

    def add(self, session: Session) -> None:
        """Count one more session."""
        self.count += 1
        self.protocols.add(session.protocol)
        if len(self.first) < FEW:
            self.first.append(session.routing_id)


_NOBODY = _Audience()


async def list_all(call: Call) -> Page:
    """Every service: how many provide it, and how many are subscribed to it."""
    return await page_of(call, _items(call.server.bus.registry.state, call.shared.history.services))


def _items(state: RegistryState, ranking: Ranking) -> Iterator[ServiceItem | None]:
    audiences: dict[str, _Audience] = {}
    for session_id in tuple(state.subscriptions):
        yield None
        session = state.sessions.get(session_id)
        if session is not None:
            for name in state.subscriptions.get(session_id, ()):
                if name is not None:
                    audiences.setdefault(name, _Audience()).add(session)
    for name in {**dict.fromkeys(state.services), **audiences}:
        yield _item(state, name, audiences.get(name, _NOBODY), ranking.rate(name))


def _item(state: RegistryState, name: str, audience: _Audience, rate: Rate) -> ServiceItem:
    providers = state.services.get(name, {})
    sessions = [state.sessions[each] for each in _first(providers, MOST)]
    return ServiceItem(
        service=name,
        providers=len(providers),
        subscribers=audience.count,
        objects_per_second=rate.objects,
        bytes_per_second=rate.bytes,
        formats=Formats(sorted({each.protocol for each in sessions}), sorted(audience.protocols)),
        first_providers=[each.routing_id for each in sessions[:FEW]],
        first_subscribers=audience.first,
    )


def _first(names: Iterable[str], most: int) -> list[str]:
    return [each for each, _ in zip(names, range(most), strict=False)]


async def show(call: Call) -> ServiceView:
    """One service: who provides it, and who is subscribed to it.

    :raises Problem: ``no-such-service``.
    """
    state, name = call.server.bus.registry.state, call.path["service"]
    found: list[Subscription] = []
    await in_steps(_subscriptions(state, name, found), call.server.bus.slices)
    providers = state.services.get(name, {})
    present = [each for each in found if state.subscription(each.session, each.service) is not None]
    if not providers and not present:
        raise Problem("no-such-service")
    provided = [_provider(state, each, name) for each in _first(providers, MOST)]
    subscribed = [_subscriber(call.server.bus, each, name) for each in present[:MOST]]
    formats = Formats(
        sorted({each.protocol for each in provided}),
        sorted({state.sessions[each.session].protocol for each in present}),
    )
    return ServiceView(
        service=name,
        providers=provided,
        subscribers=subscribed,
        providers_count=len(providers),
        subscribers_count=len(present),
        formats=formats,
    )


def _subscriptions(state: RegistryState, service: str, found: list[Subscription]) -> Iterator[None]:
    """Find the subscription of each session to a service, or else the first pattern of it that covers the service."""
    for session_id in tuple(state.subscriptions):
        held = state.subscriptions.get(session_id, {})
        patterns = (each for each in held if each is not None and is_pattern(each) and matches(each, service))
        name = service if service in held else next(patterns, None)
        if name is not None:
            found.append(held[name])
        yield


def _provider(state: RegistryState, session_id: str, service: str) -> Provider:
    return Provider(**_about(state.sessions[session_id], state.services[service][session_id]))


def _subscriber(bus: IBus, held: Subscription, service: str) -> Subscriber:
    session = bus.registry.state.sessions[held.session]
    return Subscriber(
        **_about(session, held.added),
        **away_facts(session),
        interest=held.interest,
        pattern=None if held.service == service else held.service,
        waiting_messages=None if session.home is not None else waiting_messages(bus, session),
    )


def _about(session: Session, since: int) -> dict[str, Any]:
    return {**session.about(), "name": session.name, "home": session.home, "since": format_time(since)}
