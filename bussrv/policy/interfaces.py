"""The interface of identity. For the reactor's thread only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from twisted.internet.defer import Deferred

    from bussrv.policy.logins.credentials import Credentials, Denial, Proof


class IIdentity(Interface):
    """Decides who clients are. A session that has proved who it is stays that user to its end."""

    changed: list[Callable[[], None]] = Attribute("``list``: called after who clients are may have changed.")

    def log_in(credentials: Credentials, peer: str) -> Deferred[Proof | Denial]:
        """Check what a client at the address ``peer`` said.

        :returns: never fails. To be cancelled when the client is gone.
        """

    def of_certificate(certificate: Mapping[str, Any]) -> Proof | Denial | None:
        """The user that the verified TLS certificate of a client names.

        :param certificate: the certificate, as :meth:`ssl.SSLObject.getpeercert` returns it.
        :returns: ``None``: certificates prove nothing here.
        """

    def of_network(peer: str, protocol: str) -> Proof | None:
        """The user that a client is by the network it comes from, in wire formats that know no credentials.

        :param peer: its address.
        """

    def holds(proof: Proof) -> bool:
        """Whether a proof still holds: the user exists, and has the same secret."""
