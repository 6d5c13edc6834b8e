"""One link to another server that is up."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import field

from bussrv.bus.groups.fanout import Group
from bussrv.bus.interest.interests import Kind
from bussrv.bus.links.facts import LinkFacts
from bussrv.bus.links.link_interest import LinkInterest
from bussrv.bus.links.paths import RemoteSession
from bussrv.policy.permissions.permissions import Action


class Link(LinkFacts, eq=False, kw_only=True):
    """A link that is up.

    :ivar group: a group of that session alone. It has the objects and advertisements that wait to be sent.
    :ivar notify: the event that advertises members to the other server; it depends on the dialect.
    :ivar denied: the actions and targets that the other server was not allowed: what it may not tell of.
    :ivar is_released: whether this server ends it for good: then it is not missed.
    :ivar takes_names: whether services may be advertised to the other server several at once.
    :ivar asks_interest: whether the other server is to be told what is wanted of the objects that are for everybody.
    :ivar interest: what it wants of these itself.
    :ivar has_too_much_interest: whether it was journaled that it named more services than it may.
    :ivar advertised: the sessions as they were advertised to the other server, by routing id.
    """

    group: Group
    notify: str
    advertised: dict[str, RemoteSession] = field(default_factory=dict)
    denied: set[tuple[Action, str]] = field(default_factory=set)
    is_full: bool = False
    is_released: bool = False
    takes_names: bool = False
    asks_interest: bool = False
    interest: LinkInterest = field(default_factory=LinkInterest)
    has_too_much_interest: bool = False

    def takes(self, kind: Kind, route: Iterable[str], *, is_addressed: bool = False) -> bool:
        """Whether the other server wants an object that is for everybody.

        :param is_addressed: whether it is for a session that any server may have.
        """
        if self.server_id in route or not self.group.wants_broadcast(kind):
            return False
        return is_addressed or self.interest.wants(kind)

    def accepts(self, kind: Kind, route: Iterable[str]) -> bool:
        """Whether the other server wants an object that is for its sessions alone."""
        return self.server_id not in route and self.group.wants_addressed(kind)
