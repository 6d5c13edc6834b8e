"""The rights of links: of which sessions and services a linked server may tell.

1. An event about a session needs ``tell`` for the routing id of the session, or it is dropped.
2. A further routing id of a session needs ``tell``, too, and a service ``provide``. Others are left out.
3. An object needs ``tell`` for its sender, unless the linked server itself sends it; see
   :mod:`bussrv.bus.routing.route_cache`.
4. If the rights of a link change, what it may not tell of any more is forgotten. If it told before of something that it
   may tell of now, the link has to begin again: the other server tells everything once only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from bussrv.bus.interfaces import ISessionLink
from bussrv.bus.links.jobs import Jobs
from bussrv.bus.links.link import Link
from bussrv.bus.links.paths import Paths, RemoteSession
from bussrv.bus.sessions.withdrawal import WITHDRAWN
from bussrv.policy.permissions.permissions import EVERYTHING, Action, Permissions

MOST_REMEMBERED = 1000
"""The most denials that a link is remembered by. Beyond it, any change of its rights has it begin again."""

BEGIN_AGAIN = "permission-changed"

Deny = Callable[[str, Permissions, Action, str], None]
"""Counts and journals that a session was not allowed something."""


class LinkRights:
    """Judges what linked servers tell.

    :param paths: all that they have told.
    :param deny: called with what a link may not do.
    :param changed: called with the routing id of a session whose best path, or what is known of it, changed, and with
        the reason.
    :param jobs: does what takes long.
    """

    def __init__(self, paths: Paths, deny: Deny, changed: Callable[[str, str], None], jobs: Jobs) -> None:
        self._paths = paths
        self._deny = deny
        self._changed = changed
        self._jobs = jobs

    def may_tell(self, link: Link, routing_id: str) -> bool:
        """Whether a linked server may tell of a session."""
        return self._may(link, "tell", routing_id)

    def _may(self, link: Link, action: Action, target: str) -> bool:
        permissions = link.group.permissions
        if permissions.may(action, target):
            return True
        self._deny(link.session_id, permissions, action, target)
        if len(link.denied) < MOST_REMEMBERED:
            link.denied.add((action, target))
        return False

    def narrowed(self, link: Link, before: RemoteSession | None, remote: RemoteSession) -> RemoteSession | None:
        """A session that a linked server may tell of, without what it may not tell; ``None``: nothing is left.

        :param before: the session as the same server told of it before.
        """
        if link.group.permissions is EVERYTHING:
            return remote
        known = frozenset() if before is None else before.services
        services = {name for name in remote.services - known if not self._may(link, "provide", name)}
        routing_ids = remote.routing_ids
        if before is None or before.routing_ids != routing_ids:
            routing_ids = tuple(each for each in routing_ids if self._may(link, "tell", each))
        left = replace(remote, services=remote.services - services, routing_ids=routing_ids)
        return left if left.is_member or left.services else None

    def rights_changed(self, link: Link, way: ISessionLink) -> None:
        """A link has other rights than before."""
        if self._must_begin_again(link):
            way.close(BEGIN_AGAIN)
        else:
            self._jobs.add(self._withdraw(link))

    def _must_begin_again(self, link: Link) -> bool:
        """Whether the other server may tell of something now that was dropped before."""
        permissions = link.group.permissions
        return len(link.denied) == MOST_REMEMBERED or any(permissions.may(*each) for each in link.denied)

    def _withdraw(self, link: Link) -> Iterator[None]:
        """Forget step by step what a linked server may not tell of any more."""
        for routing_id in self._paths.advertised_over(link.session_id):
            known = self._paths.heard(link.session_id, routing_id)
            if known is not None and routing_id != link.server_id and self._forget(link, known):
                self._changed(routing_id, WITHDRAWN)
            yield

    def _forget(self, link: Link, known: RemoteSession) -> bool:
        left = self.narrowed(link, None, known) if self.may_tell(link, known.routing_id) else None
        if left is None:
            return self._paths.forget(link.session_id, known.routing_id)
        return left != known and self._paths.receive_advertisement(link.session_id, left)
