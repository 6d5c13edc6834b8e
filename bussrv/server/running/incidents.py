"""The incidents of a server in effect: judged while it runs, and told to those whom the options name."""

from __future__ import annotations

from bussrv.admin.incidents.command import Command
from bussrv.admin.incidents.outbox import COMMAND, WEBHOOK, Outbox
from bussrv.admin.incidents.watch import IncidentWatch
from bussrv.admin.incidents.webhook import Webhook
from bussrv.journal.recovery import Recovered
from bussrv.server.configuration.config import Config
from bussrv.server.running.admin import AdminView


class IncidentsInEffect:
    """The incidents of a running server.

    :param before: the journal as the server found it.
    """

    def __init__(self, config: Config, view: AdminView, before: Recovered) -> None:
        self._watch = IncidentWatch(view, view.clock, before, are_hidden=config.journal_pseudonyms is not None)
        reactor, counters = view.reactor, view.bus.counters
        self._outboxes: list[Outbox] = []
        if config.incident_webhook is not None:
            self._outboxes.append(Outbox(WEBHOOK, Webhook(config.incident_webhook, reactor), reactor, counters))
        if config.on_incident is not None:
            self._outboxes.append(Outbox(COMMAND, Command(config.on_incident, reactor), reactor, counters))

    def start(self) -> None:
        """Judge, and tell others."""
        for each in self._outboxes:
            each.follow(self._watch.known)
        self._watch.start()

    def stop(self) -> None:
        """Judge no more. What was not told yet is not told."""
        self._watch.stop()
        for each in self._outboxes:
            each.stop()
