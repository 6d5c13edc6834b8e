"""``/api/v1/services``: who provides which service, and who is subscribed to it, over which wire format."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from bussrv.admin.call import Call
from bussrv.admin.collections import Page, page_of
from bussrv.registry.state import RegistryState


class ServiceItem(Struct, frozen=True, kw_only=True):
    """A service that somebody provides or is subscribed to.

    :ivar service: its name.
    :ivar providers: how many sessions provide it.
    :ivar subscribers: how many sessions are subscribed to it.
    """

    service: str
    providers: int
    subscribers: int


async def list_all(call: Call) -> Page:
    """All services, or those that the filters leave."""
    state = call.server.bus.registry.state
    return await page_of(call, _items(state, _subscribers(state)))


def _subscribers(state: RegistryState) -> dict[str, int]:
    counts: dict[str, int] = {}
    for each in state.all_subscriptions():
        if each.service is not None:
            counts[each.service] = counts.get(each.service, 0) + 1
    return counts


def _items(state: RegistryState, subscribers: dict[str, int]) -> Iterator[ServiceItem]:
    for name in {**dict.fromkeys(state.services), **subscribers}:
        yield ServiceItem(
            service=name, providers=len(state.services.get(name, ())), subscribers=subscribers.get(name, 0)
        )
