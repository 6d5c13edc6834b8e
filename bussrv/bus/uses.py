"""Uses: what the sessions of this server publish, send, ask for and address, summed up an hour for the journal.

A route plan is made for many objects, so a use is counted when it is judged, and not once for each object. That costs
nothing where objects are routed by plans that are made already. Where each object is judged, its origin remembers what
it sent to whom, with the kind and the counter of that: see :class:`bussrv.bus.origins.Counted`. Making the kind of an
object takes longer than finding and counting it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bussrv import events as ev
from bussrv.bus.interest.interests import Kind
from bussrv.bus.interest.vocabulary import REPLYING, REQUEST
from bussrv.bus.origins import Counted, Counter, Origin
from bussrv.policy.permissions.permissions import Action, content
from bussrv.registry.changes.registry import Registry
from bussrv.values import Publication, excerpt
from bussrv.wire.head import CommandHead
from bussrv.wire.objects import BusObject

HOUR = 3600.0
"""Seconds between two sums."""

MOST_USES = 1000
"""The most records of an hour."""

MOST_NOTED = 4096
"""The most kinds of objects that are told apart in an hour. Further ones are counted only."""

MOST_ADDRESSEES = 20
"""Of how many addressees of an object it is noted that they were addressed."""


MOST_COUNTED = 16
"""Of how many addressees a session remembers the counter."""

LONG = 1024
"""Of an object with more bytes of metadata, names are cut before they are kept: strangers choose them."""


class _Noted(Counter):
    """Objects that are alike to rights.

    :ivar peer: the address of the first session that sent one.
    :ivar rights: the actions and targets.
    """

    peer: str
    rights: tuple[tuple[Action, str], ...]


class Uses:
    """Sums uses up, once it is started.

    :param registry: writes the records.
    :ivar is_on: whether uses are noted.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.is_on = False
        self._noted: dict[tuple[Any, ...], _Noted] = {}
        self._remembering: list[dict[str, Counted]] = []
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
        """A session of this server sends an object, which it may send, and whose counter is not remembered."""
        event, to = kind.event, obj.head.to
        if event in REPLYING or origin.link is not None:
            return
        session = self._registry.state.sessions.get(origin.sender)
        if session is None:
            return
        service: Any = None
        if event == REQUEST:
            service = _requested(obj)
        elif publication is not None:
            service = publication.service
        addressees = tuple(to[:MOST_ADDRESSEES]) if isinstance(to, list) else to
        about: tuple[Any, ...] = (event, kind.type, service, addressees)
        if len(obj.metadata) > LONG:
            about = tuple(map(_cut, about))
        key = (session.actor, session.protocol, *about)
        noted = self._noted.get(key)
        if noted is None:
            if len(self._noted) >= MOST_NOTED:
                self._left_out += 1
                return
            noted = self._noted[key] = _Noted(session.peer, tuple(_rights(*about)))
        noted.count += 1
        if isinstance(to, str) and service is None and len(obj.metadata) <= LONG:
            head = obj.head
            looks = head.event, head.type, head.size > 0, head.natures
            self._remember(origin.counted, to, Counted(looks, kind, noted))

    def _remember(self, counted: dict[str, Counted], to: str, objects: Counted) -> None:
        if not counted:
            if len(self._remembering) >= MOST_NOTED:
                return
            self._remembering.append(counted)
        elif len(counted) >= MOST_COUNTED:
            counted.clear()
        counted[to] = objects

    def _write_hour(self, reactor: Any) -> None:
        self._hours += 1
        self._timer = reactor.callLater(HOUR, self._write_hour, reactor)
        self._write()

    def _write(self) -> None:
        for counted in self._remembering:
            counted.clear()
        self._remembering = []
        noted, self._noted = self._noted, {}
        left_out, self._left_out = self._left_out, 0
        sums: dict[tuple[str | None, str, Action, str], tuple[str, int]] = {}
        for (actor, protocol, *_), each in noted.items():
            for action, target in each.rights:
                key = (actor, protocol, action, target)
                peer, count = sums.get(key, (each.peer, 0))
                if count or len(sums) < MOST_USES:
                    sums[key] = peer, count + each.count
                else:
                    left_out += 1
        last = len(sums)
        for number, ((actor, protocol, action, target), (peer, count)) in enumerate(sums.items(), 1):
            self._registry.note(
                ev.AccessUsed(
                    action=action,
                    target=excerpt(target),
                    count=count,
                    actor=actor,
                    protocol=protocol,
                    peer=peer,
                    suppressed=left_out if number == last and left_out else None,
                )
            )


def _cut(names: Any) -> Any:
    """As much of names as a record has."""
    if isinstance(names, tuple):
        return tuple(map(_cut, names))
    return names if names is None else excerpt(names)


def _requested(obj: BusObject) -> tuple[str, ...]:
    """The services that a request names."""
    if type(obj.head) is CommandHead and b'"service"' not in obj.metadata and b"\\" not in obj.metadata:
        # All other attributes need not be decoded.
        names: tuple[Any, ...] = (obj.name(),)
    else:
        fields = obj.fields()
        names = (fields.get("name"), fields.get("service"))
    return tuple(dict.fromkeys(each for each in names if isinstance(each, str)))


def _rights(
    event: str | None, content_type: str, service: str | tuple[str, ...] | None, to: object
) -> Iterator[tuple[Action, str]]:
    """The rights that an object takes under a policy, also if there is none.

    :param service: the service that it is published on, or (a tuple) those that it requests.
    :param to: its addressees.
    """
    if event in REPLYING:
        return
    if isinstance(service, tuple):
        for name in service:
            yield "request", name
    elif service is not None:
        yield "publish", service
    if service is None or (event is not None and event != REQUEST):
        yield "send", content(event, content_type)
    for each in (to,) if isinstance(to, str) else to if isinstance(to, tuple) else ():
        yield "address", each
