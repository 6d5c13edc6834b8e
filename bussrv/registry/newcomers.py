"""Sessions whose opening waits to be written: so that nobody can fill the journal by connecting.

Of each address some openings a second are written at once. The others wait until something else of their session is to
be written. A session that ends before that leaves no record, and the next opening that is written of its address says
how many did. So each opening in the journal has its closing, and each connection is in the journal or counted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from msgspec.structs import replace

from bussrv.addresses import host_of
from bussrv.events import SessionOpened
from bussrv.registry.throttle import MAX_KEYS, STRANGER_BURST, STRANGER_RATE, Throttle


class Newcomers:
    """Says which openings are to be written, and when.

    :param seconds: a clock, in seconds.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._throttle = Throttle(STRANGER_RATE, STRANGER_BURST, seconds)
        self._waiting: dict[str, SessionOpened] = {}
        self._left_out: OrderedDict[str, int] = OrderedDict()

    def arrived(self, opened: SessionOpened) -> SessionOpened | None:
        """A session was opened. :returns: what is to be written of that; ``None``: nothing yet."""
        if self._throttle.take(_host(opened), 1):
            return self._told(opened)
        self._waiting[opened.session or ""] = opened
        return None

    def acted(self, session_id: str | None) -> SessionOpened | None:
        """Something of a session is to be written. :returns: what is to be written before that; ``None``: nothing."""
        opened = self._waiting.pop(session_id or "", None)
        return None if opened is None else self._told(opened)

    def left(self, session_id: str) -> bool:
        """A session ended. :returns: whether nothing is to be written of it."""
        opened = self._waiting.pop(session_id, None)
        if opened is None:
            return False
        host = _host(opened)
        self._left_out[host] = self._left_out.pop(host, 0) + 1
        if len(self._left_out) > MAX_KEYS:
            self._left_out.popitem(last=False)
        return True

    def _told(self, opened: SessionOpened) -> SessionOpened:
        left_out = self._left_out.pop(_host(opened), 0)
        return replace(opened, suppressed=left_out) if left_out else opened


def _host(opened: SessionOpened) -> str:
    return host_of(opened.peer or "")
