"""Makes the core of a wire format."""

from __future__ import annotations

from functools import partial

from bussrv.client.address import Address
from bussrv.client.core.base import Core, Tell
from bussrv.client.core.framing import PlainFraming, WebSocketFraming
from bussrv.client.core.inbus import InbusCore
from bussrv.client.core.objects import ObjectsCore
from bussrv.client.core.spp import SppCore
from bussrv.client.settings import Settings


def make_core(address: Address, settings: Settings, tell: Tell) -> Core:
    """The core of the wire format of an address."""
    if address.format == "spp":
        return SppCore(settings, tell)
    if address.format == "inbus":
        return InbusCore(settings, tell)
    framing = partial(WebSocketFraming, address) if address.format == "websocket" else PlainFraming
    return ObjectsCore(settings, tell, partial(framing, settings.max_payload), address.format)
