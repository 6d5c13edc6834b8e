"""The services that Home Assistant may know. Their names are in the spool, to be known after a restart.

Home Assistant keeps a sensor until it is told that it is gone. It may be away then, or the server may have been killed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container

from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure

from bussrv.plugin import Change, Claim, ISpool, Put, Refused, RemoveKey, Written

OWNER = "discovery"
KIND = "announced"

MOST = 10_000
"""The most services that are remembered. Of those that are announced no longer, the oldest is forgotten first."""


class Remembered:
    """The names of services that were announced at some time, the latest last.

    :param announced: those that are announced now. They are not forgotten, and are fewer than :data:`MOST`.
    :param forgotten: is called with each one that is forgotten.
    """

    def __init__(self, spool: ISpool, announced: Container[str], forgotten: Callable[[str], object]) -> None:
        self._spool = spool
        self._announced = announced
        self._forgotten = forgotten
        self._names: OrderedDict[str, None] = OrderedDict()

    async def load(self) -> tuple[str, ...]:
        """Remember those of earlier boots, too. :returns: their names.

        :raises Refused: ``spool-unavailable``.
        """
        found: list[str] = []
        last, is_last = 0, False
        while not is_last:
            page = await self._spool.page(OWNER, KIND, after=last)
            for entry in page.entries:
                last, service = entry.number, entry.key or ""
                if service not in self._names:
                    found.append(service)
            is_last = page.is_last
        for service in reversed(found):
            self._names[service] = None
            self._names.move_to_end(service, last=False)
        return tuple(found)

    def add(self, service: str) -> Deferred[Written | None]:
        """A service is to be announced. :returns: fires when its name is durable, or cannot be kept."""
        is_new = service not in self._names
        self._names[service] = None
        self._names.move_to_end(service)
        if not is_new:
            return succeed(None)
        changes: list[Change] = [
            Claim(owner=OWNER, address="local"),
            Put(owner=OWNER, kind=KIND, key=service, payload=b""),
        ]
        if len(self._names) > MOST:
            changes.append(RemoveKey(owner=OWNER, kind=KIND, key=self._forget_oldest()))
        return self._spool.write(changes).addErrback(_not_kept)

    def _forget_oldest(self) -> str:
        while (oldest := next(iter(self._names))) in self._announced:
            self._names.move_to_end(oldest)
        del self._names[oldest]
        self._forgotten(oldest)
        return oldest


def _not_kept(failure: Failure) -> None:
    """The spool has counted it. The service is remembered until the server stops."""
    failure.trap(Refused)
