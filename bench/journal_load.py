"""Load on the registry: sessions register and unregister a service in turns, and each change is timed."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count, cycle
from typing import Any

from journal_figures import Figures, figures
from journal_pacer import pacer, read_moments
from twisted.internet import reactor as installed_reactor
from twisted.internet.abstract import FileDescriptor
from twisted.internet.defer import Deferred

from bussrv.journal.interfaces import IJournal
from bussrv.journal.memory import MemoryJournal
from bussrv.registry.changes.registry import Registry
from bussrv.turns.clock import SystemClock

WARM_UP = 0.1
"""Seconds that are not counted."""

reactor: Any = installed_reactor


class _Sessions:
    """Sessions of a registry, each with a service that it registers and unregisters in turns."""

    def __init__(self, journal: IJournal, sessions: int) -> None:
        numbers = count()
        registry = Registry(
            journal, SystemClock(), lambda: f"{next(numbers):024x}", server_id="bench", boot="5f1c2ab94e07"
        )
        self._ids = [registry.open_session("objects", f"127.0.0.1:{40_000 + number}").id for number in range(sessions)]
        self._names = [f"bench/{number}" for number in range(sessions)]
        self._changes = [cycle([registry.register_service, registry.unregister_service]) for _ in range(sessions)]

    def change(self, number: int) -> Deferred[None]:
        """The next change of a session."""
        return next(self._changes[number])(self._ids[number], self._names[number])


def without_journal(seconds: float) -> Figures:
    """One session, and a journal that answers at once: what is left of a change when nothing is written."""
    load = _Sessions(MemoryJournal(), 1)
    latencies: list[float] = []
    begin = now = time.perf_counter()
    while now - begin < seconds:
        load.change(0)
        before, now = now, time.perf_counter()
        latencies.append(now - before)
    return figures(latencies, now - begin)


async def closed_loop(journal: IJournal, sessions: int, seconds: float) -> Figures:
    """Every session asks for a change, and for another one as soon as it is answered.

    :param journal: one that does not answer at once.
    """
    load = _Sessions(journal, sessions)
    latencies: list[float] = []
    done: Deferred[None] = Deferred()
    begin = time.perf_counter() + WARM_UP
    end = begin + seconds
    running = sessions

    def ask(number: int, now: float) -> None:
        load.change(number).addCallback(answered, number, now)

    # Not a coroutine for each session: it would take as long as the registry does.
    def answered(_: None, number: int, asked: float) -> None:
        nonlocal running
        now = time.perf_counter()
        if now < end:
            if now >= begin:
                latencies.append(now - asked)
            ask(number, now)
            return
        running -= 1
        if not running:
            done.callback(None)

    for number in range(sessions):
        ask(number, time.perf_counter())
    await done
    return figures(latencies, seconds)


async def open_loop(journal: IJournal, sessions: int, rate: float, seconds: float) -> Figures:
    """So many changes a second are asked for, whether or not those before have been answered."""
    load = _Sessions(journal, sessions)
    asked = 0
    first = 0.0
    latencies: list[float] = []
    done: Deferred[None] = Deferred()

    def ask(moments: list[float]) -> None:
        nonlocal asked, first
        first = first or moments[0]
        for moment in moments:
            load.change(asked % sessions).addCallback(answered, moment)
            asked += 1

    def answered(_: None, moment: float) -> None:
        latencies.append(time.perf_counter() - moment)
        if len(latencies) == int(rate * seconds):
            done.callback(None)

    with pacer(rate, seconds) as pipe:
        changes = _Changes(pipe, ask)
        reactor.addReader(changes)
        await done
        reactor.removeReader(changes)
    return figures(latencies, time.perf_counter() - first)


class _Changes(FileDescriptor):
    """Reads which changes are to be made."""

    def __init__(self, pipe: int, ask: Callable[[list[float]], None]) -> None:
        super().__init__(reactor)
        self._pipe = pipe
        self._ask = ask

    def fileno(self) -> int:
        """The descriptor to read from."""
        return self._pipe

    def doRead(self) -> None:
        """Some are, or none will be any more."""
        moments = read_moments(self._pipe)
        if moments:
            self._ask(moments)
        else:
            reactor.removeReader(self)
