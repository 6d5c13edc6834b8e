"""Every record that concerns one client or one service, in order, with its cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from pathlib import Path

from bussrv.inspection.timeline.journals import EVER, Period, Segments, Window, open_journals
from bussrv.inspection.timeline.rows import Row, Rows
from bussrv.inspection.timeline.scan import Scan
from bussrv.inspection.timeline.similar import similar_names


class Nobody(Exception):
    """No record concerns a name in that time.

    :ivar similar: names with a timeline that are like it; the name itself, if it has one at another time.
    """

    def __init__(self, similar: Sequence[str]) -> None:
        super().__init__()
        self.similar = similar


def timeline(locations: Sequence[Path | str], name: str, period: Period = EVER) -> Iterator[Row]:
    """Every record that concerns a client or a service, of one server or several, merged by time.

    Each row has all columns of :data:`bussrv.inspection.timeline.rows.COLUMNS`; those that do not apply are ``None``.
    Times are UTC microseconds since 1970. Beside the fields of the record:

    - ``concern``: one of :data:`bussrv.inspection.timeline.rows.CONCERNS`,
    - ``who``, ``next_who``, ``newcomer_who``: the names of its session, and of the others that it mentions,
    - ``about``: the service of ``providers``, ``missing_since``, ``missing_until`` and ``next_session``, see
      :class:`bussrv.inspection.timeline.causes.Turn`,
    - the others: see :meth:`bussrv.inspection.timeline.causes.Causes.explanation`.

    Segments before the period are read only as far as records in the period need them as explanations. The sessions
    with the name are those that have it in the segments that are read.

    :param locations: directories of journals, also of running servers, or URLs.
    :param name: a service, or a name of a client: a session, a routing id, a user, a program, an address or a peer.
    :param period: the time that is shown.
    :raises Nobody: if there is no row.
    :raises bussrv.errors.JournalError: if one of ``locations`` is no journal or cannot be read.
    """
    with open_journals(locations) as journals:
        rows = merge(*told(journals, name, period), key=lambda each: each[0])
        is_empty = True
        for _, row in rows:
            is_empty = False
            yield row
        if is_empty:
            raise Nobody(similar_names(journals, name))


def told(journals: Sequence[Segments], name: str, period: Period) -> list[Rows]:
    """The rows of each server, with their explanations as far as the journals have them."""
    windows = [Window(each, period) for each in journals]
    while True:
        scan = Scan(windows, name)
        rows = {server: Rows(scan, found, name, period) for server, found in scan.servers.items()}
        if not _widen(windows, scan, rows):
            return [*rows.values()]


def _widen(windows: Sequence[Window], scan: Scan, rows: dict[str, Rows]) -> bool:
    """Add segments that may explain what is shown. :returns: whether there are any."""
    is_wider = False
    for window, servers in zip(windows, scan.servers_of, strict=True):
        shown = [rows[server] for server in servers]
        if window.has_earlier and any(each.is_open_before() for each in shown):
            window.widen_back()
            is_wider = True
        if window.has_later and any(each.is_open_after() for each in shown):
            window.widen_on()
            is_wider = True
    return is_wider
