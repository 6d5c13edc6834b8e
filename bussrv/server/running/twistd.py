"""The ``twistd bussrv`` command: a process that is a server."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from typing import Any

from twisted.logger import ILogObserver, Logger, globalLogPublisher

from bussrv.errors import ConfigError
from bussrv.server.configuration.options import BusOptions, Options, StartError
from bussrv.server.log.json import json_observer
from bussrv.server.log.repeats import Repeats
from bussrv.server.log.text import Threshold, escape_log, one_line
from bussrv.server.running.process import OwnProcess, run_on_monotonic_clock, tune_collector
from bussrv.server.running.service import BusService
from bussrv.server.running.signals import obey_signals

__all__ = ["Options", "makeService"]

log = Logger()

_OF_TWISTD = "An error has occurred: "
"""How the waiting parent process begins, which shows the first 100 bytes of an exception."""


class KeptStandardError(io.TextIOWrapper):
    """Standard error as it is now, under its name :data:`sys.__stderr__`, until it is closed.

    In a daemon, ``twistd`` lets standard error go before the server can say why it does not start. The parent process
    has this one, too, which leaves out that the start failed, if the server has said why itself.
    """

    def __init__(self) -> None:
        self._replaced = sys.__stderr__
        super().__init__(os.fdopen(os.dup(2), "wb", 0), write_through=True, errors="backslashreplace")
        sys.__stderr__ = self  # type: ignore[misc]

    def write(self, text: str, /) -> int:
        """Write text."""
        if text.startswith(_OF_TWISTD) and StartError.__qualname__ in text:
            return len(text)
        return super().write(text)

    def close(self) -> None:
        """Let it go."""
        if sys.__stderr__ is self:
            sys.__stderr__ = self._replaced  # type: ignore[misc]
        super().close()


class ProcessService(BusService):
    """A server that ends its process if it cannot start.

    :ivar observer: writes the log; ``None``: as ``twistd`` does.
    :ivar standard_error: of a server that becomes a daemon: kept until it has started.
    """

    observer: ILogObserver | None = None
    standard_error: KeptStandardError | None = None

    def setServiceParent(self, parent: Any) -> None:
        """Belong to the application that ``twistd`` runs; it asks that for the observer of the log."""
        super().setServiceParent(parent)
        if self.observer is not None:
            parent.setComponent(ILogObserver, self.observer)

    def startService(self) -> None:
        """Start the server.

        :raises StartError: has a sentence for each fault.
        """
        try:
            super().startService()
        except ConfigError as error:
            raise StartError(*error.sentences) from error
        finally:
            if self.standard_error is not None:
                self.standard_error.close()


def makeService(options: BusOptions) -> BusService:
    """The service that ``twistd bussrv`` runs."""
    from twisted.internet import reactor

    threshold, repeats = Threshold(options.config.log_level), Repeats(reactor)
    escape_log(globalLogPublisher, threshold)
    globalLogPublisher.addObserver(repeats)
    reactor.callWhenRunning(repeats.start)
    for sentence in options.warnings:
        log.warn("{sentence}", event="config.without-effect", sentence=one_line(sentence))
    run_on_monotonic_clock(reactor)
    reactor.callWhenRunning(tune_collector)
    service = ProcessService(
        options.config,
        options.formats,
        reactor,
        services=options.services,
        read=options.read,
        threshold=threshold,
        process=OwnProcess(os.environ, reactor),
    )
    twistd: Mapping[str, Any] = options.parent or {}
    if options.config.log_format == "json":
        service.observer = json_observer(twistd)
    if not twistd.get("nodaemon", True) and sys.__stderr__ is not None:
        service.standard_error = KeptStandardError()
    obey_signals(reactor, service.asked_to_stop, service.reload)
    return service
