"""Checkers: what proves who a client is, each named by a description of ``--auth``.

``users:FILE``, ``tokens:FILE`` and ``certificates:FIELD`` are made here. Any other checker of :mod:`twisted.cred` that
takes a user and a secret is used as it is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from twisted.cred.checkers import ICredentialsChecker, InMemoryUsernamePasswordDatabaseDontUse
from twisted.cred.credentials import ICredentials, IUsernamePassword, UsernamePassword
from twisted.cred.error import UnauthorizedLogin
from twisted.internet.defer import CancelledError, Deferred, fail, maybeDeferred, succeed
from twisted.internet.threads import deferToThread
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import Attribute, implementer

from bussrv.errors import ConfigError
from bussrv.policy.logins.credentials import Denial, Password, Proof, Token
from bussrv.policy.logins.tokens import MAX_TOKEN, TOKENS_FILE, TokenUse, digest
from bussrv.policy.logins.users import NOBODY, USERS_FILE, SecretHash, check_user
from bussrv.turns.clock import SystemClock

PATIENCE = 30.0
"""Seconds that a checker of somebody else may take: others wait meanwhile."""

FIELDS = ("cn", "dns", "email", "uri")
"""The parts of a certificate that may have the name of the user."""

_ALTERNATIVES = {"dns": "DNS", "email": "email", "uri": "URI"}

log = Logger()

InThread = Callable[..., Deferred[Any]]
"""Calls a function with arguments off the reactor's thread. Returns a Deferred of its result."""


class IBearerToken(ICredentials):
    """A token: whoever has it is its user."""

    text: str = Attribute("``str``: the token.")


class IVerifiedCertificate(ICredentials):
    """The certificate of a TLS client, which an authority signed that the server trusts."""

    certificate: dict[str, Any] = Attribute("``dict``: as :meth:`ssl.SSLObject.getpeercert` returns it.")


class Checker(Protocol):
    """Checks credentials of some kind."""

    def holds(self, proof: Proof) -> bool:
        """Whether a proof, by whichever checker, is one by this checker that still holds."""


def changes(before: Checker | None, after: Checker) -> str:
    """The difference between two readings of a file of users or tokens, in a few words; empty: there is none."""
    if not isinstance(after, (Users, Tokens)) or not isinstance(before, type(after)):
        return ""
    old, new = before.entries, after.entries
    numbers = {
        "added": len(new.keys() - old.keys()),
        "removed": len(old.keys() - new.keys()),
        "changed": sum(old[each] != new[each] for each in old.keys() & new.keys()),
    }
    return ", ".join(f"{number} {what}" for what, number in numbers.items() if number)


PASSWORDS = (IUsernamePassword,)
TOKENS = (IBearerToken,)
CERTIFICATES = (IVerifiedCertificate,)


@implementer(ICredentialsChecker)
class Users:
    """The users of a file, each with the hash of its secret.

    :param users: the users by name.
    :ivar entries: the same, for a comparison.
    """

    credentialInterfaces = PASSWORDS  # noqa: N815 - the name that Twisted asks for

    def __init__(self, users: dict[str, SecretHash]) -> None:
        self._users = users
        self.entries: Mapping[Any, object] = users
        # Checking an unknown user takes as long as a known one: otherwise the time would tell which users there are.
        self._nobody = next(iter(users.values()), NOBODY)

    def check(self, password: Password, in_thread: InThread) -> Deferred[Proof | None]:
        """Check a secret. Fires with ``None`` if it is wrong; never fails."""
        known = self._users.get(password.user)
        proof = None if known is None else Proof(password.user, "password", known)
        matches = in_thread((known or self._nobody).matches, password.secret)
        return matches.addCallback(lambda does: proof if does else None)

    def holds(self, proof: Proof) -> bool:
        """Whether the user is here with the same hash; see :class:`Checker`."""
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


@implementer(ICredentialsChecker)
class Tokens:
    """The tokens of a file, by their hashes.

    :ivar entries: the same, for a comparison.
    :ivar utc: the present time, UTC microseconds.
    """

    credentialInterfaces = TOKENS  # noqa: N815 - the name that Twisted asks for

    def __init__(self, tokens: dict[bytes, TokenUse]) -> None:
        self.utc: Callable[[], int] = SystemClock().utc
        self._tokens = tokens
        self.entries: Mapping[Any, object] = tokens
        self._expiries = sorted(use.expires for use in tokens.values() if use.expires is not None)

    def next_expiry(self) -> int | None:
        """When the next token expires, UTC microseconds; ``None``: none does."""
        place = bisect_right(self._expiries, self.utc())
        return self._expiries[place] if place < len(self._expiries) else None

    def check_token(self, token: Token) -> Proof | Denial | None:
        """Check a token. :returns: ``None``: it is none of these."""
        if len(token.text) > MAX_TOKEN:
            return None
        # Found by its hash: the time that this takes tells nothing of the tokens that there are.
        hashed = digest(token.text)
        use = self._tokens.get(hashed)
        if use is None:
            return None
        if use.expires is not None and use.expires <= self.utc():
            return Denial("token", "token-expired", use.user)
        return Proof(use.user, "token", hashed, use.expires)

    def holds(self, proof: Proof) -> bool:
        """Whether the token is here, is of that user, and has not expired; see :class:`Checker`."""
        use = self._tokens.get(proof.evidence) if isinstance(proof.evidence, bytes) else None
        if proof.method != "token" or use is None or use.user != proof.actor:
            return False
        return use.expires is None or use.expires > self.utc()

    def requestAvatarId(self, credentials: Any) -> Deferred[Any]:  # noqa: N802 - called by other programs with Twisted
        """The user, for programs other than bussrv; see :class:`ICredentialsChecker`."""
        checked = self.check_token(Token(credentials.text))
        return succeed(checked.actor.encode()) if isinstance(checked, Proof) else fail(UnauthorizedLogin())


