"""Servers in memory that ask who clients are."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer

from bussrv.errors import TOO_MANY_LOGINS
from bussrv.policy.interfaces import IIdentity
from bussrv.policy.logins.checkers import Users
from bussrv.policy.logins.credentials import Credentials, Denial, Password, Proof
from bussrv.policy.logins.identity import Identity
from bussrv.policy.logins.users import SecretHash
from tests.formats.network import Network

USERS = {"ann": SecretHash(b"salt", bytes(32), 2, 1, 1).made_of(b"s3cret")}


def quick_secrets(users: Path, said: str) -> dict[str, str]:
    """The secret of each user, as ``bussrv init`` says them. They are checked at once from now on: a busy machine takes
    longer than a client waits, since the threads that check secrets let all others go first.

    :param users: the file of users that it made.
    """
    secrets = dict(re.findall(r"^  (\w+) +(\w{10,})$", said, re.MULTILINE))
    cheap = {user: USERS["ann"].made_of(secret.encode()) for user, secret in secrets.items()}
    users.write_text("".join(f"{user}:{each}\n" for user, each in cheap.items()))
    return secrets


def at_once(function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
    """Takes the place of threads."""
    return succeed(function(*arguments))


@implementer(IIdentity)
class Held:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.changed: list[Callable[[], None]] = []
        self.asked: list[tuple[Credentials, str]] = []
        self.answers: list[Deferred[Proof | Denial]] = []

    def log_in(self, credentials: Credentials, peer: str) -> Deferred[Proof | Denial]:
        self.asked.append((credentials, peer))
        self.answers.append(Deferred())
        return self.answers[-1]

    def answer(self, number: int, *, right: bool) -> None:
        credentials, _ = self.asked[number]
        assert isinstance(credentials, Password)
        user = credentials.user
        self.answers[number].callback(Proof(user, "password", None) if right else Denial("password", claimed=user))

    def refuse_unchecked(self, number: int) -> None:
        self.answers[number].callback(Denial("password", TOO_MANY_LOGINS, "ann"))

    def of_certificate(self, certificate: Mapping[str, Any]) -> Proof | Denial | None:
        return None

    def of_network(self, peer: str, protocol: str) -> Proof | None:
        return None

    def holds(self, proof: Proof) -> bool:
        return True


def identity_of(users: dict[str, SecretHash], reactor: Any) -> Identity:
    """Checks secrets at once."""
    identity = Identity(reactor, at_once)
    identity.use([Users(users)])
    return identity


def asking(users: dict[str, SecretHash] = USERS, **settings: Any) -> Network:
    """A server in memory that asks who clients are; by default it has one user."""
    network = Network(**settings)
    ask(network, identity_of(users, network.reactor))
    return network


def ask(network: Network, identity: IIdentity) -> None:
    """From now on a server asks who clients are."""
    network.bus.identity = identity
    network.bus.access.asks = True
