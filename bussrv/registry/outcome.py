"""The outcome of a change: told to a callback inside the registry, by a Deferred at its edge."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred

OnDone = Callable[[Exception | None], object]
"""Is called once with the outcome of a change: ``None`` if it was made, otherwise why it was not, mostly a
:class:`bussrv.errors.Refused`. That may be before the call that began the change returns. Must not raise.
"""

Change = Callable[[OnDone], object]
"""Begins a change of the registry."""


def as_deferred(change: Change) -> Deferred[None]:
    """Begin a change that somebody awaits. :returns: fires with its outcome."""
    done: Deferred[None] = Deferred()
    change(lambda error: done.callback(None) if error is None else done.errback(error))
    return done
