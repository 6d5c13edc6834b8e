"""The reasons of each decision, in words, with the record that made it so. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from bussrv.bus.interest.interests import Kind
from bussrv.bus.interest.matching import compile_interest, right_to_receive
from bussrv.bus.interest.vocabulary import REQUEST, SERVERS_ONLY
from bussrv.bus.origins import Origin
from bussrv.bus.routing.audience import Asker, Everyone, Nobody, OneByOne, OneOf, Plan
from bussrv.policy.permissions.permissions import EVERYTHING
from bussrv.registry.state.naming import called
from bussrv.registry.state.session import Session
from bussrv.service_patterns import filter_of, is_shared, matches
from bussrv.values import OCTET_STREAM, Interest, ModeInterest, quoted
from bussrv.why.past import Past
from bussrv.why.records import Place
from bussrv.why.replica import Replica

NO_REQUESTS = (
    "requests are not in the journal. The route of the reply begins with the one that was asked: name it (turn)"
)
NO_TRAFFIC = "publications are not in the journal. If you know whose turn it was, name it (turn)"
NO_ASKERS = (
    "a reply is for the session that asked; requests are not in the journal. If you know who asked, name it (asker)"
)

MOST_NAMED = 5
"""Of how many sessions that take turns the names are said."""


class Reason(Struct, frozen=True):
    """A reason.

    :ivar code: a stable word for programs.
    :ivar text: a sentence for people, without its period.
    :ivar seq: the record that made it so; ``None``: it is before the segment, or there is none.
    :ivar time: when, UTC microseconds, if that is known.
    """

    code: str
    text: str
    seq: int | None = None
    time: int | None = None


class Case(Struct, frozen=True):
    """A decision about all sessions of a server.

    :ivar service: the service that it is a publication on; ``None``: it is none.
    :ivar turn: the routing ids of the sessions whose turn it was, if somebody says it.
    :ivar asker: the session that asked what it replies to, if somebody says it.
    """

    past: Past
    replica: Replica
    origin: Origin
    plan: Plan
    service: str | None
    turn: frozenset[str] = frozenset()
    asker: Session | None = None

    @property
    def kind(self) -> Kind:
        """What decides who may receive it."""
        return self.plan.kind


def at(place: Place | None, time: int | None = None) -> tuple[int | None, int | None]:
    """The number and the time of a record that may be before the segment."""
    return (None, time) if place is None else (place.seq, place.time)


def said_interest(interest: Interest) -> str:
    """An interest in words."""
    if not isinstance(interest, ModeInterest):
        rules = [each if isinstance(each, str) else f"[{', '.join(each)}]" for each in interest.rules]
        return f"rules {', '.join(rules) or 'none'}"
    if interest.receive in ("none", "events_only"):
        return {"none": "receives nothing", "events_only": "events only"}[interest.receive]
    if interest.types is None:
        return "receives everything"
    return f"types {', '.join(interest.types) or 'none'}"


def why_given(case: Case, session: Session) -> Reason:
    """Why a session was given it."""
    plan, kind = case.plan, case.kind
    if isinstance(plan, Asker):
        return Reason("asked", "it asked, and the sender was given its request")
    if isinstance(plan, OneByOne):
        return Reason("addressed", "it is addressed to it", *at(case.past.opened.get(session.id), session.opened))
    if isinstance(plan, OneOf) and session.id in plan.providers:
        since = case.replica.state.services.get(plan.service, {}).get(session.id)
        return Reason(
            "provider", f"it provides {quoted(plan.service)}", *at(_provided(case, session, plan.service), since)
        )
    interest = case.replica.interest_of(session.id)
    if interest is not None and compile_interest(interest)(kind):
        return Reason("interest", f"it wants this: {said_interest(interest)}", *_subscribed(case, session, None))
    for wanted in wanted_names(case, session):
        return Reason("subscribed", f"it is subscribed to {quoted(wanted)}", *_subscribed(case, session, wanted))
    return Reason("given", "the server gave it to it")


def why_not(case: Case, session: Session) -> Reason:
    """Why a session was not given it."""
    plan = case.plan
    if isinstance(plan, Nobody):
        return Reason("reserved-event", f"a client may not send the event {plan.kind.event}")
    if isinstance(plan, Asker):
        return _no_reply(case, plan, session)
    if isinstance(plan, OneByOne) and session.id not in plan.local:
        return Reason("not-addressed", "it is addressed to others")
    if isinstance(plan, OneOf) and session.id in plan.providers:
        if len(plan.able) > 1 and session.id in {each.session for each in plan.able}:
            text = f"it provides {quoted(plan.service)}, but it was the turn of another"
            return Reason("in-turn", text, *at(_provided(case, session, plan.service)))
        text = f"it provides {quoted(plan.service)}, but takes no such requests"
        return Reason("takes-no-requests", text, *at(_provided(case, session, plan.service)))
    if isinstance(plan, Everyone) and plan.kind.event == REQUEST and session.id not in case.replica.outlets:
        return Reason("not-provider", "it does not provide the service")
    return _unwanted(case, session)


def _no_reply(case: Case, plan: Asker, session: Session) -> Reason:
    if case.asker is None:
        return _asks_nothing(session)
    if session.routing_id != case.asker.routing_id:
        return Reason("reply", "a reply is for the session that asked")
    if plan.ask is None:
        return Reason("not-asked", "the sender was not given its request, so its reply is for nobody")
    return _denied(case, session) or Reason("not-given", "the server did not give it to it")


def _asks_nothing(session: Session) -> Reason:
    return Reason("reply", f"a reply is for the session that asked, and clients of {session.protocol} ask for nothing")


def _unwanted(case: Case, session: Session) -> Reason:
    interest, kind = case.replica.interest_of(session.id), case.kind
    names = wanted_names(case, session)
    is_alone = isinstance(case.plan, OneByOne)
    if interest is None and not case.replica.state.subscribed_by(session.id):
        return _not_subscribed(case, session)
    if interest is not None:
        is_own = session.id == case.origin.sender
        if is_own and isinstance(interest, ModeInterest) and interest.receive == "no_echo":
            return Reason("no-echo", "it does not want its own objects", *_subscribed(case, session, None))
        if compile_interest(interest)(kind) and not is_alone:
            return _denied(case, session) or Reason("not-given", "the server did not give it to it")
        if not names:
            return _unmatched(case, session, interest)
    if names:
        return _denied(case, session) or _not_carried(case, session)
    if case.service is None:
        return Reason("no-publication", "it is subscribed to services only, and this is no publication on one")
    return _not_subscribed(case, session)


def _unmatched(case: Case, session: Session, interest: Interest) -> Reason:
    """Why an interest does not let it pass."""
    kind, place = case.kind, _subscribed(case, session, None)
    if not isinstance(interest, ModeInterest):
        return Reason("rules", f"its {said_interest(interest)} do not let it pass", *place)
    if interest.receive == "none":
        return Reason("receives-nothing", "it receives nothing", *place)
    if interest.receive == "events_only":
        return Reason("events-only", "it receives events only", *place)
    content_type = kind.type or (OCTET_STREAM if kind.has_payload else "")
    shown = content_type or "an object without a type"
    return Reason("types", f"its {said_interest(interest)} do not match {shown}", *place)


def _denied(case: Case, session: Session) -> Reason | None:
    """The line of the policy that does not allow it to receive this; ``None``: it is allowed."""
    permissions = case.replica.bus.access.of(session)
    if permissions is EVERYTHING or case.kind.event in SERVERS_ONLY:
        return None
    right = right_to_receive(case.kind)
    if case.replica.interest_of(session.id) is None and case.service is not None:
        right = ("watch", case.service)
    decision = permissions.decide(*right)
    if decision.allowed:
        return None
    return Reason("policy", f"not allowed: {decision.rule}", *at(case.past.rules))


def _not_carried(case: Case, session: Session) -> Reason:
    text = f"it is subscribed, but its wire format, {session.protocol}, cannot carry it, or it does not want its own"
    return Reason("not-carried", text)


def _not_subscribed(case: Case, session: Session) -> Reason:
    """It is not subscribed; later it may have been, or it was before."""
    past, service = case.past, case.service
    ended = past.unsubscribed.get((session.id, service)) or past.unsubscribed.get((session.id, None))
    later = sorted(
        (place.seq, place.time)
        for (session_id, wanted), place in past.later.items()
        if session_id == session.id and (wanted is None or (service is not None and _covers(wanted, service)))
    )
    what = f" to {quoted(service)}" if service is not None else ""
    if later:
        seq, time = later[0]
        return Reason("not-subscribed", f"not subscribed{what} until record {seq}", seq, time)
    if ended is not None and ended[0].time >= past.at.time - 60_000_000:
        place, why = ended
        return Reason("unsubscribed", f"not subscribed{what} since record {place.seq} ({why})", place.seq, place.time)
    return Reason("not-subscribed", f"not subscribed{what}")


def wanted_names(case: Case, session: Session) -> list[str]:
    """The names and patterns that a session is subscribed to and that cover the service of a publication."""
    if case.service is None:
        return []
    wanted = case.replica.state.subscribed_by(session.id)
    return sorted(each for each in wanted if _covers(each, case.service))


def _covers(wanted: str, service: str) -> bool:
    return filter_of(wanted) == service or matches(filter_of(wanted), service)


def in_turn(case: Case, session: Session) -> Reason | None:
    """Why nobody knows whether a session was given it: it was one of several, of which each has its turn."""
    plan = case.plan
    if isinstance(plan, Asker):
        return _unsure_of_reply(case, session)
    if isinstance(plan, OneOf) and any(each.session == session.id for each in plan.able):
        unsure = of_providers(case)
        if unsure is not None:
            return Reason(unsure.code, unsure.text, *at(_provided(case, session, plan.service)))
    if isinstance(plan, (OneOf, Everyone)) and plan.kind.event == REQUEST and _may_answer(case, session):
        text = "a client of MQTT says when it subscribes that it answers requests, and the journal does not have that"
        return Reason("may-answer", text)
    if case.service is None:
        return None
    names = wanted_names(case, session)
    shared = [each for each in names if is_shared(each)]
    if shared and len(shared) == len(names):
        sharing = _sharing(case, shared)
        if len(sharing) > 1 and not _is_decided(case, sharing):
            number, who = len(sharing), _names(case, sharing)
            text = f"one of {number} sessions that share {quoted(shared[0])} is given it, in turn: {who}; {NO_TRAFFIC}"
            return Reason("in-turn", text, *_subscribed(case, session, shared[0]))
    return None


def of_providers(case: Case) -> Reason | None:
    """Why nobody knows which provider of this server was asked; ``None``: there is one at most, or somebody says it."""
    plan = case.plan
    if not isinstance(plan, OneOf) or len(plan.able) < 2:
        return None
    able = [each.session for each in plan.able]
    if _is_decided(case, able):
        return None
    number, who = len(able), _names(case, able)
    return Reason(
        "in-turn", f"one of {number} providers of {quoted(plan.service)} is asked, in turn: {who}; {NO_REQUESTS}"
    )


def _is_decided(case: Case, able: Iterable[str]) -> bool:
    """Whether somebody says whose turn it was, among sessions that take turns."""
    sessions = case.replica.state.sessions
    return any(sessions[each].routing_id in case.turn for each in able)


def _names(case: Case, able: Sequence[str]) -> str:
    """What some sessions are called."""
    sessions = case.replica.state.sessions
    shown = [called(sessions[each]) for each in able[:MOST_NAMED]]
    return ", ".join([*shown, *([f"and {len(able) - MOST_NAMED} more"] if len(able) > MOST_NAMED else [])])


def _unsure_of_reply(case: Case, session: Session) -> Reason | None:
    """Why nobody knows whether a session is the one that asked; ``None``: it cannot ask, so it is not."""
    if case.asker is not None or not may_ask(case.replica, session):
        return None
    return Reason("reply", NO_ASKERS)


def may_ask(replica: Replica, session: Session) -> bool:
    """Whether a session, of this server or another one, can ask services."""
    return is_member(replica, session) or session.protocol == "mqtt"


def is_member(replica: Replica, session: Session) -> bool:
    """Whether a session, of this server or another one, is a member of the object network."""
    return replica.state.subscription(session.id, None) is not None


def never_remote(case: Case, session: Session) -> Reason | None:
    """Why a session of another server was not given it, whatever it wants; ``None``: that depends on what it wants."""
    plan = case.plan
    if isinstance(plan, OneByOne) and plan.servers is None:
        to = {plan.to} if isinstance(plan.to, str) else {*plan.to}
        if to.isdisjoint((session.routing_id, *session.routing_ids)):
            return Reason("not-addressed", "it is addressed to others")
    is_asked = isinstance(plan, OneOf) or plan.kind.event == REQUEST
    if isinstance(plan, Asker):
        if case.asker is not None:
            return _no_reply(case, plan, session)
        return None if may_ask(case.replica, session) else _asks_nothing(session)
    if case.service is None and not is_asked and not is_member(case.replica, session):
        return Reason("no-publication", "it is subscribed to services at most, and this is no publication on one")
    return None


def _may_answer(case: Case, session: Session) -> bool:
    """Whether a session of MQTT may answer requests: it provides the service, and is subscribed to it by its name."""
    service = case.plan.service if isinstance(case.plan, OneOf) else case.service
    state = case.replica.state
    if session.protocol != "mqtt" or service is None:
        return False
    return state.provides(session.id, service) and state.subscription(session.id, service) is not None


def _sharing(case: Case, shared: Iterable[str]) -> list[str]:
    """The sessions that have one of these shared subscriptions."""
    wanted = set(shared)
    held = case.replica.state.subscriptions
    return [each for each, names in held.items() if not wanted.isdisjoint(one for one in names if one is not None)]


def _subscribed(case: Case, session: Session, service: str | None) -> tuple[int | None, int | None]:
    held = case.replica.state.subscription(session.id, service)
    return at(case.past.subscribed.get((session.id, service)), None if held is None else held.added)


def _provided(case: Case, session: Session, service: str) -> Place | None:
    return case.past.provided.get((session.id, service))
