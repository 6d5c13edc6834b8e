"""Members: connections whose events are objects, and what they may be asked in each vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar, Protocol

import msgspec
from msgspec import UNSET
from msgspec.structs import replace
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from bussrv.bus.groups.fanout import OBJECT_FRAMES
from bussrv.bus.interest.vocabulary import JOINING, SERVERS_ONLY
from bussrv.bus.send_rights import MOST_STEPS
from bussrv.formats.objects.command_input import CommandInput
from bussrv.formats.objects.object_input import NextObject, ObjectInput
from bussrv.formats.objects.vocabulary import Vocabulary, services
from bussrv.net.session.input_states import State
from bussrv.plugin import (
    REASONS,
    Action,
    Bundle,
    Claims,
    Credentials,
    IBus,
    IEncoding,
    NotAllowed,
    OverLimit,
    Password,
    Patience,
    Refused,
    RemoteProtocolError,
    Session,
    StreamProtocol,
    Token,
    limit_reached,
    quoted,
)
from bussrv.values import Interest, ModeInterest
from bussrv.wire import objects as wire
from bussrv.wire.objects import BadObject, BusObject, ObjectReader, decode_raw, encode_json

MOST_TOLD = 10
"""How many denials one session is told of in a second. The others are summed up at the end of that second."""

Tell = Callable[[Any, NotAllowed, dict[str, Any]], None]
"""Tells the client: given the id of the object that was denied, or ``None``, the denial, and further attributes."""


class Denials:
    """The denials of one session: its client is told of a few each second, and then of the others in one sum.

    :param tell: sends an ``error``.
    :param reactor: calls later.
    """

    def __init__(self, tell: Tell, reactor: Any) -> None:
        self._tell = tell
        self._reactor = reactor
        self._told = 0
        self._left_out = 0
        self._second: Any = None

    def add(self, object_id: Any, denial: NotAllowed) -> None:
        """Something was denied."""
        if self._second is None:
            self._second = self._reactor.callLater(1.0, self._second_is_over)
        if self._told < MOST_TOLD:
            self._told += 1
            self._tell(object_id, denial, {})
        else:
            self._left_out += 1

    def _second_is_over(self) -> None:
        left_out, self._told, self._left_out, self._second = self._left_out, 0, 0, None
        if left_out:
            message = f"the policy did not allow {left_out} further things that you asked for"
            self._tell(None, NotAllowed(message), {"suppressed": left_out})

    def end(self) -> None:
        """The session is closed."""
        if self._second is not None:
            self._second.cancel()
            self._second = None


SECRETS = ("secret", "token")
"""The attributes that nobody else may see."""


class ObjectCredentials:
    """The credentials that came with an object: ``user`` with ``secret``, or ``token``.

    They are taken out of the object before anything else looks at it. So no secret can be routed, journaled or quoted
    in an error.

    :param obj: its own are taken out of it.
    :ivar obj: the object without them.
    """

    def __init__(self, obj: BusObject) -> None:
        self.obj = obj
        self._raw = {}
        if obj.head.event is None or obj.head.event.lower() not in JOINING:
            return
        fields = decode_raw(obj.metadata)
        self._raw = {key: fields.pop(key) for key in SECRETS if key in fields}
        if self._raw:
            self.obj = BusObject(encode_json(fields), obj.head, obj.payload)

    @property
    def is_given(self) -> bool:
        """Whether there are any, of whatever form."""
        return bool(self._raw)

    def credentials(self) -> Credentials | None:
        """The credentials; ``None``: there are none.

        :raises Refused: ``bad-subscription``: they are none of a kind that there is. The message quotes nothing.
        """
        given = {key: _text(key, raw) for key, raw in self._raw.items()}
        if not given:
            return None
        if len(given) > 1:
            raise Refused("bad-subscription", "there is either a secret or a token, not both")
        if "token" in given:
            return Token(given["token"])
        user = self.obj.fields().get("user")
        if not isinstance(user, str):
            raise Refused("bad-subscription", "a secret comes with a user, a string")
        return Password(user, given["secret"].encode("utf-8", "surrogatepass"))


def _text(key: str, raw: msgspec.Raw) -> str:
    try:
        return msgspec.json.decode(raw, type=str)
    except msgspec.MsgspecError:
        raise Refused("bad-subscription", f"{key} is a string") from None


STRANGERS_METADATA = 8 << 10
"""The most bytes of metadata of a client that has to prove who it is; it may send no payloads."""

QUOTED = (str, int, float)
"""The kinds of ids that answers quote."""

Identify = Callable[[dict[str, Any]], tuple[Claims, Interest]]
"""Reads the claims and the interest of a client from the attributes of an object."""


# Some versions of Python look members of an enum up by a call.
_DIRECTLY, _COMMANDS = State.READING_DIRECTLY, State.READING_COMMANDS

UNSUBSCRIBED_PAYLOAD = 64 << 10
"""The most bytes of a payload that are kept before the session is a member: such objects are dropped anyway."""


class LinkedServer(Protocol):
    """The other end of a link; see :class:`bussrv.formats.objects.server_link.ServerLink`.

    :ivar farewell: why it ends the link; ``None``: it has not said so.
    """

    farewell: str | None

    def received(self, obj: BusObject) -> None:
        """It sent an object."""

    def say_farewell(self, reason: str) -> None:
        """Tell it why this one ends the link."""


class MemberProtocol(StreamProtocol):
    """One connection of a client of the object network, or of a linked server.

    :cvar VOCABULARY: the events that it is served.
    :cvar READER: reads its objects.
    :ivar bus: the bus.
    :ivar objects: the reader of its objects.
    :ivar is_member: whether the session is a member of the network, or a link.
    :ivar receives_nothing: whether it subscribed with receive mode ``none``.
    :ivar object_input: reads the objects of a member.
    :ivar command_input: reads and answers its commands.
    :ivar server: the other end, if the connection is a link.
    """

    VOCABULARY: ClassVar[Vocabulary]
    READER: ClassVar[type[ObjectReader]] = ObjectReader

    is_member = False
    receives_nothing = False
    objects: ObjectReader
    object_input: ObjectInput
    command_input: CommandInput
    server: LinkedServer | None = None
    _patience: Patience | None = None
    _denials: Denials | None = None
    _offered: ObjectCredentials | None = None
    _asked: BusObject | None = None  # the command that is not answered

    def __init__(self, bus: IBus, reactor: Any) -> None:
        super().__init__(bus, reactor)
        self.bus = bus

    def make_reader(self) -> ObjectReader:
        """Reads objects, within the limits that are set."""
        settings = self.settings
        self.objects = self.READER(settings.max_metadata, settings.max_payload, settings.max_nesting)
        self.objects.gather(UNSUBSCRIBED_PAYLOAD)
        self.objects.end_batches_at(self.VOCABULARY.served)
        return self.objects

    def dataReceived(self, data: bytes) -> None:
        """Read a chunk. Most chunks are small, and a call is felt: so it is served as it comes, if it can be."""
        state = self.input.state
        if state is _DIRECTLY:
            is_served = self.object_input.serve(self, data)
        elif state is _COMMANDS:
            is_served = self.command_input.serve(self, data)
        else:
            is_served = False
        if not is_served:
            self.input.take(data)

    def next_event(self) -> NextObject:
        """The next object to be served or routed by itself."""
        return self.object_input.next_event(self) if self.is_member else self.objects.next_event()

    def has_input(self) -> bool:
        """Whether something that the client sent may be left."""
        return not self.objects.is_empty

    def encoding(self) -> IEncoding:
        """Objects are framed alike for every member."""
        return OBJECT_FRAMES

    def opened(self) -> None:
        """Give the client some time to become a member."""
        if self.bus.access.asks and not self.dialed and self.session().actor is None:
            self.objects.limit(STRANGERS_METADATA, 0)
        seconds = self.settings.subscribe_timeout
        self._patience = Patience(seconds, self._too_late, self.is_unserved, self.reactor)

    def busy_with(self, work: Coroutine[Any, Any, None]) -> None:
        """Do ``work``; the time that the server needs for it does not count against the client."""
        super().busy_with(work if self._patience is None else self._patience.held_for(work))

    def _too_late(self) -> None:
        self._patience = None
        self.bus.counters["subscribe-timeout"] += 1
        self.end("subscribe-timeout")

    def closed(self, reason: str) -> None:
        """The session is closed: nothing is to be called later any more."""
        self._stop_timeout()
        if self._denials is not None:
            self._denials.end()

    def _stop_timeout(self) -> None:
        if self._patience is not None:
            self._patience.end()
            self._patience = None

    def received(self, event: BusObject | BadObject) -> None:
        """An object came: serve it if it is an event of the vocabulary, route it otherwise."""
        vocabulary = self.VOCABULARY
        if not isinstance(event, BusObject):
            self._received_bad(event)
        elif self.server is not None:
            # Those of a linked server have other meanings.
            self.server.received(event)
        elif self.is_member and event.head.event in vocabulary.commands:
            vocabulary.events[event.head.event or ""](self, event)
        else:
            is_joining = event.head.event in vocabulary.joining
            offered = ObjectCredentials(event)
            self._offered = offered if is_joining else None  # Kept, each session would have its last object in memory.
            if self.is_member or is_joining:
                self._serve(offered.obj)
            else:
                self.bus.counters["not-subscribed"] += 1

    def _received_bad(self, obj: BadObject) -> None:
        if self.is_member:
            self.refuse(obj.id, obj.reason, obj.message)
        else:
            self.bus.counters["not-subscribed"] += 1

    def _serve(self, obj: BusObject) -> None:
        event = obj.head.event
        serve = self.VOCABULARY.events.get(event) if event is not None else None
        if serve is not None:
            serve(self, obj)
        elif event is not None and event.lower() in SERVERS_ONLY:
            # Members may compare events without case, as rules do.
            self.refuse(obj.head.id, "reserved-event", f"{event.lower()} is sent by servers only")
        else:
            self.pass_on(obj)

    def pass_on(self, obj: BusObject) -> int | None:
        """Route an object. :returns: how many others are given it; ``None``: it was refused with an ``error``."""
        if obj.head.size and not obj.head.type:
            self.bus.counters["missing-type"] += 1
            if self.bus.settings.strict:
                self.refuse(obj.head.id, "missing-type", "a payload must come with a type")
                return None
        try:
            return self.bus.route(self.session_id, obj)
        except NotAllowed as denial:
            self._deny(obj, denial)
        except Refused as refusal:
            self.note_limit(refusal)
            self.refuse(obj.head.id, refusal.reason, refusal.message)
        return None

    def _may(self, obj: BusObject, action: Action, target: Any) -> bool:
        """Whether the session may do what an object asks for; if it may not, it is told. Bad names are judged later."""
        if not isinstance(target, str) or self.bus.may(self.session_id, action, target):
            return True
        self._deny(obj, NotAllowed(f"the policy does not allow you to {action} {quoted(target)}"))
        return False

    def _deny(self, obj: BusObject, denial: NotAllowed) -> None:
        if self._denials is None:
            self._denials = Denials(self._tell_denial, self.reactor)
        self._denials.add(obj.head.id, denial)

    def _tell_denial(self, object_id: Any, denial: NotAllowed, more: dict[str, Any]) -> None:
        about = {"reason": denial.reason, "message": denial.message, **more}
        self._tell({"event": "error", **_in_reply_to(object_id), **about})

    # Answers.

    def answer(self, obj: BusObject, fields: dict[str, Any]) -> None:
        """Answer an object, with ``in-reply-to`` when it had an id.

        :param fields: the attributes of the answer. The caller does not need them any more.
        """
        object_id = obj.head.id
        if isinstance(object_id, QUOTED):
            fields["in-reply-to"] = object_id
        self._tell(fields)

    def frame_of(self, obj: BusObject, fields: dict[str, Any], payload: bytes = b"") -> bytes:
        """The bytes of an answer to an object, with ``in-reply-to`` when it had an id."""
        return wire.encode({**fields, **_in_reply_to(obj.head.id)}, payload)

    async def answer_long(self, frames: Iterator[bytes]) -> None:
        """Send an answer that may be long, unless the client asked for nothing; to be awaited by :meth:`busy_with`."""
        if self.receives_nothing:
            self.bus.counters["receive-none"] += 1
        else:
            await self.send_in_slices(frames)

    def refuse(self, object_id: Any, reason: str, message: str, **more: Any) -> None:
        """Answer with an ``error``; the connection lives on.

        :param more: further attributes of the answer.
        """
        self.bus.counters[reason] += 1
        self._tell({"event": "error", **_in_reply_to(object_id), "reason": reason, "message": message, **more})

    def not_admitted(self, refusal: OverLimit) -> None:
        """Tell the client why it is not admitted."""
        fields = {"event": "error", "reason": refusal.reason, "message": refusal.message}
        self.transport.write(wire.encode(fields))

    def last_words(self, reason: str) -> Bundle | None:
        """An ``error``, unless the client asked to receive nothing."""
        if self.receives_nothing or not self.is_member:
            return None
        return Bundle([wire.encode({"event": "error", "reason": reason, "message": REASONS[reason]})])

    def malformed(self, error: RemoteProtocolError) -> None:
        """Tell the client what was malformed. The connection is closed right after."""
        self.bus.tell(self.session_id, {"event": "error", "reason": error.reason, "message": error.message})

    def _tell(self, fields: dict[str, Any]) -> None:
        """Send the client an object, unless it subscribed with receive mode ``none``."""
        if self.receives_nothing:
            self.bus.counters["receive-none"] += 1
        else:
            self.bus.send(self.session_id, [wire.encode(fields)])

    def reason_of_end(self, reason: str) -> str:
        """Servers say why they end a link; one that does not has died, or the network has."""
        return reason if self.server is None else self.server.farewell or "connection-lost"

    def farewell(self, reason: str) -> None:
        """Tell a linked server why the session ends."""
        if self.server is not None:
            self.server.say_farewell(reason)

    def evict(self, reason: str) -> Deferred[None]:
        """Tell a member why its session ends, and end it."""
        if self.is_member and not self.has_ended:
            self._tell({"event": "error", "reason": reason, "message": REASONS[reason]})
        return self.end(reason)

    def server_stops(self, seconds: float) -> None:
        """Tell a member that the server is about to stop."""
        if self.is_member and not self.has_ended:
            self._tell({"event": "abboe/close/notify", "reason": "server-stopped", "seconds": seconds})

    # Commands of members.

    def join(self, obj: BusObject, identify: Identify, echoed: Mapping[str, Any]) -> None:
        """Make the session a member, as ``identify`` reads the attributes, and answer with :meth:`joined`.

        :param echoed: attributes that the reply repeats.
        """
        self.busy_with(self._join(obj, identify, echoed))

    async def _join(self, obj: BusObject, identify: Identify, echoed: Mapping[str, Any]) -> None:
        registry = self.bus.registry
        try:
            claims, interest = identify(obj.fields())
            await self.log_in_as_offered()
            named = self._named_services(obj)
            if claims.claimed == self.session().actor:
                claims = replace(claims, claimed=None)
            may_share, check = self.bus.may_share(self.session_id), partial(self.check_may, "watch")
            self.bus.hear_gaps(self.session_id, hears_gaps=obj.fields().get("gaps") is True)
            session = await registry.identify(claims, interest, may_share, named or (), check)
        except Refused as refusal:
            self._not_joined(obj, refusal)
            return
        self.bus.register_all(self.session_id, registers_all=named is not None)
        wanted = {claims.routing_id or session.routing_id, *claims.routing_ids}
        if wanted - {session.routing_id, *session.routing_ids}:
            self.bus.counters["routing-id-not-granted"] += 1
        self.joined()
        self.receives_nothing = isinstance(interest, ModeInterest) and interest.receive == "none"
        about = {"routing-id": session.routing_id, "routing-ids": list(session.routing_ids)}
        reply = {"event": f"{obj.head.event}/reply", **_in_reply_to(obj.head.id), **about, **echoed}
        if named is not None:
            subscribed = registry.state.subscribed_by(self.session_id)
            reply["services"] = [each for each in dict.fromkeys(named) if each in subscribed]
        self.bus.tell(self.session_id, reply)

    def _named_services(self, obj: BusObject) -> list[str] | None:
        """The services that a subscription names; see :func:`services`. All of them are judged in one go."""
        most = MOST_STEPS // (self.permissions().effort("watch") or 1)
        return services(obj.fields().get("services"), min(self.settings.max_patterns, most))

    async def join_server(self, obj: BusObject) -> None:
        """Refuse a link to another server: only the wire format ``objects`` has links."""
        self.refuse(obj.head.id, "bad-subscription", "servers link over the wire format objects, not over a WebSocket")

    async def log_in_as_offered(self) -> None:
        """Check the credentials that came with the object that is served, and whether the client may be a member.

        :raises Refused: it may not.
        """
        offered, self._offered = self._offered, None
        credentials = None if offered is None or not self.bus.access.asks else offered.credentials()
        if credentials is not None:
            await self.identification.log_in(credentials)
        self.identification.check_may_join()

    @property
    def has_credentials(self) -> bool:
        """Whether credentials came with the object that is served."""
        return self._offered is not None and self._offered.is_given

    def _not_joined(self, obj: BusObject, refusal: Refused) -> None:
        if self.has_ended:
            return
        self.note_limit(refusal)
        self.refuse(obj.head.id, refusal.reason, refusal.message)
        if self.identification.has_failed_too_often:
            self.end("authentication-failed")

    def note_limit(self, refusal: Refused) -> None:
        """Journal a refusal that is due to a limit."""
        if isinstance(refusal, OverLimit):
            self.bus.counters[refusal.limit] += 1
            self.bus.registry.note_from_stranger(limit_reached(refusal, **self.session().about()))

    def joined(self) -> None:
        """The session is a member of the network from now on."""
        bus, settings = self.bus, self.settings
        self.is_member = True
        self.objects.limit(settings.max_metadata, settings.max_payload)
        self.object_input = ObjectInput(self.objects, bus, bus.compiled_router.route_input, bus.route_batch)
        self.command_input = CommandInput(self.VOCABULARY.events, bus)
        self._stop_timeout()

    def linked_with(self, server: LinkedServer, served: frozenset[str]) -> None:
        """The session is a link from now on. Servers send more metadata than clients may.

        :param served: the events that the server is served.
        """
        self.joined()
        self.objects.expect_server()
        self.objects.end_batches_at(served)
        self.object_input = ObjectInput(
            self.objects, self.bus, self.bus.compiled_forwarder.route_input, self.bus.forward_batch
        )
        self.server = server
        self.is_link = True

    def ask_for_change(self, ask: Callable[..., object], obj: BusObject, about: dict[str, Any], *details: Any) -> None:
        """Ask for a change that a member wants. Its later input waits until that is answered.

        :param ask: a method of the registry, which is given the session, the details, and how to tell the outcome.
        :param about: the attributes of the answer.
        """
        self._asked = obj
        ask(self.session_id, *details, partial(self._answer_change, obj, about))
        # It may be answered before that returns.
        if self._asked is obj:
            self.input.begin_work()

    def _answer_change(self, obj: BusObject, about: dict[str, Any], error: BaseException | None) -> None:
        """The change of the registry was made (``None``), or why it was not."""
        self._asked = None
        # It is not raised again: its traceback would hold the frames that hold it.
        error = self._confirm(obj, about) if error is None else error
        if isinstance(error, Refused):
            self.refuse(obj.head.id, error.reason, error.message)
        elif error is not None:
            self.serving_failed(Failure(error))
        self.input.is_answered()

    def _confirm(self, obj: BusObject, about: dict[str, Any]) -> Exception | None:
        """Answer that a change was made. :returns: why that was not possible."""
        try:
            if obj.head.event == "services/register":
                self.check_still_provides(about["name"])
            self.answer(obj, {"event": f"{obj.head.event}/reply", **about})
        except Exception as error:
            return error
        return None

    def register(self, obj: BusObject) -> None:
        """``services/register``: the session provides a service from now on."""
        name = obj.name(None)
        if not self.bus.access.judges or self._may(obj, "provide", name):
            announcements = self.bus.announcements
            is_announced = announcements.is_on and obj.fields().get("announce") is True
            registers = announcements if is_announced else self.bus.registry
            self.ask_for_change(registers.ask_to_register, obj, {"name": name}, name)

    def unregister(self, obj: BusObject) -> None:
        """``services/unregister``: the session stops providing a service; without a name, all of its services."""
        name = obj.name()
        if name is UNSET:
            self.ask_for_change(self.bus.registry.ask_to_unregister_all, obj, {})
        else:
            self.ask_for_change(self.bus.registry.ask_to_unregister, obj, {"name": name}, name)

    def request(self, obj: BusObject) -> None:
        """``services/request``: routed. If nobody can take it, the requester is told at once.

        A service of the server itself replies with its snapshot.
        """
        fields = obj.fields()
        name: Any = fields.get("name", fields.get("service"))
        hosted_type = self.bus.hosted_type(name) if obj.head.to is None else None
        # Without the permission, the request is judged as any other.
        if hosted_type is not None and self.permissions().may("request", name):
            self.busy_with(self._answer_snapshot(obj, name, hosted_type))
        elif self.pass_on(obj) == 0:
            self.refuse_request(obj, name)

    def refuse_request(self, obj: BusObject, name: Any) -> None:
        """Nobody takes a request for a service of that name, as far as the client may know."""
        self.refuse(obj.head.id, "no-such-service", f"nobody provides the service {quoted(name)}")

    async def _answer_snapshot(self, obj: BusObject, name: str, content_type: str) -> None:
        await self.until_ready(name)
        if not self.has_ended:
            await self.answer_long(self._snapshot(obj, name, content_type))

    def _snapshot(self, obj: BusObject, name: str, content_type: str) -> Iterator[bytes]:
        about = {"name": name, "to": self.session().routing_id, "type": content_type}
        try:
            state = self.state_of(name)
        except Refused as refusal:
            yield self.frame_of(obj, {"event": "error", "reason": refusal.reason, "message": refusal.message})
        else:
            yield self.frame_of(obj, {"event": "services/reply", **about}, state)

    def session(self) -> Session:
        """The session as the registry has it."""
        session: Session = self.bus.registry.state.sessions[self.session_id]
        return session


def _in_reply_to(object_id: Any) -> dict[str, Any]:
    return {"in-reply-to": object_id} if isinstance(object_id, QUOTED) else {}
