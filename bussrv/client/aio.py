"""A client for asyncio, for all wire formats: it reconnects, and loses nothing silently.

::

    async with connect("bus://hall:7890") as bus:
        await bus.publish("tv", b"on", type="text/plain")
        async with bus.subscribe("tv") as events:
            async for event in events:
                ...
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from bussrv.client import errors, events
from bussrv.client.address import PROFILE, Address, known
from bussrv.client.core.base import OnDone
from bussrv.client.core.inbox import MAX_BYTES, MAX_ITEMS, Inbox, Overflow
from bussrv.client.core.objects import network
from bussrv.client.core.payload import OWN_OF_PUBLICATION, OWN_OF_REQUEST, Answer, as_attributes, as_payload
from bussrv.client.core.rules import check_rules
from bussrv.client.errors import *  # noqa: F403
from bussrv.client.errors import TimedOut
from bussrv.client.events import *  # noqa: F403
from bussrv.client.events import Change, Message, Object, Reply, State
from bussrv.client.settings import Backoff, Buffer, Login, OfflinePolicy, Secret, Settings
from bussrv.client.shell.driver import Driver, settle
from bussrv.client.shell.service import Handler, Service
from bussrv.client.shell.subscription import Subscription
from bussrv.client.tls import Tls
from bussrv.values import OCTET_STREAM

__all__ = ["Answer", "Backoff", "Buffer", "Bus", "Handler", "Service", "Subscription", "Tls", "connect"]
__all__ += errors.__all__
__all__ += events.__all__

_MAX_STATES = 100


def connect(
    address: str | Sequence[str],
    *,
    user: str | None = None,
    secret: Secret = None,
    token: Secret = None,
    name: str | None = None,
    tls: Tls | ssl.SSLContext | None = None,
    routing_ids: Sequence[str] = (),
    offline: OfflinePolicy = "raise",
    reconnect: Backoff | None = Backoff(),  # noqa: B008  it is frozen
    timeout: float = 10.0,
    silence: float = 30.0,
    lease: float = 300.0,
    max_payload: int = 16 << 20,
    insecure: bool = False,
    on_state: Callable[[State], None] | None = None,
) -> Bus:
    """A client, to be used with ``async with``.

    :param address: a URL such as ``buss://hall:7890``; or several of one wire format, to be tried in turn. Schemes:
        ``bus``, ``buss`` (TLS), ``business``, ``spp``, ``spps``, ``inbus``, ``ws``, ``wss``. Or ``profile:NAME``, a
        profile of the ``bussrv`` command: the client speaks Object System with its server; ``tls``, and ``user``,
        ``secret`` and ``token`` together, take the place of what the profile says. ``profile:`` is the one called
        ``default``.
    :param user: the user, with ``secret``.
    :param token: logs in instead of a user and a secret. Both may be functions that return the present one.
    :param name: the name of the program, for people.
    :param tls: connect over TLS, also where the scheme does not say so.
    :param routing_ids: further routing ids, which other clients may have, too.
    :param offline: what a call does while the server is away. ``raise``: it raises
        :class:`~bussrv.client.errors.Offline`. ``wait``: it waits. A :class:`~bussrv.client.settings.Buffer` keeps
        publications; other calls wait. Entering waits for the server, except with a buffer; with ``raise`` it raises if
        no server can be reached.
    :param reconnect: the pauses between attempts; ``None``: the client connects once.
    :param timeout: the seconds that a server has for accepting the client.
    :param silence: the seconds without a sign of life after which a connection counts as broken.
    :param lease: the seconds between two renewals of subscriptions of Inbus.
    :param max_payload: the most bytes of a payload to accept.
    :param insecure: let a secret or token cross the network without TLS.
    :param on_state: is called with every state; see :meth:`Bus.states`.
    :raises ValueError: an argument is wrong, or a secret or token would cross the network without TLS.
    :raises bussrv.errors.ConfigError: the profile cannot be used.
    """
    urls = [address] if isinstance(address, str) else address
    if any(each.startswith(PROFILE) for each in urls):
        if len(urls) != 1:
            raise ValueError("a profile is the only address of a client: its secret is not sent to another server")
        its_address, its_tls, its_login = known(urls[0])
        addresses, tls = [its_address], tls or its_tls
        if user is secret is token is None:
            user, secret, token = its_login.user, its_login.secret, its_login.token
    else:
        addresses = [Address.parse(each) for each in urls]
    if len({each.format for each in addresses}) != 1:
        raise ValueError("the addresses of a client have one wire format")
    if offline not in ("raise", "wait") and not isinstance(offline, Buffer):
        raise ValueError(f"offline is 'raise', 'wait' or a Buffer, not {offline!r}")
    login = Login(user, secret, token, name)
    if not (secret is token is None or tls or insecure):
        _check_secrecy(addresses)
    settings = Settings(login, tuple(routing_ids), offline, timeout, silence, lease, max_payload)
    return Bus(Driver(addresses, settings, tls, reconnect, on_state))


def _check_secrecy(addresses: Sequence[Address]) -> None:
    """:raises ValueError: somebody on the way could read what is sent to one of them. Inbus has no login."""
    for each in addresses:
        if not (each.tls or each.is_local or each.format == "inbus"):
            raise ValueError(
                f"{each} is on another machine, and not reached over TLS: the credentials would be readable on the way "
                "(say tls=Tls() or a URL with TLS such as buss://, or insecure=True if you accept that)"
            )


class Bus:
    """A client. Its methods may be used by any number of tasks; each may be cancelled at any time."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._core = driver.core
        self._services: list[Service] = []

    async def __aenter__(self) -> Bus:
        self._driver.start()
        try:
            await self._driver.wait_until_up(is_kept=True)
        except BaseException:
            await self._driver.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the connection, after everything that was sent. Requests that are being handled are rejected."""
        for service in list(self._services):
            service.stop()
        await self._driver.close()

    async def drain(self, timeout: float = 5.0) -> None:
        """Provide nothing more, answer the requests that were accepted, and close.

        :param timeout: the limit in seconds; after it the rest is rejected.
        :raises TimedOut: not everything was answered, or the server did not say that it took everything.
        """
        try:
            await asyncio.wait_for(self._finish(), timeout)
        except asyncio.TimeoutError:
            raise TimedOut(f"not everything was done within {timeout:g} s") from None
        finally:
            await self.close()

    async def _finish(self) -> None:
        for service in list(self._services):
            await service.finish()
        if self._core.is_up and self._core.CONFIRMS:
            await self.flush()

    @property
    def is_up(self) -> bool:
        """Whether the server has accepted the client, and the connection stands."""
        return self._core.is_up

    @property
    def routing_id(self) -> str | None:
        """The client's own address in the object network."""
        return self._core.routing_id

    # Publications.

    async def publish(
        self,
        /,
        service: str,
        payload: bytes = b"",
        *,
        type: str = OCTET_STREAM,  # noqa: A002
        confirm: bool = False,
        **attributes: Any,
    ) -> None:
        """Publish on a service. It returns when the publication is written to the socket.

        :param type: the content type of the payload.
        :param confirm: return when the server took it.
        :param attributes: further metadata; ``_`` in their names is sent as ``-``.
        :raises Offline: there is no connection, and ``offline`` is ``raise``; or the buffer is full.
        :raises Lost: the connection ended before the server took it; only with ``confirm``.
        :raises BusError: the server refused it, or the service before.
        :raises ValueError: the client writes an attribute of this name itself.
        """
        driver, core = self._driver, self._core
        if attributes:
            attributes = as_attributes(attributes, OWN_OF_PUBLICATION)
        if not core.is_up:
            await driver.ready(is_kept=True)
        if not confirm:
            core.publish(service, as_payload(payload), type, attributes, None)
            if driver.published(len(payload)):
                await driver.written()
            return
        await driver.done(partial(core.publish, service, as_payload(payload), type, attributes))

    async def flush(self) -> None:
        """Return when the server took everything that was sent.

        :raises Offline: there is no connection.
        :raises Lost: the connection ended before.
        """
        await self._driver.ready()
        await self._driver.done(network(self._core, "confirm what it took").flush)

    async def send(self, metadata: dict[str, Any], payload: bytes = b"") -> None:
        """Send an object of the object network as it is; ``size`` is added.

        :raises Offline: there is no connection.
        """
        await self._driver.ready()
        network(self._core, "send objects").send(metadata, as_payload(payload))
        if self._driver.published(len(payload)):
            await self._driver.written()

    # Requests and services.

    async def request(
        self,
        /,
        service: str,
        payload: bytes = b"",
        *,
        type: str = OCTET_STREAM,  # noqa: A002
        timeout: float | None = 10.0,
        **attributes: Any,
    ) -> Reply:
        """Ask a service, and wait for its reply.

        :param timeout: the limit in seconds; ``None``: there is none.
        :raises NoService: nobody provides it.
        :raises TimedOut: no reply came in time.
        :raises Lost: the connection, or the provider, went before it answered.
        :raises Offline: there is no connection.
        :raises BusError: the service, or the server, answered with an error.
        :raises ValueError: the client writes an attribute of this name itself.
        """
        if attributes:
            attributes = as_attributes(attributes, OWN_OF_REQUEST)
        driver, core = self._driver, network(self._core, "ask services")
        if not core.is_up:
            timeout = await driver.ready(timeout)
        deadline = None if timeout is None else driver.loop.time() + timeout
        reply: asyncio.Future[Reply] = driver.loop.create_future()
        done = partial(settle, reply)
        identifier = core.request(service, as_payload(payload), type, attributes, done, deadline)
        driver.commanded()
        try:
            return await reply
        except asyncio.CancelledError:
            core.forget(identifier)
            raise

    def serve(self, name: str, handler: Handler, *, concurrency: int = 8) -> Service:
        """Serve requests, within ``async with``. If there is a connection, entering waits for the registration, and
        raises the error if the server refuses it.

        :param handler: is given each request, and returns the answer. What it raises goes to the asker as an error:
            ``service-error``, or the reason of a :class:`~bussrv.client.errors.ServiceError`.
        :param concurrency: how many requests it is given at the same time.
        """
        return Service(self._driver, self._services, name, handler, concurrency)

    # Subscriptions.

    def subscribe(
        self,
        *services: str,
        queue: int = MAX_ITEMS,
        overflow: Overflow = "drop-oldest",
        queue_bytes: int = MAX_BYTES,
    ) -> Subscription[Message]:
        """Subscribe to services, within ``async with``; see :class:`Subscription`.

        :param services: their names. Over SPP, ``*`` stands for any characters and ``?`` for one.
        :param queue: the most messages that wait.
        :param overflow: what happens if more would.
        :param queue_bytes: the most bytes of them.
        """
        if not services:
            raise ValueError("name at least one service")
        for each in services:
            if not isinstance(each, str):
                raise TypeError(f"the name of a service is a string, not {type(each).__name__}: subscribe(*names)")
        names = tuple(dict.fromkeys(services))
        inbox: Inbox[Message] = Inbox(queue, overflow, queue_bytes)
        return Subscription(inbox, self._subscribed(inbox, lambda done: self._core.subscribe(inbox, names, done)))

    def watch(self, *, queue: int = MAX_ITEMS, overflow: Overflow = "drop-oldest") -> Subscription[Change]:
        """Be told who appears and goes: services over SPP, sessions in the object network."""
        inbox: Inbox[Change] = Inbox(queue, overflow)

        def begin(done: OnDone) -> None:
            self._core.watch(inbox)
            done(None)

        return Subscription(inbox, self._subscribed(inbox, begin))

    def states(self) -> Subscription[State]:
        """Be told of the states of the connection, within ``async with``; first of the present one. The last one is a
        :class:`~bussrv.client.events.Down` after which the client does not try again.
        """
        inbox: Inbox[State] = Inbox(_MAX_STATES)
        return Subscription(inbox, self._driver.states_in(inbox))

    def objects(
        self,
        *rules: str,
        queue: int = MAX_ITEMS,
        overflow: Overflow = "drop-oldest",
        queue_bytes: int = MAX_BYTES,
    ) -> Subscription[Object]:
        """Receive objects of the network as they are, within ``async with``, over a connection of its own: what others
        say of themselves there is not to be mixed with publications.

        :param rules: content types, ``@event`` or ``#nature``, each with a ``*`` at its end or not; a ``!`` before it
            excludes. The last one that matches an object decides. None: all objects.
        """
        inbox: Inbox[Object] = Inbox(queue, overflow, queue_bytes)
        return Subscription(inbox, self._observing(inbox, check_rules(rules)))

    # Inside.

    @asynccontextmanager
    async def _subscribed(self, inbox: Inbox[Any], begin: Callable[[OnDone], None]) -> AsyncIterator[None]:
        """:param begin: tells the core. If there is a connection, entering waits until it is done."""
        await self._driver.ready(is_kept=True)
        try:
            done = self._driver.done(begin)
            if self._core.is_up:
                await done
            yield
        finally:
            self._core.unsubscribe(inbox)
            self._driver.commanded()

    @asynccontextmanager
    async def _observing(self, inbox: Inbox[Object], rules: tuple[str, ...]) -> AsyncIterator[None]:
        driver = self._driver.another()
        core = network(driver.core, "receive objects")
        driver.start()
        done = driver.done(partial(core.observe, inbox, rules))
        try:
            await driver.wait_until_up()
            await done
            yield
        finally:
            core.unsubscribe(inbox)
            await driver.close()
