"""The parts of a bus that all routers work with."""

from __future__ import annotations

from dataclasses import dataclass

from bussrv.bus.groups.fanout import Fanout
from bussrv.bus.groups.receivers import Receivers
from bussrv.bus.links.links import Links
from bussrv.bus.requests.answerers import Answerers
from bussrv.bus.requests.exchanges import Exchanges
from bussrv.bus.requests.open_requests import OpenRequests
from bussrv.bus.routing.audience import Audience
from bussrv.bus.services.publishing import Publisher
from bussrv.bus.taps.taps import Taps


@dataclass(frozen=True, kw_only=True, slots=True)
class RoutingParts:
    """The parts that decide who gets an object, and those that send it.

    :ivar audience: says who gets an object.
    :ivar receivers: every session that something can be sent to, in groups.
    :ivar fanout: collects frames for groups.
    :ivar publisher: gives publications to subscribers.
    :ivar requests: the open ones.
    :ivar exchanges: the sessions that ask and answer though they are no members.
    :ivar answerers: says which members may answer requests for services that nobody registered.
    """

    audience: Audience
    receivers: Receivers
    fanout: Fanout
    links: Links
    publisher: Publisher
    requests: OpenRequests
    exchanges: Exchanges
    answerers: Answerers
    taps: Taps
