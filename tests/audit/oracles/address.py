"""A peer without its port, once more."""

from __future__ import annotations

import re


def address_of(peer: str | None) -> str | None:
    if peer is None:
        return None
    bracketed = re.fullmatch(r"\[(.*)\](:\d+)?", peer)
    if bracketed:
        return bracketed[1]
    return peer.partition(":")[0] if peer.count(":") == 1 else peer
