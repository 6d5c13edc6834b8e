"""Open requests: who asked, so that replies find the way back, and whom, so that the asker learns if it is gone. Pure.

A server that gives a request to another one expects to hear if its provider is gone. If it was lost with its server,
the uplink of the asker is the near end that says so; see :mod:`bussrv.bus.requests.gone_providers`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from msgspec import Struct

MOST_OPEN = 65_536
"""How many requests are remembered in each direction. Beyond it, the oldest are forgotten."""

LONGEST_ID = 1024
"""The most characters of the id of a request that is remembered: UUIDs have 36."""

RequestId = str | int


class Asked(Struct, frozen=True):
    """A request of this server that another one was given.

    :ivar asker: the routing id of its sender.
    :ivar server: the server that was given it.
    """

    id: RequestId
    asker: str
    server: str


class OpenRequests:
    """Requests that went out, and those that came in."""

    def __init__(self) -> None:
        self._out: OrderedDict[RequestId, dict[str, Asked]] = OrderedDict()
        self._in: OrderedDict[RequestId, str] = OrderedDict()

    def went_out(self, asked: Asked) -> None:
        """A request of this server was given to another one."""
        if _is_long(asked.id):
            return
        self._out.setdefault(asked.id, {})[asked.asker] = asked
        self._out.move_to_end(asked.id)
        if len(self._out) > MOST_OPEN:
            self._out.popitem(last=False)

    def came_in(self, request_id: RequestId, server: str) -> None:
        """A request of another server was given to this one."""
        if _is_long(request_id):
            return
        self._in[request_id] = server
        self._in.move_to_end(request_id)
        if len(self._in) > MOST_OPEN:
            self._in.popitem(last=False)

    def asker_of(self, request_id: object) -> str | None:
        """The server that a reply goes to."""
        return self._in.get(request_id) if isinstance(request_id, (str, int)) else None

    def answered(self, request_id: object, askers: Sequence[str] | None) -> None:
        """A reply came: whoever gave it says itself if it goes before the next one.

        :param askers: to whom; ``None``: it does not say so, and goes to all who have asked with that id.
        """
        if not isinstance(request_id, (str, int)) or request_id not in self._out:
            return
        asked = self._out[request_id]
        for asker in [*asked] if askers is None else askers:
            asked.pop(asker, None)
        if not asked:
            del self._out[request_id]

    def lost(self, server: str) -> Iterator[Asked]:
        """A server is gone: the requests that it was given, which nobody answers now."""
        for request_id, askers in tuple(self._out.items()):
            for asked in tuple(askers.values()):
                if asked.server == server:
                    del askers[asked.asker]
                    yield asked
            if not askers:
                del self._out[request_id]


def _is_long(request_id: RequestId) -> bool:
    return isinstance(request_id, str) and len(request_id) > LONGEST_ID
