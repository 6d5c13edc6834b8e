"""Gaps: a linked server says that objects of other servers were lost on their way here.

Attributes in brackets may be left out::

    routing/announcement/gap   from [service] [lost] [reason] route      between two servers, never forwarded
    services/gap               [name] [lost] reason sender-server route  to members that asked for it

``from`` and ``sender-server`` are the routing id of the server whose objects were lost. ``lost`` is their number, if
that is known. ``service``, which members know as ``name``, is the service that they were published on, if it is one.
``reason`` is one of :data:`LOST_REASONS`; any other one counts as the first of them.

A gap is journaled and logged at a limited rate, and counted.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from twisted.logger import Logger

from bussrv import events as ev
from bussrv.bus.groups.fanout import Fanout
from bussrv.bus.groups.frames import Delivery
from bussrv.bus.groups.receivers import Receivers
from bussrv.bus.links.link import Link
from bussrv.bus.shared import Shared
from bussrv.counts.throttle import LOG_BURST, LOG_RATE, Throttle
from bussrv.errors import Refused
from bussrv.values import check_known_name, check_routing_id
from bussrv.wire.objects import encode_metadata

TOLD_GAP = "services/gap"
"""The event that members are told by."""

LOST_REASONS = ("objects-lost", "objects-expired")

MOST_LOST = 1 << 53
"""A larger number of objects is no number that all programs can read."""

log = Logger()


class LostObjects(Struct, frozen=True):
    """Objects that a linked server said were lost.

    :ivar origin: the server whose objects they were.
    :ivar lost: how many; ``None``: that is not known.
    """

    origin: str
    service: str | None
    lost: int | None
    reason: str


def read_gap(fields: dict[str, Any]) -> LostObjects:
    """What an event says.

    :raises Refused: ``bad-attribute`` or ``bad-service-name``.
    """
    lost, service, reason = fields.get("lost"), fields.get("service"), fields.get("reason")
    if lost is not None and not (type(lost) is int and 0 <= lost <= MOST_LOST):
        raise Refused("bad-attribute", "lost is a number of objects")
    try:
        origin = check_routing_id(fields.get("from"), "from")
    except Refused as refusal:
        raise Refused("bad-attribute", refusal.message) from None
    checked = None if service is None else check_known_name(service)
    return LostObjects(origin, checked, lost, reason if reason in LOST_REASONS else LOST_REASONS[0])


class Gaps:
    """Journals, counts and logs gaps, and tells members of them.

    :param wake: has collected frames sent at the end of the reactor turn.
    """

    def __init__(self, shared: Shared, *, fanout: Fanout, receivers: Receivers, wake: Any) -> None:
        self._registry = shared.registry
        self._counters = shared.counters
        self._new_id = shared.new_id
        self._server_id = shared.server_id
        self._fanout = fanout
        self._receivers = receivers
        self._wake = wake
        self._complaints = Throttle(LOG_RATE, LOG_BURST, shared.reactor.seconds)

    def receive(self, link: Link, fields: dict[str, Any]) -> None:
        """A linked server says that objects were lost.

        :raises Refused: ``bad-attribute`` or ``bad-service-name``.
        """
        gap = read_gap(fields)
        self._counters["link-lost-objects"] += gap.lost or 0
        about = self._registry.state.sessions[link.session_id].about()
        self._registry.note_often(
            ev.LinkGap(**{**about, "reason": gap.reason}, service=gap.service, origin=gap.origin, lost=gap.lost)
        )
        self._log(link, gap)
        self._tell(gap)

    def _log(self, link: Link, gap: LostObjects) -> None:
        suppressed = self._complaints.admit(gap.origin)
        if suppressed is not None:
            log.warn(
                "objects of {origin} were lost on their way here, says {server}, session {session}: {lost} "
                "({suppressed} more not logged)",
                event="link.gap",
                origin=gap.origin,
                server=link.server_id,
                session=link.session_id,
                service=gap.service,
                lost="an unknown number" if gap.lost is None else gap.lost,
                reason=gap.reason,
                suppressed=suppressed,
            )

    def _tell(self, gap: LostObjects) -> None:
        """Tell the members that asked for it, and are subscribed to the service."""
        groups = self._receivers.hearing_gaps(gap.service)
        if not groups:
            return
        about = {"name": gap.service, "lost": gap.lost, "reason": gap.reason, "sender-server": gap.origin}
        known = {key: value for key, value in about.items() if value is not None}
        metadata = encode_metadata({"event": TOLD_GAP, **known, "id": self._new_id(), "route": [self._server_id]})
        delivery = Delivery(metadata, b"")
        for group in groups:
            self._fanout.add(group, delivery)
        self._wake()
