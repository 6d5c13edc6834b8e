"""The address in what a journal calls a peer: without its port, so that one host is one host."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by


def address_of(peer: Column) -> Column:
    """A peer without its port: ``192.0.2.1:5`` is at ``192.0.2.1``, ``[::1]:7`` at ``::1``, and so with the pseudonym
    of an address. One that has no port is as it is, also an IPv6 address; NULL if there is no peer.
    """
    # No regular expression: this is asked of every session, and these work on bytes.
    has_no_port = F.substring_index(peer, ":", 2) != peer
    return (
        F.when(peer.startswith("["), F.substring(F.substring_index(peer, "]", 1), 2, 2**31 - 1))
        .when(has_no_port, peer)
        .otherwise(F.substring_index(peer, ":", 1))
    )
