"""Words of records that incidents depend on: events that are refusals, ends that are no loss, addresses, and clocks."""

from __future__ import annotations

REFUSALS = frozenset({"service.refused", "subscription.refused", "auth.failed", "access.denied", "limit.reached"})
"""The events of refusals, denials of the policy, failed logins and limits."""

LOGIN = "auth.failed"

LEFT = (None, "client-closed", "unreachable")
"""The reasons of an end that are no loss: a client asked for it, or closed its connection. Of a remote session that is
``unreachable``, the journal of its own server says whether it was lost."""


def address_of(peer: str | None) -> str | None:
    """A peer without its port: ``192.0.2.1`` for ``192.0.2.1:5``, ``::1`` for ``[::1]:7``; also of pseudonyms.

    A peer without a port stays as it is, also an IPv6 address.
    """
    if peer is None:
        return None
    if peer.startswith("["):
        return peer.partition("]")[0][1:]
    address, _, rest = peer.partition(":")
    return peer if ":" in rest else address


STEP = 2.0
"""Seconds by which a clock is off its course when it was set, or by which two clocks differ."""


def clock_difference(ahead: float, doubt: float) -> str | None:
    """How far a clock is ahead, in a sentence; ``None``: perhaps it is not, or by less than ``STEP``. In seconds.

    :param doubt: half of the round trip.
    """
    if abs(ahead) - doubt < STEP:
        return None
    return f"it is {abs(ahead):.1f} s {'ahead' if ahead > 0 else 'behind'}, give or take {doubt:.1g} s"


def clock_said(ahead: int, doubt: int) -> str | None:
    """:func:`clock_difference` of a record, which has microseconds."""
    return clock_difference(ahead / 1_000_000, doubt / 1_000_000)
