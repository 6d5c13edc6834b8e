"""Uses: what the sessions of this server publish, send, ask for and address, summed up an hour for the journal.

A route plan is made for many objects, so a use is counted when it is judged, and not once for each object. That costs
nothing where objects are routed by plans that are made already.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from bussrv import events as ev
from bussrv.bus.interest.interests import Kind
from bussrv.bus.interest.vocabulary import REPLYING, REQUEST
from bussrv.bus.origins import Origin
from bussrv.policy.permissions.permissions import Action, content
from bussrv.registry.changes.registry import Registry
from bussrv.values import Publication, excerpt
from bussrv.wire.objects import BusObject

HOUR = 3600.0
"""Seconds between two sums."""

MOST_USES = 1000
"""The most records of an hour."""

MOST_ADDRESSEES = 20
"""Of how many addressees of an object it is noted that they were addressed."""


class _Sum(Struct):
    peer: str
    count: int = 0


class Uses:
    """Sums uses up, once it is started.

    :param registry: writes the records.
    :ivar is_on: whether uses are noted.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.is_on = False
        self._sums: dict[tuple[str | None, str, Action, str], _Sum] = {}
        self._left_out = 0
        self._hours = 0
        self._timer: Any = None

    def start(self, reactor: Any) -> None:
        """Note uses from now on, and write them each hour."""
        self.is_on = True
        self._timer = reactor.callLater(HOUR, self._write_hour, reactor)

    def stop(self) -> None:
        """Note no more. The last part of an hour is written, unless it was the first one."""
        self.is_on = False
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        if self._hours:
            self._write()

    def note(self, origin: Origin, obj: BusObject, kind: Kind, publication: Publication | None) -> None:
        """A session of this server sends an object, which it may send."""
        session = self._registry.state.sessions.get(origin.sender)
        if session is None or origin.link is not None:
            return
        for action, target in _rights(obj, kind, publication):
            key = (session.actor, session.protocol, action, target)
            found = self._sums.get(key)
            if found is None:
                if len(self._sums) >= MOST_USES:
                    self._left_out += 1
                    continue
                found = self._sums[key] = _Sum(session.peer)
            found.count += 1

    def _write_hour(self, reactor: Any) -> None:
        self._hours += 1
        self._timer = reactor.callLater(HOUR, self._write_hour, reactor)
        self._write()

    def _write(self) -> None:
        sums, self._sums = self._sums, {}
        left_out, self._left_out = self._left_out, 0
        last = len(sums)
        for number, ((actor, protocol, action, target), found) in enumerate(sums.items(), 1):
            self._registry.note(
                ev.AccessUsed(
                    action=action,
                    target=excerpt(target),
                    count=found.count,
                    actor=actor,
                    protocol=protocol,
                    peer=found.peer,
                    suppressed=left_out if number == last and left_out else None,
                )
            )


def _rights(obj: BusObject, kind: Kind, publication: Publication | None) -> Iterator[tuple[Action, str]]:
    """The rights that an object takes under a policy, also if there is none."""
    if kind.event == REQUEST:
        fields = obj.fields()
        for name in dict.fromkeys(fields[key] for key in ("name", "service") if isinstance(fields.get(key), str)):
            yield "request", name
    elif kind.event not in REPLYING:
        if publication is not None:
            yield "publish", publication.service
        if publication is None or kind.event is not None:
            yield "send", content(kind.event, kind.type)
    to = obj.head.to
    if to is not None and kind.event not in REPLYING:
        for each in [to] if isinstance(to, str) else to[:MOST_ADDRESSEES]:
            yield "address", each
