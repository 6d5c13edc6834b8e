"""Drives a core over asyncio: sockets, timers, and one connection after the other."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from itertools import cycle
from typing import Any, TypeVar

from bussrv.client.address import Address
from bussrv.client.core.base import Core, OnDone
from bussrv.client.core.inbox import Inbox
from bussrv.client.core.inbus import InbusCore
from bussrv.client.core.making import make_core
from bussrv.client.errors import BadLogin, BusError, Closed, Lost, Offline, TimedOut
from bussrv.client.events import Down, Refusal, Restored, State, Up
from bussrv.client.settings import Backoff, Buffer, Settings
from bussrv.client.tls import PERHAPS_TLS, Tls, explain, place, secured
from bussrv.errors import RemoteProtocolError

log = logging.getLogger("bussrv.client")

FAREWELL = 1.0
"""Seconds that the server has for taking what was sent before the client closes."""

STEADY = 5.0
"""Seconds after which a connection counts as a success: the pauses between attempts begin anew."""

MOST_UNSENT = 32 << 20
"""Bytes that the server has not taken, with which nothing more is read: what is read may ask for yet more answers."""

MOST_READ = 64 << 10
"""The most bytes of one read."""

_FLUSH = 64 << 10
_HEAD = 64
_PROBES = 3
_LONGEST = 86400
Answer = TypeVar("Answer")

_NUMBER = re.compile(r"\[Errno (\d+)\]")


def settle(future: asyncio.Future[Answer], answer: Answer | BusError) -> None:
    """A command was carried out, or not. Perhaps nobody waits for it any more."""
    if future.done():
        return
    if isinstance(answer, BusError):
        future.set_exception(answer)
        future.exception()  # nobody needs to ask for it
    else:
        future.set_result(answer)


class Driver:
    """One core, and its connections.

    :param addresses: of servers, to be tried in turn; they have one wire format.
    :param on_state: is told of every state.
    :ivar core: the core.
    :ivar loop: its event loop, once it was started. To ask for the running one takes a system call before Python 3.12.
    :ivar is_closed: whether it connects no more: the program has closed it, or ``reconnect`` says so.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        settings: Settings,
        tls: Tls | ssl.SSLContext | None,
        reconnect: Backoff | None,
        on_state: Callable[[State], None] | None = None,
    ) -> None:
        self.core: Core = make_core(addresses[0], settings, self._tell)
        self.core.resume = self._read_on
        self.loop: asyncio.AbstractEventLoop
        self.is_closed = False
        self._addresses = addresses
        self._tls = tls
        self._reconnect = reconnect
        self._on_state = on_state
        self._state: Up | Down | None = None
        self._state_inboxes: list[Inbox[State]] = []
        self._task: asyncio.Task[None] | None = None
        self._link: _Stream | None = None
        self._error: BusError | None = None
        self._failures = 0
        self._has_heard = False
        self._is_deaf = False
        self._changed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._is_flushing = False
        self._unflushed = 0
        self._is_write_paused = False

    # For the shell.

    def another(self) -> Driver:
        """A driver of another core, with the same servers and settings."""
        return Driver(self._addresses, self.core.settings, self._tls, self._reconnect)

    def start(self) -> None:
        """Begin to connect."""
        if self._task is not None or self.is_closed:
            raise RuntimeError("a client is entered once")
        self.loop = asyncio.get_running_loop()
        self._task = self.loop.create_task(self._run())

    async def ready(self, timeout: float | None = None, *, is_kept: bool = False) -> float | None:
        """While there is no connection: wait or raise, as ``offline`` says.

        :param timeout: the limit in seconds; ``None``: there is none.
        :param is_kept: a ``Buffer`` keeps what follows for the next connection.
        :returns: the seconds that are left of the limit.
        """
        if self.core.is_up:
            return timeout
        if self.is_closed:
            raise Closed("the client is closed")
        if self._task is None:
            raise RuntimeError("use the client with: async with connect(...) as bus")
        if self.core.settings.offline == "raise":
            raise self.core.offline()
        begun = self.loop.time()
        try:
            await asyncio.wait_for(self.wait_until_up(is_kept=is_kept), timeout)
        except asyncio.TimeoutError:
            raise TimedOut("there was no connection in time") from None
        return None if timeout is None else timeout - self.loop.time() + begun

    async def wait_until_up(self, *, is_kept: bool = False) -> None:
        """Wait until the server accepts the client; with ``offline="raise"`` only until each server was tried.

        :param is_kept: see :meth:`ready`.
        :raises BusError: the credentials are not accepted, the client is closed, or no server can be reached.
        """
        offline = self.core.settings.offline
        while not (self.core.is_up or (is_kept and isinstance(offline, Buffer))):
            error = self._error
            if self.is_closed:
                raise error or Closed("the client is closed")
            if isinstance(error, BadLogin):
                raise error
            if error is not None and offline == "raise" and self._failures >= len(self._addresses):
                raise error if isinstance(error, Offline) else Offline(error.message) from error
            await self._changed.wait()

    @contextlib.asynccontextmanager
    async def states_in(self, inbox: Inbox[State]) -> AsyncIterator[None]:
        """Put the states into an inbox, first the present one."""
        if self._state is not None:
            inbox.put(self._state, 0)
        self._state_inboxes.append(inbox)
        try:
            yield
        finally:
            self._state_inboxes.remove(inbox)

    def done(self, command: Callable[[OnDone], object]) -> asyncio.Future[None]:
        """Give the core a command. :returns: is done when the server has done it."""
        future: asyncio.Future[None] = self.loop.create_future()
        command(partial(settle, future))
        self.commanded()
        return future

    def commanded(self) -> None:
        """The core was given a command: send what it says, with all that is said in this turn of the loop.

        If nothing else is under way, nothing is to be waited for: it is sent at once.
        """
        if not self._is_flushing:
            if self.core.is_alone:
                self._flush()
            else:
                self._is_flushing = True
                self.loop.call_soon(self._flush)
            self._arm()

    def published(self, size: int) -> bool:
        """The core was given a publication.

        :param size: the bytes of its payload.
        :returns: whether to wait for :meth:`written`.
        """
        if not self._is_flushing:
            self._is_flushing = True
            self.loop.call_soon(self._flush)
        self._unflushed += size + _HEAD
        return self._unflushed >= _FLUSH or self._is_write_paused

    async def written(self) -> None:
        """Write what was published. Waits while the server reads too slowly."""
        self._flush()
        # Others have their turn, also if the server takes everything at once.
        await asyncio.sleep(0)
        while self._is_write_paused and not self.is_closed:
            await self._changed.wait()

    async def close(self) -> None:
        """End the connection, after everything that was sent; and connect no more."""
        task, self._task = self._task, None
        if task is None:
            return
        self.is_closed = True
        error = Closed("the client is closed")
        self.core.close(error)
        if self._link is not None:
            self._end(error)
            await asyncio.wait([self._link.gone], timeout=FAREWELL)
        self._abort()
        task.cancel()
        await asyncio.wait([task])
        for inbox in self._state_inboxes:
            inbox.end(error)
        self._notify()

    # The connections.

    async def _run(self) -> None:
        for address in cycle(self._addresses):
            begun = self.loop.time()
            error = await self._use(address)
            # A server that accepts a client and then fails is not asked ever faster.
            is_steady = isinstance(self._state, Up) and self.loop.time() - begun >= STEADY
            self._failures = 1 if is_steady else self._failures + 1
            self._error = error
            backoff = None if self.is_closed else self._reconnect
            pause = None if backoff is None else backoff.pause(self._failures - 1)
            if pause is None:
                self.is_closed = True
            self._tell(Down(error.reason, error.message, pause, self.core.unconfirmed))
            if pause is None:
                self.core.close(error)
                return
            await asyncio.sleep(pause)

    async def _use(self, address: Address) -> BusError:
        """Use one connection until it ends. :returns: why it ended."""
        self._error = None
        self._has_heard = False
        try:
            link = await asyncio.wait_for(self._open(address), self.core.settings.timeout)
        except (asyncio.TimeoutError, OSError) as error:
            self._abort()
            reason = "timed-out" if isinstance(error, asyncio.TimeoutError) else "offline"
            return Offline(f"cannot connect to {place(address.host, address.port)}: {_why(error)}", reason)
        except (ValueError, UnicodeError) as error:
            return Offline(f"{address} cannot be used: {error}")
        return await link.gone

    async def _open(self, address: Address) -> _Stream:
        core, host, port = self.core, address.host, address.port
        if isinstance(core, InbusCore):
            datagrams = _Datagrams(self, str(address), core)
            await self.loop.create_datagram_endpoint(lambda: datagrams, remote_addr=(host, port))
            return datagrams
        context, name = secured(self._tls or (Tls() if address.tls else None), host)
        stream = _Stream(self, str(address))
        await self.loop.create_connection(
            lambda: stream, host, port, ssl=context, server_hostname=None if context is None else name
        )
        return stream

    def opened(self, link: _Stream) -> None:
        """The link is there."""
        self._link = link
        self._is_write_paused = self._is_deaf = False
        self._tell_core(lambda: self.core.opened(link.address, self.loop.time()))

    def received(self, data: bytes) -> None:
        """Bytes, or a datagram, came."""
        self._has_heard = True
        if self._is_deaf:
            return
        self._tell_core(lambda: self.core.received(data, self.loop.time()))

    def lost(self, link: _Stream, error: Exception | None) -> None:
        """The link is gone."""
        words = "the server closed the connection" if error is None else f"the connection broke: {_why(error)}"
        if not self._has_heard:
            words = f"{words}, {PERHAPS_TLS}"
        ended = self._error or self.core.last_error or Lost("connection-lost", words)
        self._link = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.core.lost(ended, self.loop.time())
        if not link.gone.done():
            link.gone.set_result(ended)
        self.write_on()

    def refused(self, error: OSError) -> None:
        """A machine says that nobody listens at the port of the server."""
        self.core.ending = Lost("unreachable", _why(error))
        self._tell_core(lambda: None)

    def pause_writing(self) -> None:
        """The server reads too slowly."""
        self._is_write_paused = True

    def write_on(self) -> None:
        """It has read."""
        self._is_write_paused = False
        self._notify()
        self._read_on()

    def _read_on(self) -> None:
        if self._link is not None and not self._is_full(self._link):
            self._link.read(wanted=True)

    def _is_full(self, link: _Stream) -> bool:
        """Whether nothing is to be read at the moment: the program, or the server, takes too little."""
        unsent = link.transport.get_write_buffer_size() if self._is_write_paused else 0
        return bool(self.core.is_paused or unsent > MOST_UNSENT)

    def _tell_core(self, tell: Callable[[], None]) -> None:
        """Tell the core something, and do what follows from it."""
        core = self.core
        try:
            tell()
        except RemoteProtocolError as error:
            # Nothing is read after something malformed.
            self._is_deaf = True
            core.ending = Lost(error.reason, error.message)
        except Exception as error:
            # Such as one of a function that returns the secret. The next connection may do better.
            log.exception("the client failed")
            core.ending = Lost("internal-error", f"{type(error).__name__}: {error}")
        if core.has_output:
            self._flush()
        if core.ending is not None:
            self._end(core.ending)
        elif self._link is not None and self._is_full(self._link):
            self._link.read(wanted=False)
        self._arm()

    def _flush(self) -> None:
        self._is_flushing = False
        self._unflushed = 0
        if self._link is not None and self.core.has_output:
            self._link.send(self.core.take_output())

    def _end(self, error: BusError) -> None:
        """End the connection for this reason."""
        self.core.ending = None
        link = self._link
        if self._error is None and link is not None and not link.transport.is_closing():
            self._error = error
            self._flush()
            link.end(self.core.farewell())

    def _abort(self) -> None:
        if self._link is not None:
            self._link.transport.abort()

    def _arm(self) -> None:
        """Call the core when its next deadline is reached."""
        deadline = self.core.deadline()
        timer = self._timer
        if deadline is None or self._link is None or (timer is not None and timer.when() <= deadline):
            return
        if timer is not None:
            timer.cancel()
        self._timer = self.loop.call_at(deadline, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._tell_core(lambda: self.core.tick(self.loop.time()))

    # Who waits.

    def _tell(self, state: State) -> None:
        if isinstance(state, Up):
            log.info("connected to %s", state.address)
        elif isinstance(state, Down):
            again = "" if state.retry_in is None else f"; trying again in {state.retry_in:.1f} s"
            # One that waits for its server from the beginning is told once.
            is_news = isinstance(self._state, Up) or (self._failures == 1 and self.core.settings.offline != "raise")
            level = logging.WARNING if is_news and not self.is_closed else logging.DEBUG
            log.log(level, "not connected: %s (%s)%s", state.message, state.reason, again)
        elif isinstance(state, Refusal):
            log.warning("the server refused something: %s (%s)", state.message, state.reason)
        elif isinstance(state, Restored) and state.refused:
            log.error("not restored: %s", ", ".join(f"{name} ({why})" for name, why in state.refused.items()))
        if isinstance(state, (Up, Down)):
            self._state = state
        for inbox in self._state_inboxes:
            inbox.put(state, 0)
            if isinstance(state, Down) and state.retry_in is None:
                inbox.end(Closed("the client connects no more"))
        if self._on_state is not None:
            try:
                self._on_state(state)
            except Exception:
                log.exception("on_state failed")
        self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class _Stream(asyncio.BufferedProtocol):
    """A TCP connection, perhaps with TLS.

    It reads into memory of its own. Otherwise the loop takes new memory for each read, and gives it back: three system
    calls more.

    :ivar address: the address of the server, for people.
    :ivar gone: is done when the connection has ended, with the reason.
    """

    def __init__(self, driver: Driver, address: str) -> None:
        self.address = address
        self.gone: asyncio.Future[BusError] = driver.loop.create_future()
        self.transport: Any = None
        self._driver = driver
        self._room = memoryview(bytearray(MOST_READ))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        _keep_alive(transport.get_extra_info("socket"), self._driver.core.settings.silence)
        self._driver.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        self._driver.received(bytes(self._room[:nbytes]))

    def connection_lost(self, exc: Exception | None) -> None:
        self._driver.lost(self, exc)

    def pause_writing(self) -> None:
        self._driver.pause_writing()

    def resume_writing(self) -> None:
        self._driver.write_on()

    def send(self, output: list[bytes]) -> None:
        """Send what the core says."""
        self.transport.write(output[0] if len(output) == 1 else b"".join(output))

    def read(self, *, wanted: bool) -> None:
        """Read on, or no more at the moment."""
        if wanted:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def end(self, farewell: bytes) -> None:
        """Close, after everything that was sent, and this."""
        transport = self.transport
        transport.write(farewell)
        asyncio.get_running_loop().call_later(FAREWELL, transport.abort)
        if transport.can_write_eof():
            # Not closed before the server has read everything: closing with unread bytes may destroy it.
            transport.write_eof()
        else:
            transport.close()


class _Datagrams(_Stream, asyncio.DatagramProtocol):
    """A UDP socket that is connected to the server: so nobody else can send to it, and refusals are told."""

    def __init__(self, driver: Driver, address: str, core: InbusCore) -> None:
        super().__init__(driver, address)
        self._core = core

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._core.own = transport.get_extra_info("sockname")[:2]
        self._driver.opened(self)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._driver.received(data)

    def error_received(self, exc: Exception) -> None:
        if isinstance(exc, OSError):
            self._driver.refused(exc)

    def send(self, output: list[bytes]) -> None:
        for datagram in output:
            self.transport.sendto(datagram)

    def read(self, *, wanted: bool) -> None:
        """The system drops what is not read. So everything is."""

    def end(self, farewell: bytes) -> None:
        self.transport.close()


def _keep_alive(sock: socket.socket | None, silence: float) -> None:
    """Let the system notice that the machine of the server is gone, within ``silence`` seconds."""
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    silence = min(silence, _LONGEST)  # A number of the system's has its bounds.
    part = max(1, int(silence / (_PROBES + 1)))
    options = (("TCP_KEEPIDLE", part), ("TCP_KEEPINTVL", part), ("TCP_KEEPCNT", _PROBES))
    for name, value in (*options, ("TCP_USER_TIMEOUT", max(1000, int(silence * 1000)))):
        if hasattr(socket, name):
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _why(error: Exception) -> str:
    if isinstance(error, asyncio.TimeoutError):
        return "it did not answer in time"
    # The event loop names every address that it tried, and the number of each error.
    numbers = dict.fromkeys(_NUMBER.findall(str(error)))
    if numbers and not isinstance(error, ssl.SSLError):
        return ", ".join(os.strerror(int(each)) for each in numbers)
    return (explain(error) if isinstance(error, OSError) else str(error)) or type(error).__name__
