"""What Object System and Business Object share: objects as events, and what a member of the network may ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import length_hint
from typing import Any, ClassVar

from twisted.internet.defer import Deferred

from bussrv.bus.delivery import OBJECT_FRAMES
from bussrv.errors import OverLimit, Refused, RemoteProtocolError
from bussrv.events import limit_reached
from bussrv.formats.stream import StreamProtocol
from bussrv.interfaces import IEncoding
from bussrv.registry.registry import Identity
from bussrv.registry.state import Session
from bussrv.values import MAX_ROUTING_ID, Interest, ModeInterest, check_routing_id, quoted
from bussrv.wire import objects as wire
from bussrv.wire.objects import BadObject, BusObject, ObjectReader

SERVERS_ONLY = (
    "routing/subscribe/reply",
    "routing/subscribe/notify",
    "routing/subscribe/notification",
    "routing/disconnect",
    "routing/announcement/neighbors",
)
"""Events that clients may not send: members believe what these say of each other."""


Identify = Callable[[dict[str, Any]], tuple[Identity, Interest]]
"""Reads who a client is, and what it wants, from the attributes of an object."""


class FramedProtocol(StreamProtocol):
    """One connection of a vocabulary that is spoken in objects.

    :cvar EVENTS: the methods that serve the events of the vocabulary; every other object is routed.
    :cvar JOINING: the events that make the session a member; until then everything else is dropped.
    """

    EVENTS: ClassVar[dict[str, Callable[[Any, BusObject], None]]]
    JOINING: ClassVar[tuple[str, ...]]

    _member = False
    _deaf = False
    _timeout: Any = None

    def make_reader(self) -> ObjectReader:
        """Reads objects, within the limits that are set."""
        settings = self.bus.settings
        self._objects = ObjectReader(settings.max_metadata, settings.max_payload, settings.max_nesting)
        return self._objects

    def expect_server(self) -> None:
        """The other end is a server: what it passes on may be more than what a client may send."""
        self._objects.expect_server()

    def encoding(self) -> IEncoding:
        """Objects are framed alike for every member."""
        return OBJECT_FRAMES

    def opened(self) -> None:
        """Give the client some time to become a member."""
        self._start_timeout()

    def _start_timeout(self) -> None:
        self._timeout = self.reactor.callLater(self.bus.settings.subscribe_timeout, self._too_late)

    def _too_late(self) -> None:
        self._timeout = None
        if self.is_busy:
            # It has asked; it is the disk that takes its time.
            self._start_timeout()
            return
        self.bus.counters["subscribe-timeout"] += 1
        self.end("subscribe-timeout")

    def closed(self, reason: str) -> None:
        """The session is closed: nothing is waited for any more."""
        self._stop_timeout()

    def _stop_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    def next_event(self) -> BusObject | BadObject | None:
        """The next object that has to go its own way; those before it are routed, a run at a time."""
        while self.sends_runs():
            run = self._objects.run()
            before = length_hint(run)
            if not before:
                break
            obj = self.route_run(run)
            self.traffic.objects_in += before - length_hint(run) - (obj is not None)
            if obj is not None or self.link.is_closing:
                return obj
        return self._objects.next_event()

    def sends_runs(self) -> bool:
        """Whether what comes is a member's."""
        return self._member

    def route_run(self, run: Iterator[BusObject]) -> BusObject | None:
        """Route objects, up to one that has to go its own way: all that the vocabulary does not serve is routed.

        :returns: that object, taken from the run.
        """
        obj: BusObject | None = self.bus.route_run(self.session_id, run, self.EVENTS)
        return obj

    def received(self, event: BusObject | BadObject) -> None:
        """An object came: serve it if it is an event of the vocabulary, route it otherwise."""
        joining = isinstance(event, BusObject) and event.head.event in self.JOINING
        if not self._member and not joining:
            self.bus.counters["not-subscribed"] += 1
        elif isinstance(event, BadObject):
            self.refuse(event.id, event.reason, event.message)
        else:
            self._serve(event)

    def _serve(self, obj: BusObject) -> None:
        serve = self.EVENTS.get(obj.head.event) if obj.head.event is not None else None
        if serve is not None:
            serve(self, obj)
        else:
            self.pass_on(obj)

    def pass_on(self, obj: BusObject) -> int | None:
        """Route an object. :returns: how many others are given it; ``None`` when it was refused, and that was said."""
        if obj.head.size and not obj.head.type:
            self.bus.counters["missing-type"] += 1
            if self.bus.settings.strict:
                self.refuse(obj.head.id, "missing-type", "a payload must come with a type")
                return None
        return self.bus.route(self.session_id, obj)

    # Answers.

    def answer(self, obj: BusObject, fields: dict[str, Any], payload: bytes = b"") -> None:
        """Answer an object, with ``in-reply-to`` when it had an id."""
        self._tell({**fields, **_in_reply_to(obj.head.id)}, payload)

    def refuse(self, object_id: Any, reason: str, message: str, **more: Any) -> None:
        """Answer with an ``error``; the connection lives on.

        :param more: further attributes of the answer.
        """
        self.bus.counters[reason] += 1
        self._tell({"event": "error", **_in_reply_to(object_id), "reason": reason, "message": message, **more})

    def turned_away(self, refusal: OverLimit) -> None:
        """Say why the client may not come in."""
        fields = {"event": "error", "reason": refusal.reason, "message": refusal.message}
        self.transport.write(wire.encode(fields))

    def malformed(self, error: RemoteProtocolError) -> None:
        """Say what was malformed; the connection is closed right after."""
        self.bus.tell(self.session_id, {"event": "error", "reason": error.reason, "message": error.message})

    def _tell(self, fields: dict[str, Any], payload: bytes = b"") -> None:
        """Tell the client something, unless it asked to be sent nothing but the reply to its subscription."""
        if self._deaf:
            self.bus.counters["receive-none"] += 1
        else:
            self.bus.tell(self.session_id, fields, payload)

    # What members ask for.

    def join(self, obj: BusObject, identify: Identify) -> None:
        """Make the session a member, as ``identify`` reads the attributes, and answer with :meth:`joined`."""
        self.busy_with(self._join(obj, identify))

    async def _join(self, obj: BusObject, identify: Identify) -> None:
        try:
            identity, interest = identify(obj.fields())
            session = await self.bus.registry.identify(identity, interest)
        except Refused as refusal:
            self.note_limit(refusal)
            self.refuse(obj.head.id, refusal.reason, refusal.message)
            return
        self.joined()
        self._deaf = isinstance(interest, ModeInterest) and interest.receive == "none"
        about = {"routing-id": session.routing_id, "routing-ids": list(session.routing_ids)}
        reply = {"event": f"{obj.head.event}/reply", **_in_reply_to(obj.head.id), **about}
        self.bus.tell(self.session_id, reply)

    def note_limit(self, refusal: Refused) -> None:
        """Write down a limit, if it was one that was hit."""
        if isinstance(refusal, OverLimit):
            self.bus.counters[refusal.limit] += 1
            self.bus.registry.note_from_stranger(limit_reached(refusal, **self.session().about()))

    def joined(self) -> None:
        """The session is a member of the network from now on."""
        self._member = True
        self._stop_timeout()

    def refuse_reserved(self, obj: BusObject) -> None:
        """An event of ``SERVERS_ONLY``: not passed on."""
        self.refuse(obj.head.id, "reserved-event", f"{obj.head.event} is sent by servers only")

    def register(self, obj: BusObject) -> None:
        """``services/register``: the session provides a service from now on."""
        name = obj.fields().get("name")
        self.busy_with(self._change(obj, name, self.bus.registry.register_service(self.session_id, name)))

    def unregister(self, obj: BusObject) -> None:
        """``services/unregister``: the session provides a service, or without a name all of them, no longer."""
        registry = self.bus.registry
        fields = obj.fields()
        if "name" in fields:
            name = fields["name"]
            self.busy_with(self._change(obj, name, registry.unregister_service(self.session_id, name)))
        else:
            self.busy_with(self._change(obj, None, registry.unregister_services(self.session_id)))

    def request(self, obj: BusObject) -> None:
        """``services/request``: routed; if nobody at all is there to take it, the requester is told at once.

        What a service of the server itself is asked, it replies to with its snapshot.
        """
        name: Any = obj.fields().get("name", obj.fields().get("service"))
        hosted_type = self.bus.hosted_type(name) if obj.head.to is None else None
        if hosted_type is not None:
            about = {"name": name, "to": self.session().routing_id, "type": hosted_type}
            self.answer(obj, {"event": "services/reply", **about}, self.bus.last(name))
        elif self.pass_on(obj) == 0:
            self.refuse(obj.head.id, "no-such-service", f"nobody provides the service {quoted(name)}")

    async def _change(self, obj: BusObject, name: Any, change: Deferred[None]) -> None:
        try:
            await change
        except Refused as refusal:
            self.refuse(obj.head.id, refusal.reason, refusal.message)
        else:
            about = {} if name is None else {"name": name}
            self.answer(obj, {"event": f"{obj.head.event}/reply", **about})

    def session(self) -> Session:
        """The session as the registry has it."""
        session: Session = self.bus.registry.state.sessions[self.session_id]
        return session


def _in_reply_to(object_id: Any) -> dict[str, Any]:
    return {"in-reply-to": object_id} if isinstance(object_id, (str, int, float)) else {}


def routing_id(value: Any, name: str) -> str | None:
    """A routing id that a client asks for.

    :raises Refused: ``bad-subscription``, if it can be none.
    """
    return None if value is None else check_routing_id(value, name)


def routing_ids(value: Any, most: int) -> tuple[str, ...]:
    """The further routing ids that a client asks for, a string or an array.

    :param most: how many it may ask for.
    :raises Refused: ``bad-subscription``, if one of them can be none.
    """
    values = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(values, list):
        raise Refused("bad-subscription", "routing-ids is an array of strings")
    if len(values) > most:
        message = f"routing-ids has at most {most} routing ids, not {len(values)}"
        raise OverLimit("bad-subscription", message, "max-routing-ids", most)
    return tuple(check_routing_id(each, "each of routing-ids") for each in values if each is not None)


def text(value: Any) -> str | None:
    """An informative attribute, where it is text."""
    return value[:MAX_ROUTING_ID] if isinstance(value, str) else None
