"""Interest over links: linked servers say what they want of the objects that are for everybody, and are told the same.

A server that asks for it is told what all sessions of this server want together, and what the other linked servers want
that it does not know of. Each change is told once a reactor turn, as a difference. If there are many names, events and
content of all types are wanted until all of them are said, so that nothing is missed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from bussrv import events as ev
from bussrv.bus.groups.fanout import Fanout
from bussrv.bus.interest.total import FULL_REACH, Reach, TotalInterest
from bussrv.bus.interest.vocabulary import INTEREST
from bussrv.bus.links.interest_fields import MOST_NAMED, read_change, said_types, sayable
from bussrv.bus.links.jobs import Jobs
from bussrv.bus.links.link import Link
from bussrv.bus.links.link_interest import LinkInterest
from bussrv.bus.shared import Shared
from bussrv.counts.throttle import Throttle
from bussrv.errors import OverLimit, Refused
from bussrv.turns.reactor_turn import EndOfReactorTurn
from bussrv.wire import objects as wire

MOST_LOOKED_AT = 256
"""The most names and patterns that are looked at in one step."""


class _Told(Struct, eq=False):
    """What one linked server was told.

    :ivar reach: ``None``: nothing yet.
    :ivar names: the names and patterns.
    :ivar pending: those that may have changed.
    :ivar is_telling: whether it is being told.
    """

    link: Link
    reach: Reach | None = None
    names: set[str] = set()
    pending: dict[str, None] = {}
    is_telling: bool = False


class LinkInterests:
    """What linked servers want, and what they are told.

    :param total: what the sessions of this server want.
    :param links: the links that are up, by session id.
    :param complaints: limits how often the log says that something failed.
    """

    def __init__(
        self,
        shared: Shared,
        *,
        fanout: Fanout,
        total: TotalInterest,
        links: Mapping[str, Link],
        complaints: Throttle,
    ) -> None:
        self._registry = shared.registry
        self._settings = shared.settings
        self._server_id = shared.server_id
        self._new_id = shared.new_id
        self._fanout = fanout
        self._total = total
        self._links = links
        self._narrow: tuple[LinkInterest, ...] = ()
        self._told: dict[str, _Told] = {}
        # Apart from other jobs of links: these may take long.
        self._jobs = Jobs(shared.slices, complaints)
        self._audience_changes = EndOfReactorTurn(shared.generation.end, shared.reactor)
        self._changes = EndOfReactorTurn(self._tell_changes, shared.reactor)
        total.changed = self._changed

    def covers(self, service: str) -> bool:
        """Whether a linked server wants publications on a service that it would not want on every service."""
        return bool(self._narrow) and any(each.covers(service) for each in self._narrow)

    # What linked servers say.

    def receive(self, session_id: str, fields: dict[str, Any]) -> None:
        """A linked server said what it wants.

        :raises Refused: ``bad-attribute``, ``bad-service-name`` or ``link-interest-full``: it is given everything from
            now on, until it begins anew.
        """
        link = self._links[session_id]
        interest = link.interest
        before = interest.reach
        try:
            change = read_change(fields, self._settings)
            named = interest.names if change.anew else ()
            interest.apply(change, self._settings.max_link_interest)
            self._changed_by(link, (*named, *change.added, *change.removed))
        except Refused as refusal:
            if isinstance(refusal, OverLimit):
                self._note_full(link, refusal)
            self._changed_by(link, interest.names)
            interest.widen()
            raise
        finally:
            self._narrow = tuple(each.interest for each in self._links.values() if each.interest.is_narrow)
            self._audience_changes.wait()
            if interest.reach != before:
                self._changed(None)

    def _note_full(self, link: Link, refusal: OverLimit) -> None:
        if not link.has_too_much_interest:
            link.has_too_much_interest = True
            about = self._registry.state.sessions[link.session_id].about()
            reached = ev.LimitReached(limit=refusal.limit, value=refusal.value, reason=refusal.reason, **about)
            self._registry.note(reached)

    def _changed_by(self, link: Link, names: Iterable[str]) -> None:
        """The names and patterns that a linked server wants changed: others are to be told."""
        for told in self._told.values():
            if told.link is not link:
                told.pending.update(dict.fromkeys(names))
                self._changes.wait()

    # What linked servers are told.

    def begin(self, link: Link) -> None:
        """A link is up: tell the other server, if it asked. Others want everything until they say something else."""
        if link.asks_interest:
            self._told[link.session_id] = _Told(link)
            self.tell_all(link)
        self._changed(None)

    def end(self, link: Link) -> None:
        """A link is down."""
        self._told.pop(link.session_id, None)
        self._narrow = tuple(each.interest for each in self._links.values() if each.interest.is_narrow)
        self._changed_by(link, link.interest.names)
        self._changed(None)

    def tell_all(self, link: Link) -> None:
        """A link is new, or may know of other names than before."""
        told = self._told.get(link.session_id)
        if told is not None:
            others = [each.interest.names for each in self._links.values() if each is not link]
            for names in (self._total.services, told.names, *others):
                told.pending.update(dict.fromkeys(names))
            self._changes.wait()

    def _changed(self, wanted: str | None) -> None:
        """The total interest of this server changed, or what other linked servers want."""
        if self._told:
            if wanted is not None:
                for told in self._told.values():
                    told.pending[wanted] = None
            self._changes.wait()

    def _tell_changes(self) -> None:
        for told in self._told.values():
            if not told.is_telling:
                told.is_telling = True
                self._jobs.add(self._tell(told))

    def _tell(self, told: _Told) -> Iterator[None]:
        """Tell a linked server what changed, one event a step."""
        while self._is_up(told) and (told.pending or told.reach != self._reach_for(told.link)):
            added, removed = self._take(told)
            fields = self._fields(told, added, removed)
            if fields:
                about = {"event": INTEREST, "id": self._new_id(), **fields, "route": [self._server_id]}
                self._fanout.send_one(told.link.group, told.link.session_id, [wire.encode(about)])
            yield
        told.is_telling = False

    def _is_up(self, told: _Told) -> bool:
        return self._told.get(told.link.session_id) is told

    def _take(self, told: _Told) -> tuple[list[str], list[str]]:
        """Take some of the names that may have changed. :returns: those that are wanted now, and those that are not."""
        added: list[str] = []
        removed: list[str] = []
        size = number = 0
        while told.pending and size < MOST_NAMED and number < MOST_LOOKED_AT:
            number += 1
            name = next(iter(told.pending))
            del told.pending[name]
            is_wanted = self._wants(told.link, name)
            if is_wanted == (name in told.names):
                continue
            (added if is_wanted else removed).append(name)
            (told.names.add if is_wanted else told.names.remove)(name)
            size += len(wire.encode_json(name)) + 1
        return added, removed

    def _fields(self, told: _Told, added: list[str], removed: list[str]) -> dict[str, Any]:
        before = told.reach
        fields: dict[str, Any] = {"anew": True} if before is None else {}
        # Narrower only when all names are said.
        reach = (before or FULL_REACH) if told.pending else self._reach_for(told.link)
        told.reach = reach
        if before is None or reach.events != before.events:
            fields["events"] = reach.events
        if before is None or reach.types != before.types:
            fields["types"] = said_types(reach.types)
        named = {"added": added, "removed": removed}
        return fields | {key: names for key, names in named.items() if names}

    def _wants(self, link: Link, name: str) -> bool:
        """Whether this server, or another linked one, wants publications on a name that a linked server may know."""
        if name not in self._total and not any(name in each.interest for each in self._others(link)):
            return False
        return link.group.permissions.sees_service(name)

    def _reach_for(self, link: Link) -> Reach:
        """The events and content that this server, or another linked one than that, wants."""
        reaches = [self._total.reach, *(each.interest.reach for each in self._others(link))]
        events = any(each.events for each in reaches)
        types: set[str] = set()
        for each in reaches:
            if each.types is None:
                return Reach(events, None)
            types.update(each.types)
        return Reach(events, sayable(types, self._settings))

    def _others(self, link: Link) -> Iterator[Link]:
        return (each for each in self._links.values() if each is not link)
