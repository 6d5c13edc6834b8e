"""The user that the client of one connection has proved to be, the same in every stream format.

1. A login is checked by :attr:`bussrv.bus.interfaces.IBus.identity`, and journaled whatever its outcome.
2. The first success fixes the actor of the session. A later login has to be of the same user.
3. After some failures the connection is closed.
"""

from __future__ import annotations

from typing import Any, Protocol

from twisted.internet.defer import CancelledError, Deferred

from bussrv import events as ev
from bussrv.bus.interfaces import IBus
from bussrv.errors import TOO_MANY_LOGINS, Refused
from bussrv.policy.logins.credentials import Credentials, Denial, Proof
from bussrv.policy.permissions.permissions import NOTHING
from bussrv.registry.state.session import Session
from bussrv.values import excerpt

MAX_FAILURES = 3
"""How often a client may fail to say who it is before its connection is closed."""


class ProvenConnection(Protocol):
    """The connection of a client."""

    session_id: str

    def end(self, reason: str) -> object:
        """End the session."""


class Identification:
    """The logins of one connection.

    :ivar proof: the proof that the client has given; ``None``: there is none.
    """

    proof: Proof | None = None

    def __init__(self, connection: ProvenConnection, bus: IBus) -> None:
        self._connection = connection
        self._bus = bus
        self._failures = 0
        self._checking: Deferred[Proof | Denial] | None = None

    def check_may_join(self) -> None:
        """Check that the client may do anything at all.

        :raises Refused: ``not-authenticated``, ``not-allowed`` or ``session-closed``.
        """
        session = self._session()
        if self._bus.access.of(session) is not NOTHING:
            return
        if session.actor is None:
            raise Refused("not-authenticated", "this server serves only clients that say who they are, with a secret")
        about = {**session.about(), "reason": "not-allowed"}
        rule = NOTHING.decide("observe", "").rule
        self._bus.registry.note_from_stranger(
            ev.AccessDenied(action="join", target=session.protocol, rule=rule, **about)
        )
        raise Refused("not-allowed", "no rule of the policy applies to this user, so it may do nothing here")

    def cancel(self) -> None:
        """The session is closed: nobody waits for a login."""
        if self._checking is not None:
            self._checking.cancel()

    def let_go(self) -> None:
        """Let go of the connection, which is gone."""
        del self._connection

    def by_certificate(self, transport: Any) -> Proof | None:
        """The proof that the TLS certificate of the client gives. A certificate without a known user is journaled.

        :param transport: the transport of the connection.
        """
        tls = getattr(transport, "tls", None)
        certificate = None if tls is None else tls.getpeercert()
        outcome = self._bus.identity.of_certificate(certificate) if certificate else None
        if isinstance(outcome, Denial):
            self._note(outcome)
        return outcome if isinstance(outcome, Proof) else None

    async def log_in(self, credentials: Credentials) -> None:
        """Check what the client said. To be awaited by ``busy_with``.

        :raises Refused: ``bad-credentials``, ``too-many-logins``, ``actor-fixed``, or ``session-closed`` if the client
            is gone.
        """
        self._checking = self._bus.identity.log_in(credentials, self._session().peer)
        try:
            outcome = await self._checking
        except CancelledError:
            outcome = None
        finally:
            self._checking = None
        if isinstance(outcome, Proof):
            await self.prove(outcome)
        elif outcome is not None:
            raise self._denied(outcome)
        else:
            raise _gone()

    async def prove(self, proof: Proof) -> None:
        """The client has proved who it is.

        :raises Refused: as :meth:`log_in` does.
        """
        session = self._session()
        if session.actor is None:
            await self._bus.registry.spending.ready(session)
            session = self._session()
            if proof.evidence is not None and not self._bus.identity.holds(proof):
                # A reload took the user away meanwhile, and it did not know of this session yet.
                raise self._failed(Denial(proof.method, claimed=proof.actor), _unknown())
        if session.actor is None:
            about = {**session.about(), "actor": proof.actor}
            self._bus.registry.note(ev.AuthSucceeded(method=proof.method, **about))
        elif session.actor != proof.actor:
            refusal = Refused("actor-fixed", "the session has proved to be another user already")
            raise self._failed(Denial(proof.method, refusal.reason, proof.actor), refusal)
        # A proof without evidence cannot be withdrawn.
        self.proof = None if proof.evidence is None else proof

    def unencrypted(self) -> Refused:
        """The client has shown credentials where others may read them. :returns: for it, to be raised."""
        message = "credentials are taken only over TLS, or from this machine; make new ones, others may have read them"
        return self._failed(Denial("token", "not-encrypted"), Refused("not-encrypted", message))

    def _denied(self, denial: Denial) -> Refused:
        if denial.reason != TOO_MANY_LOGINS:
            return self._failed(denial, _unknown())
        # That is no failure of the client.
        self._note(denial)
        return Refused(TOO_MANY_LOGINS, "too many other logins of this user wait at this address: try again")

    def _failed(self, denial: Denial, refusal: Refused) -> Refused:
        self._failures += 1
        self._note(denial)
        return refusal

    def _note(self, denial: Denial) -> None:
        session = self._session()
        claimed = session.claimed if denial.claimed is None else excerpt(denial.claimed)
        about = {**session.about(), "claimed": claimed}
        self._bus.registry.note_from_stranger(ev.AuthFailed(reason=denial.reason, method=denial.method, **about))

    @property
    def has_failed_too_often(self) -> bool:
        """Whether the connection is to be closed, after the client was told."""
        return self._failures >= MAX_FAILURES

    def _session(self) -> Session:
        session: Session | None = self._bus.registry.state.sessions.get(self._connection.session_id)
        if session is None:
            raise _gone()
        return session


def _unknown() -> Refused:
    return Refused("bad-credentials", "there is no such user, or its secret is another")


def _gone() -> Refused:
    return Refused("session-closed", "the session is closed")
