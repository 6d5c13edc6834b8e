"""Words of records that incidents depend on: which events are refusals, which ends are no loss, and addresses."""

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
