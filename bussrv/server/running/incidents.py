"""The incidents of a server in effect: judged while it runs, and told to those whom the options name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from bussrv.admin.incidents.command import Command
from bussrv.admin.incidents.outbox import COMMAND, WEBHOOK, Outbox
from bussrv.admin.incidents.watch import IncidentWatch
from bussrv.admin.incidents.webhook import Webhook
from bussrv.admin.servers.peers import Peer
from bussrv.bus.interfaces import Use
from bussrv.journal.recovery import Recovered
from bussrv.server.configuration.config import Config
from bussrv.server.running.admin import AdminView


class IncidentsInEffect:
    """The incidents of a running server.

    :param before: the journal as the server found it.
    :param peers: the servers of ``--admin-peer``, and what they say.
    """

    def __init__(self, config: Config, view: AdminView, before: Recovered, peers: Callable[[], Iterable[Peer]]) -> None:
        are_hidden = config.journal_pseudonyms is not None
        self._watch = IncidentWatch(view, view.clock, before, peers=peers, are_hidden=are_hidden)
        self._reactor = view.reactor
        self._webhook = Outbox(WEBHOOK, view.reactor, view.bus.counters)
        self._command = Outbox(COMMAND, view.reactor, view.bus.counters)
        self._url: str | None = None
        self._words: tuple[str, ...] | None = None

    def prepare(self, config: Config) -> Use:
        """Tell those whom the options name from now on. :returns: puts that into effect; cannot fail."""
        return partial(self._use, config.incident_webhook, config.on_incident)

    def _use(self, url: str | None, words: tuple[str, ...] | None) -> None:
        if url != self._url:
            self._url = url
            self._webhook.use(None if url is None else Webhook(url, self._reactor))
        if words != self._words:
            self._words = words
            self._command.use(None if words is None else Command(words, self._reactor))

    def start(self) -> None:
        """Judge, and tell others."""
        for each in (self._webhook, self._command):
            each.follow(self._watch.known)
        self._watch.start()

    def stop(self) -> None:
        """Judge no more. What was not told yet is not told."""
        self._watch.stop()
        self._webhook.stop()
        self._command.stop()
