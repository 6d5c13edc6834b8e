"""The requests that others may make of a journal. Everything belongs to the reactor's thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from bussrv.errors import JournalUnavailable
    from bussrv.journal.record import Record, Stamped


class Waiter(Protocol):
    """Is told once whether events are durable. A Deferred is one."""

    def callback(self, result: list[Record], /) -> Any:
        """They are; ``result`` has their records."""

    def errback(self, fail: JournalUnavailable, /) -> Any:
        """They are not, and will not be."""


class IJournal(Interface):
    """The registry events in order, numbered without gaps."""

    bytes_accepted: int = Attribute(
        "``int``: how many bytes of records it was given so far, whether or not they are written."
    )
    unavailable: JournalUnavailable | None = Attribute(
        "A ``JournalUnavailable``, if changes would be refused or too much waits already."
    )

    def append_change(stamped: Sequence[Stamped], waiter: Waiter) -> None:
        """Write a change: ``Stamped`` events in a row, all or none. Tell ``waiter`` when they are durable, or refused.

        That may be before this returns. Waiters are told in the order of the calls. When one is told
        ``JournalUnavailable``, so are all until that is known.

        :raises ValueError, TypeError: if one of them cannot be encoded. Nothing is written then, and nobody is told.
        """

    def append(stamped: Sequence[Stamped]) -> Deferred[list[Record]]:
        """Do the same for a Deferred. :returns: that Deferred."""

    def append_fact(stamped: Stamped) -> None:
        """Write an event that has happened already. Never fails: kept until it can be written."""

    def refuse() -> None:
        """A change was refused because it is unavailable."""

    def follow(follower: Callable[[list[Record]], None]) -> None:
        """Call ``follower`` with what is durable from now on: in order, once, before anybody who waits is told."""

    def tell_between(begin: Callable[[], object], end: Callable[[], object]) -> None:
        """Call ``begin`` before some of those who wait are told one after the other, and ``end`` after them.

        The answers of all of them can be sent together then.
        """

    def close() -> Deferred[None]:
        """Write what is queued and close. :returns: a Deferred that fires when that is done."""
