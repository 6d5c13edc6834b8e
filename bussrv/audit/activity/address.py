"""The address of a peer, without its port: all peers of one host have the same address."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by


def address_of(peer: Column) -> Column:
    """A peer without its port: ``192.0.2.1`` for ``192.0.2.1:5``, ``::1`` for ``[::1]:7``; also of pseudonyms.

    A peer without a port stays as it is, also an IPv6 address. NULL if there is no peer.
    """
    # No regular expression: this runs for every session, and these functions work on bytes.
    has_no_port = F.substring_index(peer, ":", 2) != peer
    return (
        F.when(peer.startswith("["), F.substring(F.substring_index(peer, "]", 1), 2, 2**31 - 1))
        .when(has_no_port, peer)
        .otherwise(F.substring_index(peer, ":", 1))
    )
