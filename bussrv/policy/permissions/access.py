"""Access: the permissions of each session, by its user and its address.

1. The server's own sessions, and sessions of other servers, may do everything here: their own server judges them.
2. With a policy, the rules that apply to the session decide.
3. Without a policy, a client may do everything if it has proved who it is, or if the server does not ask for that.
"""

from __future__ import annotations

from typing import Protocol

from bussrv.policy.permissions.permissions import EVERYTHING, NOTHING, Permissions
from bussrv.registry.state.naming import OWN_PROTOCOL
from bussrv.registry.state.session import ISession

ANONYMOUS = "anonymous"
"""The user, as policies name it, of a session that has not proved who it is."""


class Policy(Protocol):
    """The rules of a policy file."""

    def permissions(self, user: str, peer: str, protocol: str) -> Permissions:
        """The permissions of a session. Equal rules give the same object.

        :param user: the user of the session, or :data:`ANONYMOUS`.
        :param peer: its address.
        :param protocol: its wire format.
        """


class Access:
    """Permissions of sessions.

    :ivar policy: the rules; ``None``: there is no policy. A reload sets it.
    :ivar asks: whether clients have to prove who they are, because there is something to check that with.
    """

    def __init__(self, policy: Policy | None = None, *, asks: bool = False) -> None:
        self.policy = policy
        self.asks = asks

    @property
    def judges(self) -> bool:
        """Whether permissions depend on the session: there is a policy, or clients must prove who they are."""
        return self.asks or self.policy is not None

    def of(self, session: ISession | None) -> Permissions:
        """The permissions that a session has now. A session that is closed may do nothing.

        They change when the session proves who it is, and when the policy is read again. So keep the result no longer
        than until then.
        """
        if session is None:
            return NOTHING
        if session.home is not None or session.protocol == OWN_PROTOCOL:
            return EVERYTHING
        return self.of_user(session.actor, session.peer, session.protocol)

    def of_user(self, actor: str | None, peer: str, protocol: str) -> Permissions:
        """The permissions that a session of a user would have.

        :param actor: ``None``: it has not proved who it is.
        """
        if self.policy is not None:
            return self.policy.permissions(actor or ANONYMOUS, peer, protocol)
        return NOTHING if self.asks and actor is None else EVERYTHING
