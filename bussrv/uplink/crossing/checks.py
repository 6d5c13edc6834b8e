"""Checks: of what other servers send, what a server may be given. Pure.

Anything may come through an engine. What is malformed would end the link with the server, and events that neighbours
tell each other would be taken for what the net itself says.
"""

from __future__ import annotations

from functools import lru_cache

from bussrv.bus.interest.vocabulary import FAREWELL, GAP, INTEREST, NEIGHBORS
from bussrv.bus.links.advertisement_fields import ADVERTISEMENTS
from bussrv.errors import Refused, RemoteProtocolError
from bussrv.service_patterns import check_pattern
from bussrv.uplink.crossing.server_link import Limits
from bussrv.values import check_known_name, check_routing_id, check_service_name
from bussrv.wire.objects import MAX_ADDED, MAX_METADATA, BadObject, BusObject, ObjectReader

MOST_CHECKED = 4096
"""Of how many names it is remembered whether they may be."""

BETWEEN_NEIGHBOURS = frozenset(
    (*ADVERTISEMENTS, "routing/subscribe", "routing/subscribe/reply", NEIGHBORS, INTEREST, GAP, FAREWELL)
)
"""Events of a link. No object of another server is one."""


class Objects:
    """Reads objects that another server sent.

    :param max_payload: the most bytes of the payload of an object.
    :param limits: those of the server that is given them.
    """

    def __init__(self, max_payload: int, limits: Limits) -> None:
        self._max_payload = max_payload
        self._limits = limits
        # The reader sees to these.
        self._are_usual = limits.metadata >= MAX_METADATA and limits.payload >= max_payload

    def read(self, body: bytes) -> tuple[list[BusObject], int]:
        """The objects that a server may be given, and how many others there are.

        :raises RemoteProtocolError: these are no whole objects.
        """
        reader = ObjectReader(MAX_METADATA, self._max_payload)
        reader.expect_server()
        objs, end = reader.read_chunk(body)
        events: list[BusObject | BadObject] = [*objs]
        if end < len(body):
            reader.feed(body[end:])
            while (event := reader.next_event()) is not None:
                events.append(event)
            if not reader.is_empty:
                raise RemoteProtocolError("bad-frame", "the last object of a frame is cut off")
        sound = [
            each
            for each in events
            if isinstance(each, BusObject)
            and ((name := each.head.event) is None or name not in BETWEEN_NEIGHBOURS)
            and (self._are_usual or self._is_small(each))
        ]
        return sound, len(events) - len(sound)

    def _is_small(self, obj: BusObject) -> bool:
        return obj.head.size <= self._limits.payload and len(obj.metadata) <= self._limits.metadata + MAX_ADDED


@lru_cache(MOST_CHECKED)
def is_routing_id(name: str) -> bool:
    """Whether a server or a session may have this routing id."""
    try:
        check_routing_id(name, "")
    except Refused:
        return False
    return True


def is_service_name(name: object) -> bool:
    """Whether a new service may have this name."""
    try:
        check_service_name(name)
    except Refused:
        return False
    return True


def is_wanted_name(name: object) -> bool:
    """Whether a server may want publications on this: the name of a service, or a pattern."""
    return isinstance(name, str) and _is_wanted(name)


@lru_cache(MOST_CHECKED)
def _is_wanted(name: str) -> bool:
    try:
        check_pattern(check_known_name(name))
    except Refused:
        return False
    return True
