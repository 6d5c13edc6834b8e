"""The end of a session that provides services: each of them is told to others, so they end a slice at a time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from bussrv.registry.interfaces import IRegistry
from bussrv.turns.slices import Work

MOST_ENDED = 100
"""The most services of a session that end in one slice."""


def end_services_then(
    registry: IRegistry, session_id: str, why: str, seconds: Callable[[], float], then: Callable[[], object]
) -> Work:
    """Work that ends the services of a session for the reason ``why``, and calls ``then`` when few are left.

    :param seconds: the clock of the reactor.
    :param then: ends the session, and the few services with it.
    """

    def work(until: float) -> bool:
        provided = registry.state.provided_by(session_id)
        if len(provided) <= MOST_ENDED:
            then()
            return False
        for name in islice(sorted(provided), MOST_ENDED):
            registry.lose_service(session_id, name, why)
            if seconds() >= until:
                break
        return True

    return work
