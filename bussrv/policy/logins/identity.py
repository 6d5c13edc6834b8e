"""Identity: who clients are, as far as they can prove it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from ipaddress import IPv4Network, IPv6Network
from typing import Any

from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer

from bussrv.addresses import host_of, is_in
from bussrv.policy.interfaces import IIdentity
from bussrv.policy.logins.checkers import CertificateUsers, Checker, Foreign, InThread, Tokens, Users
from bussrv.policy.logins.credentials import Credentials, Denial, Password, Proof, Token
from bussrv.policy.logins.login_queue import DEFAULT_LIMITS, LoginLimits
from bussrv.policy.logins.logins import MAX_CHECKING, Logins
from bussrv.turns.threads import Threads

UsersOfNetworks = tuple[tuple[IPv4Network | IPv6Network, str], ...]

MOST_KEPT = 10_000
"""The most hosts whose users are remembered."""


@implementer(IIdentity)
class Identity:
    """Decides which user a client is. There may be no checkers; then nobody can prove anything.

    :param reactor: calls later.
    :param in_thread: calls functions off the reactor's thread.
    """

    def __init__(self, reactor: Any, in_thread: InThread | None = None) -> None:
        self._in_thread: InThread = Threads(reactor, "bussrv-secrets", MAX_CHECKING) if in_thread is None else in_thread
        self.changed: list[Callable[[], None]] = []
        self._checkers: tuple[Checker, ...] = ()
        self._networks: Mapping[str, UsersOfNetworks] = {}
        self._of_network: dict[tuple[str, str], Proof | None] = {}
        self._logins = Logins(lambda password: Deferred.fromCoroutine(self._check(password)), self.holds, reactor)

    def use(
        self,
        checkers: Iterable[Checker],
        trusted: tuple[IPv4Network | IPv6Network, ...] = (),
        networks: Mapping[str, UsersOfNetworks] | None = None,
        limits: LoginLimits = DEFAULT_LIMITS,
    ) -> None:
        """From now on clients prove who they are by these checkers, in this order, and by no others.

        :param trusted: networks without limits for one address.
        :param networks: for some wire formats the users of networks. The first network that a client is in counts.
        :param limits: for the logins that wait.
        """
        self._checkers = tuple(checkers)
        self._networks = networks or {}
        self._of_network.clear()
        self._logins.begin_anew(trusted, limits)

    def tell_changed(self) -> None:
        """Tell other parts that proofs of clients may hold no longer; see :attr:`IIdentity.changed`."""
        for each in self.changed:
            each()

    def log_in(self, credentials: Credentials, peer: str) -> Deferred[Proof | Denial]:
        """Check the credentials of a client; see :class:`IIdentity`."""
        if isinstance(credentials, Token):
            return succeed(self._check_token(credentials))
        user = credentials.user
        checked = self._logins.log_in(credentials, peer)
        return checked.addCallback(lambda outcome: outcome if isinstance(outcome, Proof) else outcome.of(user))

    def of_certificate(self, certificate: Mapping[str, Any]) -> Proof | Denial | None:
        """The user that the certificate of a client names; see :class:`IIdentity`."""
        checkers = [each for each in self._checkers if isinstance(each, CertificateUsers)]
        proofs = (each.check_certificate(certificate) for each in checkers)
        denial = Denial("certificate", "bad-certificate") if checkers else None
        return next((each for each in proofs if each is not None), denial)

    def of_network(self, peer: str, protocol: str) -> Proof | None:
        """The user of the network of a client; see :class:`IIdentity`."""
        users = self._networks.get(protocol)
        if not users:
            return None
        key = host_of(peer), protocol
        if key not in self._of_network:
            if len(self._of_network) >= MOST_KEPT:
                self._of_network.clear()
            proofs = (Proof(user, "network", network) for network, user in users if is_in(peer, [network]))
            self._of_network[key] = next(proofs, None)
        return self._of_network[key]

    def holds(self, proof: Proof) -> bool:
        """Whether a proof still holds; see :class:`IIdentity`."""
        if proof.method == "network":
            return any((proof.evidence, proof.actor) in users for users in self._networks.values())
        return any(each.holds(proof) for each in self._checkers)

    def next_expiry(self) -> int | None:
        """When the next token expires, UTC microseconds; ``None``: none does."""
        expiries = (each.next_expiry() for each in self._checkers if isinstance(each, Tokens))
        return min((each for each in expiries if each is not None), default=None)

    def _check_token(self, token: Token) -> Proof | Denial:
        denial = Denial("token")
        for each in self._checkers:
            checked = each.check_token(token) if isinstance(each, Tokens) else None
            if isinstance(checked, Proof):
                return checked
            denial = checked or denial
        return denial

    async def _check(self, password: Password) -> Proof | None:
        for each in self._checkers:
            if isinstance(each, (Users, Foreign)):
                proof = await each.check(password, self._in_thread)
                if proof is not None:
                    return proof
        return None
