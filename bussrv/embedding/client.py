"""A client on the reactor of its server: the cores of :mod:`bussrv.client` over a connection in memory.

Messages, replies, gaps and errors are those of :mod:`bussrv.client.events` and :mod:`bussrv.client.errors`. Methods
return Deferreds, so coroutines of Twisted await them.

What the client says goes to the server at the end of the reactor turn, and the other way round. So a program may call
it from anywhere, also from what it is told by it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from twisted.internet.defer import Deferred, fail, maybeDeferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from bussrv.client.core.base import Core, OnDone, Tell
from bussrv.client.core.inbox import MAX_ITEMS, Inbox, Overflow
from bussrv.client.core.objects import ObjectsCore, network
from bussrv.client.core.payload import (
    OWN_OF_PUBLICATION,
    OWN_OF_REQUEST,
    Answer,
    as_answer,
    as_attributes,
    as_payload,
    refusal,
)
from bussrv.client.core.rules import check_rules
from bussrv.client.errors import BufferFull, BusError, Closed, Lost
from bussrv.client.events import Change, Gap, Message, Object, Reply, Request, State, Up
from bussrv.errors import RemoteProtocolError
from bussrv.turns.reactor_turn import EndOfReactorTurn
from bussrv.values import OCTET_STREAM

__all__ = ["MOST_HANDLED", "MOST_WAITING", "Client", "Handler", "Service", "Subscription"]

MOST_WAITING = 16 << 20
"""How many bytes of a client may wait for the server before publications are refused."""

MOST_HANDLED = 1000
"""How many requests a handler may have at the same time. More are refused, ``too-many-requests``."""

Handler: TypeAlias = Callable[[Request], "Answer | Awaitable[Answer]"]
"""Is given each request for a service, and returns its answer, or a Deferred or a coroutine of it."""

Item = TypeVar("Item")

log = Logger()


class Link(Protocol):
    """The way to a server.

    :ivar wake: is called when something came, or the way ended.
    """

    wake: Callable[[], object]

    def send_all(self, output: list[bytes]) -> None:
        """Send what a core says."""

    def take_next(self) -> bytes | None:
        """The next bytes that came; ``None``: there are none."""

    def close(self) -> Deferred[None]:
        """Send no more, and read no more. :returns: fires when the server has read everything, and it has ended."""

    @property
    def backlog(self) -> int:
        """How many bytes the server has not read yet."""

    @property
    def is_open(self) -> bool:
        """Whether it stands."""


class Client:
    """A client. It is connected when it is made, and not connected again if the server ends its session.

    :param make_core: makes the core, which speaks the wire format.
    :param another: makes another client of the same user, for :meth:`objects`.
    :param most_waiting: how many bytes may wait for the server.
    """

    def __init__(
        self,
        make_core: Callable[[Tell], Core],
        reactor: Any,
        another: Callable[[], Client] | None = None,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._core = make_core(self._state_changed)
        self._core.resume = self._read_soon
        self._reactor = reactor
        self._another = another
        self._most_waiting = most_waiting
        self._link: Link | None = None
        self._reading = EndOfReactorTurn(self._read, reactor)
        self._flushing = EndOfReactorTurn(self._flush, reactor)
        self._timer: Any = None
        self._awaiting_up: list[Deferred[Client]] = []
        self._awaiting_end: list[Deferred[BusError]] = []
        self._ended: BusError | None = None

    def begin(self, link: Link, address: str) -> Deferred[Client]:
        """Use a connection.

        :param address: the address of the server, for people.
        :returns: fires with the client when the server has accepted it; fails with ``BusError`` if it does not.
        """
        self._link = link
        link.wake = self._read_soon
        self._core.opened(address, self._reactor.seconds())
        self._commanded()
        self._read_soon()  # The server may have spoken first.
        return self.when_up()

    def when_up(self) -> Deferred[Client]:
        """:returns: fires with the client when the server has accepted it; fails with ``BusError`` if it does not."""
        if self._ended is not None:
            return fail(self._ended)
        if self._core.is_up:
            return succeed(self)
        self._awaiting_up.append(Deferred())
        return self._awaiting_up[-1]

    def when_ended(self) -> Deferred[BusError]:
        """:returns: fires when the session is over, with the reason; never fails."""
        if self._ended is not None:
            return succeed(self._ended)
        self._awaiting_end.append(Deferred())
        return self._awaiting_end[-1]

    @property
    def is_up(self) -> bool:
        """Whether the server has accepted the client, and the session lasts."""
        return self._core.is_up

    @property
    def routing_id(self) -> str | None:
        """The client's own address in the object network."""
        return self._core.routing_id

    # Publications.

    def publish(
        self,
        /,
        service: str,
        payload: bytes = b"",
        *,
        type: str = OCTET_STREAM,  # noqa: A002
        confirm: bool = False,
        **attributes: Any,
    ) -> Deferred[None]:
        """Publish on a service, which the client provides from then on.

        :param type: the content type of the payload.
        :param confirm: wait until the server took it.
        :param attributes: further metadata; ``_`` in their names is sent as ``-``.
        :returns: fails with ``BufferFull`` if too much waits for the server, with ``Offline`` after the end of the
            session, and with another ``BusError`` if the server refuses it; without ``confirm``, at a later
            publication.
        :raises TypeError, ValueError: it cannot be sent.
        """
        data, found = as_payload(payload), as_attributes(attributes, OWN_OF_PUBLICATION)
        if self._is_full(len(data)):
            return fail(BufferFull(f"more than {self._most_waiting} bytes wait for the server"))
        if confirm:
            return self._done(lambda done: self._core.publish(service, data, type, found, done))
        try:
            self._core.publish(service, data, type, found, None)
        except BusError as error:
            return fail(error)
        self._commanded()
        return succeed(None)

    def flush(self) -> Deferred[None]:
        """:returns: fires when the server took everything that was sent."""
        return self._done(lambda done: self._network("confirm what it took").flush(done))

    def send(self, metadata: dict[str, Any], payload: bytes = b"") -> Deferred[None]:
        """Send an object of the object network as it is; ``size`` is added. :returns: fails as :meth:`publish` does."""
        if self._is_full(len(payload)):
            return fail(BufferFull(f"more than {self._most_waiting} bytes wait for the server"))
        try:
            self._network("send objects").send(metadata, as_payload(payload))
        except BusError as error:
            return fail(error)
        self._commanded()
        return succeed(None)

    # Requests and services.

    def request(
        self,
        /,
        service: str,
        payload: bytes = b"",
        *,
        type: str = OCTET_STREAM,  # noqa: A002
        timeout: float | None = 10.0,
        **attributes: Any,
    ) -> Deferred[Reply]:
        """Ask a service.

        :param timeout: the limit in seconds; ``None``: there is none.
        :returns: the reply. Fails with ``NoService``, ``TimedOut``, ``Lost``, ``Offline``, or the ``BusError`` of the
            service or the server. Whoever cancels it does not wait any more.
        :raises TypeError, ValueError: it cannot be sent.
        """
        deadline = None if timeout is None else self._reactor.seconds() + timeout
        answered: Deferred[Reply] = Deferred(lambda _: self._network("ask services").forget(identifier))
        try:
            identifier = self._network("ask services").request(
                service, as_payload(payload), type, as_attributes(attributes, OWN_OF_REQUEST), _tell(answered), deadline
            )
        except BusError as error:
            return fail(error)
        self._commanded()
        return answered

    def serve(self, name: str, handler: Handler) -> Deferred[Service]:
        """Serve requests until :meth:`Service.stop`.

        :param handler: is given each request. What it raises goes to the asker as an error: ``service-error``, or the
            reason of a :class:`~bussrv.client.errors.ServiceError`.
        :returns: fires when the registration is durable; fails with ``BusError`` if the server refuses it.
        """
        service = Service(self, name, handler)
        provided = self._done(lambda done: self._network("provide services").provide(name, service.handle, done))
        return provided.addCallback(lambda _: service)

    # Subscriptions.

    def subscribe(
        self,
        *services: str,
        call: Callable[[Message | Gap], object] | None = None,
        queue: int = MAX_ITEMS,
        overflow: Overflow = "drop-oldest",
    ) -> Deferred[Subscription[Message]]:
        """Subscribe to services, until :meth:`Subscription.stop`.

        :param services: their names, or patterns.
        :param call: is called with each message; ``None``: they wait to be taken.
        :param queue: the most messages that wait.
        :param overflow: what happens if more would.
        :returns: fires when the subscription is durable; fails with ``BusError`` if the server refuses it.
        """
        if not services or not all(isinstance(each, str) for each in services):
            raise TypeError("name the services: subscribe(*names)")
        names, inbox = tuple(dict.fromkeys(services)), Inbox[Message](queue, overflow)
        stop = partial(self._unsubscribe, lambda: self._core.unsubscribe(inbox))
        begun = self._done(lambda done: self._core.subscribe(inbox, names, done))
        return begun.addCallback(lambda _: Subscription(inbox, stop, call))

    def watch(self, *, call: Callable[[Change | Gap], object] | None = None) -> Subscription[Change]:
        """Be told who appears and goes: sessions of the object network, or services over SPP."""
        inbox = Inbox[Change]()
        self._core.watch(inbox)
        self._commanded()
        return Subscription(inbox, partial(self._unsubscribe, lambda: self._core.unsubscribe(inbox)), call)

    def objects(
        self, *rules: str, call: Callable[[Object | Gap], object] | None = None
    ) -> Deferred[Subscription[Object]]:
        """Receive objects of the network as they are, with a session of their own.

        :param rules: content types, ``@event`` or ``#nature``, as for :meth:`bussrv.client.aio.Bus.objects`. None: all.
        """
        if self._another is None:
            raise RuntimeError("this client cannot open another session")
        return self._another()._observe(rules, call)

    def _observe(
        self, rules: tuple[str, ...], call: Callable[[Object | Gap], object] | None
    ) -> Deferred[Subscription[Object]]:
        inbox, checked = Inbox[Object](), check_rules(rules)
        begun = self._done(lambda done: self._network("receive objects").observe(inbox, checked, done))
        return begun.addCallback(lambda _: Subscription(inbox, self.close, call))

    # The end.

    def close(self) -> Deferred[None]:
        """End the session. :returns: fires when the server has read everything that was sent, and it is over."""
        self._flush()
        return self._end(Closed("the client is closed"))

    # Inside.

    def _is_full(self, size: int) -> bool:
        return self._link is not None and self._link.backlog + size > self._most_waiting

    def _done(self, command: Callable[[OnDone], object]) -> Deferred[None]:
        """Give the core a command. :returns: fires when the server has done it."""
        done: Deferred[None] = Deferred(lambda _: None)
        try:
            command(_tell(done))
        except BusError as error:
            return fail(error)
        self._commanded()
        return done

    def _unsubscribe(self, tell_core: Callable[[], object]) -> Deferred[None]:
        tell_core()
        self._commanded()
        return succeed(None)

    def commanded(self) -> None:
        """The core was told something by a service: send what it says."""
        self._commanded()

    @property
    def core(self) -> ObjectsCore:
        """The core, as that of a provider of services."""
        return self._network("provide services")

    def _network(self, what: str) -> ObjectsCore:
        return network(self._core, what)

    def _commanded(self) -> None:
        if self._link is not None:
            self._flushing.wait()
            self._arm()

    def _flush(self) -> None:
        if self._link is not None and self._core.has_output:
            self._link.send_all(self._core.take_output())

    def _read_soon(self) -> None:
        if self._link is not None:
            self._reading.wait()

    def _read(self) -> None:
        link, now = self._link, self._reactor.seconds()
        try:
            while link is not None and not self._core.is_paused and (data := link.take_next()) is not None:
                self._core.received(data, now)
        except RemoteProtocolError as error:
            self._core.ending = Lost(error.reason, error.message)
        self._follow_up()

    def _follow_up(self) -> None:
        """Do what follows from what the core was told."""
        self._flush()
        if self._core.ending is not None:
            self._end(self._core.ending)
        elif self._link is not None and not self._link.is_open:
            self._over(self._core.last_error or Lost("connection-lost", "the server ended the session"))
        else:
            self._arm()

    def _arm(self) -> None:
        """Call the core when its next deadline is reached."""
        deadline = self._core.deadline()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline is not None and self._link is not None:
            self._timer = self._reactor.callLater(max(0.0, deadline - self._reactor.seconds()), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._core.tick(self._reactor.seconds())
        self._follow_up()

    def _end(self, error: BusError) -> Deferred[None]:
        """End the session for this reason."""
        link = self._link
        if link is None:
            return succeed(None)
        link.wake = _nothing
        farewell = self._core.farewell()
        if farewell:
            link.send_all([farewell])
        closed = link.close()
        self._over(error)
        return closed

    def _over(self, error: BusError) -> None:
        """The session is over."""
        self._link, self._ended = None, error
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for turn in (self._reading, self._flushing):
            turn.hurry()
        self._core.lost(error, self._reactor.seconds())
        self._core.close(error)
        awaiting_up, self._awaiting_up = self._awaiting_up, []
        awaiting_end, self._awaiting_end = self._awaiting_end, []
        for up in awaiting_up:
            up.errback(error)
        for end in awaiting_end:
            end.callback(error)

    def _state_changed(self, state: State) -> None:
        if isinstance(state, Up):
            awaiting, self._awaiting_up = self._awaiting_up, []
            for each in awaiting:
                each.callback(self)


class Service:
    """A service that a client provides.

    :ivar handled: how many requests were answered.
    """

    def __init__(self, client: Client, name: str, handler: Handler) -> None:
        self.handled = 0
        self._client = client
        self._name = name
        self._handler = handler
        self._under_way = 0
        self._is_stopped = False

    def stop(self) -> Deferred[None]:
        """Provide it no longer. Requests that the handler has are answered. :returns: fires when it is withdrawn."""
        if self._is_stopped:
            return succeed(None)
        self._is_stopped = True
        done: Deferred[None] = Deferred()
        self._client.core.withdraw(self._name, lambda _: done.callback(None))
        self._client.commanded()
        return done

    def handle(self, request: Request) -> None:
        """A request came."""
        if self._under_way >= MOST_HANDLED:
            message = f"{self._under_way} requests wait for {self._name}"
            self._client.core.reject(request, "too-many-requests", message)
            self._client.commanded()
            return
        self._under_way += 1
        answer = maybeDeferred(self._call, request).addCallback(as_answer)
        answer.addCallbacks(partial(self._reply, request), partial(self._failed, request)).addErrback(_log)

    def _call(self, request: Request) -> Any:
        answer = self._handler(request)
        return Deferred.fromCoroutine(_awaited(answer)) if isawaitable(answer) else answer

    def _reply(self, request: Request, answer: tuple[bytes, str]) -> None:
        self._client.core.reply(request, *answer)
        self._handled()

    def _failed(self, request: Request, failure: Failure) -> None:
        error = failure.value
        log.failure("the handler of {name} failed", failure, event="embedding.handler-failed", name=self._name)
        self._client.core.reject(request, *refusal(error if isinstance(error, Exception) else Exception(str(error))))
        self._handled()

    def _handled(self) -> None:
        self._under_way -= 1
        self.handled += 1
        self._client.commanded()


class Subscription(Generic[Item]):
    """The messages, in order, with the gaps: an asynchronous iterator for coroutines of Twisted.

    If the client has been given a function to call, nothing waits here.
    """

    def __init__(
        self,
        inbox: Inbox[Item],
        stop: Callable[[], Deferred[None]],
        call: Callable[[Item | Gap], object] | None,
    ) -> None:
        self._inbox = inbox
        self._stop = stop
        self._call = call
        self._awaiting: list[Deferred[None]] = []
        inbox.wake = self._wake
        self._wake()

    def take(self) -> list[Item | Gap]:
        """All that wait now. :raises BusError: nothing waits, and nothing more comes."""
        taken = self._inbox.take_many(len(self._inbox))
        if not taken and self._inbox.error is not None:
            raise self._inbox.error
        return taken

    def __aiter__(self) -> Subscription[Item]:
        return self

    async def __anext__(self) -> Item | Gap:
        """The next one.

        :raises BusError: nothing more comes, because the server ended the session. If the program has stopped it, the
            iteration ends.
        """
        while (item := self._inbox.take()) is None:
            if isinstance(self._inbox.error, Closed):
                raise StopAsyncIteration
            if self._inbox.error is not None:
                raise self._inbox.error
            something: Deferred[None] = Deferred()
            self._awaiting.append(something)
            await something
        return item

    @property
    def dropped(self) -> int:
        """How many were dropped because too many waited."""
        return self._inbox.dropped

    def stop(self) -> Deferred[None]:
        """End it. What waits can still be taken."""
        done = self._stop()
        self._inbox.end(Closed("the subscription is stopped"))
        return done

    def _wake(self) -> None:
        awaiting, self._awaiting = self._awaiting, []
        for each in awaiting:
            each.callback(None)
        while self._call is not None and (item := self._inbox.take()) is not None:
            self._tell(self._call, item)

    @staticmethod
    def _tell(call: Callable[[Item | Gap], object], item: Item | Gap) -> None:
        try:
            call(item)
        except Exception:
            log.failure("what a subscription calls failed", event="embedding.call-failed")


def _tell(waiting: Deferred[Any]) -> Callable[[Any], None]:
    """Tell a Deferred the outcome of a command, unless it was cancelled."""

    def tell(outcome: Any) -> None:
        if waiting.called:
            return
        if isinstance(outcome, BusError):
            waiting.errback(outcome)
        else:
            waiting.callback(outcome)

    return tell


async def _awaited(answer: Awaitable[Any]) -> Any:
    return await answer


def _log(failure: Failure) -> None:
    log.failure("an answer could not be sent", failure, event="embedding.not-answered")


def _nothing() -> None:
    """Nobody is told."""
