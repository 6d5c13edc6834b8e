"""The sessions that are subscribed to topics of a source: when their permissions change, they are told what is new.

What a session may see from then on is given to it, and what it may not see any more is taken back. Both is done in
slices, and once for changes that come quickly after each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import ClassVar, Generic, Protocol, TypeVar

from zope.interface import implementer

from bussrv.bus.services.hosted_subscribers import seen_with
from bussrv.plugin import (
    IBus,
    IRegistryObserver,
    Kinds,
    Permissions,
    Publication,
    SessionClosed,
    Stamped,
    SubscriptionAdded,
    SubscriptionRemoved,
    by_steps,
)

Thing = TypeVar("Thing")


class ToldSource(Protocol[Thing]):
    """A source of topics: each is about a thing."""

    def is_wanted(self, wanted: str) -> bool:
        """Whether a name or a pattern may be for its topics."""

    def things(self, wanted: str) -> Iterator[Thing | None]:
        """The things that a subscription is for, those included that went before this call, in steps."""

    def sees(self, permissions: Permissions, thing: Thing) -> bool:
        """Whether a subscriber is told of a thing."""

    def publication(self, thing: Thing, permissions: Permissions) -> Iterator[Publication | None]:
        """Make, in steps, what those who are told of a thing are told: the last step. ``None``: nothing."""

    def gone(self, thing: Thing) -> Publication:
        """What says that a thing is gone."""


@implementer(IRegistryObserver)
class Told(Generic[Thing]):
    """The sessions. True: there are some.

    :param seconds: the clock of the reactor.
    """

    KINDS: ClassVar[Kinds] = frozenset({SubscriptionAdded, SubscriptionRemoved, SessionClosed})

    def __init__(self, bus: IBus, source: ToldSource[Thing], seconds: Callable[[], float]) -> None:
        self._bus = bus
        self._source = source
        self._seconds = seconds
        self._wanting: dict[str, set[str]] = {}  # by session, its subscriptions to such topics
        self._told: dict[str, tuple[Permissions, ...]] = {}  # by such a session, those by which it may have been told
        for each in bus.registry.state.all_subscriptions():
            self._subscribed(each.session, each.service)
        bus.registry.observe(self, self.KINDS)
        bus.permission_observers.append(self._permissions_changed)

    def __bool__(self) -> bool:
        return bool(self._wanting)

    def registry_changed(self, stamped: Stamped) -> None:
        """A subscription came or went; see :class:`IRegistryObserver`."""
        event = stamped.event
        session_id = event.session or ""
        if isinstance(event, SubscriptionAdded):
            self._subscribed(session_id, event.service)
        elif session_id in self._wanting:
            self._wanting[session_id].discard(event.service or "")
            if isinstance(event, SessionClosed) or not self._wanting[session_id]:
                del self._wanting[session_id], self._told[session_id]

    def _subscribed(self, session_id: str, wanted: str | None) -> None:
        if wanted is not None and self._source.is_wanted(wanted):
            self._wanting.setdefault(session_id, set()).add(wanted)
            self._told.setdefault(session_id, (self._bus.access.of(self._bus.registry.state.sessions.get(session_id)),))

    def _permissions_changed(self, session_id: str) -> None:
        """A session may see other things from now on."""
        told, session = self._told.get(session_id), self._bus.registry.state.sessions.get(session_id)
        if told is None or session is None or self._bus.access.of(session) is told[-1]:
            return
        self._told[session_id] = told = (*told, self._bus.access.of(session))
        things = [self._source.things(wanted) for wanted in self._wanting[session_id]]
        self._bus.slices.do(by_steps(self._tell_again(session_id, told, chain.from_iterable(things)), self._seconds))

    def _tell_again(
        self, session_id: str, told: tuple[Permissions, ...], things: Iterator[Thing | None]
    ) -> Iterator[None]:
        for thing in things:
            if self._told.get(session_id) is not told:
                return  # They have changed again, or the session is gone.
            if thing is not None:
                yield from self._tell_one(session_id, told, thing)
            yield
        if self._told.get(session_id) is told:
            self._told[session_id] = told[-1:]

    def _tell_one(self, session_id: str, told: tuple[Permissions, ...], thing: Thing) -> Iterator[None]:
        """Tell a session of a thing, or that it is gone, if it may have been told of it before."""
        source, now = self._source, told[-1]
        if not any(source.sees(each, thing) for each in told):
            return
        found: Publication | None = source.gone(thing)
        if source.sees(now, thing):
            for step in source.publication(thing, seen_with(now)):
                found = step
                yield
        if found is not None and self._told.get(session_id) is told:
            self._bus.own_topics.give_to(session_id, found)
