"""Withdrawal: after its user or the policy has changed, a session immediately loses what it may not have any more.

1. After a change of the policy, every session is judged, a slice at a time.
2. A session is judged when it proves who it is, because it was another user before.
3. A change of a session that was on its way to the disk meanwhile is judged when it takes effect.

A member that may not be a member any more is closed; so is a link. Other servers judge their own sessions.

:meth:`bussrv.bus.bus.Bus.policy_changed` begins it. What a session may send and is given changes before it is judged:
:meth:`bussrv.bus.bus.Bus.permissions_changed` makes its groups and plans anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

from twisted.internet.defer import Deferred
from zope.interface import implementer

from bussrv import events as ev
from bussrv.bus.interfaces import ISessionLink, Withdrawn
from bussrv.bus.requests.exchanges import Exchanges
from bussrv.bus.shared import Shared
from bussrv.journal.record import Stamped
from bussrv.policy.permissions.permissions import EVERYTHING, NOTHING, Action, Permissions
from bussrv.registry.changes.observers import Kinds
from bussrv.registry.interfaces import IRegistryObserver
from bussrv.registry.state.naming import OWN_PROTOCOL
from bussrv.registry.state.session import LEASING, Session
from bussrv.service_patterns import filter_of
from bussrv.turns.slices import by_steps

WITHDRAWN = "permission-withdrawn"
"""The reason of what a session lost, and of the end of a session that may not be a member any more."""

BY_OPERATOR = "closed-by-operator"
"""The reason of what an operator closed or took away."""

TAKEN_AWAY = (WITHDRAWN, BY_OPERATOR)
"""The reasons of what wire formats did not end themselves."""


@implementer(IRegistryObserver)
class Withdrawal:
    """Judges sessions, and takes from them what they may not have.

    :param reach: finds the link to a session's client.
    :param exchanges: says for which services a session answers requests.
    :param permissions_changed: called with the id of each session after a change of the policy.
    :param seconds: the clock of the reactor.
    """

    KINDS: ClassVar[Kinds] = frozenset({ev.AuthSucceeded, ev.ServiceRegistered, ev.SubscriptionAdded})

    def __init__(
        self,
        shared: Shared,
        reach: Callable[[str], ISessionLink | None],
        exchanges: Exchanges,
        permissions_changed: Callable[[str], None],
    ) -> None:
        self._registry = shared.registry
        self._access = shared.access
        self._reach = reach
        self._exchanges = exchanges
        self._permissions_changed = permissions_changed
        self._slices = shared.slices
        self._seconds = shared.reactor.seconds
        self._changes = 0

    def judge_all(self) -> Deferred[Withdrawn]:
        """The policy has changed: judge every session.

        :returns: fires when all are judged, or when the policy has changed again.
        """
        self._changes += 1
        judged: Deferred[Withdrawn] = Deferred()
        self._slices.do(by_steps(self._judge_all(self._changes, judged), self._seconds))
        return judged

    def _judge_all(self, change: int, judged: Deferred[Withdrawn]) -> Iterator[None]:
        withdrawn = Withdrawn()
        try:
            for session_id in tuple(self._registry.state.sessions):
                if change != self._changes:
                    # The policy has changed again, and every session is being judged anew.
                    return
                self._permissions_changed(session_id)
                yield
                yield from self._judge(session_id, withdrawn)
        finally:
            judged.callback(withdrawn)

    def registry_changed(self, stamped: Stamped) -> None:
        """Judge a session that has proved who it is, and every new holding; see :class:`IRegistryObserver`."""
        event = stamped.event
        session = self._registry.state.sessions.get(event.session or "") if self._access.judges else None
        if session is None:
            return
        if isinstance(event, ev.AuthSucceeded):
            self._slices.do(by_steps(self._judge(session.id, Withdrawn()), self._seconds))
        elif isinstance(event, (ev.ServiceRegistered, ev.SubscriptionAdded)):
            permissions = self._permissions(session)
            if permissions is EVERYTHING:
                return
            if event.service is None:
                self._judge_membership(session, permissions)
            elif isinstance(event, ev.ServiceRegistered):
                self._judge_service(session, permissions, event.service)
            else:
                self._judge_subscription(session, permissions, event.service)

    def _permissions(self, session: Session) -> Permissions:
        is_foreign = session.home is not None or session.protocol == OWN_PROTOCOL
        return EVERYTHING if is_foreign else self._access.of(session)

    def _judge(self, session_id: str, withdrawn: Withdrawn) -> Iterator[None]:
        """Judge all that a session has. Each step is one holding.

        :param withdrawn: counts what is taken away.
        """
        state = self._registry.state
        session = state.sessions.get(session_id)
        permissions = EVERYTHING if session is None else self._permissions(session)
        if session is None or permissions is EVERYTHING:
            return
        if state.subscription(session_id, None) is not None and not self._judge_membership(session, permissions):
            withdrawn.sessions += 1
            return
        for name in tuple(state.provided_by(session_id)):
            withdrawn.services += not self._judge_service(session, permissions, name)
            yield
        for service in tuple(state.subscriptions.get(session_id, ())):
            if service is not None:
                withdrawn.subscriptions += not self._judge_subscription(session, permissions, service)
                yield

    def _judge_membership(self, session: Session, permissions: Permissions) -> bool:
        """:returns: whether a member, or a link, may stay."""
        may_stay = permissions.may("link", session.routing_id) if session.is_link else permissions is not NOTHING
        link = None if may_stay else self._reach(session.id)
        if link is not None:
            link.close(WITHDRAWN)
        return may_stay

    def _judge_service(self, session: Session, permissions: Permissions, name: str) -> bool:
        """:returns: whether the session may keep it."""
        is_leased = session.protocol in LEASING and not self._exchanges.answers_for(session.id, name)
        action: Action = "publish" if is_leased else "provide"
        may_keep = permissions.may(action, name)
        if not may_keep:
            self._registry.lose_service(session.id, name, WITHDRAWN)
        return may_keep

    def _judge_subscription(self, session: Session, permissions: Permissions, service: str) -> bool:
        """:returns: whether the session may keep it."""
        may_keep = permissions.may("watch", filter_of(service))
        if not may_keep:
            self._registry.lose_subscription(session.id, service, WITHDRAWN)
        return may_keep
