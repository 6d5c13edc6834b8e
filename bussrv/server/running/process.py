"""The process of a server: its clock, garbage collector and file descriptors, and the service manager that began it."""

from __future__ import annotations

import gc
import resource
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from bussrv.server.log.text import say_aside
from bussrv.server.running.signals import stop
from bussrv.settings import Settings

YOUNG = 20_000
"""The number of new objects that starts a collection of young objects."""

OLDER = 1 if sys.version_info < (3, 14) else 10
"""After more collections of young objects than this, those that were left are collected, too, all in one go. So each
takes a quarter of the time that it would take with Python's 10, and all of them together no longer. Python 3.14
collects older objects a part at a time.
"""

ALL = 60
"""After more collections of older objects than this, all objects are collected that came after the start. That takes
as long as there are sessions, so it is done as rarely as with YOUNG, 10 and 10.
"""


RESERVE = 128
"""Descriptors that are kept for the journal, ports, links and administration."""

log = Logger()


def run_on_monotonic_clock(reactor: Any) -> None:
    """Let ``reactor`` measure time with the monotonic clock. Calls that wait already keep what is left of their wait.

    Twisted's reactors use the time of day for :meth:`IReactorTime.seconds`. If the wall clock were set, every lease and
    time-out would end at once, or none would. The interface leaves open when the seconds begin, and the reactor itself
    only compares them with each other. To be called before the reactor runs.
    """
    before = reactor.seconds
    if before is time.monotonic:
        return
    reactor.seconds = time.monotonic
    for call in reactor.getDelayedCalls():
        left = max(0.0, call.getTime() - before())
        call.seconds = time.monotonic
        call.reset(left)


def tune_collector() -> None:
    """Make collections rarer.

    A bus makes many short-lived objects that wait in queues. By default, Python looks through all of them for every 700
    new ones, which costs more than writing the journal. Objects that exist when the server starts are never looked at.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, OLDER, ALL)


def most_sessions(wanted: int, limit: int) -> int:
    """The most sessions of a process that may open ``limit`` files: ``wanted``, or fewer."""
    return min(wanted, max(limit - RESERVE, limit // 2, 1))


def most_connections(limit: int) -> int:
    """The most connections. Some have no session yet, or no longer."""
    return max(limit - RESERVE // 2, limit * 3 // 4, 1)


def raise_limit(wanted: int) -> int:
    """Raise the limit of open files for ``wanted`` sessions and everything else, as far as the system allows.

    :returns: the limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + RESERVE
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return needed if soft == resource.RLIM_INFINITY else soft


class Fitting(NamedTuple):
    """Settings that fit the descriptors of this process.

    :ivar limit: how many files the process may open.
    """

    settings: Settings
    most_connections: int
    limit: int


def fitting(wanted: Settings, limit: int) -> Fitting:
    """The settings, with no more sessions than a process can have.

    :param limit: how many files it may open.
    """
    most = most_sessions(wanted.max_sessions, limit)
    return Fitting(replace(wanted, max_sessions=most), most_connections(limit), limit)


def warn_of_fewer(wanted: Settings, fits: Fitting) -> None:
    """Log a warning if there may be fewer sessions than the options allow."""
    if fits.settings.max_sessions < wanted.max_sessions:
        log.warn(
            "--max-sessions is {most}, not {wanted}: the system lets the server open {limit} files (ulimit -n)",
            event="server.few-descriptors",
            most=fits.settings.max_sessions,
            wanted=wanted.max_sessions,
            limit=fits.limit,
        )


class SharedProcess:
    """A process that belongs to another program, of which the server is a part: it is left as it is."""

    def fitting(self, wanted: Settings) -> Fitting:
        """The settings, with no more sessions than this process can have."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return fitting(wanted, wanted.max_sessions + RESERVE if soft == resource.RLIM_INFINITY else soft)

    def say_aside(self, sentence: str) -> None:
        """Tell whoever starts the process, and does not see its log. Here, the program has the log."""

    def ready(self) -> None:
        """The server is ready."""

    def stopping(self) -> None:
        """The server begins to stop."""

    def end(self, asked_to_stop: Callable[[], object], stop_service: Callable[[], object]) -> None:
        """Stop the server, because an operator asked for it through the admin interface.

        :param asked_to_stop: is called before.
        :param stop_service: stops the server alone.
        """
        asked_to_stop()
        stop_service()


class OwnProcess(SharedProcess):
    """A process that is the server.

    :param environment: the variables of the process.
    """

    def __init__(self, environment: Mapping[str, str], reactor: Any) -> None:
        self._reactor = reactor
        self._supervisor = Supervisor(environment, reactor)

    def fitting(self, wanted: Settings) -> Fitting:
        """The same. Raises the limit of open files of the process first."""
        return fitting(wanted, raise_limit(wanted.max_sessions))

    def say_aside(self, sentence: str) -> None:
        """Write a line to standard error."""
        say_aside(sentence)

    def ready(self) -> None:
        """Tell the service manager."""
        self._supervisor.ready()

    def stopping(self) -> None:
        """Tell the service manager."""
        self._supervisor.stopping()

    def end(self, asked_to_stop: Callable[[], object], stop_service: Callable[[], object]) -> None:
        """Stop the reactor, and with it the server."""
        stop(self._reactor, asked_to_stop)


class Supervisor:
    """The service manager that started the server, if there is one: it is told the state of the server.

    It names a UNIX datagram socket in ``NOTIFY_SOCKET``. With ``WATCHDOG_USEC`` it requires a sign of life at least
    once in so many microseconds. If none comes, because the reactor hangs, it starts the server again. Source:
    sd_notify(3), for ``Type=notify`` units.

    :param environment: the variables of the process.
    """

    def __init__(self, environment: Mapping[str, str], reactor: Any) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        pause = environment.get("WATCHDOG_USEC", "")
        self._pause = int(pause) / 1_000_000 if pause.isdecimal() else 0.0
        self._is_silent = False
        self._signs = LoopingCall(self._say, "WATCHDOG=1")
        self._signs.clock = reactor

    def ready(self) -> None:
        """Tell the manager that the server is ready. From now on, give signs of life, if the manager requires them."""
        self._say("READY=1")
        if self._address and self._pause:
            self._signs.start(self._pause / 2)

    def stopping(self) -> None:
        """Tell the manager that the server stops. Signs of life continue until it has stopped."""
        self._say("STOPPING=1")

    def _say(self, words: str) -> None:
        if not self._address:
            return
        # A name that begins with @ is in the abstract namespace.
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
                manager.setblocking(False)
                manager.sendto(words.encode(), address)
            self._is_silent = False
        except OSError as error:
            if not self._is_silent:
                log.warn(
                    "the service manager cannot be told {words}: {error}",
                    event="supervisor.silent",
                    words=words,
                    error=error,
                )
            self._is_silent = True
