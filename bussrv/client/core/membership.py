"""The subscription of a member of the object network: wanted, asked for, and granted.

Subscribing again replaces the subscription, so the whole of it is sent each time, and one change waits for the one
before. If a change is refused that asks for several services, they are asked for one by one, so that one that is
refused keeps nobody from the others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

from bussrv.client.core.base import OnAnswer, OnDone
from bussrv.client.errors import BadLogin, BusError, Lost, Unsupported
from bussrv.client.events import Reply
from bussrv.client.settings import Settings
from bussrv.errors import JOURNAL_UNAVAILABLE, TOO_MANY_LOGINS


class Wanted(NamedTuple):
    """The services and rules of a subscription.

    :ivar rules: the objects that are received besides the publications on ``services``.
    """

    services: tuple[str, ...]
    rules: tuple[str, ...]

    def covers(self, other: Wanted) -> bool:
        """Whether it asks for everything that the other one does."""
        return set(self.services) >= set(other.services) and set(self.rules) >= set(other.rules)

    def meets(self, other: Wanted) -> bool:
        """Whether both ask for one thing at least."""
        return not (set(self.services).isdisjoint(other.services) and set(self.rules).isdisjoint(other.rules))


class Member(Protocol):
    """Who asks."""

    def ask(self, fields: dict[str, Any], done: OnAnswer, what: str) -> None:
        """Send an object with a fresh id, and wait for its answer."""

    def wanted(self) -> Wanted:
        """The subscription that the member wants at the moment."""

    def accepted(self, answer: Reply) -> None:
        """The server has accepted the member, for the first time over this connection."""

    def not_accepted(self, error: BusError) -> None:
        """It has not, and will not."""

    def restored_late(self, service: str) -> None:
        """The server has granted what it had granted over an earlier connection, but later than other services."""

    def settled(self) -> None:
        """The server knows everything that the member wants."""

    def refused(self, refused: Wanted, error: BusError) -> None:
        """The server refuses a service, or rules."""


class Membership:
    """The subscription of a member.

    :param is_business: whether the member speaks the vocabulary of Business Object.
    :ivar is_settled: whether the server knows everything that the member wants, as far as it takes that.
    """

    def __init__(self, member: Member, settings: Settings, *, is_business: bool) -> None:
        self.event = "client/register" if is_business else "routing/subscribe"
        self._member = member
        self._settings = settings
        self._is_business = is_business
        self._waiting: list[tuple[object, Wanted, OnDone]] = []
        self._granted: Wanted | None = None
        self._refused_change: Wanted | None = None
        self._is_changing = False
        self._one_by_one = False
        self.is_settled = False

    def join(self, routing_id: str | None) -> None:
        """Join the network, over a new connection.

        :param routing_id: the routing id to have, if it is free.
        """
        self._routing_id = routing_id
        self._ask(self._member.wanted())

    def lost(self) -> None:
        """The connection is gone, and what was granted with it."""
        self._granted = self._refused_change = None
        self._is_changing = self._one_by_one = self.is_settled = False

    def wait(self, who: object, wanted: Wanted, done: OnDone) -> None:
        """Call ``done`` when this is granted, or refused."""
        self._waiting.append((who, wanted, done))
        if self._granted is not None and not self._is_changing:
            self._tell(self._granted.covers, None)
        self.change()

    def forget(self, who: object) -> None:
        """It waits no more."""
        self._waiting = [each for each in self._waiting if each[0] is not who]

    def fail(self, error: BusError) -> None:
        """Nothing more is granted to anybody."""
        self._tell(lambda _: True, error)

    def change(self) -> None:
        """Ask for what is wanted now, if that is not what was granted."""
        granted = self._granted
        if granted is None or self._is_changing:
            return
        wanted = self._member.wanted()
        if wanted != self._refused_change:
            self._refused_change = None
        new = [each for each in wanted.services if each not in granted.services]
        if self._one_by_one and len(new) > 1:
            kept = [each for each in granted.services if each in wanted.services]
            wanted = wanted._replace(services=(*kept, new[0]))
        if wanted == self._refused_change or (granted.covers(wanted) and wanted.covers(granted)):
            self._one_by_one = False
            self.is_settled = True
            self._tell(granted.covers, None)
            self._member.settled()
        else:
            self._ask(wanted)

    def _ask(self, wanted: Wanted) -> None:
        self._is_changing, self.is_settled = True, False
        login, is_business = self._settings.login, self._is_business
        fields: dict[str, Any] = {"event": self.event, **login.credentials(), "services": wanted.services, "gaps": True}
        if is_business:
            fields |= {"receive": "all", "subscribe": wanted.rules or "none"}
        else:
            fields["subscriptions"] = wanted.rules
        if login.name is not None:
            fields["name"] = login.name
        if self._routing_id is not None:
            fields["unique-routing-id" if is_business else "routing-id"] = self._routing_id
        if self._settings.routing_ids:
            fields["routing-ids"] = self._settings.routing_ids
        self._member.ask(fields, partial(self._answered, wanted), self.event)

    def _answered(self, wanted: Wanted, answer: Reply | BusError) -> None:
        self._is_changing = False
        if isinstance(answer, Lost):
            return
        if not isinstance(answer, BusError) and wanted.services and "services" not in answer.metadata:
            # Without this, a subscriber would wait for ever, and not know it.
            answer = Unsupported("this server has no subscriptions to services by name")
        if isinstance(answer, BusError):
            self._refused(wanted, answer)
            return
        before, self._granted = self._granted, wanted
        if before is None:
            self._member.accepted(answer)
        else:
            for service in set(wanted.services).difference(before.services):
                if self._is_restored(service):
                    self._member.restored_late(service)
        self._tell(wanted.covers, None)
        self.change()

    def _refused(self, wanted: Wanted, error: BusError) -> None:
        granted = self._granted
        new = [each for each in wanted.services if granted is None or each not in granted.services]
        if error.reason == TOO_MANY_LOGINS:
            # The server prefers a secret that it was given before.
            self._ask(wanted)
        elif isinstance(error, BadLogin) or (granted is None and not new):
            self._member.not_accepted(error)
        elif error.reason == JOURNAL_UNAVAILABLE and any(map(self._is_restored, new)):
            # The server will take it when its disk is well again. So come back later.
            self._member.not_accepted(error)
        elif granted is None:
            self._one_by_one = True
            self._ask(wanted._replace(services=()))
        elif len(new) > 1:
            self._one_by_one = True
            self.change()
        else:
            # The server may refuse to take something away, too. It is not asked the same again.
            self._refused_change = wanted
            new_rules = [each for each in wanted.rules if each not in granted.rules]
            refused = Wanted(tuple(new), () if new else tuple(new_rules))
            self._tell(refused.meets, error)
            self._member.refused(refused, error)
            self.change()

    def _is_restored(self, service: str) -> bool:
        """Whether it is wanted since an earlier connection: then nobody waits for it any more."""
        is_awaited = any(service in each[1].services for each in self._waiting)
        return service in self._member.wanted().services and not is_awaited

    def _tell(self, is_about: Callable[[Wanted], bool], outcome: BusError | None) -> None:
        """Tell those who wait for something that this is about."""
        told = [each for each in self._waiting if is_about(each[1])]
        self._waiting = [each for each in self._waiting if each not in told]
        for _, _, done in told:
            done(outcome)
