"""Topics on which the server itself retains something. They are no services: nobody provides them, no journal has them.

A *source* has the publications of some topics. It makes them when a session subscribes, and gives changes to those who
are subscribed. So nothing is kept here, and topics without subscribers cost nothing.

Clients of MQTT and members of the object network are given such publications. Other subscribers have no patterns, and
are offered services only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from zope.interface import implementer

from bussrv.bus.groups.fanout import Fanout, Group
from bussrv.bus.groups.frames import Delivery
from bussrv.bus.groups.receivers import Receivers
from bussrv.bus.interfaces import IOwnTopics, ITopicSource
from bussrv.bus.services.bridge import as_metadata
from bussrv.bus.services.hosted_subscribers import seen_with
from bussrv.bus.shared import Shared
from bussrv.policy.permissions.permissions import Permissions
from bussrv.values import Publication


@implementer(IOwnTopics)
class OwnTopics:
    """The topics of the server itself.

    :param wake: has collected frames sent at the end of the reactor turn.
    """

    def __init__(self, shared: Shared, receivers: Receivers, fanout: Fanout, wake: Callable[[], None]) -> None:
        self._new_id = shared.new_id
        self._route = [shared.server_id]
        self._receivers = receivers
        self._fanout = fanout
        self._wake = wake
        self._sources: list[ITopicSource] = []

    def add(self, source: ITopicSource) -> None:
        """Ask ``source``, too, from now on."""
        self._sources.append(source)

    def retained(self, wanted: str, permissions: Permissions) -> Iterator[Publication | None]:
        """What is retained for a new subscriber, in steps; see :class:`ITopicSource`."""
        for source in self._sources:
            for each in source.retained(wanted, seen_with(permissions)):
                yield each if each is not None and permissions.may("watch", each.service) else None

    def audience(self, topic: str) -> frozenset[Permissions]:
        """The permissions of those who are subscribed to a topic and may watch it."""
        return frozenset(seen_with(each.permissions) for each in self._groups(topic))

    def give(self, topic: str, publications: Mapping[Permissions, Publication]) -> None:
        """Give those who are subscribed to a topic the publication for their permissions, if there is one."""
        made: dict[Permissions, Delivery] = {}
        for group in self._groups(topic):
            seen = seen_with(group.permissions)
            publication = publications.get(seen)
            if publication is None:
                continue
            if seen not in made:
                metadata = as_metadata(publication, self._new_id(), self._route, with_app_type=False)
                made[seen] = Delivery(metadata, publication.payload, publication)
            self._fanout.add(group, made[seen])
        if made:
            self._wake()

    def give_to(self, session_id: str, publication: Publication) -> None:
        """Give one session a publication, also if it may not watch its topic any more and is to forget it."""
        if self._receivers.filtering.give(session_id, publication, may_be_hidden=True):
            self._wake()

    def _groups(self, topic: str) -> list[Group]:
        return [*self._receivers.filtering.on(topic), *self._receivers.members_on(topic)]
