"""``/api/v1/sessions``: every session, of this server and of linked ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from msgspec import UNSET, Struct
from msgspec.structs import asdict

from bussrv.admin.history.busiest import Ranking
from bussrv.admin.http.answers import Problem
from bussrv.admin.http.routes import Call
from bussrv.admin.registry.collections import CALLED, Page, in_steps, page_of
from bussrv.admin.registry.subscriptions import SubscriptionItem
from bussrv.admin.registry.subscriptions import item as subscription_item
from bussrv.bus.interfaces import IBus, ISessionLink
from bussrv.journal.record import format_time
from bussrv.registry.state.naming import called, called_in, first_provided, is_called_in
from bussrv.registry.state.session import Session
from bussrv.values import Traffic


class _Session(Struct, frozen=True, kw_only=True):
    session: str
    protocol: str
    routing_id: str
    routing_ids: tuple[str, ...]
    actor: str | None
    claimed: str | None
    name: str | None
    role: str | None
    peer: str
    opened: str
    persistent: bool
    home: str | None
    state: Literal["open", "away"]
    away_since: str | None
    kept_until: str | None


class SessionItem(_Session, frozen=True, kw_only=True):
    """A session, as lists show it.

    :ivar persistent: whether it outlives a restart of the server.
    :ivar home: the routing id of its server; ``None``: it is a session of this server.
    :ivar state: ``away``: it is durable, and its client is not connected.
    :ivar away_since: when its client left; ``None``: it is open.
    :ivar kept_until: when it ends unless its client comes back; ``None``: it is open.
    :ivar services: how many services it provides.
    :ivar provides: the names of these, at most 20.
    :ivar subscriptions: how many subscriptions it has.
    :ivar waiting_bytes: bytes that wait for its client, without the spool. This field and all later ones are ``None``
        for a session of another server.
    :ivar waiting_messages: messages that wait for its client in the spool; 0 unless it is durable.
    :ivar objects_in: objects that it sent.
    :ivar objects_per_second: objects that it sent and received in a second, in the last ten seconds.
    """

    services: int
    provides: list[str]
    subscriptions: int
    waiting_bytes: int | None
    waiting_messages: int | None
    objects_in: int | None
    objects_out: int | None
    bytes_in: int | None
    bytes_out: int | None
    objects_per_second: float | None
    bytes_per_second: float | None

    @property
    def called(self) -> str:
        """The name by which a person knows it."""
        return called(self)


class Provided(Struct, frozen=True):
    """A service that a session provides."""

    service: str
    since: str


class SessionView(_Session, frozen=True, kw_only=True):
    """One session, with all details.

    :ivar persistent: whether it outlives a restart of the server.
    :ivar state: ``away``: it is durable, and its client is not connected.
    :ivar away_since: when its client left; ``None``: it is open.
    :ivar kept_until: when it ends unless its client comes back; ``None``: it is open.
    :ivar objects_in: objects that it sent. This field and all later ones are ``None`` for a session of another server.
    :ivar waiting_bytes: bytes that wait for its client, without the spool.
    :ivar waiting_messages: messages that wait for its client in the spool; 0 unless it is durable.
    """

    services: list[Provided]
    subscriptions: list[SubscriptionItem]
    objects_in: int | None
    objects_out: int | None
    bytes_in: int | None
    bytes_out: int | None
    waiting_bytes: int | None
    waiting_messages: int | None


class SlowItem(Struct, frozen=True, kw_only=True):
    """A session whose client has not read everything.

    :ivar waiting_bytes: bytes that wait for its client.
    :ivar limit: the number of waiting bytes at which the client is disconnected.
    :ivar called: what a person calls it.
    """

    session: str
    protocol: str
    routing_id: str
    actor: str | None
    peer: str
    waiting_bytes: int
    limit: int
    called: str


def _common(session: Session) -> dict[str, Any]:
    return {
        **session.about(),
        "routing_ids": session.routing_ids,
        "name": session.name,
        "role": session.role,
        "opened": format_time(session.opened),
        "persistent": session.persistent,
        "home": session.home,
        **away_facts(session),
    }


def away_facts(session: Session) -> dict[str, Any]:
    """Whether a session is away, since when, and until when it is kept."""
    away = session.away
    if away is UNSET:
        return {"state": "open", "away_since": None, "kept_until": None}
    return {"state": "away", "away_since": format_time(away.since), "kept_until": format_time(away.until)}


async def list_all(call: Call) -> Page:
    """Every session, of this server and of linked ones."""
    return await page_of(call, _items(call.server.bus, call.shared.history.sessions, call.query[CALLED.name]))


def _items(bus: IBus, ranking: Ranking, wanted: str | None) -> Iterator[SessionItem | None]:
    state = bus.registry.state
    for session in tuple(state.sessions.values()):
        provided = state.provided_by(session.id)
        if wanted is not None and not is_called_in(state, session, wanted):
            yield None
            continue
        link = bus.link_of(session.id)
        yield SessionItem(
            services=len(provided),
            provides=first_provided(provided),
            subscriptions=len(state.subscriptions.get(session.id, ())),
            waiting_bytes=None if link is None else link.waiting,
            waiting_messages=None if link is None else waiting_messages(bus, session),
            **_traffic(link),
            objects_per_second=None if link is None else ranking.rate(session.id).objects,
            bytes_per_second=None if link is None else ranking.rate(session.id).bytes,
            **_common(session),
        )


def _traffic(link: ISessionLink | None) -> dict[str, Any]:
    return dict.fromkeys(Traffic.__struct_fields__) if link is None else asdict(link.traffic)


async def show(call: Call) -> SessionView:
    """One session, with its services, subscriptions and traffic.

    :raises Problem: ``no-such-session``.
    """
    bus, session = call.server.bus, find(call)
    provided: list[Provided] = []
    subscribed: list[SubscriptionItem] = []
    await in_steps(_listed(bus, session, provided, subscribed), bus.slices)
    link = bus.link_of(session.id)
    return SessionView(
        services=provided,
        subscriptions=subscribed,
        **_traffic(link),
        waiting_bytes=None if link is None else link.waiting,
        waiting_messages=None if link is None else waiting_messages(bus, session),
        **_common(session),
    )


def waiting_messages(bus: IBus, session: Session) -> int:
    """How many messages wait for the client of a session of this server in the spool; 0 unless it is durable."""
    count = bus.queued.get(session.id)
    return 0 if count is None else count()


def _listed(
    bus: IBus, session: Session, provided: list[Provided], subscribed: list[SubscriptionItem]
) -> Iterator[None]:
    """List the services and the subscriptions of a session, one a step. They may change meanwhile."""
    state = bus.registry.state
    for name in sorted(state.provided_by(session.id)):
        since = state.services.get(name, {}).get(session.id)
        if since is not None:
            provided.append(Provided(name, format_time(since)))
        yield
    for each in tuple(state.subscriptions.get(session.id, {}).values()):
        subscribed.append(subscription_item(bus, session, each))
        yield


def find(call: Call) -> Session:
    """The session that the path names.

    :raises Problem: ``no-such-session``.
    """
    session = call.server.bus.registry.state.sessions.get(call.path["session"])
    if session is None:
        raise Problem("no-such-session", "the session is closed, or never was; its history may say more")
    return session


async def slow(call: Call) -> Page:
    """The sessions for which bytes wait, most first: their clients read too slowly. Those away are left out."""
    return await page_of(call, _slow(call.server.bus, call.query[CALLED.name]))


def _slow(bus: IBus, wanted: str | None) -> Iterator[SlowItem | None]:
    state = bus.registry.state
    for session in tuple(state.sessions.values()):
        link = bus.link_of(session.id)
        if link is None or not link.waiting or session.is_away:
            yield None
            continue
        if wanted is not None and not is_called_in(state, session, wanted):
            yield None
            continue
        yield SlowItem(
            session=session.id,
            protocol=session.protocol,
            routing_id=session.routing_id,
            actor=session.actor,
            peer=session.peer,
            waiting_bytes=link.waiting,
            limit=bus.settings.max_outbound,
            called=called_in(state, session),
        )
