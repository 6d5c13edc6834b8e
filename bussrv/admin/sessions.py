"""``/api/v1/sessions``: every session, of this server and of linked ones."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from bussrv.admin.call import Call
from bussrv.admin.collections import Page, page_of
from bussrv.journal.record import format_time
from bussrv.registry.session import Session
from bussrv.registry.state import RegistryState


class SessionItem(Struct, frozen=True, kw_only=True):
    """A session.

    :ivar home: the routing id of its server; ``None``: it is a session of this one.
    :ivar services: how many it provides.
    :ivar subscriptions: how many it has.
    """

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
    services: int
    subscriptions: int


def item(state: RegistryState, session: Session) -> SessionItem:
    """A session as it is shown in a list."""
    return SessionItem(
        session=session.id,
        protocol=session.protocol,
        routing_id=session.routing_id,
        routing_ids=session.routing_ids,
        actor=session.actor,
        claimed=session.claimed,
        name=session.name,
        role=session.role,
        peer=session.peer,
        opened=format_time(session.opened),
        persistent=session.persistent,
        home=session.home,
        services=len(state.provided_by(session.id)),
        subscriptions=len(state.subscriptions.get(session.id, ())),
    )


async def list_all(call: Call) -> Page:
    """All sessions, or those that the filters leave."""
    return await page_of(call, _items(call.server.bus.registry.state))


def _items(state: RegistryState) -> Iterator[SessionItem]:
    for session in tuple(state.sessions.values()):
        yield item(state, session)
