"""Services of programs with an event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable
from types import TracebackType
from typing import TypeAlias

from bussrv.client.core.objects import network
from bussrv.client.core.payload import Answer, as_answer, refusal
from bussrv.client.errors import ServiceError
from bussrv.client.events import Request
from bussrv.client.shell.driver import Driver

log = logging.getLogger("bussrv.client")

Handler: TypeAlias = Callable[[Request], Awaitable[Answer]]

MAX_ACCEPTED = 1000
"""The most requests that wait for a handler of a service. More are refused, ``too-many-requests``."""


class Service:
    """A service of this client, within ``async with``. Leaving it withdraws the service, and waits for its handlers.

    :param services: the services of the client; it is one of them while it is provided.
    """

    def __init__(self, driver: Driver, services: list[Service], name: str, handler: Handler, concurrency: int) -> None:
        if concurrency < 1:
            raise ValueError("a service handles at least one request at a time")
        self._driver = driver
        self._services = services
        self._core = network(driver.core, "provide services")
        self._name = name
        self._handler = handler
        self._concurrency = concurrency
        self._free = asyncio.Semaphore(concurrency)
        self._running: set[asyncio.Task[None]] = set()
        self._registration: asyncio.Future[None] | None = None
        self._is_finishing = False

    async def __aenter__(self) -> Service:
        await self._driver.ready(is_kept=True)
        self._registration = self._driver.done(partial(self._core.provide, self._name, self._accept))
        self._services.append(self)
        if self._core.is_up:
            try:
                await self.registered()
            except BaseException:
                await self._end()
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                await self.finish()
        finally:
            await self._end()

    async def registered(self) -> None:
        """Return when the registration is on the disk of the server; for a program that began without a connection.

        :raises BusError: the server refused it.
        """
        if self._registration is None:
            raise RuntimeError("use the service with: async with bus.serve(...) as service")
        await asyncio.shield(self._registration)

    async def finish(self) -> None:
        """Accept no more, answer what was accepted, and withdraw the service. Not the other way round: a request whose
        provider has withdrawn is lost.
        """
        self._is_finishing = True
        while self._running:
            await asyncio.wait(self._running)
        await self._withdraw()

    def stop(self) -> None:
        """Reject what was accepted and is not answered yet."""
        self._withdraw()
        for task in self._running:
            task.cancel()

    async def _end(self) -> None:
        self.stop()
        if self._running:
            await asyncio.wait(self._running)

    def _withdraw(self) -> asyncio.Future[None]:
        """:returns: is done when the service is withdrawn; if that fails, nobody minds."""
        if self not in self._services:
            return self._driver.done(lambda done: done(None))
        self._services.remove(self)
        return self._driver.done(lambda done: self._core.withdraw(self._name, lambda _: done(None)))

    def _accept(self, request: Request) -> None:
        if self._is_finishing:
            self._reject(request, "no-such-service", f"{self._name} stops")
        elif (waiting := len(self._running) - self._concurrency) >= MAX_ACCEPTED:
            self._reject(request, "too-many-requests", f"{waiting} requests wait for {self._name}")
        else:
            task = self._driver.loop.create_task(self._handle(request))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _handle(self, request: Request) -> None:
        try:
            async with self._free:
                answer = self._handler(request)
                if not isawaitable(answer):
                    raise TypeError("a handler is an async function")
                payload, content_type = as_answer(await answer)
        except asyncio.CancelledError:
            self._reject(request, "provider-gone", f"{self._name} stops")
            raise
        except ServiceError as error:
            self._reject(request, *refusal(error))
        except Exception as error:
            log.exception("the handler of %s failed", self._name)
            self._reject(request, *refusal(error))
        else:
            self._core.reply(request, payload, content_type)
        self._driver.commanded()

    def _reject(self, request: Request, reason: str, message: str) -> None:
        self._core.reject(request, reason, message)
        self._driver.commanded()
