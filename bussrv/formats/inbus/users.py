"""Inbus: the users that senders of datagrams are, by the networks they send from.

Deployed devices know no secret, so ``--inbus-user NETWORK=USER`` says who they are. Whoever can forge the source of a
datagram is that user, too. The *source* counts, not the address that the datagram states.

1. A session is opened for a sender that may do what it asks for, and is the sender's user from then on. Before that
   nothing is registered or subscribed: strangers must not fill the journal.
2. Datagrams of other users do not change it.
3. A reload that makes the sender another user closes the session.
"""

from __future__ import annotations

from bussrv import events as ev
from bussrv.formats.inbus.drops import FORMAT
from bussrv.plugin import NOTHING, Action, IBus, NotAllowed, Refused, Session, quoted
from bussrv.policy.logins.credentials import Proof
from bussrv.values import excerpt


class InbusUsers:
    """The users of one port."""

    def __init__(self, bus: IBus) -> None:
        self._bus = bus

    def admit(self, source: str, peer: str, action: Action, service: str) -> Proof | None:
        """Check that a session may be opened, and may do something new.

        :param source: the host that sent the datagram.
        :param peer: the address of the session.
        :returns: what the sender proves.
        :raises Refused: ``not-authenticated``, or ``not-allowed``.
        """
        proof = self._proof(source)
        actor = None if proof is None else proof.actor
        permissions = self._bus.access.of_user(actor, peer, FORMAT)
        if permissions is NOTHING and actor is None:
            raise Refused("not-authenticated", "no --inbus-user says who the sender is")
        if not permissions.may(action, service):
            denied = ev.AccessDenied(
                action=action,
                target=excerpt(service),
                rule=permissions.decide(action, service).rule,
                reason="not-allowed",
                protocol=FORMAT,
                peer=peer,
                actor=actor,
            )
            self._bus.registry.note_from_stranger(denied)
            raise NotAllowed(f"the policy does not allow the sender to {action} {quoted(service)}")
        return proof

    def opened(self, session: Session, proof: Proof | None) -> None:
        """A session was opened for a sender."""
        if proof is not None:
            about = {**session.about(), "actor": proof.actor}
            self._bus.registry.note(ev.AuthSucceeded(method=proof.method, **about))

    def check_owner(self, session_id: str, source: str) -> None:
        """Check that a sender is the user of a session.

        :raises Refused: ``not-allowed``: it is another one.
        """
        session = self._bus.registry.state.sessions.get(session_id)
        proof = self._proof(source)
        if session is not None and session.actor != (None if proof is None else proof.actor):
            raise NotAllowed("the subscriber belongs to another user")

    def judge(self, session_id: str, source: str) -> str | None:
        """Judge a session after who senders are may have changed.

        :returns: the reason why it has to be closed; ``None``: it may stay.
        """
        session = self._bus.registry.state.sessions.get(session_id)
        if session is None:
            return None
        proof = self._proof(source)
        if session.actor is None:
            self.opened(session, proof)
        elif proof is None or proof.actor != session.actor:
            return "user-withdrawn"
        session = self._bus.registry.state.sessions.get(session_id)
        if self._bus.access.of(session) is not NOTHING:
            return None
        return "not-authenticated" if proof is None else "not-allowed"

    def _proof(self, source: str) -> Proof | None:
        return self._bus.identity.of_network(source, FORMAT)
