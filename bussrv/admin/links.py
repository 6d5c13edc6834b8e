"""``/api/v1/links``: the servers that this one is linked with."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from bussrv.admin.call import Call
from bussrv.admin.collections import Page, page_of
from bussrv.bus.interfaces import IBus
from bussrv.journal.record import format_time


class LinkItem(Struct, frozen=True, kw_only=True):
    """A link to another server.

    :ivar routing_id: that of the other server; ``None``: it is not known yet.
    :ivar address: of the other server.
    """

    routing_id: str | None
    address: str
    state: str
    since: str | None


async def list_all(call: Call) -> Page:
    """All links."""
    return await page_of(call, _items(call.server.bus))


def _items(bus: IBus) -> Iterator[LinkItem]:
    for session in tuple(bus.registry.state.sessions.values()):
        if session.is_link:
            yield LinkItem(
                routing_id=session.routing_id, address=session.peer, state="up", since=format_time(session.opened)
            )
