"""Rights: whether a session may do something. Each denial is counted, and journaled at a limited rate.

An object that a session sends into the object network is judged once for its route plan, or by itself:

1. A request needs ``request`` for the name of the service; for each one, if ``name`` and ``service`` differ.
2. Replies and errors need nothing: only sessions that were given a request can answer it.
3. A publication needs ``publish`` for its service. If it is also an event, it needs ``send`` for that, too.
4. Everything else needs ``send`` for its event or content type.

A routing id that the sender may not address is taken out of ``to``, as if nobody had it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from bussrv import events as ev
from bussrv.bus.interest.interests import Kind
from bussrv.bus.interest.vocabulary import REPLYING, REQUEST
from bussrv.bus.origins import Origin
from bussrv.errors import NotAllowed, OverLimit, Refused
from bussrv.policy.permissions.access import Access
from bussrv.policy.permissions.permissions import EVERYTHING, Action, Permissions, content
from bussrv.registry.changes.registry import Registry
from bussrv.values import Publication, excerpt, quoted
from bussrv.wire.objects import BusObject

MOST_STEPS = 200_000
"""The most steps that judging the addressees of one object, or the services of one subscription, may take. So many take
about 40 ms."""


class SendRights:
    """Judges by the permissions of sessions."""

    def __init__(self, registry: Registry, access: Access, counters: Counter[str]) -> None:
        self._registry = registry
        self._access = access
        self._counters = counters

    def permissions(self, session_id: str) -> Permissions:
        """The permissions that a session has now."""
        return self._access.of(self._registry.state.sessions.get(session_id))

    def may(self, session_id: str, action: Action, target: str) -> bool:
        """Whether a session may do something."""
        permissions = self.permissions(session_id)
        if permissions.may(action, target):
            return True
        self.deny(session_id, permissions, action, target)
        return False

    def may_share(self, session_id: str) -> Callable[[str], bool]:
        """Says of further routing ids that others have whether a session may have them, too: if it may address them.

        Judging a subscription takes no longer than judging an object: none beyond :data:`MOST_STEPS` is granted.
        """
        few = MOST_STEPS // (self.permissions(session_id).effort("address") or 1)
        left = iter(range(few))
        return lambda routing_id: next(left, None) is not None and self.may(session_id, "address", routing_id)

    def deny(self, session_id: str, permissions: Permissions, action: Action, target: str) -> None:
        """Count and journal that a session was not allowed something."""
        self._counters["not-allowed"] += 1
        session = self._registry.state.sessions.get(session_id)
        if session is not None:
            rule = permissions.decide(action, target).rule
            about = {**session.about(), "reason": "not-allowed"}
            self._registry.note_from_stranger(
                ev.AccessDenied(action=action, target=excerpt(target), rule=rule, **about)
            )

    def service_of(self, publication: Publication | None) -> str | None:
        """The service of a publication, if permissions depend on it; see :class:`Kind`."""
        return None if publication is None or self._access.policy is None else publication.service

    @staticmethod
    def may_send(origin: Origin, obj: BusObject, kind: Kind) -> bool:
        """Whether the sender of an object may send it. If it may not, :meth:`check` says what follows."""
        if origin.permissions is EVERYTHING:
            return True
        return all(origin.permissions.may(*right) for right in rights_to_send(obj, kind))

    def check(self, origin: Origin, obj: BusObject, kind: Kind) -> None:
        """Check that the sender of an object, or the link that it came over, may send it.

        :raises NotAllowed: it may not.
        :raises Refused: ``no-such-service``: it is a request to a service that the sender may not know of.
        """
        permissions = origin.permissions
        if permissions is EVERYTHING:
            return
        denied = next((each for each in rights_to_send(obj, kind) if not permissions.may(*each)), None)
        if denied is None:
            return
        action, target = denied
        self.deny(origin.asker, permissions, action, target)
        if action == "request" and not permissions.sees_service(target):
            raise Refused("no-such-service", f"nobody provides the service {quoted(_requested(obj)[0])}")
        raise NotAllowed(f"the policy does not allow you to {action} {quoted(target)}")

    @staticmethod
    def check_addressees(origin: Origin, obj: BusObject, most: int) -> None:
        """Check that an object has few addressees: each of them is looked up, and judged, in one go.

        :param most: how many it may have, if judging them does not take long.
        :raises OverLimit: ``too-many-addressees``.
        """
        to = obj.head.to
        if not isinstance(to, list):
            return
        most = min(most, MOST_STEPS // (origin.permissions.effort("address") or 1))
        if len(to) > most:
            message = f"to has at most {most} routing ids, not {len(to)}"
            raise OverLimit("too-many-addressees", message, "max-addressees", most)

    def addressable(self, origin: Origin, to: str | list[str]) -> str | list[str]:
        """The addressees of an object, without those that its sender may not address."""
        permissions = origin.permissions
        if permissions is EVERYTHING:
            return to
        wanted = list(dict.fromkeys([to] if isinstance(to, str) else to))
        may = {each: permissions.may("address", each) for each in wanted}
        allowed = [each for each in wanted if may[each]]
        if len(allowed) == len(wanted):
            return to
        self.deny(origin.asker, permissions, "address", next(each for each in wanted if not may[each]))
        return allowed


def rights_to_send(obj: BusObject, kind: Kind) -> list[tuple[Action, str]]:
    """The actions and targets that the sender of an object must be allowed, all of them."""
    if kind.event == REQUEST:
        names = dict.fromkeys(name if isinstance(name, str) else "" for name in _requested(obj))
        return [("request", name) for name in names]
    if kind.event in REPLYING:
        return []
    rights: list[tuple[Action, str]] = [] if kind.service is None else [("publish", kind.service)]
    if kind.service is None or kind.event is not None:
        rights.append(("send", content(kind.event, kind.type)))
    return rights


def _requested(obj: BusObject) -> list[Any]:
    """The service that a request names, by ``name`` or else by ``service``; both, if it has both: providers differ."""
    fields = obj.fields()
    return [fields[key] for key in ("name", "service") if key in fields] or [None]
