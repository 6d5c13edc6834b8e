"""The core of the clients that exchange objects: Object System, Business Object, and objects over WebSocket.

A client joins with the rules of one that only asks, and with the names of the services that it is subscribed to. So it
receives what it asked for, and nothing that others send to everybody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from bussrv.client.core.base import Core, OnAnswer, OnDone, OnRequest, Tell
from bussrv.client.core.framing import Arrived, Framing
from bussrv.client.core.inbox import Inbox
from bussrv.client.core.membership import MemberCore
from bussrv.client.core.names import check_name
from bussrv.client.core.provided import ProvidedServices
from bussrv.client.errors import BufferFull, BusError, Lost, error_of, said_in
from bussrv.client.events import Appeared, Gone, Message, Object, Refusal, Reply, Request, Restored, came_from
from bussrv.client.settings import Buffer, Settings
from bussrv.errors import JOURNAL_UNAVAILABLE
from bussrv.values import OCTET_STREAM
from bussrv.wire.objects import decode_fields, encode, encode_json

_ANSWERS = frozenset(
    {
        *("routing/subscribe/reply", "client/register/reply", "services/register/reply", "services/unregister/reply"),
        *("services/list/reply", "services/reply"),
    }
)
"""Only the server sends these, and the provider that was asked."""

_CHANGES = frozenset({"routing/subscribe/notification", "routing/subscribe/notify", "routing/disconnect"})
_MAX_HEADS = 1000
_MAX_LEAVE = 5.0


_Kept: TypeAlias = tuple[str, bytes, str | None, dict[str, Any], OnDone | None]
"""The arguments of a publication that waits for the connection."""


class ObjectsCore(MemberCore):
    """A member of the object network."""

    CONFIRMS = True

    def __init__(
        self,
        settings: Settings,
        tell: Tell,
        make_framing: Callable[[], Framing],
        name: Literal["objects", "business", "websocket"] = "objects",
    ) -> None:
        super().__init__(settings, tell, make_framing, name)
        self._services = ProvidedServices(self.ask, self._registration)
        # Anybody may send a pong. Members with rules get the server's only.
        self._answers = _ANSWERS if self._is_business else _ANSWERS | {"pong"}
        self._leave_by: float | None = None
        self._has_pinged = False
        self._refused: dict[str, BusError] = {}
        self._heads: dict[tuple[str, str | None], bytes] = {}
        self._kept: list[_Kept] = []
        self._kept_bytes = 0
        self._taken = 0

    # The connection.

    def received(self, data: bytes, now: float) -> None:
        if self._is_too_late:
            return
        self.heard = now
        self._has_pinged = False
        found: list[Arrived] = []
        try:
            output = self._framing.feed(data, found)
            if output:
                self._output.append(output)
        finally:
            for each in found:
                if each.event is not None:
                    self._take_event(each, now)
                elif self._observer is not None:
                    self._take_observed(each, self._observer)
                else:
                    self._take_publication(each)
        if self._leave_by is not None:
            self._leave(now)

    def lost(self, error: BusError, now: float) -> None:
        self._leave_by = None
        self._heads.clear()
        self._refused.clear()
        self._services.lost()
        super().lost(error, now)
        self._questions.lose(error, self._taken)

    def tick(self, now: float) -> None:
        self._questions.expire(now)
        super().tick(now)
        if self._leave_by is not None:
            self._leave(now)
        elif self.is_up:
            self._listen(now)

    def deadline(self) -> float | None:
        first = self._questions.next_deadline()
        if self.is_up:
            silent = self.heard + self.settings.silence / (1 if self._has_pinged else 2)
            first = silent if first is None or silent < first else first
        if self._has_left or self._accept_by is self._leave_by:
            return first  # Neither is set, as a rule. This is asked for each request and each chunk.
        return min(each for each in (first, self._accept_by, self._leave_by) if each is not None)

    @property
    def is_alone(self) -> bool:
        return len(self._questions) + self._services.open_requests <= 1

    def take_output(self) -> list[bytes]:
        self._taken = self._said
        return super().take_output()

    def farewell(self) -> bytes:
        super().farewell()
        return self._framing.farewell()

    def close(self, error: BusError) -> None:
        super().close(error)
        self._services.fail(error)
        for *_, done in self._take_kept():
            if done is not None:
                done(Lost(error.reason, "the publication was not sent", maybe_done=False))

    def _listen(self, now: float) -> None:
        """Notice a server that is silent. While this client does not read, it knows nothing."""
        if self.is_paused:
            self.heard = now
        silent = now - self.heard
        if silent >= self.settings.silence:
            self.ending = Lost("silent", f"nothing came from {self.address} for {silent:.0f} s")
        elif silent >= self.settings.silence / 2 and not self._has_pinged:
            self._has_pinged = True
            self.flush(lambda _: None)

    def _leave(self, now: float) -> None:
        """The server is about to stop: leave as soon as nobody waits for anything."""
        assert self._leave_by is not None
        if self._has_left:
            return
        if now >= self._leave_by or not (len(self._questions) or self._services.open_requests):
            self.ending = Lost("server-stopped", f"{self.address} is about to stop")

    # The membership.

    @property
    def _has_handlers(self) -> bool:
        return self._services.has_handlers

    def _accepted(self) -> None:
        self._services.register(with_handlers=False)
        for kept in self._take_kept():
            self._publish_kept(kept)

    def _settled(self) -> None:
        self._services.register(with_handlers=True)
        self._tell_restored()

    def _registration(self, service: str, error: BusError | None, was_told: bool) -> None:
        """The server has answered whether a service is registered."""
        if error is None:
            self._refused.pop(service, None)
        else:
            self._heads.clear()
            if self._restoring is not None and error.reason == JOURNAL_UNAVAILABLE:
                # The server will take it when its disk is well again. So come back later.
                self.ending = Lost(error.reason, error.message)
                return
            if self._restoring is not None:
                self._restoring[service] = error.reason
            if service in self._services.names or not was_told:
                self._refused[service] = error
            self._refuse(error)
            self._change()
        self._tell_restored()

    def _tell_restored(self) -> None:
        """Everything is as it was before the connection ended, if it is; not if the client is about to come back."""
        refused = self._restoring
        is_settled = not self._is_changing and self._services.is_settled
        if refused is not None and is_settled and self.is_up and self.ending is None:
            self._restoring = None
            self._tell(Restored(tuple(self._inboxes), self._services.names, refused))

    # What comes.

    def _take_publication(self, each: Arrived) -> None:
        service = self._only_service() if each.sender is None else each.sender
        if service is None:
            # A program that was given it would take it for one on the service that it is subscribed to.
            for inbox in self._each_inbox():
                inbox.gap("no-sender")
            return
        inboxes = self._inboxes_on(service) if self._wide else self._inboxes.get(service)
        if inboxes:
            message = Message(service, each.payload, each.type, each.raw)
            size = len(each.payload)
            for inbox in inboxes:
                inbox.put(message, size)

    def _only_service(self) -> str | None:
        """The service of a publication whose sender provides only one, and does not name it."""
        is_clear = len(self._inboxes) == 1 and not self._wide and not self._is_changing
        return next(iter(self._inboxes)) if is_clear else None

    def _take_observed(self, each: Arrived, observer: Inbox[Object]) -> None:
        metadata = decode_fields(each.raw)
        if self._rules.match(metadata):
            observer.put(Object(metadata, each.payload, len(each.raw) + len(each.payload)), len(each.payload))

    def _take_event(self, each: Arrived, now: float) -> None:
        event = each.event or ""
        if event == "error":
            self._take_error(each)
        elif event == "services/request":
            self._take_request(each)
        elif event in self._answers:
            if self._questions.answer(each.in_reply_to, Reply(each.name or "", each.payload, each.type, each.raw)):
                return  # It is about this client alone: an observer would be shown the answers to its own pings.
        elif event == "abboe/close/notify":
            seconds = decode_fields(each.raw).get("seconds")
            within = min(2 * _MAX_LEAVE, seconds) if isinstance(seconds, (int, float)) else 0
            self._leave_by = now + max(0, within) / 2
        elif event == "services/gap":
            self._take_gap(each)
        elif event in _CHANGES and self._watchers:
            self._take_change(each)
        if self._observer is not None:
            self._take_observed(each, self._observer)

    def _take_gap(self, each: Arrived) -> None:
        """Objects of another server were lost on their way to this one: of one service, or of any."""
        metadata = decode_fields(each.raw)
        lost, reason = metadata.get("lost"), metadata.get("reason")
        for inbox in self._each_inbox() if each.name is None else self._inboxes_on(each.name):
            inbox.gap(reason if isinstance(reason, str) else "objects-lost", lost if type(lost) is int else None)

    def _take_error(self, each: Arrived) -> None:
        error = error_of(*said_in(decode_fields(each.raw)))
        if each.in_reply_to is None:
            self.last_error = Lost(error.reason, error.message)
            self._refuse(error)
        else:
            self._questions.answer(each.in_reply_to, error)

    def _refuse(self, error: BusError | None) -> None:
        """Nobody waits for this error."""
        if error is not None:
            self._tell(Refusal(error.reason, error.message))

    def _take_request(self, each: Arrived) -> None:
        """A request. One for a service that nobody registered is not for this client."""
        name = each.name
        if name is not None and not self._has_left:
            request = Request(name, each.payload, each.type, each.raw)
            if not self._services.take(name, request):
                self.reject(request, "no-such-service", f"this provider of {name} answers no requests")

    def _take_change(self, each: Arrived) -> None:
        metadata = decode_fields(each.raw)
        routing_id = metadata.get("routing-id", came_from(metadata))
        if isinstance(routing_id, str):
            self._see(routing_id, Gone if each.event == "routing/disconnect" else Appeared)

    # Publications.

    def publish(
        self, service: str, payload: bytes, content_type: str | None, attributes: dict[str, Any], done: OnDone | None
    ) -> None:
        """The service is registered before the first publication on it."""
        if not self.is_up:
            self._keep((service, payload, content_type, attributes, done))
            return
        head = self._heads.get((service, content_type)) or self._head(service, content_type)
        self._published += 1
        if not attributes and done is None:
            self._said += 1
            self._output.append(self._frame(b"%b%d}\0%b" % (head, len(payload), payload)))
            return
        fields = {"sender": service, "type": content_type or OCTET_STREAM, **attributes}
        if done is None:
            self._emit(encode(fields, payload))
        else:
            self._publish_and_confirm(fields, payload, service, done)

    def _publish_and_confirm(self, fields: dict[str, Any], payload: bytes, service: str, done: OnDone) -> None:
        """The publication has an id, so that an error says that it is meant. The answer to a ping says that none is."""
        identifier = self._questions.new_id()
        self._emit(encode({**fields, "id": identifier}, payload))
        unconfirmed = self._services.unconfirmed(service)

        def settle(answer: Reply | BusError | None) -> None:
            self._questions.forget(identifier)
            if unconfirmed.pop(identifier, None) is not None:
                done(_error_in(answer))

        unconfirmed[identifier] = settle
        self._questions.add(identifier, settle, f"the publication on {service}", self._said, None)
        self.flush(settle)

    def _head(self, service: str, content_type: str | None) -> bytes:
        """The beginning of the metadata of a publication, up to its size."""
        check_name(service)
        # One that answers requests stays, and is registered over the next connection. Others are tried again.
        refused = self._refused
        refusal = refused.get(service) if service in self._services.names else refused.pop(service, None)
        if refusal is not None:
            raise refusal
        self._services.publish_on(service)
        if len(self._heads) >= _MAX_HEADS:
            self._heads.clear()
        head = encode_json({"sender": service, "type": content_type or OCTET_STREAM})[:-1] + b',"size":'
        self._heads[service, content_type] = head
        return head

    def _keep(self, kept: _Kept) -> None:
        policy = self.settings.offline
        if not isinstance(policy, Buffer):
            raise self.offline()
        service, payload, *_ = kept
        check_name(service)
        if len(self._kept) >= policy.most or self._kept_bytes + len(payload) > policy.most_bytes:
            raise BufferFull(
                f"there is no connection, and {len(self._kept)} publications of {self._kept_bytes} bytes wait already"
            )
        self._kept.append(kept)
        self._kept_bytes += len(payload)

    def _publish_kept(self, kept: _Kept) -> None:
        try:
            self.publish(*kept)
        except BusError as error:
            (kept[-1] or self._refuse)(error)

    def _take_kept(self) -> list[_Kept]:
        kept, self._kept, self._kept_bytes = self._kept, [], 0
        return kept

    def flush(self, done: OnDone) -> None:
        """Call ``done`` when the server has taken everything that was sent: it answers in order."""
        if not self.is_up:
            raise self.offline()
        number = self._published

        def answered(answer: Reply | BusError) -> None:
            if not isinstance(answer, BusError):
                self._confirmed = number
            done(_error_in(answer))

        self.ask({"event": "services/list" if self._is_business else "ping"}, answered, "a confirmation")

    def send(self, metadata: dict[str, Any], payload: bytes) -> None:
        """Send an object. :raises Offline: there is no connection."""
        if not self.is_up:
            raise self.offline()
        self._emit(encode(metadata, payload))

    # Requests and services.

    def request(
        self,
        service: str,
        payload: bytes,
        content_type: str,
        attributes: dict[str, Any],
        done: OnAnswer,
        deadline: float | None,
    ) -> str:
        """Ask a service.

        :returns: the id of the request, for :meth:`forget`.
        :raises Offline: there is no connection.
        """
        if not self.is_up:
            raise self.offline()
        identifier = self._questions.new_id()
        fields: dict[str, Any] = {"event": "services/request", "name": service, "id": identifier}
        if payload:
            fields["type"] = content_type
        self._emit(encode({**fields, **attributes} if attributes else fields, payload))
        self._questions.add(identifier, done, f"the request to {service}", self._said, deadline)
        return identifier

    def forget(self, identifier: str) -> None:
        """Nobody waits for this answer any more."""
        self._questions.forget(identifier)

    def provide(self, service: str, on_request: OnRequest | None, done: OnDone) -> None:
        """Provide a service until :meth:`withdraw`; also after a reconnect.

        :param on_request: ``None``: the client only publishes on it.
        :param done: is called when the registration is on the disk of the server, or refused.
        :raises ValueError: this client serves it already.
        """
        check_name(service)
        self._services.add(service, on_request, done)
        self._change()

    def withdraw(self, service: str, done: OnDone) -> None:
        """Provide it no longer."""
        self._heads.clear()
        if self._services.remove(service) and self.is_up:
            fields = {"event": "services/unregister", "name": service}
            self.ask(fields, lambda answer: done(_error_in(answer)), "services/unregister")
        else:
            done(None)
        self._change()

    def reply(self, request: Request, payload: bytes, content_type: str) -> None:
        """Answer a request. Nothing happens if the connection that it came over is gone."""
        fields = {"type": content_type} if payload else {}
        self._answer(request, {"event": "services/reply", "name": request.service, **fields}, payload)

    def reject(self, request: Request, reason: str, message: str) -> None:
        """Answer a request with an error."""
        self._answer(request, {"event": "error", "reason": reason, "message": message}, b"")

    def _answer(self, request: Request, fields: dict[str, Any], payload: bytes) -> None:
        answer = self._services.answer(request, fields)
        if answer is not None:
            self._emit(encode(answer, payload))


def _error_in(answer: Reply | BusError | None) -> BusError | None:
    return answer if isinstance(answer, BusError) else None


def network(core: Core, what: str) -> ObjectsCore:
    """The core as that of a member of the object network. :raises Unsupported: it is none, so it cannot do that."""
    return core if isinstance(core, ObjectsCore) else core.cannot(what)
