"""The interface of identity. For the reactor's thread only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zope.interface import Interface

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from bussrv.policy.credentials import Credentials, Denial, Proof


class IIdentity(Interface):
    """Decides who clients are. A session that has proved who it is stays that user to its end."""

    def log_in(credentials: Credentials, peer: str) -> Deferred[Proof | Denial]:
        """Check what a client at the address ``peer`` said.

        :returns: never fails. To be cancelled when the client is gone.
        """

    def holds(proof: Proof) -> bool:
        """Whether something that a client has proved still is: the user is there, and has the same secret."""
