"""Deferred openings: sessions whose opening is not journaled yet, so that nobody can fill the journal by connecting.

Some openings a second are journaled at once, for each address and for all. The others wait until something else of
their session is to be journaled. A session that ends before that leaves no record. The next opening from its address
that is journaled gives the number of such sessions. So each opening in the journal has its closing, and each connection
is in the journal or counted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from msgspec.structs import replace

from bussrv.addresses import address_key
from bussrv.counts.throttle import MAX_KEYS, STRANGER_BURST, STRANGER_RATE, Throttle
from bussrv.events import SessionOpened
from bussrv.registry.journal_budget.strangers import TOTAL_BURST


class DeferredOpenings:
    """Decides which openings are journaled, and when.

    :param seconds: a clock, in seconds.
    :param rate: openings a second that are journaled at once, for each address.
    :param total_rate: the same for all addresses together; ``None``: no limit.
    :ivar waiting: the deferred openings, by session id. To be read only.
    """

    def __init__(
        self, seconds: Callable[[], float], rate: float = STRANGER_RATE, total_rate: int | None = None
    ) -> None:
        self._throttle = Throttle(rate, int(rate / STRANGER_RATE * STRANGER_BURST), seconds)
        self._all = None if total_rate is None else Throttle(total_rate, TOTAL_BURST * total_rate, seconds)
        self.waiting: dict[str, SessionOpened] = {}
        self._left_out: OrderedDict[str, int] = OrderedDict()
        self._left_out_elsewhere = 0

    def on_open(self, opened: SessionOpened, can_be_written: bool = True) -> SessionOpened | None:
        """Decide about an opening. :returns: the event to journal now; ``None``: it is deferred."""
        if can_be_written and self._throttle.take(_host(opened), 1) and (self._all is None or self._all.take("", 1)):
            return self._told(opened)
        self.waiting[opened.session or ""] = opened
        return None

    def on_first_event(self, session_id: str | None) -> SessionOpened | None:
        """An event of a session is about to be journaled. :returns: its deferred opening, to be journaled first."""
        opened = self.waiting.pop(session_id or "", None)
        return None if opened is None else self._told(opened)

    def on_close(self, session_id: str) -> bool:
        """Note the end of a session. :returns: whether its opening was deferred, so that nothing of it is journaled."""
        opened = self.waiting.pop(session_id, None)
        if opened is None:
            return False
        host = _host(opened)
        self._left_out[host] = self._left_out.pop(host, 0) + 1
        if len(self._left_out) > MAX_KEYS:
            self._left_out_elsewhere += self._left_out.popitem(last=False)[1]
        return True

    def _told(self, opened: SessionOpened) -> SessionOpened:
        left_out = self._left_out.pop(_host(opened), 0) + self._left_out_elsewhere
        self._left_out_elsewhere = 0
        return replace(opened, suppressed=left_out) if left_out else opened


def _host(opened: SessionOpened) -> str:
    return address_key(opened.peer or "")
