"""``/api/v1/subscriptions``: who is subscribed to what."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from bussrv.admin.http.routes import Call
from bussrv.admin.registry.collections import Page, page_of
from bussrv.bus.interfaces import IBus
from bussrv.journal.record import format_time
from bussrv.registry.state.session import Session, Subscription
from bussrv.values import Interest

LEASED = "inbus"
"""The wire format whose subscriptions have leases."""


class SubscriptionItem(Struct, frozen=True, kw_only=True):
    """A subscription.

    :ivar service: ``None``: an interest in objects.
    :ivar interest: ``None``: a service; or the session is of another server, which applies its interest.
    :ivar renewed: the last renewal in the journal. Not every renewal gets there.
    :ivar expires: the end of the lease, if there is no later renewal; ``None``: there is no lease.
    """

    session: str
    protocol: str
    routing_id: str
    service: str | None
    interest: Interest | None
    added: str
    renewed: str
    expires: str | None


def item(bus: IBus, session: Session, subscription: Subscription) -> SubscriptionItem:
    """A subscription of a session, as it is shown."""
    lease = bus.settings.inbus_lease if session.protocol == LEASED else 0
    return SubscriptionItem(
        session=session.id,
        protocol=session.protocol,
        routing_id=session.routing_id,
        service=subscription.service,
        interest=subscription.interest,
        added=format_time(subscription.added),
        renewed=format_time(subscription.renewed),
        expires=format_time(subscription.renewed + int(lease * 1_000_000)) if lease else None,
    )


async def list_all(call: Call) -> Page:
    """Every subscription."""
    return await page_of(call, _items(call.server.bus))


def _items(bus: IBus) -> Iterator[SubscriptionItem | None]:
    state = bus.registry.state
    for session_id in tuple(state.subscriptions):
        session = state.sessions.get(session_id)
        held = tuple(state.subscriptions.get(session_id, {}).values()) if session is not None else ()
        yield None
        for subscription in held:
            assert session is not None
            yield item(bus, session, subscription)
