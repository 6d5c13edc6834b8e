"""How a member of the object network joins, and its subscription: wanted, asked for, and granted.

Subscribing again replaces the subscription, so the whole of it is sent each time, and one change waits for the one
before. If a change is refused that asks for several services, they are asked for one by one, so that one that is
refused keeps nobody from the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, Literal, NamedTuple

from bussrv.client.core.base import Core, OnAnswer, OnDone, Tell
from bussrv.client.core.framing import Framing
from bussrv.client.core.inbox import Inbox
from bussrv.client.core.names import check_name
from bussrv.client.core.requests import Questions
from bussrv.client.core.rules import FOR_REQUESTS, ObserverRules
from bussrv.client.errors import BadLogin, BusError, Lost, Unsupported
from bussrv.client.events import Change, Message, Object, Reply
from bussrv.client.settings import Settings
from bussrv.errors import JOURNAL_UNAVAILABLE, TOO_MANY_LOGINS
from bussrv.values import check_wanted_name
from bussrv.wire.objects import NUL, encode_json

_FOR_HANDLERS = ("@services/request",)
_FOR_CHANGES = ("@routing/subscribe/notification", "@routing/disconnect")


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


class MemberCore(Core):
    """A member of the object network, as far as it joins and receives.

    :param make_framing: makes the framing of each connection.
    :param name: ``objects``, ``business`` or ``websocket``.
    """

    def __init__(
        self,
        settings: Settings,
        tell: Tell,
        make_framing: Callable[[], Framing],
        name: Literal["objects", "business", "websocket"] = "objects",
    ) -> None:
        super().__init__(settings, tell)
        self.NAME = name
        self._is_business = name == "business"
        self.WATCHES = None if self._is_business else "session"
        self._join_event = "client/register" if self._is_business else "routing/subscribe"
        self.LOGIN = f"{self._join_event}: does another wire format have that port?"
        self._make_framing = make_framing
        self._framing = make_framing()
        self._frame = self._framing.frame
        self._questions = Questions()
        self._said = 0
        self._observer: Inbox[Object] | None = None
        self._rules = ObserverRules(())
        self._wanted_id: str | None = None
        self._waiting: list[tuple[object, Wanted, OnDone]] = []
        self._granted: Wanted | None = None
        self._refused_change: Wanted | None = None
        self._is_changing = self._one_by_one = False
        self._restoring: dict[str, str] | None = None
        self._lost_reason = ""

    def opened(self, address: str, now: float) -> None:
        """Join the network."""
        super().opened(address, now)
        self._framing = self._make_framing()
        self._frame = self._framing.frame
        self._accept_by = now + self.settings.timeout
        self._output.append(self._framing.greeting())
        self._wanted_id = self.routing_id
        self._join(self._wanted())

    def lost(self, error: BusError, now: float) -> None:
        self._lost_reason = error.reason
        self._granted = self._refused_change = self._restoring = None
        self._is_changing = self._one_by_one = False
        super().lost(error, now)

    def close(self, error: BusError) -> None:
        super().close(error)
        self._tell_waiting(lambda _: True, error)

    def _accepted(self) -> None:
        """The server has accepted the member."""
        raise NotImplementedError

    def _settled(self) -> None:
        """The server knows everything that the member wants to receive, as far as it takes that."""
        raise NotImplementedError

    @property
    def _has_handlers(self) -> bool:
        """Whether the member answers requests."""
        raise NotImplementedError

    # Subscriptions.

    def subscribe(self, inbox: Inbox[Message], names: Collection[str], done: OnDone) -> None:
        for name in names:
            check_name(name, check_wanted_name)
        self._add_inbox(inbox, names)
        self._wait(inbox, Wanted(tuple(names), ()), done)

    def unsubscribe(self, inbox: Inbox[Any]) -> None:
        self._waiting = [each for each in self._waiting if each[0] is not inbox]
        self._remove_inbox(inbox)
        if inbox is self._observer:
            self._observer, self._rules = None, ObserverRules(())
        self._change()

    def observe(self, inbox: Inbox[Object], rules: Collection[str], done: OnDone) -> None:
        """Put objects that match a rule into an inbox, until :meth:`unsubscribe`. A client that observes receives no
        publications: anybody may claim to be their sender. Its only observer has the rules to itself: they may exclude
        objects.
        """
        assert not self._inboxes
        assert self._observer is None
        self._connect(inbox)
        self._observer, self._rules = inbox, ObserverRules(rules)
        self._wait(inbox, Wanted((), tuple(rules)), done)

    def watch(self, inbox: Inbox[Change]) -> None:
        """Sessions that were there before are not told."""
        super().watch(inbox)
        self._change()

    def _each_inbox(self) -> Iterable[Inbox[Any]]:
        return super()._each_inbox() if self._observer is None else [self._observer]

    def _wanted(self) -> Wanted:
        """The subscription that the member wants at the moment."""
        rules: list[str] = []
        if not self._is_business:
            rules += FOR_REQUESTS
            rules += _FOR_HANDLERS if self._has_handlers else ()
            rules += _FOR_CHANGES if self._watchers else ()
        rules += self._rules.texts
        # Of a rule that is there twice, the later one counts.
        return Wanted(tuple(self._inboxes), tuple(reversed(dict.fromkeys(reversed(rules)))))

    def _wait(self, inbox: Inbox[Any], wanted: Wanted, done: OnDone) -> None:
        """Call ``done`` when this is granted, or refused."""
        self._waiting.append((inbox, wanted, done))
        if self._granted is not None and not self._is_changing:
            self._tell_waiting(self._granted.covers, None)
        self._change()

    def _change(self) -> None:
        """Ask for what is wanted now, if that is not what was granted."""
        granted = self._granted
        if granted is None or self._is_changing:
            return
        wanted = self._wanted()
        if wanted != self._refused_change:
            self._refused_change = None
        new = [each for each in wanted.services if each not in granted.services]
        if self._one_by_one and len(new) > 1:
            kept = [each for each in granted.services if each in wanted.services]
            wanted = wanted._replace(services=(*kept, new[0]))
        if wanted == self._refused_change or (granted.covers(wanted) and wanted.covers(granted)):
            self._one_by_one = False
            self._tell_waiting(granted.covers, None)
            self._settled()
        else:
            self._join(wanted)

    def _join(self, wanted: Wanted) -> None:
        """Ask for a subscription: the first one joins the network."""
        self._is_changing = True
        login = self.settings.login
        fields: dict[str, Any] = {"event": self._join_event, **login.credentials()}
        fields |= {"services": wanted.services, "gaps": True}
        if self._is_business:
            fields |= {"receive": "all", "subscribe": wanted.rules or "none"}
        else:
            fields["subscriptions"] = wanted.rules
        if login.name is not None:
            fields["name"] = login.name
        if self._wanted_id is not None:
            fields["unique-routing-id" if self._is_business else "routing-id"] = self._wanted_id
        if self.settings.routing_ids:
            fields["routing-ids"] = self.settings.routing_ids
        self.ask(fields, partial(self._joined, wanted), self._join_event)

    def _joined(self, wanted: Wanted, answer: Reply | BusError) -> None:
        self._is_changing = False
        if isinstance(answer, Lost):
            return
        if not isinstance(answer, BusError) and wanted.services and "services" not in answer.metadata:
            # Without this, a subscriber would wait for ever, and not know it.
            answer = Unsupported("this server has no subscriptions to services by name")
        if isinstance(answer, BusError):
            self._not_joined(wanted, answer)
            return
        before, self._granted = self._granted, wanted
        if before is None:
            routing_id = answer.metadata.get("routing-id")
            self.routing_id = routing_id if isinstance(routing_id, str) else None
            self._restoring = {} if self._come_up() else None
            self._accepted()
        else:
            for service in filter(self._is_restored, set(wanted.services).difference(before.services)):
                # Publications on other services came after the gap.
                for inbox in self._inboxes.get(service, ()):
                    inbox.gap(self._lost_reason)
        self._tell_waiting(wanted.covers, None)
        self._change()

    def _not_joined(self, wanted: Wanted, error: BusError) -> None:
        granted = self._granted
        new = [each for each in wanted.services if granted is None or each not in granted.services]
        if error.reason == TOO_MANY_LOGINS:
            # The server prefers a secret that it was given before.
            self._join(wanted)
        elif isinstance(error, BadLogin) or (granted is None and not new):
            self.ending = error
        elif error.reason == JOURNAL_UNAVAILABLE and any(map(self._is_restored, new)):
            # The server will take it when its disk is well again. So come back later.
            self.ending = error
        elif granted is None:
            self._one_by_one = True
            self._join(wanted._replace(services=()))
        elif len(new) > 1:
            self._one_by_one = True
            self._change()
        else:
            # The server may refuse to take something away, too. It is not asked the same again.
            self._refused_change = wanted
            new_rules = [each for each in wanted.rules if each not in granted.rules]
            refused = Wanted(tuple(new), () if new else tuple(new_rules))
            self._tell_waiting(refused.meets, error)
            self._end_inboxes(refused, error)
            self._change()

    def _is_restored(self, service: str) -> bool:
        """Whether it is wanted since an earlier connection: then nobody waits for it any more."""
        return service in self._inboxes and not any(service in each[1].services for each in self._waiting)

    def _tell_waiting(self, is_about: Callable[[Wanted], bool], outcome: BusError | None) -> None:
        """Tell those who wait for something that this is about."""
        told = [each for each in self._waiting if is_about(each[1])]
        self._waiting = [each for each in self._waiting if each not in told]
        for _, _, done in told:
            done(outcome)

    def _end_inboxes(self, refused: Wanted, error: BusError) -> None:
        for service in refused.services:
            if self._restoring is not None:
                self._restoring[service] = error.reason
            for inbox in list(self._inboxes.get(service, ())):
                inbox.end(error)
                self._remove_inbox(inbox)
        watching: list[Inbox[Any]] = [] if set(_FOR_CHANGES).isdisjoint(refused.rules) else list(self._watchers)
        if self._observer is not None and not set(self._rules.texts).isdisjoint(refused.rules):
            watching.append(self._observer)
        for each in watching:
            each.end(error)
            self.unsubscribe(each)

    # The way out.

    def ask(self, fields: dict[str, Any], done: OnAnswer, what: str) -> None:
        """Send an object with a fresh id, and wait for its answer."""
        identifier = self._questions.new_id()
        self._emit(encode_json({**fields, "id": identifier}) + NUL)
        self._questions.add(identifier, done, what, self._said, None)

    def _emit(self, data: bytes) -> None:
        self._said += 1
        self._output.append(self._frame(data))
