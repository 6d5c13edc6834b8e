"""Signals: stop the server in an orderly way, re-open its log file, or have it read its configuration again."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from twisted.internet.error import ReactorNotRunning
from twisted.logger import Logger, globalLogPublisher
from twisted.python.logfile import BaseLogFile

log = Logger()


class AskedToStop(Protocol):
    """Called when a signal asks the server to stop."""

    def __call__(self, *, drain: bool) -> None:
        """:param drain: whether sessions are to end one after the other."""


def obey_signals(reactor: Any, asked_to_stop: AskedToStop, reload: Callable[[], object]) -> None:
    """Stop on SIGINT and SIGTERM; re-open the log file on SIGHUP and SIGUSR1, and reload on SIGHUP.

    With a controlling terminal, SIGHUP means that the terminal is gone, and the server stops; under ``nohup`` it does
    not.

    :param asked_to_stop: is called at each signal to stop, before the reactor is stopped.
    :param reload: reads the configuration again.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    stop_at_once = partial(stop, reactor, partial(asked_to_stop, drain=False))
    hangup = _Hangup(stop_at_once, reload)
    # These are set immediately: a start may take a while, and either signal would end it.
    _call_on(signal.SIGHUP, hangup.happened, reactor)
    _call_on(signal.SIGUSR1, reopen_log_files, reactor)
    reactor.callWhenRunning(hangup.look)
    # These are set later: the reactor sets its own at its start. With these, twistd would end with the signal instead
    # of status 0.
    reactor.callWhenRunning(_call_on, signal.SIGINT, stop_at_once, reactor)
    drain = partial(stop, reactor, partial(asked_to_stop, drain=True))
    reactor.callWhenRunning(_call_on, signal.SIGTERM, drain, reactor)


def _call_on(number: int, call: Callable[[], None], reactor: Any) -> None:
    signal.signal(number, lambda *_: reactor.callFromThread(call))


def stop(reactor: Any, asked_to_stop: Callable[[], object]) -> None:
    """Stop the reactor, and with it the server.

    :param asked_to_stop: is called before.
    """
    asked_to_stop()
    # The reactor may be stopping already.
    with suppress(ReactorNotRunning):
        reactor.stop()


class _Hangup:
    """The meaning of SIGHUP. It is decided before the signal comes: afterwards, a lost terminal looks like none."""

    def __init__(self, stop: Callable[[], None], reload: Callable[[], object]) -> None:
        self._stop = stop
        self._reload = reload
        self._ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        self.look()

    def look(self) -> None:
        """Look for a terminal again: a daemon has detached from it meanwhile."""
        self._stops = not self._ignored and _has_terminal()

    def happened(self) -> None:
        """Stop or reload, because SIGHUP came."""
        if self._stops:
            self._stop()
        else:
            reopen_log_files()
            self._reload()


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def reopen_log_files() -> None:
    """Continue the log in the file that has its path now: another program may have moved the old file away."""
    for file in _log_files():
        _reopen(file)


def _reopen(file: Any) -> None:
    old = file._file
    try:
        # reopen() would close the old file first, and leave no file if the new one cannot be opened.
        file._openFile()
    except OSError as error:
        log.error(
            "cannot re-open the log file {path}: {why}", event="log.not-reopened", path=file.path, why=error.strerror
        )
    else:
        old.close()
        log.info("re-opened the log file {path}", event="log.reopened", path=file.path)


def _log_files() -> Iterator[Any]:
    """The files of the log. ``twistd`` has no public way to find them."""
    for observer in tuple(globalLogPublisher._observers):
        file = getattr(observer, "_outFile", None)
        if isinstance(file, BaseLogFile):
            yield file
