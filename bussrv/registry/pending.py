"""Changes on their way to the disk, and losses that supersede them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from bussrv import events as ev
from bussrv.errors import Refused
from bussrv.journal.record import Stamped

_SERVICE_CHANGES = (ev.ServiceRegistered, ev.ServiceUnregistered)
_SUBSCRIPTION_CHANGES = (ev.SubscriptionAdded, ev.SubscriptionRenewed, ev.SubscriptionRemoved)


class Pending(Struct, eq=False):
    """A change on its way to the disk.

    :ivar stamped: its events, each with its time.
    :ivar refusal: the refusal that its client gets if a loss superseded this change; otherwise ``None``.
    """

    session_id: str
    stamped: list[Stamped]
    refusal: Refused | None = None


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
