"""Identity: who clients are, as far as they can prove it."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Any

from twisted.internet.defer import Deferred
from zope.interface import implementer

from bussrv.policy.checkers import InThread, PasswordChecker
from bussrv.policy.credentials import Credentials, Denial, Password, Proof
from bussrv.policy.interfaces import IIdentity
from bussrv.policy.logins import Logins, Threads


@implementer(IIdentity)
class Identity:
    """Who clients are. There may be no checkers; then nobody can prove anything.

    :param reactor: calls later.
    :param in_thread: calls functions off the reactor's thread.
    """

    def __init__(self, reactor: Any, in_thread: InThread | None = None) -> None:
        self._in_thread: InThread = Threads(reactor) if in_thread is None else in_thread
        self._passwords: tuple[PasswordChecker, ...] = ()
        self._logins = Logins(self._check, self.holds, reactor)

    def use(self, passwords: Sequence[PasswordChecker], trusted: tuple[IPv4Network | IPv6Network, ...] = ()) -> None:
        """From now on clients prove who they are by these checkers, and no others.

        :param trusted: networks without limits for one address.
        """
        self._passwords = tuple(passwords)
        self._logins.trusted = trusted
        self._logins.forget()

    def log_in(self, credentials: Credentials, peer: str) -> Deferred[Proof | Denial]:
        """Check what a client said; see :class:`IIdentity`."""
        assert isinstance(credentials, Password)
        denial = Denial("password", claimed=credentials.user)
        checked: Deferred[Any] = self._logins.log_in(credentials, peer)
        return checked.addCallback(lambda proof: denial if proof is None else proof)

    def holds(self, proof: Proof) -> bool:
        """Whether something is still proved; see :class:`IIdentity`."""
        return any(each.holds(proof) for each in self._passwords)

    def _check(self, password: Password) -> Deferred[Proof | None]:
        return Deferred.fromCoroutine(self._check_in_order(password))

    async def _check_in_order(self, password: Password) -> Proof | None:
        for each in self._passwords:
            proof = await each.check(password, self._in_thread)
            if proof is not None:
                return proof
        return None
