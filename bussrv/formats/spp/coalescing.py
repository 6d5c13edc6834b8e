"""The backlog of a slow SPP client that gets only the newest state of each service."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator

from bussrv.memory.bundle import Bundle
from bussrv.memory.limits import Chunk
from bussrv.net.session.backlog import Backlog
from bussrv.values import Traffic
from bussrv.wire.spp import service_of_info


class NewestStates(Backlog):
    """Packets in the order in which they were sent, without info packets that have a newer one of their service.

    The older one goes, and the newer one stands where it stood anyway: what is left is in order, and every offer,
    removal and answer is among it.

    :param is_state: whether the messages of a service are states. Those that are changes of a state are all kept.
    :param counters: ``spp-coalesced`` counts the packets that went.
    :param traffic: counts what the client is sent; what goes is not.
    """

    def __init__(self, is_state: Callable[[str], bool], counters: Counter[str], traffic: Traffic) -> None:
        super().__init__()
        self._is_state = is_state
        self._counters = counters
        self._traffic = traffic
        self._packets: OrderedDict[str | int, Chunk] = OrderedDict()
        self._kept = 0

    def put(self, bundle: Bundle) -> None:
        """Add packets at the end."""
        for chunk in bundle.chunks:
            service = service_of_info(chunk.data)
            if service is not None and self._is_state(service):
                self._let_go(service)
                self._packets[service] = chunk
            else:
                self._kept += 1
                self._packets[self._kept] = chunk
            self._count(chunk)

    def _let_go(self, service: str) -> None:
        older = self._packets.pop(service, None)
        if older is None:
            return
        size = len(older.data)
        self.size -= size
        self._uncount(older)
        self._traffic.objects_out -= 1
        self._traffic.bytes_out -= size
        self._counters["spp-coalesced"] += 1

    def _following(self) -> Collection[Chunk]:
        """The packets after the one that was begun."""
        return self._packets.values()

    def _next(self) -> Chunk:
        """The first of them, which must be there; it goes."""
        return self._packets.popitem(last=False)[1]

    def _detach(self) -> Iterator[None]:
        """See :class:`Backlog`."""
        packets, self._packets = self._packets, OrderedDict()
        return _let_go(packets)


def _let_go(packets: OrderedDict[str | int, Chunk]) -> Iterator[None]:
    while packets:
        packets.popitem()
        yield
