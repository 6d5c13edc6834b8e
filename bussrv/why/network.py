"""Replicas of several servers at one moment, linked as the servers were."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

from msgspec import Struct, field

from bussrv.bus.interest.vocabulary import REQUEST
from bussrv.bus.routing.audience import Everyone
from bussrv.errors import Refused
from bussrv.formats.mqtt.encoding import Sent
from bussrv.registry.state.session import Session
from bussrv.registry.state.state import RegistryState
from bussrv.values import Publication, quoted
from bussrv.why.past import Past
from bussrv.why.question import NobodyFound, Question, is_named
from bussrv.why.replica import Replica


class Sender(Struct, frozen=True):
    """The session that sends what is asked about.

    :ivar server: the id of its server.
    :ivar session: its session; ``None``: somebody whom nobody named.
    """

    server: str
    session: Session | None


class Outcome(Struct):
    """What became of it.

    :ivar sender: who sent it.
    :ivar refusal: why the server of the sender refused it; ``None``: it did not.
    :ivar given: how many frames each session was given, by server and session.
    :ivar forwarded: for each server that it was forwarded by, the servers that it was forwarded to.
    :ivar is_publication: whether it is one of another wire format.
    :ivar asker: the session that asked what it replies to, if the question names it, and some provider takes requests.
    :ivar not_asked: why that could not ask.
    """

    sender: Sender
    refusal: Refused | None = None
    given: dict[tuple[str, str], int] = field(default_factory=dict)
    forwarded: dict[str, set[str]] = field(default_factory=dict)
    is_publication: bool = False
    asker: Session | None = None
    not_asked: Refused | None = None


def _put_first(states: Sequence[RegistryState], turn: str | None) -> frozenset[str]:
    """Put the sessions that are called so before those that they take turns with: the first one is the next.

    :returns: their routing ids.
    """
    if turn is None:
        return frozenset()
    called = {each.routing_id for state in states for each in state.sessions.values() if is_named(each, turn)}
    if not called:
        raise NobodyFound(f"no session is called {quoted(turn)} then")
    for state in states:
        first = {each.id for each in state.sessions.values() if each.routing_id in called}
        _put_last(state.sessions, state.sessions.keys() - first)
        for providers in state.services.values():
            _put_last(providers, providers.keys() - first)
    return frozenset(called)


def _put_last(table: dict[str, Any], others: Set[str]) -> None:
    for session_id in [each for each in table if each in others]:
        table[session_id] = table.pop(session_id)


class Network:
    """Replicas, linked.

    :param pasts: what the journals of the servers know of the moment.
    :param turn: names the session whose turn it is, wherever it is one of several.
    :param pause: called between any two sessions.
    :ivar replicas: by the ids of the servers.
    :ivar turn: the routing ids of the sessions that are called so.
    :ivar lost: the sessions of other servers to which no way is known, by server.
    """

    def __init__(
        self, pasts: Sequence[Past], turn: str | None = None, pause: Callable[[], object] = lambda: None
    ) -> None:
        self.turn = _put_first([each.state for each in pasts], turn)
        self.replicas = {each.server: Replica(each.server, each.state, each.at.time, pause) for each in pasts}
        self._links = {name: [each.routing_id for each in one.links()] for name, one in self.replicas.items()}
        self.lost = {name: one.tell_paths(self._ways(name)) for name, one in self.replicas.items()}
        for one in self.replicas.values():
            one.settle()

    def _ways(self, server: str) -> Mapping[str, Sequence[str]]:
        """The shortest way from a server to each other one: that itself first, and the linked one last."""
        ways: dict[str, tuple[str, ...]] = {server: ()}
        waiting = deque([server])
        while waiting:
            here = waiting.popleft()
            for there in self._links.get(here, ()):
                if there not in ways:
                    ways[there] = (there, *ways[here])
                    waiting.append(there)
        links = self._links.get(server, [])
        if len(links) == 1:
            # Everything else is behind the only link.
            for session in self.replicas[server].remote_sessions():
                ways.setdefault(session.home or "", (session.home or "", links[0]))
        del ways[server]
        return ways

    def before(self, first: str, last: str) -> list[str]:
        """The servers on the way from one to another, without that."""
        if first == last:
            return []
        way = self._ways(first).get(last, ())
        return [first, *reversed(way[1:])]

    def sessions(self) -> Iterable[tuple[str, Session]]:
        """Every session that is present, once, with the server that knows it best: its own, if its journal is there."""
        seen: set[str] = set()
        for name, replica in self.replicas.items():
            for session_id in replica.outlets:
                yield name, replica.state.sessions[session_id]
        for name, replica in self.replicas.items():
            for session in replica.remote_sessions():
                is_server = session.role == "server"
                if not is_server and session.home not in self.replicas and session.routing_id not in seen:
                    seen.add(session.routing_id)
                    yield name, session

    # Routing.

    def route(self, question: Question) -> Outcome:
        """Send what is asked about.

        :raises NobodyFound: the sender is not there.
        """
        sender = self._sender(question)
        replica = self.replicas[sender.server]
        outcome = Outcome(sender)
        if question.asker is not None:
            self._ask(question, sender, outcome)
        try:
            self._send(question, replica, sender.session, outcome)
        except Refused as refusal:
            outcome.refusal = refusal
        self._forward(outcome)
        for name, each in self.replicas.items():
            outcome.given |= {(name, session_id): outlet.given for session_id, outlet in each.outlets.items()}
        return outcome

    def _sender(self, question: Question) -> Sender:
        if question.sender is not None:
            return self._called(question.sender)
        service = question.published_on
        for name, replica in self.replicas.items():
            for session_id in () if service is None else replica.state.services.get(service, ()):
                if session_id in replica.outlets:
                    return Sender(name, replica.state.sessions[session_id])
        return Sender(next(iter(self.replicas)), None)

    def _called(self, text: str) -> Sender:
        """The session of these servers that is called so.

        :raises NobodyFound: there is none.
        """
        for name, session in self.sessions():
            if is_named(session, text) and session.home is None:
                return Sender(name, session)
        raise NobodyFound(f"no session of {', '.join(self.replicas)} is called {quoted(text)} then")

    def _ask(self, question: Question, sender: Sender, outcome: Outcome) -> None:
        """Let the asker ask the sender of a reply what it replies to."""
        assert question.asker is not None
        assert question.fields is not None
        assert sender.session is not None
        asker = self._called(question.asker)
        assert asker.session is not None
        if self.replicas[asker.server].interest_of(asker.session.id) is None:
            raise NobodyFound(f"{question.asker} is no member of the object network; only members can be askers here")
        named = question.fields.get("name", question.fields.get("service"))
        provided = self.replicas[sender.server].state.provided_by(sender.session.id)
        wanted = [named] if isinstance(named, str) else sorted(provided)
        for service in wanted:
            outcome.asker = asker.session
            request = Question(fields={"event": REQUEST, "name": service, "id": question.fields.get("in-reply-to")})
            try:
                self._send(request, self.replicas[asker.server], asker.session, outcome)
            except Refused as refusal:
                outcome.not_asked = refusal
                continue
            outcome.not_asked = None
            self._forward(outcome)
            plans = [plan for each in self.replicas.values() for _, plan in each.plans]
            if any(isinstance(plan, Everyone) and plan.kind.event == REQUEST for plan in plans):
                # Who is given it depends on who has answered before, and on what linked servers said they want.
                outcome.asker = None
            break
        outcome.forwarded.clear()
        for each in self.replicas.values():
            each.settle()

    def _send(self, question: Question, replica: Replica, sender: Session | None, outcome: Outcome) -> None:
        is_member = sender is None or replica.interest_of(sender.id) is not None
        service = question.published_on
        if question.fields is not None and not is_member and (service is None or "event" in question.fields):
            raise NobodyFound(f"{question.sender} is no member of the object network, and sends no objects")
        if question.fields is None or not is_member:
            outcome.is_publication = True
            session_id = replica.somebody() if sender is None else sender.id
            own = Sent(session_id, 0) if sender is not None and sender.protocol == "mqtt" else None
            content_type = question.content_type
            if question.fields is not None:
                content_type = str(question.fields.get("type") or content_type)
            payload = question.payload()
            replica.bus.publish(session_id, Publication(service or "", content_type, payload, own=own))
        else:
            replica.bus.route(replica.somebody() if sender is None else sender.id, question.object())

    def _forward(self, outcome: Outcome) -> None:
        """Let the replicas give each other what they were given for each other, until nothing is left."""
        waiting = deque(self.replicas)
        while waiting:
            here = waiting.popleft()
            replica = self.replicas[here]
            for session_id, objs in replica.arrived():
                there = replica.state.sessions[session_id].routing_id
                outcome.forwarded.setdefault(here, set()).add(there)
                other = self.replicas.get(there)
                back = (
                    None if other is None else next((each for each in other.links() if each.routing_id == here), None)
                )
                if other is None or back is None:
                    continue
                for obj in objs:
                    other.bus.forward(back.id, obj)
                waiting.append(there)
