"""What the admin interface remembers of the server besides the registry."""

from __future__ import annotations

from zope.interface import implementer

from bussrv.admin.interfaces import AdministeredServer
from bussrv.journal.record import Record, Stamped
from bussrv.registry.interfaces import IRegistryObserver


@implementer(IRegistryObserver)
class Shared:
    """What all requests share.

    :ivar seq: the number of the last record that is durable; 0: there is none of this boot yet.
    """

    def __init__(self, server: AdministeredServer) -> None:
        self.seq = 0
        self._boot = server.boot
        self._changes = 0
        server.journal.follow(self._written)
        server.bus.registry.observe(self)

    def _written(self, records: list[Record]) -> None:
        self.seq = records[-1].seq

    def registry_changed(self, stamped: Stamped) -> None:
        """See :class:`IRegistryObserver`."""
        self._changes += 1

    @property
    def tag(self) -> str:
        """The ``ETag`` of answers that are a function of the registry.

        The registry is ahead of the journal for a moment, so that the number of the last record alone is not enough.
        """
        return f'"{self._boot}-{self.seq}.{self._changes}"'
