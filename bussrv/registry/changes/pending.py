"""Changes on their way to the disk, and losses that supersede them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from msgspec import Struct

from bussrv import events as ev
from bussrv.errors import JournalUnavailable, Refused
from bussrv.journal.record import Stamped
from bussrv.registry.outcome import OnDone

_SERVICE_CHANGES = (ev.ServiceRegistered, ev.ServiceUnregistered)
_SUBSCRIPTION_CHANGES = (ev.SubscriptionAdded, ev.SubscriptionRenewed, ev.SubscriptionRemoved)


class Settles(Protocol):
    """Settles pending changes."""

    def written(self, pending: Pending) -> None:
        """The change is durable."""

    def not_written(self, pending: Pending, error: JournalUnavailable) -> None:
        """The change could not be written."""


class Pending(Struct, eq=False):
    """A change on its way to the disk: the journal's :class:`bussrv.journal.interfaces.Waiter`.

    :ivar stamped: its events, each with its time.
    :ivar refusal: the refusal that its client gets if a loss superseded this change; otherwise ``None``.
    :ivar is_begun: whether it is planned, so that it is settled as soon as the journal tells.
    :ivar told: what the journal told before: ``None`` in it if it is durable, otherwise why it is not.
    """

    settles: Settles
    session_id: str
    stamped: list[Stamped]
    on_done: OnDone
    refusal: Refused | None = None
    is_begun: bool = False
    told: tuple[JournalUnavailable | None] | None = None

    def callback(self, result: Any, /) -> None:
        """It is durable."""
        if self.is_begun:
            self.settles.written(self)
        else:
            self.told = (None,)

    def errback(self, fail: JournalUnavailable, /) -> None:
        """It was not written."""
        if self.is_begun:
            self.settles.not_written(self, fail)
        else:
            self.told = (fail,)

    def begin(self) -> None:
        """It is planned: settle it when the journal tells. That may be now: a journal in memory is fast."""
        self.is_begun = True
        if self.told is None:
            return
        (error,) = self.told
        if error is None:
            self.settles.written(self)
        else:
            self.settles.not_written(self, error)


def supersede_service(pending: Iterable[Pending], session_id: str, service: str) -> None:
    """Supersede the pending changes of a service that a session lost."""
    _supersede(pending, session_id, service, _SERVICE_CHANGES, "not-registered")


def supersede_subscription(pending: Iterable[Pending], session_id: str, service: str) -> None:
    """Supersede the pending changes of a subscription that a session lost."""
    _supersede(pending, session_id, service, _SUBSCRIPTION_CHANGES, "no-such-subscription")


def _supersede(
    pending: Iterable[Pending], session_id: str, service: str, kinds: tuple[type[ev.Event], ...], reason: str
) -> None:
    for each in pending:
        events = [stamped.event for stamped in each.stamped]
        if each.session_id == session_id and any(isinstance(e, kinds) and e.service == service for e in events):
            each.refusal = Refused(reason, f"{service!r} ended while a change of it was being written")
