"""Permissions: everything that a session may do, receive and see. Pure.

A session asks for an *action* on a *target*:

========== ====================================================================================
action     target
========== ====================================================================================
provide    the name of a service that it provides
publish    the name of a service that it publishes on
watch      the name of a service that it subscribes to
request    the name of a service that it sends requests to
send       what it sends into the object network: a content type, or ``@`` and an event
observe    what it receives from the object network: a content type, or ``@`` and an event
address    a routing id that it sends to; also a session that it is told of
link       the routing id of a server that it is, if it is a link
tell       a routing id of a session that it tells of, if it is a link
admin      ``read`` or ``write``
========== ====================================================================================
"""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct

Action = Literal["provide", "publish", "watch", "request", "send", "observe", "address", "link", "tell", "admin"]
"""What a session may do with a target; see the policy file."""

OCTETS = "application/octet-stream"
"""The content type of a payload that comes without one."""


class Decision(Struct, frozen=True):
    """A decision.

    :ivar rule: the line that decided, such as ``policy.toml:12: deny publish``; or a text that no rule matched.
    """

    allowed: bool
    rule: str


class Permissions(Protocol):
    """Everything that one session may do. Two sessions for which the same rules hold share one object.

    So permissions may be compared by identity, and be part of a key.
    """

    def decide(self, action: Action, target: str) -> Decision:
        """Whether an action is allowed, and by which rule. Takes a bounded number of steps."""

    def may(self, action: Action, target: str) -> bool:
        """Whether an action is allowed. Some answers are remembered."""

    def effort(self, action: Action) -> int:
        """How many steps a decision may take, besides a few that every decision takes."""

    def sees_service(self, name: str) -> bool:
        """Whether the session may know that a service of that name exists: it may do something with it."""

    def sees_session(self, routing_id: str) -> bool:
        """Whether the session may know that a session of that routing id exists: it may address it."""


class _Fixed:
    """Permissions that do not depend on the target."""

    def __init__(self, allowed: bool, rule: str) -> None:
        self._decision = Decision(allowed, rule)

    def decide(self, action: Action, target: str) -> Decision:
        return self._decision

    def may(self, action: Action, target: str) -> bool:
        return self._decision.allowed

    def effort(self, action: Action) -> int:
        return 0

    def sees_service(self, name: str) -> bool:
        return self._decision.allowed

    def sees_session(self, routing_id: str) -> bool:
        return self._decision.allowed


EVERYTHING: Permissions = _Fixed(True, "there is no policy")
"""The permissions of every proved user of a server without a policy, and of the server itself."""

NOTHING: Permissions = _Fixed(False, "no rule applies to this user")
"""The permissions of a session that no rule applies to. It may not even become a member of the network."""


def content(event: str | None, bare_type: str) -> str:
    """The target of ``send`` and ``observe`` for objects of one kind; both arguments in lower case."""
    return f"@{event}" if event is not None else bare_type or OCTETS
