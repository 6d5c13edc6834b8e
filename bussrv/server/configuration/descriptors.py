"""Limits to sessions and connections, by the file descriptors of the process."""

from __future__ import annotations

import resource
from dataclasses import replace
from typing import NamedTuple

from twisted.logger import Logger

from bussrv.settings import Settings

log = Logger()

RESERVE = 128
"""Descriptors that are kept for the journal, ports, links and administration."""


def most_sessions(wanted: int, limit: int) -> int:
    """The most sessions of a process that may open ``limit`` files: ``wanted``, or fewer."""
    return min(wanted, max(limit - RESERVE, limit // 2, 1))


def most_connections(limit: int) -> int:
    """The most connections. Some have no session yet, or no longer."""
    return max(limit - RESERVE // 2, limit * 3 // 4, 1)


def raise_limit(wanted: int) -> int:
    """Raise the limit of open files for ``wanted`` sessions and everything else, as far as the system allows.

    :returns: the limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + RESERVE
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return needed if soft == resource.RLIM_INFINITY else soft


class Fitting(NamedTuple):
    """Settings that fit the descriptors of this process.

    :ivar limit: how many files the process may open.
    """

    settings: Settings
    most_connections: int
    limit: int


def fitting(wanted: Settings) -> Fitting:
    """The settings, with no more sessions than this process can have. Raises its limit of open files first."""
    limit = raise_limit(wanted.max_sessions)
    most = most_sessions(wanted.max_sessions, limit)
    return Fitting(replace(wanted, max_sessions=most), most_connections(limit), limit)


def warn_of_fewer(wanted: Settings, fits: Fitting) -> None:
    """Log a warning if there may be fewer sessions than the options allow."""
    if fits.settings.max_sessions < wanted.max_sessions:
        log.warn(
            "--max-sessions is {most}, not {wanted}: the system lets the server open {limit} files (ulimit -n)",
            event="server.few-descriptors",
            most=fits.settings.max_sessions,
            wanted=wanted.max_sessions,
            limit=fits.limit,
        )
