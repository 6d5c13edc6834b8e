"""Whether closed segments reach the object store in time, and how far retention may remove them here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from twisted.logger import Logger

from bussrv.journal.ages import Ages
from bussrv.journal.condition import ShippingCondition
from bussrv.journal.manifest import Seal
from bussrv.journal.shipped import SHIPPED_NAME, Shipped, read_shipped
from bussrv.turns.clock import Clock
from bussrv.values import data_size

log = Logger()


class ShipWatch:
    """Reads what ``bussrv journal ship`` says of a journal directory that is open for writing.

    :param is_required: whether a segment is kept until it is shipped.
    :param within: seconds after the end of a segment within which it is to be shipped.
    :ivar condition: how far shipping is; ``None``: nobody ships this journal.
    """

    def __init__(self, directory: Path, clock: Clock, *, is_required: bool, within: float) -> None:
        self.condition: ShippingCondition | None = None
        self._directory = directory
        self._is_required = is_required
        self._within = within
        self._ages = Ages(clock, lambda seal: seal.time)
        self._stamp: tuple[int, int, int] | None = None
        self._shipped: Shipped | None = None
        self._last = 0
        self._has_held = False

    def look(self, sealed: Mapping[int, Seal]) -> None:
        """See what is shipped by now.

        :param sealed: the seals of the segments that are closed, and not removed.
        """
        unreadable = self._read()
        shipped = self._shipped
        self._last = shipped.segment if shipped is not None and shipped.is_of(sealed) else 0
        if shipped is None and unreadable is None and not self._is_required:
            self.condition = None
            return
        waiting = {number: seal for number, seal in sealed.items() if number > self._last}
        self._ages.take(waiting)
        oldest = max((self._ages.of(number) for number in waiting), default=0) / 1_000_000
        size = sum(seal.bytes for seal in waiting.values())
        is_held, self._has_held = self._has_held, False
        trouble = unreadable
        if trouble is None and (is_held or oldest > self._within):
            trouble = self._trouble(len(waiting), size, oldest, is_held)
        was_late = self.condition is not None and self.condition.trouble is not None
        self.condition = ShippingCondition(len(waiting), size, oldest, is_held, trouble)
        if trouble is not None and not was_late:
            log.warn("journal: {trouble}", event="journal.not-shipped", trouble=trouble)
        elif trouble is None and was_late:
            log.info("journal: closed segments are shipped in time again", event="journal.shipped-again")

    def holds(self, seal: Seal) -> bool:
        """Whether a segment that retention would remove has to stay until it is shipped."""
        is_held = self._is_required and seal.segment > self._last
        self._has_held |= is_held
        return is_held

    def _read(self) -> str | None:
        """Read the file if it is another one. :returns: why it cannot be read."""
        path = self._directory / SHIPPED_NAME
        try:
            found = path.stat()
            stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
            if stamp != self._stamp:
                self._shipped, self._stamp = read_shipped(self._directory), stamp
        except OSError as error:
            self._stamp = self._shipped = None
            if not isinstance(error, FileNotFoundError):
                return f"cannot read {path}: {error.strerror}; let `bussrv journal ship` run as the user of the server"
        return None

    def _trouble(self, count: int, size: int, oldest: float, is_held: bool) -> str:
        noun = "closed segment is" if count == 1 else "closed segments are"
        said = f"{count} {noun} not shipped ({data_size(size)}), the oldest ended {oldest:.0f} s ago"
        held = "; retention waits for that, so that the disk fills" if is_held else ""
        return f"{said}{held}: see whether `bussrv journal ship` runs, and its log"
