"""The answer: for each session that was present, whether it was given something, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from bussrv.bus.interest.interests import kind_of
from bussrv.bus.routing.audience import Everyone, Nobody
from bussrv.bus.send_rights import rights_to_send
from bussrv.events import SessionOpened
from bussrv.journal.pseudonyms import is_pseudonym
from bussrv.journal.record import format_time
from bussrv.policy.permissions.permissions import EVERYTHING
from bussrv.registry.state.session import Session
from bussrv.values import InEffect
from bussrv.why.network import Network, Outcome
from bussrv.why.past import SECOND, Ended, LinkChange, Past
from bussrv.why.question import Question, is_named
from bussrv.why.reasons import (
    NO_ASKERS,
    Case,
    Reason,
    in_turn,
    may_ask,
    never_remote,
    of_providers,
    why_given,
    why_not,
)

Said = Literal["yes", "no", "unknown"]


class Verdict(Struct, frozen=True, kw_only=True):
    """Whether a session was given it.

    :ivar server: its server.
    :ivar actor: the user that it proved to be.
    :ivar claimed: the user that it merely says it is.
    :ivar reason: a stable word for programs.
    :ivar why: the reason, for people.
    :ivar seq: the record that made it so; ``None``: that is before the segment, or there is none.
    :ivar time: when that was.
    """

    answer: Said
    reason: str
    why: str
    seq: int | None
    time: str | None
    server: str
    session: str
    routing_id: str
    protocol: str
    actor: str | None
    claimed: str | None
    name: str | None
    peer: str


class LinkState(Struct, frozen=True, kw_only=True):
    """A link at the moment.

    :ivar server: the server whose journal tells of it.
    :ivar peer: the other server.
    :ivar is_forwarded: whether it was forwarded over the link.
    :ivar down: the record that says the link was lost, shortly before the moment.
    :ivar up: the record that says it was up again, shortly after the moment.
    """

    server: str
    peer: str
    is_up: bool
    is_forwarded: bool
    down: int | None = None
    up: int | None = None


class Rules(Struct, frozen=True, kw_only=True):
    """The rules in effect at the moment.

    :ivar is_known: whether the journal has them.
    :ivar policy: the name of the policy file; ``None``: there was none.
    :ivar digest: its SHA-256.
    :ivar seq: the record that put them into effect; ``None``: it is before the segment.
    """

    is_known: bool
    policy: str | None = None
    digest: str | None = None
    seq: int | None = None


class ServerMoment(Struct, frozen=True, kw_only=True):
    """What is known of a server at the moment.

    :ivar seq: its last record before the moment.
    :ivar time: when that was.
    """

    server: str
    seq: int
    time: str
    rules: Rules


class SenderShown(Struct, frozen=True, kw_only=True):
    """The sender. Without a session it is somebody whom nobody named, and who may do everything."""

    server: str
    session: str | None = None
    routing_id: str | None = None
    actor: str | None = None
    claimed: str | None = None
    name: str | None = None
    refused: str | None = None


class Answer(Struct, frozen=True, kw_only=True):
    """Who was given it, and why.

    :ivar moments: what is known of each server at the moment.
    :ivar sender: the sender; ``refused`` says why its server refused it.
    :ivar sessions: those present, those that ended a minute before at most, and those that were opened a minute after.
    :ivar links: the links to other servers, with those that were down.
    :ivar notes: what the answer does not know, in sentences.
    """

    moments: list[ServerMoment]
    sender: SenderShown
    sessions: list[Verdict]
    links: list[LinkState]
    notes: list[str]


def answer(
    pasts: Sequence[Past], question: Question, to: str | None = None, pause: Callable[[], object] = lambda: None
) -> Answer:
    """Answer a question.

    :param pasts: what the journals of one server or several know of the moment.
    :param to: only sessions that are called so.
    :param pause: called between any two sessions.
    :raises JournalError: the sender is not there, or cannot send it.
    """
    network = Network(pasts, question.sender if question.asker is not None else question.turn, pause)
    outcome = network.route(question)
    decided = _Decided(pasts, network, question, outcome)
    shown: list[Verdict] = []
    for verdict, session in decided.verdicts():
        pause()
        if to is None or is_named(session, to):
            shown.append(verdict)
    return Answer(
        moments=[_moment(each) for each in pasts],
        sender=decided.sender(),
        sessions=shown,
        links=[each for past in pasts for each in decided.links(past)],
        notes=decided.notes(),
    )


def _moment(past: Past) -> ServerMoment:
    rules, place = past.state.in_effect, past.rules
    policy = None if rules is None else rules.policy
    told = Rules(
        is_known=rules is not None,
        policy=None if policy is None else policy.name,
        digest=None if policy is None else policy.digest,
        seq=None if place is None else place.seq,
    )
    return ServerMoment(server=past.server, seq=past.at.seq, time=format_time(past.at.time), rules=told)


class _Decided:
    """Everything that was decided about a question."""

    def __init__(self, pasts: Sequence[Past], network: Network, question: Question, outcome: Outcome) -> None:
        self._pasts = {each.server: each for each in pasts}
        self._network = network
        self._question = question
        self._outcome = outcome
        self._refused = self._refusal()
        self._cases = dict(self._find_cases())

    def _find_cases(self) -> Iterator[tuple[str, Case]]:
        event = (self._question.fields or {}).get("event")
        wanted = event.lower() if isinstance(event, str) else None
        for server, replica in self._network.replicas.items():
            # Servers also tell each other of their sessions.
            found = next((each for each in replica.plans if each[1].kind.event == wanted), None)
            if found is not None:
                origin, plan = found
                publication = plan.publication if isinstance(plan, (Everyone, Nobody)) else None
                service = None if publication is None else publication.service
                turn, asker = self._network.turn, self._outcome.asker
                yield server, Case(self._pasts[server], replica, origin, plan, service, turn, asker)

    # The sender.

    def _refusal(self) -> str | None:
        """Why the server of the sender refused it; ``None``: it did not."""
        sender, refusal = self._outcome.sender, self._outcome.refusal
        if sender.session is None:
            return None if refusal is None else refusal.message
        replica = self._network.replicas[sender.server]
        permissions = replica.bus.access.of(sender.session)
        if permissions is EVERYTHING:
            return None if refusal is None else refusal.message
        if self._outcome.is_publication:
            decision = permissions.decide("publish", self._question.published_on or "")
            return None if decision.allowed else decision.rule
        if refusal is None or refusal.reason not in ("not-allowed", "no-such-service"):
            return None if refusal is None else refusal.message
        obj = self._question.object()
        rights = rights_to_send(obj, kind_of(obj, self._question.published_on))
        denied = (permissions.decide(*each) for each in rights)
        return next((each.rule for each in denied if not each.allowed), refusal.message)

    def sender(self) -> SenderShown:
        """The sender."""
        sender = self._outcome.sender
        if sender.session is None:
            return SenderShown(server=sender.server, refused=self._refused)
        session = sender.session
        return SenderShown(
            server=sender.server,
            session=session.id,
            routing_id=session.routing_id,
            actor=session.actor,
            claimed=session.claimed,
            name=session.name,
            refused=self._refused,
        )

    # Sessions.

    def verdicts(self) -> Iterator[tuple[Verdict, Session]]:
        """Whether each session was given it, with the session: those present, then those just gone or about to come."""
        for server, session in self._network.sessions():
            said, reason = self._judge(server, session)
            yield _verdict(server, session, said, reason), session
        for server, past in self._pasts.items():
            for ended in past.ended:
                if not ended.session.is_link and ended.session.home not in self._pasts:
                    yield _verdict(server, ended.session, "no", _closed(past, ended)), ended.session
            for session_id, (place, event) in past.opened_later.items():
                if event.home is None:
                    later = (place.time - past.at.time) / SECOND
                    reason = Reason("not-there", f"opened only {later:.1f} s later", place.seq, place.time)
                    session = _to_be(session_id, event)
                    yield _verdict(server, session, "no", reason), session

    def _judge(self, server: str, session: Session) -> tuple[Said, Reason]:
        if self._refused is not None:
            return "no", Reason("refused", f"the sender may not send it: {self._refused}")
        unsure = self._unsure_before(server, session)
        if unsure is not None:
            return "unknown", unsure
        if session.home is not None:
            return self._judge_remote(server, session)
        case = self._cases.get(server)
        if case is None:
            return self._judge_unreached(server, session)
        not_asked = self._outcome.not_asked
        asker = self._outcome.asker
        if not_asked is not None and asker is not None and session.routing_id == asker.routing_id:
            return "no", Reason("may-not-ask", f"it could not ask: {not_asked.message}")
        unsure = in_turn(case, session)
        if unsure is not None:
            return "unknown", unsure
        if not self._outcome.given.get((server, session.id)):
            return "no", why_not(case, session)
        reason = why_given(case, session)
        rules = case.past.state.in_effect
        if rules is None:
            return "unknown", Reason(
                "rules-unknown",
                f"{reason.text}, but the rules of that time are not in the journal",
                reason.seq,
                reason.time,
            )
        if _depends_on_address(rules, session):
            text = f"{reason.text}, but rules look at its address, which is a pseudonym here"
            return "unknown", Reason("address-unknown", text, reason.seq, reason.time)
        return "yes", reason

    def _judge_remote(self, server: str, session: Session) -> tuple[Said, Reason]:
        """A session of another server, whose journal is not there."""
        case = self._cases.get(server)
        if case is None:
            return self._judge_unreached(server, session)
        never = never_remote(case, session)
        if never is not None:
            return "no", never
        unsure = in_turn(case, session)
        if unsure is not None:
            return "unknown", unsure
        if not self._outcome.forwarded.get(server):
            return "no", Reason("not-forwarded", f"it was not forwarded to {session.home}")
        text = f"what this session wants is in the journal of {session.home} only: name that journal, too"
        return "unknown", Reason("remote", f"it was forwarded towards {session.home}; {text}")

    def _unsure_before(self, server: str, session: Session) -> Reason | None:
        """Why nobody knows whether a request came to the server of a session: another one chose among providers."""
        if not may_ask(self._network.replicas[server], session):
            return None
        for each in self._network.before(self._outcome.sender.server, session.home or server):
            case = self._cases.get(each)
            unsure = None if case is None else of_providers(case)
            if unsure is not None:
                return unsure
        return None

    def _judge_unreached(self, server: str, session: Session) -> tuple[Said, Reason]:
        """A session of a server that it did not come to. A reply comes to that of the asker."""
        if self._question.is_reply and self._outcome.asker is None:
            replica = self._network.replicas[server]
            if may_ask(replica, session):
                return "unknown", Reason("reply", NO_ASKERS)
        return "no", self._not_reached(server)

    def _not_reached(self, server: str) -> Reason:
        """Why an object did not come to a server."""
        for past in self._pasts.values():
            for link in self.links(past):
                if not link.is_up and server in (link.server, link.peer):
                    until = "" if link.up is None else f" to record {link.up}"
                    text = f"the link to {link.peer} was down from record {link.down}{until}"
                    return Reason("link-down", text, link.down)
        return Reason("not-forwarded", f"no server forwarded it to {server}")

    # Links.

    def links(self, past: Past) -> Iterator[LinkState]:
        """The links of a server, with those that were down."""
        forwarded = self._outcome.forwarded.get(past.server, set())
        up = {each.routing_id for each in self._network.replicas[past.server].links()}
        for peer in sorted(up):
            yield LinkState(server=past.server, peer=peer, is_up=True, is_forwarded=peer in forwarded)
        changes: dict[str, list[LinkChange]] = {}
        for each in past.links:
            if each.server not in up:
                changes.setdefault(each.server, []).append(each)
        for peer, told in changes.items():
            down = [each for each in told if not each.is_up and each.at.seq <= past.at.seq]
            later = [each for each in told if each.is_up and each.at.seq > past.at.seq]
            if down:
                yield LinkState(
                    server=past.server,
                    peer=peer,
                    is_up=False,
                    is_forwarded=False,
                    down=down[-1].at.seq,
                    up=later[0].at.seq if later else None,
                )

    # What is not known.

    def notes(self) -> list[str]:
        """What the answer does not know, in sentences."""
        found = [
            f"The journal of {server} does not have the rules of that time: it is of an older version of bussrv."
            for server, past in self._pasts.items()
            if past.state.in_effect is None
        ]
        if self._outcome.sender.session is None:
            found.append("The sender is somebody who may do everything. Name a sender to have its permissions judged.")
        if self._question.asker is not None and self._outcome.asker is None:
            found.append(
                "No session has registered that service and takes requests, so the journal does not tell who was asked."
            )
        for server, lost in self._network.lost.items():
            if lost:
                found.append(f"Over which link {server} reached {len(lost)} sessions of other servers is not known.")
        return found


def _verdict(server: str, session: Session, said: Said, reason: Reason) -> Verdict:
    return Verdict(
        answer=said,
        reason=reason.code,
        why=reason.text,
        seq=reason.seq,
        time=None if reason.time is None else format_time(reason.time),
        server=session.home or server,
        session=session.id,
        routing_id=session.routing_id,
        protocol=session.protocol,
        actor=session.actor,
        claimed=session.claimed,
        name=session.name,
        peer=session.peer,
    )


def _closed(past: Past, ended: Ended) -> Reason:
    place, reason = ended.at, ended.reason
    earlier = (past.at.time - place.time) / SECOND
    text = f"closed as {reason} {earlier:.1f} s earlier"
    if reason == "link-lost":
        down = [each for each in past.links if not each.is_up and each.at.seq <= place.seq]
        again = [each for each in past.links if each.is_up and down and each.server == down[-1].server]
        again = [each for each in again if each.at.seq > place.seq]
        if down:
            until = f" to record {again[0].at.seq}" if again else ""
            text = f"the link to {down[-1].server} was down from record {down[-1].at.seq}{until}"
            return Reason("link-down", text, down[-1].at.seq, down[-1].at.time)
    return Reason("closed", text, place.seq, place.time)


def _to_be(session_id: str, event: SessionOpened) -> Session:
    return Session(
        id=session_id,
        protocol=event.protocol or "",
        routing_id=event.routing_id or "",
        peer=event.peer or "",
        opened=0,
        actor=event.actor,
    )


def _depends_on_address(rules: InEffect, session: Session) -> bool:
    """Whether the permissions of a session depend on an address that is not known."""
    if rules.policy is None or not is_pseudonym(session.peer):
        return False
    return any(each.networks is not None for each in rules.policy.rules)
