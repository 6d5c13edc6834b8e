"""The requests that wire formats may make of a spool. Everything belongs to the reactor's thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from bussrv.errors import SpoolUnavailable
    from bussrv.spool.entries import Change, Owner, Page, Written


class SpoolWaiter(Protocol):
    """Is told once whether changes are durable. A Deferred is one."""

    def callback(self, result: Written, /) -> Any:
        """They are."""

    def errback(self, fail: Exception, /) -> Any:
        """They were not made; mostly a :class:`bussrv.errors.Refused`."""


class ISpool(Interface):
    """Entries of opaque bytes that outlive connections and, unless the journal is off, the process.

    What is asked for is done in the order of the calls: a reading has the changes before it. Nothing is opened before
    the first call. A server without a journal keeps the spool in memory.

    A change that fails with ``spool-unavailable`` may be found after a crash: it was written, but not confirmed.
    """

    unavailable: SpoolUnavailable | None = Attribute(
        "A ``SpoolUnavailable``, if the last changes could not be written, or too much waits already."
    )
    trouble: str | None = Attribute("The same for operators: ``str``, a sentence without its end, with paths.")
    kept: int = Attribute("``int``: bytes that are kept, as they count against the limits; 0 before it is opened.")
    entries: Mapping[str, int] = Attribute(
        "``dict``: how many entries are kept, by the first word of the keys of their owners, such as ``mqtt``; as of "
        "the last commit that was told."
    )
    damage_observers: list[Callable[[], object]] = Attribute(
        "``list``: each is called when a damaged file was set aside, so that nothing is kept any more."
    )

    def append_changes(changes: Sequence[Change], waiter: SpoolWaiter) -> None:
        """Make changes, all or none, and tell ``waiter`` when they are durable.

        :class:`bussrv.errors.Refused` is ``spool-full`` (a limit; an ``OverLimit``), ``no-such-owner`` (it was not
        claimed, or is forgotten) or ``spool-unavailable`` (the disk). Waiters are told in the order of the calls, never
        before this returns, except when it is refused because too much waits.
        """

    def write(changes: Sequence[Change]) -> Deferred[Written]:
        """Do the same for a Deferred. :returns: that Deferred."""

    def page(owner: str, kind: str, *, after: int = ..., most: int = ..., most_bytes: int = ...) -> Deferred[Page]:
        """Read entries that have not expired, in their order.

        :param after: the number of the last entry that is known.
        :param most: the most entries.
        :param most_bytes: the most bytes of payloads, except that there is always one entry.
        :returns: a :class:`bussrv.spool.entries.Page`; fails with ``spool-unavailable``.
        """

    def owner(owner: str) -> Deferred[Owner | None]:
        """Read an owner and how much it has, expired entries included until they are removed; ``None``: it is not
        claimed.
        """

    def owners(*, after: str = ..., most: int = ...) -> Deferred[tuple[str, ...]]:
        """Read the keys of owners, sorted, from the one after ``after`` on."""

    def entries_of(owner: str) -> int:
        """How many entries an owner has, expired ones included until they are removed, as of the last commit that was
        told; 0 before the spool is opened.
        """

    def close() -> Deferred[None]:
        """Write what waits and close. To be called once. :returns: fires when that is done."""
