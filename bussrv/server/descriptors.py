"""Limits to sessions and connections, by the file descriptors of the process."""

from __future__ import annotations

import resource

RESERVE = 128
"""Descriptors that are kept for the journal, ports, links and administration."""


def most_sessions(wanted: int, limit: int) -> int:
    """The most sessions of a process that may open ``limit`` files: ``wanted``, or fewer."""
    return min(wanted, max(limit - RESERVE, limit // 2, 1))


def most_connections(limit: int) -> int:
    """The most connections. Some have no session yet, or no longer."""
    return max(limit - RESERVE // 2, limit * 3 // 4, 1)


def raise_limit(wanted: int) -> int:
    """Raise the limit of open files to what ``wanted`` sessions and everything else need, as far as the system allows.

    :returns: the limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + RESERVE
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return needed if soft == resource.RLIM_INFINITY else soft
