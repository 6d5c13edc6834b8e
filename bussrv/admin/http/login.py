"""Callers: the users that send requests, and their permissions.

- If the server asks clients for proof of who they are, or has a policy: the user is checked as in every wire format,
  and the policy decides on ``admin`` ``read`` and ``write``.
- Otherwise everybody who reaches the port may read. Writing takes the token in the admin token file.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error
from collections.abc import Callable
from hmac import compare_digest
from typing import Any, Literal

from msgspec import Struct

from bussrv import events as ev
from bussrv.addresses import address_key, is_in
from bussrv.admin.http.answers import Problem
from bussrv.bus.interfaces import IBus
from bussrv.errors import TOO_MANY_LOGINS
from bussrv.policy.logins.credentials import Credentials, Denial, Password, Proof, Token
from bussrv.policy.logins.tokens import MAX_TOKEN
from bussrv.policy.logins.users import MAX_SECRET
from bussrv.values import excerpt

Permission = Literal["read", "write"]

PROTOCOL = "admin"
"""The name of the interface in policies and in the journal, in place of a wire format."""

TOKEN_ACTOR = "admin-token"
"""The actor of a caller with the token of the admin token file."""

STATISTICS = "bus/statistics"

ASKS = {"WWW-Authenticate": 'Bearer, Basic realm="bussrv"'}


class Caller(Struct, frozen=True):
    """The sender of a request.

    :ivar actor: the user that it has proved to be, or :data:`TOKEN_ACTOR`; ``None``: it has proved nothing.
    :ivar peer: its address.
    :ivar may: its permissions.
    :ivar expires: the end of its proof, UTC microseconds; ``None``: there is no end.
    """

    actor: str | None
    peer: str
    may: frozenset[Permission]
    expires: int | None = None

    @property
    def key(self) -> str:
        """The key of its limits: the user, or the address of a caller that has proved nothing."""
        return f"user {self.actor}" if self.actor is not None else address_key(self.peer)

    @property
    def may_write(self) -> bool:
        """Whether it may change something."""
        return "write" in self.may


class Login:
    """Decides who callers are.

    :ivar token: returns the token of the admin token file; ``None``: there is none.
    """

    def __init__(self, bus: IBus, token: Callable[[], str | None]) -> None:
        self._bus = bus
        self.token = token

    async def caller(self, authorization: str | None, certificate: Any, peer: str) -> Caller:
        """The caller, by its credentials.

        :param authorization: the header ``Authorization``; ``None``: there is none.
        :param certificate: the verified certificate of the TLS client; ``None``: there is none.
        :raises Problem: ``bad-credentials`` or ``too-many-logins``.
        """
        if authorization is None:
            outcome = self._bus.identity.of_certificate(certificate) if certificate else None
            if isinstance(outcome, Denial):
                self._failed(outcome, peer)
            return self._with_permissions(outcome if isinstance(outcome, Proof) else None, peer)
        credentials = parse_authorization(authorization)
        if credentials is None:
            raise Problem("bad-credentials", "Authorization is Basic or Bearer", ASKS)
        if not self._bus.access.judges and isinstance(credentials, Token) and self._is_own(credentials):
            return Caller(TOKEN_ACTOR, peer, frozenset({"read", "write"}))
        checked = await self._bus.identity.log_in(credentials, peer)
        if isinstance(checked, Proof):
            return self._with_permissions(checked, peer)
        self._failed(checked, peer)
        if checked.reason == TOO_MANY_LOGINS:
            raise Problem(TOO_MANY_LOGINS, headers={"Retry-After": "1"})
        raise Problem("bad-credentials", headers=ASKS)

    def _is_own(self, credentials: Token) -> bool:
        token = self.token()
        return token is not None and compare_digest(token.encode(), credentials.text.encode())

    def _with_permissions(self, proof: Proof | None, peer: str) -> Caller:
        access, actor = self._bus.access, None if proof is None else proof.actor
        if not access.judges:
            return Caller(actor, peer, frozenset({"read"}))
        permissions = access.of_user(actor, peer, PROTOCOL)
        names: tuple[Permission, ...] = ("read", "write")
        may = frozenset(each for each in names if permissions.may("admin", each))
        return Caller(actor, peer, may, None if proof is None else proof.expires)

    def _failed(self, denial: Denial, peer: str) -> None:
        claimed = None if denial.claimed is None else excerpt(denial.claimed)
        self._bus.counters["bad-credentials" if denial.reason != TOO_MANY_LOGINS else TOO_MANY_LOGINS] += 1
        self._bus.registry.note_from_stranger(
            ev.AuthFailed(protocol=PROTOCOL, peer=peer, claimed=claimed, reason=denial.reason, method=denial.method)
        )

    def may_see_statistics(self, caller: Caller) -> bool:
        """Whether a caller may see what ``bus/statistics`` shows: by the policy, or because it is a scraper."""
        if is_in(caller.peer, self._bus.settings.admin_scrape_allow):
            return True
        return self._bus.access.of_user(caller.actor, caller.peer, PROTOCOL).may("watch", STATISTICS)

    def check(self, caller: Caller, permission: Permission) -> None:
        """Check that a caller has a permission. A denial is journaled at a limited rate.

        :raises Problem: ``not-authenticated`` or ``not-allowed``.
        """
        if permission in caller.may:
            return
        access = self._bus.access
        if not access.judges:
            raise Problem("not-authenticated", "writing takes the token in the admin token file", ASKS)
        decision = access.of_user(caller.actor, caller.peer, PROTOCOL).decide("admin", permission)
        about: dict[str, Any] = {"protocol": PROTOCOL, "actor": caller.actor, "peer": caller.peer}
        self._bus.counters["not-allowed"] += 1
        self._bus.registry.note_from_stranger(
            ev.AccessDenied(action="admin", target=permission, rule=decision.rule, reason="not-allowed", **about)
        )
        if caller.actor is None:
            raise Problem("not-authenticated", headers=ASKS)
        raise Problem("not-allowed", f"{caller.actor} may not {permission} here ({decision.rule})")


def parse_authorization(header: str) -> Credentials | None:
    """The credentials in an ``Authorization`` header; ``None``: it is malformed."""
    scheme, _, text = header.strip().partition(" ")
    text = text.strip()
    if scheme.lower() == "bearer" and 0 < len(text) <= MAX_TOKEN:
        return Token(text)
    if scheme.lower() != "basic" or len(text) > 2 * MAX_SECRET + 1024:
        return None
    try:
        user, colon, secret = b64decode(text, validate=True).partition(b":")
        return Password(user.decode(), secret) if colon else None
    except (Error, ValueError):
        return None
