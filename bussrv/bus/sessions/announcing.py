"""Announcing: events of the server itself for all members with one vocabulary, as far as each may know of them."""

from __future__ import annotations

from collections.abc import Callable

from bussrv.bus.groups.fanout import Fanout
from bussrv.bus.groups.frames import Delivery
from bussrv.bus.groups.receivers import Receivers
from bussrv.bus.interest.interests import Kind
from bussrv.bus.interfaces import Shown
from bussrv.policy.permissions.permissions import Permissions
from bussrv.wire import objects as wire


class Announcing:
    """Sends events of the server.

    :param new_id: makes ids of objects.
    """

    def __init__(self, receivers: Receivers, fanout: Fanout, server_id: str, new_id: Callable[[], str]) -> None:
        self._receivers = receivers
        self._fanout = fanout
        self._server_id = server_id
        self._new_id = new_id

    def announce(self, event: str, fields: Shown, vocabulary: str | None, about: str) -> None:
        """Give an event to the members of one vocabulary; see :meth:`bussrv.bus.interfaces.ISending.announce`."""
        common = {"id": self._new_id(), "route": [self._server_id]}
        made: dict[Permissions, Delivery | None] = {}
        for group in self._receivers.wanting(Kind(event=event)):
            if group.vocabulary != vocabulary:
                continue
            if group.permissions not in made:
                shown = fields(group.permissions)
                made[group.permissions] = None if shown is None else _delivery({"event": event, **shown, **common})
            delivery = made[group.permissions]
            if delivery is not None:
                self._fanout.add_for_others(group, delivery, about)


def _delivery(fields: dict[str, object]) -> Delivery:
    return Delivery(wire.encode_metadata(fields), b"")
