"""The condition of a journal that is being written, for who watches a server."""

from __future__ import annotations

from msgspec import Struct, field

from bussrv.counts.histogram import Histogram


class ShippingCondition(Struct, frozen=True):
    """How far a journal is shipped to an object store.

    :ivar segments: how many closed segments are not shipped yet.
    :ivar bytes: their bytes, before compression.
    :ivar oldest: the seconds since the first of them ended; 0: all are shipped.
    :ivar is_held: whether retention would remove some of them.
    :ivar trouble: what is late, as a sentence without its end; ``None``: nothing.
    """

    segments: int
    bytes: int
    oldest: float
    is_held: bool
    trouble: str | None


class JournalCondition(Struct, frozen=True, kw_only=True):
    """How well a journal can be written.

    :ivar is_on: whether there is one.
    :ivar trouble: why changes are refused; ``None``: they are not.
    :ivar waiting: how many entries wait to be written.
    :ivar oldest_wait: for how many seconds the oldest of them has waited.
    :ivar written: how many bytes were written since the start.
    :ivar free: bytes that are free on its volume; ``None``: nobody knows.
    :ivar usable: bytes that changes may still take; ``None``: nobody knows.
    :ivar shortage: what is free, where, and what has to be; ``None``: nobody knows.
    :ivar syncs: how long the disk took for each sync.
    :ivar shipping: how far it is shipped; ``None``: nobody ships it.
    """

    is_on: bool = False
    trouble: str | None = None
    waiting: int = 0
    oldest_wait: float = 0.0
    written: int = 0
    free: int | None = None
    usable: int | None = None
    shortage: str | None = None
    syncs: Histogram = field(default_factory=Histogram)
    shipping: ShippingCondition | None = None


class JournalEnd(Struct, frozen=True):
    """The end of a journal.

    :ivar segment: the last segment; 0: there is none.
    :ivar seq: the last record; 0: there is none.
    :ivar hash: of the last line.
    """

    segment: int
    seq: int
    hash: str
