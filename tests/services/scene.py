"""A server in memory that hosts services."""

from typing import Any

from bussrv.journal.record import Record
from bussrv.plugin import HostedService
from bussrv.server.configuration.plugins import installed
from bussrv.services.hosting import HostedServices
from tests.formats.network import Network, Watcher

DOOR = HostedService("door", module="tests.services.door", content_type="text/plain", summary="a door")


class Hosting(Network):
    """:ivar hosted: the services of the server."""

    def __init__(self, *plugins: HostedService, **settings: Any) -> None:
        super().__init__(**settings)
        self.hosted = HostedServices(plugins or installed().services, self.bus, self.journal, self.reactor)
        self.hosted.start()

    def watching(self, service: str) -> Watcher:
        watcher = self.watcher()
        watcher.received()
        watcher.subscribe(service)
        return watcher

    def tick(self, seconds: float = 0) -> None:
        """Let the server send what it publishes."""
        self.reactor.advance(seconds)

    def records_after(self, seq: int) -> list[Record]:
        return [record for record in self.journal.records if record.seq > seq]