@implementer(ICredentialsChecker)
class CertificateUsers:
    """Users by a field of their TLS client certificates.

    :param field: one of :data:`FIELDS`.
    """

    credentialInterfaces = CERTIFICATES  # noqa: N815 - the name that Twisted asks for

    def __init__(self, field: str) -> None:
        self._field = field

    def check_certificate(self, certificate: Mapping[str, Any]) -> Proof | None:
        """The user that a verified certificate names."""
        user = user_of(certificate, self._field)
        return None if user is None else Proof(user, "certificate", self._field)

    def holds(self, proof: Proof) -> bool:
        """Whether a proof is one by the field of this checker; see :class:`Checker`."""
        return proof.method == "certificate" and proof.evidence == self._field

    def requestAvatarId(self, credentials: Any) -> Deferred[Any]:  # noqa: N802 - called by other programs with Twisted
        """The user, for programs other than bussrv; see :class:`ICredentialsChecker`."""
        proof = self.check_certificate(credentials.certificate)
        return fail(UnauthorizedLogin()) if proof is None else succeed(proof.actor.encode())


def user_of(certificate: Mapping[str, Any], field: str) -> str | None:
    """The user that a certificate names.

    :param certificate: the certificate, as :meth:`ssl.SSLObject.getpeercert` returns it.
    :param field: one of :data:`FIELDS`.
    :returns: ``None``: the field is not there, is there more than once, or cannot be the name of a user.
    """
    if field == "cn":
        subject = certificate.get("subject", ())
        found = [value for part in subject for name, value in part if name == "commonName"]
    else:
        kind = _ALTERNATIVES[field]
        found = [value for name, value in certificate.get("subjectAltName", ()) if name == kind]
    if len(found) != 1:
        return None
    try:
        return check_user(found[0])
    except ValueError:
        return None


def certificates_by(field: str) -> CertificateUsers:
    """The checker ``certificates:FIELD``.

    :raises ConfigError: there is no such field.
    """
    if field not in FIELDS:
        raise ConfigError(f"certificates: takes one of {', '.join(FIELDS)}, not {field!r}")
    return CertificateUsers(field)


class Foreign:
    """A checker of another package, for a user and a secret.

    :param description: the value of ``--auth``. It may hold secrets.
    :param reactor: calls later.
    """

    def __init__(self, description: str, checker: Any, reactor: Any) -> None:
        if isinstance(checker, InMemoryUsernamePasswordDatabaseDontUse):
            # A checker that was made of a description holds texts. These never equal bytes, which it is asked for.
            checker.users = {_as_bytes(user): _as_bytes(secret) for user, secret in checker.users.items()}
        self._description = description
        self._checker = checker
        self._reactor = reactor

    def check(self, password: Password, in_thread: InThread) -> Deferred[Proof | None]:
        """Ask the checker, on the reactor's thread; see :meth:`Users.check`."""
        credentials = UsernamePassword(password.user.encode("utf-8", "replace"), password.secret)
        asked: Deferred[Any] = maybeDeferred(lambda: self._checker.requestAvatarId(credentials))
        asked.addTimeout(PATIENCE, self._reactor)
        return asked.addCallbacks(self._proof, self._refused)

    def _proof(self, avatar_id: Any) -> Proof | None:
        name = avatar_id.decode("utf-8", "replace") if isinstance(avatar_id, bytes) else avatar_id
        try:
            actor = check_user(name)
        except (ValueError, AttributeError, TypeError):
            log.error(
                "--auth {kind}: the user that it names cannot be one of bussrv", event="auth.bad-user", kind=self._kind
            )
            return None
        return Proof(actor, "password", self._description, may_be_remembered=False)

    def _refused(self, failure: Failure) -> None:
        if failure.check(UnauthorizedLogin, CancelledError) is None:
            # Without its message: a secret may stand in that.
            log.error(
                "--auth {kind}: failed: {error}",
                event="auth.failed",
                kind=self._kind,
                error=type(failure.value).__name__,
            )

    @property
    def _kind(self) -> str:
        return self._description.partition(":")[0]

    def holds(self, proof: Proof) -> bool:
        """Whether a proof is one by this checker. It cannot tell that a user is gone; see :class:`Checker`."""
        return proof.method == "password" and proof.evidence == self._description


def _as_bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


MAKE: dict[str, Callable[[str], Any]] = {
    "users": lambda path: Users(USERS_FILE.read(Path(path))),
    "tokens": lambda path: Tokens(TOKENS_FILE.read(Path(path))),
    "certificates": certificates_by,
}
"""Makes the checkers of bussrv of what follows their names. They raise :class:`ConfigError` if that makes no sense."""

CREDENTIALS: dict[str, tuple[Any, ...]] = {"users": PASSWORDS, "tokens": TOKENS, "certificates": CERTIFICATES}
"""The kinds of credentials that they take."""
