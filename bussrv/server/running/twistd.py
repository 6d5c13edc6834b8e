"""The ``twistd bussrv`` command: a process that is a server."""

from __future__ import annotations

import os
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


class ProcessService(BusService):
    """A server that ends its process if it cannot start.

    :ivar observer: writes the log; ``None``: as ``twistd`` does.
    """

    observer: ILogObserver | None = None

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
    if options.config.log_format == "json":
        service.observer = json_observer(options.parent or {})
    obey_signals(reactor, service.asked_to_stop, service.reload)
    return service
