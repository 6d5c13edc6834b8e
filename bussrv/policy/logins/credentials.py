"""Credentials, which clients give to prove who they are, and what becomes of them. Pure.

Nothing here shows a secret when it is printed: it might be printed into a log.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

Method = Literal["password", "token", "certificate", "network", "application"]
"""How a client proves who it is. ``application``: the program that the server is a part of says so."""


class Password(Struct, frozen=True):
    """The name of a user, and its secret."""

    user: str
    secret: bytes

    def __repr__(self) -> str:
        return f"Password(user={self.user!r})"


class Token(Struct, frozen=True):
    """A bearer token: whoever has it is its user."""

    text: str

    def __repr__(self) -> str:
        return "Token()"


Credentials = Password | Token
"""By which a client says who it is."""


class Proof(Struct, frozen=True):
    """The proof that a client is a user.

    :ivar actor: the user.
    :ivar evidence: the thing that it was checked against, such as the hash of a secret. The proof ends when that is
        removed or changed. ``None``: the proof cannot be taken back.
    :ivar expires: the end of the proof, UTC microseconds; ``None``: there is no end.
    :ivar may_be_remembered: whether the same credentials need not be checked again for some minutes.
    """

    actor: str
    method: Method
    evidence: object
    expires: int | None = None
    may_be_remembered: bool = True

    def __repr__(self) -> str:
        return f"Proof(actor={self.actor!r}, method={self.method!r})"


class Denial(Struct, frozen=True):
    """A client has not proved who it is.

    :ivar reason: for the journal. The client is told ``bad-credentials``, whatever it is, except
        :data:`bussrv.errors.TOO_MANY_LOGINS`: then nothing was checked, and the client may try again.
    :ivar claimed: the user that was tried, if one is known.
    """

    method: Method
    reason: str = "bad-credentials"
    claimed: str | None = None

    def of(self, user: str) -> Denial:
        """The same for a login of a user."""
        return replace(self, claimed=user)
