"""Answerers: the members that may answer a request for a service that nobody registered.

Of the providers that registered a service, :meth:`bussrv.bus.routing.audience.Audience.next_of` chooses one.

1. A member of the deployed dialect may, if its rules let the request pass: services in the field do not register.
2. A member that speaks as the seeds do registers what it serves. It counts only if it has replied to a request before;
   otherwise it merely observes.
3. A member that names services when it subscribes registers what it serves, without exception. So it never counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from bussrv.bus.groups.fanout import Group
from bussrv.bus.groups.receivers import Receivers
from bussrv.bus.interest.interests import Kind
from bussrv.bus.interest.vocabulary import REQUEST

_ANY_REQUEST = Kind(REQUEST)


class Answerers:
    """Finds the members that may answer.

    :ivar observers: each is called with the session of a member that may answer from now on, or no more.
    """

    def __init__(self, receivers: Receivers) -> None:
        self.observers: list[Callable[[str], None]] = []
        self._receivers = receivers
        self._have_replied: set[str] = set()
        self._registering: set[str] = set()

    def register_all(self, session_id: str, *, registers_all: bool) -> None:
        """A session says whether it registers every service that it serves."""
        if registers_all != (session_id in self._registering):
            (self._registering.add if registers_all else self._registering.discard)(session_id)
            for changed in self.observers:
                changed(session_id)

    def replied(self, session_id: str) -> None:
        """A session of this server has replied to a request that it was given."""
        if session_id not in self._have_replied:
            self._have_replied.add(session_id)
            for changed in self.observers:
                changed(session_id)

    def forget(self, session_id: str) -> None:
        """A session ended."""
        self._have_replied.discard(session_id)
        self._registering.discard(session_id)

    def may_answer(self, session_id: str) -> bool:
        """Whether a session may answer requests in general, as other servers are told."""
        group = self._receivers.group_of(session_id)
        return group is not None and group.wants_broadcast(_ANY_REQUEST) and self._counts(session_id, group)

    def _counts(self, session_id: str, group: Group) -> bool:
        if session_id in self._registering:
            return False
        return group.vocabulary == "rules" or session_id in self._have_replied

    def among(self, kind: Kind, sender: str) -> Iterator[str]:
        """The members that are given objects of a kind and may answer them.

        :param sender: the session that sends them, which does not count.
        """
        replied, registering = self._have_replied, self._registering
        for group in self._receivers.wanting(kind):
            links = group.links.keys()
            able: Iterable[str] = ()
            if group.vocabulary == "rules":
                able = links
            elif not links.isdisjoint(replied):
                # One by one: mostly, the first few decide.
                able = (each for each in links if each in replied)
            yield from (each for each in able if each != sender and each not in registering)
