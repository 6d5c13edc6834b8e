"""Failed encodings. They may be a plugin's, so the receiving sessions end, and publishers are not affected."""

from __future__ import annotations

from collections import Counter
from typing import Any

from twisted.logger import Logger

from bussrv.bus.groups.fanout import Group
from bussrv.counts.throttle import LOG_BURST, LOG_RATE, Throttle

log = Logger()


class FailedEncodings:
    """Ends the sessions of a failed encoding, with ``internal-error``.

    :param counters: counts each session that is ended.
    :param reactor: calls later.
    """

    def __init__(self, counters: Counter[str], reactor: Any) -> None:
        self._counters = counters
        self._reactor = reactor
        self._complaints = Throttle(LOG_RATE, LOG_BURST, reactor.seconds)
        self._groups: dict[Group, None] = {}

    def failed(self, group: Group) -> None:
        """The encoding of ``group`` raised an exception, which is being handled now.

        Its sessions end at the end of this reactor turn, because frames are being sent to others just now.
        """
        if group in self._groups:
            return
        encoding = type(group.encoding).__name__
        suppressed = self._complaints.admit(encoding)
        if suppressed is not None:
            log.failure(
                "encoding with {encoding} failed ({suppressed} more not logged)",
                event="encoding.failed",
                encoding=encoding,
                suppressed=suppressed,
            )
        self._groups[group] = None
        self._reactor.callLater(0, self._end, group)

    def _end(self, group: Group) -> None:
        del self._groups[group]
        for link in tuple(group.links.values()):
            self._counters["internal-error"] += 1
            link.close("internal-error")
