"""Work for a client that is not done at once: the client's later input waits for it, other clients do not."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure


class WaitsForWork:
    """A client whose input waits while something that it asked for is under way.

    :ivar is_busy: whether there is such work.
    """

    is_busy = False

    def busy_with(self, work: Coroutine[Any, Any, None]) -> None:
        """Do ``work``. The client's later input waits until it is done."""
        self.busy_until(Deferred.fromCoroutine(work))

    def busy_until(self, done: Deferred[Any]) -> None:
        """Let the client's later input wait until ``done`` fires: for a change of the registry, a coroutine is dear."""
        if not done.called:
            self.is_busy = True
        done.addErrback(self.serving_failed).addBoth(self._done)

    def _done(self, _: object) -> None:
        if self.is_busy:
            self.is_busy = False
            self.work_is_done()

    def work_is_done(self) -> None:
        """Called when the input need not wait any more."""
        raise NotImplementedError

    def serving_failed(self, failure: Failure) -> None:
        """Called when the work failed. That is a fault of the server or of a plugin, not of the client."""
        raise NotImplementedError
