"""Checkers: what proves who a client is, each named by a description of ``--auth``.

``users:FILE`` is made here. Any other checker of :mod:`twisted.cred` that takes a user and a secret is used as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from twisted.cred.checkers import ICredentialsChecker, InMemoryUsernamePasswordDatabaseDontUse
from twisted.cred.credentials import IUsernamePassword, UsernamePassword
from twisted.cred.error import UnauthorizedLogin
from twisted.internet.defer import CancelledError, Deferred, maybeDeferred
from twisted.internet.threads import deferToThread
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from bussrv.policy.credentials import Password, Proof
from bussrv.policy.users import NOBODY, SecretHash, check_user, read_users

PATIENCE = 30.0
"""Seconds that a checker of somebody else may take: others wait meanwhile."""

log = Logger()

InThread = Callable[..., Deferred[Any]]
"""Calls a function with arguments off the reactor's thread. Returns a Deferred of its result."""


class PasswordChecker(Protocol):
    """Checks secrets."""

    def check(self, password: Password, in_thread: InThread) -> Deferred[Proof | None]:
        """Check a secret. Fires with ``None`` if it is wrong; never fails."""

    def holds(self, proof: Proof) -> bool:
        """Whether a proof, by whichever checker, is one by this checker that still holds."""


PASSWORDS = (IUsernamePassword,)


@implementer(ICredentialsChecker)
class Users:
    """The users of a file, each with the hash of its secret.

    :param users: by name.
    """

    credentialInterfaces = PASSWORDS  # noqa: N815 - the name that Twisted asks for

    def __init__(self, users: dict[str, SecretHash]) -> None:
        self._users = users
        # Somebody unknown takes as long as somebody known: otherwise the time would tell who is known.
        self._nobody = next(iter(users.values()), NOBODY)

    def check(self, password: Password, in_thread: InThread) -> Deferred[Proof | None]:
        """Check a secret; see :class:`PasswordChecker`."""
        known = self._users.get(password.user)
        proof = None if known is None else Proof(password.user, "password", known)
        matches = in_thread((known or self._nobody).matches, password.secret)
        return matches.addCallback(lambda does: proof if does else None)

    def holds(self, proof: Proof) -> bool:
        """Whether the user is here with the same hash; see :class:`PasswordChecker`."""
        return proof.method == "password" and self._users.get(proof.actor) == proof.evidence

    def requestAvatarId(self, credentials: Any) -> Deferred[Any]:  # noqa: N802 - called by other programs with Twisted
        """The user, for programs other than bussrv; see :class:`ICredentialsChecker`."""
        user = credentials.username
        name = user.decode("utf-8", "replace") if isinstance(user, bytes) else user
        secret = credentials.password
        password = Password(name, secret if isinstance(secret, bytes) else secret.encode())
        return self.check(password, deferToThread).addCallback(_avatar_id, user)


def _avatar_id(proof: Proof | None, user: Any) -> Any:
    if proof is None:
        raise UnauthorizedLogin
    return user


def users_of(path: str) -> Users:
    """The checker ``users:FILE``.

    :raises ConfigError: the file makes no sense.
    """
    return Users(read_users(Path(path)))


class Foreign:
    """A checker of somebody else, for a user and a secret.

    :param description: what ``--auth`` says. It may hold secrets.
    :param reactor: calls later.
    """

    def __init__(self, description: str, checker: Any, reactor: Any) -> None:
        if isinstance(checker, InMemoryUsernamePasswordDatabaseDontUse):
            # Made of a description it has texts, which never equal the bytes that it is asked for.
            checker.users = {_as_bytes(user): _as_bytes(secret) for user, secret in checker.users.items()}
        self._description = description
        self._checker = checker
        self._reactor = reactor

    def check(self, password: Password, in_thread: InThread) -> Deferred[Proof | None]:
        """Ask the checker, on the reactor's thread; see :class:`PasswordChecker`."""
        credentials = UsernamePassword(password.user.encode("utf-8", "replace"), password.secret)
        asked: Deferred[Any] = maybeDeferred(self._checker.requestAvatarId, credentials)
        asked.addTimeout(PATIENCE, self._reactor)
        return asked.addCallbacks(self._proof, self._refused)

    def _proof(self, avatar_id: Any) -> Proof | None:
        name = avatar_id.decode("utf-8", "replace") if isinstance(avatar_id, bytes) else avatar_id
        try:
            actor = check_user(name)
        except (ValueError, AttributeError):
            log.error("--auth {kind}: the user that it names cannot be one of bussrv", kind=self._kind)
            return None
        return Proof(actor, "password", self._description, may_be_remembered=False)

    def _refused(self, failure: Failure) -> None:
        if failure.check(UnauthorizedLogin, CancelledError) is None:
            # Without its message: a secret may stand in that.
            log.error("--auth {kind}: failed: {error}", kind=self._kind, error=type(failure.value).__name__)

    @property
    def _kind(self) -> str:
        return self._description.partition(":")[0]

    def holds(self, proof: Proof) -> bool:
        """Whether it is still asked: nobody tells when one of its users goes; see :class:`PasswordChecker`."""
        return proof.method == "password" and proof.evidence == self._description


def _as_bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


MAKE: dict[str, Callable[[str], Any]] = {"users": users_of}
"""Makes the checkers of bussrv of what follows their names."""

CREDENTIALS: dict[str, tuple[Any, ...]] = {"users": PASSWORDS}
"""The kinds of credentials that they take."""
